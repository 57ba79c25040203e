"""Which folders are log dirs, which of them a path lies in, and which have a lock that counts.

A log dir has a file that a broker writes only into the root of one: meta.properties, a checkpoint, or the marker of a
clean stop. A folder of partition dirs without such a file is bare: klogtool opens it as a log dir, but nothing beside
the partitions is known, and no broker has a lock there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum

from klogtool.format.names import OFFSET_CHECKPOINTS, FileKind
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, names_in, own_name
from klogtool.log.partition import has_partition_files

MOST_LINKS = 40  # in a chain; the limit of the system

_ROOT_KINDS = (
    FileKind.META_PROPERTIES,  # first: almost every log dir has it
    *OFFSET_CHECKPOINTS,
    FileKind.CLEAN_SHUTDOWN,
)  # not .lock and bootstrap.checkpoint: other programs use these two names too
_ROOT_NAMES = tuple(kind.value + suffix for suffix in ("", ".tmp") for kind in _ROOT_KINDS)


class FolderKind(Enum):
    """What a folder is. BARE: partition dirs without a file of a log dir. OTHER: not Kafka's."""

    LOG_DIR = "log dir"
    BARE = "bare log dir"
    PARTITION_DIR = "partition dir"
    OTHER = "other"


def is_log_dir(path: str) -> bool:
    """Return whether the folder has a file that only a log dir has. False if that cannot be seen."""
    return any(os.path.lexists(os.path.join(path, name)) for name in _ROOT_NAMES)


def has_root_file(names: Iterable[str]) -> bool:
    """Return what `is_log_dir` says of a folder with these names."""
    return not set(_ROOT_NAMES).isdisjoint(names)


def holds_partition_dirs(path: str, names: Iterable[str]) -> bool:
    """Return whether one of these names in a folder is a partition dir with Kafka's files.

    Raises Unreadable for a partition dir that cannot be listed, if no other decides.
    """
    refusal = None
    for folder in (os.path.join(path, name) for name in names if find_partition_dir_name(name)):
        try:
            if os.path.isdir(folder) and has_partition_files(names_in(folder)):
                return True
        except Unreadable as error:
            refusal = error
    if refusal is not None:
        raise refusal
    return False


def kind_of_folder(path: str) -> FolderKind:
    """Return what a folder is: a file of a log dir decides first, then one of a partition, then partition dirs in it.

    A folder without any of these, named like a partition, is a partition dir if it is empty or in a log dir. Raises
    Unreadable if it cannot be listed.
    """
    names = names_in(path)
    if has_root_file(names):
        return FolderKind.LOG_DIR
    if has_partition_files(names):
        return FolderKind.PARTITION_DIR
    if holds_partition_dirs(path, names):
        return FolderKind.BARE
    if find_partition_dir_name(own_name(path)) and (not names or find_log_dir_around(path) is not None):
        return FolderKind.PARTITION_DIR
    return FolderKind.OTHER


def is_partition_dir(path: str) -> bool:
    """Return whether this is a folder in a log dir, with the name of a partition."""
    return find_partition_dir_name(own_name(path)) is not None and find_log_dir_around(path) is not None


def find_log_dir_around(path: str) -> str | None:
    """Return the folder that contains the path, if that is a log dir."""
    above = os.path.dirname(os.path.abspath(path))
    return above if is_log_dir(above) else None


def find_log_dir_among(path: str, log_dirs: Iterable[str]) -> str | None:
    """Return the one of these log dirs that a path is, or is in; of one in another, the inner one."""
    around = (folder for folder in log_dirs if path == folder or path.startswith(os.path.join(folder, "")))
    return max(around, key=len, default=None)


def log_dirs_of_files(paths: Iterable[str]) -> list[str]:
    """Return the log dirs that contain these files, each once; for a file of a partition dir that is in no log dir, the
    partition dir.

    Other files are left out, and so are files whose folder is gone. Raises Unreadable for a folder that cannot be
    listed.
    """
    folders = dict.fromkeys(path if os.path.isdir(path) else os.path.dirname(path) or os.curdir for path in paths)
    return list(dict.fromkeys(log_dir for folder in folders for log_dir in _log_dir_or_partition_dir(folder)))


def _log_dir_or_partition_dir(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        return
    names = names_in(folder)
    if has_root_file(names):
        yield folder
    elif has_partition_files(names):
        above = os.path.normpath(os.path.join(folder, os.pardir))
        yield above if is_log_dir(above) else folder


# The locks of a run that writes.


def has_lock(folder: str) -> bool:
    """Return whether a broker would lock this folder too: it is a log dir, or has a lock file already."""
    return is_log_dir(folder) or os.path.lexists(os.path.join(folder, FileKind.LOCK.value))


def log_dir_of(path: str) -> str:
    """Return the log dir that a plan's folder is, or that contains it, by its real path."""
    path = os.path.realpath(path)
    is_folder = os.path.isdir(path)  # else it is a partition dir that the plan creates, or a file
    is_own = is_folder and kind_of_folder(path) in (FolderKind.LOG_DIR, FolderKind.BARE)
    return path if is_own else os.path.dirname(path)


def log_dirs_to_lock(path: str) -> list[str]:
    """Return the log dir of a plan's folder, and the log dirs whose links were used to name it: a broker that holds one
    of them uses the folder."""
    return list(dict.fromkeys([log_dir_of(path), *log_dirs_naming(path)]))


def log_dirs_naming(path: str) -> list[str]:
    """Return the log dirs that contain a path by its name, and by each link on the way; only those that have a lock."""
    above = dict.fromkeys(os.path.realpath(os.path.dirname(name)) for name in _walk_names(path))
    return [folder for folder in above if has_lock(folder)]


def _walk_names(path: str) -> Iterator[str]:
    """Yield the path as given, then as each link at its end resolves."""
    named = os.path.abspath(path)
    for _ in range(MOST_LINKS):
        yield named
        if not os.path.islink(named):
            return
        named = os.path.join(os.path.realpath(os.path.dirname(named)), os.readlink(named))
