"""Which log dirs a folder belongs to: a run that writes to it locks each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from klogtool.disk.facts import looks_like_log_dir
from klogtool.errors import Unsupported
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path

MOST_LINKS = 40  # in a chain; the limit of the system

IsLocked: TypeAlias = Callable[[str], bool]


def log_dirs_of(path: str, is_locked: IsLocked | None = None) -> list[str]:
    """Return the log dir of a plan's folder, plus the log dirs whose links were used to name it.

    A broker that holds any of these uses the folder. is_locked: pass `locks_seen_once` to ask about many folders.
    """
    first = log_dir_of(path)
    return [first, *(folder for folder in log_dirs_around(path, is_locked) if folder != first)]


def log_dirs_around(path: str, is_locked: IsLocked | None = None) -> list[str]:
    """Return the log dirs that contain a path by its name, and by each link on the way; only those that have a lock."""
    around = dict.fromkeys(os.path.realpath(os.path.dirname(name)) for name in _walk_names(path))
    return [folder for folder in around if (is_locked or is_locked_by)(folder)]


def locks_seen_once() -> IsLocked:
    """Return `is_locked_by` with a memory: a log dir with thousands of partitions is listed once, not once for each."""
    return cache(is_locked_by)


def _walk_names(path: str) -> Iterator[str]:
    """Yield the path as given, then as each link at its end resolves."""
    named = os.path.abspath(path)
    for _ in range(MOST_LINKS):
        yield named
        if not os.path.islink(named):
            return
        named = os.path.join(os.path.realpath(os.path.dirname(named)), os.readlink(named))


def is_locked_by(folder: str) -> bool:
    """Return whether a broker would lock this folder too: it is a log dir, or has a lock file already."""
    return looks_like_log_dir(folder) or os.path.lexists(os.path.join(folder, FileKind.LOCK.value))


def log_dir_of(path: str) -> str:
    """Return the log dir that a plan's folder is, or that contains it."""
    path = os.path.realpath(path)
    if not os.path.lexists(path):  # a partition dir that the plan creates
        return os.path.dirname(path)
    try:
        is_log_dir = isinstance(open_path(path), LogDir)
    except Unsupported:  # its contents make it neither
        is_log_dir = False
    return path if is_log_dir else os.path.dirname(path)
