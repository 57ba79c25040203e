"""Finds the log dirs below a folder that is not one itself. An error then names them, so that they can be pasted.

The folder may be anything: `/`, a home, a mounted disk. So the search is bounded, goes level by level, follows no
links, and skips what it may not read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from klogtool.log.file import Unreadable
from klogtool.log.log_dirs import has_root_file, holds_partition_dirs

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
    return LogDirsBelow(tuple(sorted(search.found)), not search.is_cut and not level)


class _LogDirSearch:
    """What was found so far, and how much was searched."""

    def __init__(self) -> None:
        self.found: list[str] = []
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
                self.found.append(folder)
            elif not os.path.islink(folder):
                kept.append(folder)
        return kept

    def _is_over(self) -> bool:
        looked_at_enough = self._names >= MOST_NAMES or self._folders >= MOST_FOLDERS
        self.is_cut = self.is_cut or looked_at_enough or len(self.found) >= MOST_LOG_DIRS
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
