"""Finds every log dir and partition dir below some paths, for `--recursive`. Follows no links to folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from klogtool.log.file import ReadErrors, Unreadable
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.log_dir_hints import SYSTEM_FOLDERS
from klogtool.log.log_dirs import has_root_file, holds_partition_dirs
from klogtool.log.partition import has_partition_files

JOURNAL_SUFFIX = ".klogtool"  # what `--apply` keeps beside a log dir
NOT_SEARCHED = (".git", ".hg", ".svn")


class FoundBelow(Struct):
    """What was found, in the order of paths. excluded, links: how many folders were left out. unreadable: the folders
    that could not be listed."""

    paths: list[str] = field(default_factory=list)
    excluded: int = 0
    links: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)


def search_below(paths: Sequence[str], is_excluded: Callable[[str], bool]) -> FoundBelow:
    """Return the log dirs and partition dirs at and below the paths, each once.

    A folder with a root file of a log dir is a log dir. So is a folder whose subfolders are all partition dirs, if one
    of them has Kafka's files. A folder with files of a partition is a partition dir. What lies below one of these is
    not searched. A path that is a file is kept as it is.
    """
    result, seen = FoundBelow(), set[str]()
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


def _searched(path: str, result: FoundBelow) -> list[str]:
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
