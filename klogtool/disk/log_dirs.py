"""Which log dirs a folder belongs to: whoever writes to it has the lock of each of them."""

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

MOST_LINKS = 40  # one behind the other, as the system follows them

IsLocked: TypeAlias = Callable[[str], bool]


def log_dirs_of(path: str, is_locked: IsLocked | None = None) -> list[str]:
    """The log dir that a plan's folder is, or really lies in; and those by which it was named, where links lead to it.

    A broker that holds any of these has the folder in use. is_locked: `locks_seen_once`, where many are asked about.
    """
    first = log_dir_of(path)
    return [first, *(folder for folder in log_dirs_around(path, is_locked) if folder != first)]


def log_dirs_around(path: str, is_locked: IsLocked | None = None) -> list[str]:
    """Those in which a path lies by its name, and by each link that it leads through; only where there is a lock."""
    around = dict.fromkeys(os.path.realpath(os.path.dirname(name)) for name in _walk_names(path))
    return [folder for folder in around if (is_locked or is_locked_by)(folder)]


def locks_seen_once() -> IsLocked:
    """`is_locked_by` for the partitions of one run: a log dir with thousands of them is listed once, not for each."""
    return cache(is_locked_by)


def _walk_names(path: str) -> Iterator[str]:
    """The path as it is named, and as each link at its end has it."""
    named = os.path.abspath(path)
    for _ in range(MOST_LINKS):
        yield named
        if not os.path.islink(named):
            return
        named = os.path.join(os.path.realpath(os.path.dirname(named)), os.readlink(named))


def is_locked_by(folder: str) -> bool:
    """Whether a broker, too, would take a lock in the folder: it is a log dir, or has a lock already."""
    return looks_like_log_dir(folder) or os.path.lexists(os.path.join(folder, FileKind.LOCK.value))


def log_dir_of(path: str) -> str:
    """The log dir that a plan's folder is, or lies in."""
    path = os.path.realpath(path)
    if not os.path.lexists(path):  # a partition dir that is to come to be
        return os.path.dirname(path)
    try:
        is_log_dir = isinstance(open_path(path), LogDir)
    except Unsupported:  # neither, by what is in it
        is_log_dir = False
    return path if is_log_dir else os.path.dirname(path)
