"""Finds the log dirs below a folder that is not one itself. An error then names them, so that they can be pasted.

The folder may be anything: `/`, a home, a mounted disk. So the search is bounded, goes level by level, follows no
links, and skips what it may not read.

`--recursive` has every log dir and partition dir below some paths, and follows no links to folders, either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct, field

from klogtool.log.file import ReadErrors, Unreadable
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.log_dirs import has_root_file, holds_partition_dirs
from klogtool.log.partition import has_partition_files

MOST_LEVELS = 6
MOST_FOLDERS = 5_000
MOST_NAMES = 200_000
MOST_LOG_DIRS = 50
SYSTEM_FOLDERS = ("/proc", "/sys", "/dev", "/run")


class LogDirsBelow(Struct, frozen=True):
    """The log dirs found, by path. is_all: False if the search reached one of its limits."""

    paths: tuple[str, ...]
    is_all: bool


def find_log_dirs(path: str) -> LogDirsBelow:
    """Return the log dirs below a folder; if there are too many to name, those nearest to it."""
    search = _LogDirSearch()
    level = [path]
    for _ in range(MOST_LEVELS):
        level = [folder for above in level for folder in search.folders_in(above)]
    return LogDirsBelow(tuple(sorted(search.log_dirs)), not search.is_cut and not level)


class _LogDirSearch:
    """What was found so far, and how much was searched."""

    def __init__(self) -> None:
        self.log_dirs: list[str] = []
        self.is_cut = False
        self._folders = self._names = 0

    def folders_in(self, path: str) -> list[str]:
        """Return the subfolders that may contain log dirs; a log dir is recorded, and not searched."""
        kept: list[str] = []
        for name in sorted(self._names_in(path)):
            folder = os.path.join(path, name)
            if folder in SYSTEM_FOLDERS or not os.path.isdir(folder):
                continue
            if self._is_over():
                break
            is_log_dir = False
            with suppress(Unreadable):
                names = self._names_in(folder)
                is_log_dir = has_root_file(names) or holds_partition_dirs(folder, names)
            if is_log_dir:
                self.log_dirs.append(folder)
            elif not os.path.islink(folder):
                kept.append(folder)
        return kept

    def _is_over(self) -> bool:
        looked_at_enough = self._names >= MOST_NAMES or self._folders >= MOST_FOLDERS
        self.is_cut = self.is_cut or looked_at_enough or len(self.log_dirs) >= MOST_LOG_DIRS
        return self.is_cut

    def _names_in(self, path: str) -> list[str]:
        """Return the names in a folder, limited to the remaining number."""
        if self._is_over():
            return []
        try:
            with os.scandir(path) as entries:
                names = [entry.name for entry in islice(entries, MOST_NAMES - self._names)]
        except OSError:
            return []
        self._folders, self._names = self._folders + 1, self._names + len(names)
        return names


JOURNAL_SUFFIX = ".klogtool"  # what `--apply` keeps beside a log dir
NOT_SEARCHED = (".git", ".hg", ".svn")


class BelowPaths(Struct):
    """What was found, in the order of paths. excluded, links: how many folders were left out. unreadable: the folders
    that could not be listed."""

    paths: list[str] = field(default_factory=list)
    excluded: int = 0
    links: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)


def search_below(paths: Sequence[str], is_excluded: Callable[[str], bool]) -> BelowPaths:
    """Return the log dirs and partition dirs at and below the paths, each once.

    A folder with a root file of a log dir is a log dir. So is a folder whose subfolders are all partition dirs, if one
    of them has Kafka's files. A folder with files of a partition is a partition dir. What lies below one of these is
    not searched. A path that is a file is kept as it is.
    """
    result, seen = BelowPaths(), set[str]()
    waiting = [(path, os.path.isdir(path)) for path in reversed(paths)]
    while waiting:
        path, is_folder = waiting.pop()
        if is_excluded(path):
            result.excluded += 1
        elif not is_folder:
            result.paths.append(path)
        elif (place := os.path.realpath(path)) not in seen:
            seen.add(place)
            waiting += [(below, True) for below in reversed(_searched(path, result))]
    return result


def _searched(path: str, result: BelowPaths) -> list[str]:
    """Record a folder if it is Kafka's; else return the folders in it."""
    try:
        names, folders, links = _listed(path)
        is_found = has_root_file(names) or has_partition_files(names)
        if not is_found and all(map(find_partition_dir_name, folders)):
            is_found = holds_partition_dirs(path, names)
    except Unreadable as error:
        result.unreadable.append(error)
        return []
    if is_found:
        result.paths.append(path)
        return []
    result.links += links
    searched = (name for name in folders if name not in NOT_SEARCHED and not name.endswith(JOURNAL_SUFFIX))
    below = (os.path.join(path, name) for name in searched)
    return [folder for folder in below if folder not in SYSTEM_FOLDERS]


def _listed(path: str) -> tuple[list[str], list[str], int]:
    """Return all names, the names of folders, and how many links lead to folders."""
    names, folders, links = [], [], 0
    with ReadErrors(path), os.scandir(path) as entries:
        for entry in entries:
            names.append(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            links += entry.is_symlink() and os.path.isdir(entry.path)
    return sorted(names), sorted(folders), links
