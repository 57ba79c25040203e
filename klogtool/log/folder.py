"""The names in a folder of a log dir, files apart from folders, in order."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Collection
from functools import lru_cache

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError
from klogtool.format.names import (
    MOST_NAMES_KEPT,
    FileName,
    PartitionDirName,
    is_log_name,
    is_visible_to_java,
    parse_file_name,
    parse_partition_dir_name,
)
from klogtool.log.file import ReadErrors, unreadable

_MOST_NESTED_FOLDERS = 16  # a partition dir has none
_GET_FLAGS, _IMMUTABLE, _APPEND_ONLY = 0x80086601, 0x10, 0x20  # linux/fs.h: FS_IOC_GETFLAGS, what lsattr shows
_FULL = "/dev/full"
_NOWHERE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG})


class Folder(Struct, frozen=True):
    """The contents of a folder, by name. What is not a folder counts as a file; links count as their target."""

    path: str
    files: tuple[FileName, ...]
    folders: tuple[str, ...]


def names_in(path: str) -> list[str]:
    """Return the names in a folder, sorted. Raises Unreadable if it cannot be listed."""
    with ReadErrors(path):
        return sorted(os.listdir(path))


def list_folder(path: str) -> Folder:
    """Return the names in a folder, sorted. Raises KlogError if they cannot be read."""
    with ReadErrors(path), os.scandir(path) as entries:
        pairs = sorted((entry.name, _is_folder(entry)) for entry in entries)
    files = tuple(parse_file_name(name) for name, is_folder in pairs if not is_folder)
    return Folder(path, files, tuple(name for name, is_folder in pairs if is_folder))


def find_nested_logs(path: str, folders: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Return the segments that a partition dir lacks and that lie in a folder inside of it, where no broker looks: what
    somebody copied or moved to the wrong place. By path from the partition dir, with the segment's name.

    folders, names: those of the partition dir. What cannot be listed has none.
    """
    nested: dict[str, str] = {}
    for folder in sorted(folders)[:_MOST_NESTED_FOLDERS]:
        try:
            inside = names_in(os.path.join(path, folder))
        except KlogError:
            continue
        nested |= {os.path.join(folder, name): name for name in inside if is_log_name(name) and name not in names}
    return nested


def logs_beside(path: str) -> list[str]:
    """Return the names of segments that lie beside a partition dir, in the log dir itself; none if it cannot be
    listed."""
    try:
        return list(filter(is_log_name, names_in(os.path.dirname(path))))
    except KlogError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder or a link to one; only links need a further system call."""
    try:
        return entry.is_dir()
    except OSError:  # a circular link, or a target that we may not read
        return False


def is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a regular file or a link to one. A link in circles leads nowhere, as does a link to what is
    not there. Raises Unreadable if the system does not say."""
    return _is(entry, entry.is_file)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder or a link to one, as `is_file`."""
    return _is(entry, entry.is_dir)


def _is(entry: os.DirEntry[str], question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError as error:
        if error.errno in _NOWHERE:
            return False
        raise unreadable(entry.path, error) from error


def is_fifo(path: str) -> bool:
    """Return whether it is a FIFO: who reads it waits until somebody writes."""
    return os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode)


def is_socket(path: str) -> bool:
    """Return whether it is a socket, which nobody can open."""
    return os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode)


def is_device(path: str) -> bool:
    """Return whether it is a device, such as /dev/null, or a link to one."""
    return os.path.exists(path) and stat.S_IFMT(os.stat(path).st_mode) in (stat.S_IFCHR, stat.S_IFBLK)


def is_full_device(path: str) -> bool:
    """Return whether it is /dev/full, or a link to it: who writes to it is told that there is no room."""
    return is_device(path) and os.path.exists(_FULL) and os.path.samefile(path, _FULL)


def is_broken_link(path: str) -> bool:
    """Return whether it is a link that leads to nothing. The disk of its target may not be mounted."""
    return os.path.islink(path) and not os.path.exists(path)


def is_loop(path: str) -> bool:
    """Return whether it is a link that leads to itself, maybe over others."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def why_leads_nowhere(path: str) -> str | None:
    """Return what the system says where a file is made through a link; None if it is no link, or if a file can be made:
    then its target's folder is there."""
    if not os.path.islink(path):
        return None
    if is_loop(path):
        return os.strerror(errno.ELOOP)
    return None if os.path.isdir(os.path.dirname(os.path.realpath(path))) else os.strerror(errno.ENOENT)


def is_unchangeable(path: str) -> bool:
    """Return whether a file or folder has the attribute immutable or append-only (chattr): root may not write it,
    either. False where the file system has no such attributes."""
    try:
        if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        flags = int.from_bytes(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8))[:4], sys.byteorder)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(flags & (_IMMUTABLE | _APPEND_ONLY))


def own_name(path: str) -> str:
    """Return the last part of a path, also of `.` and of a path with a slash at its end."""
    name = os.path.basename(path)
    return name if name not in ("", os.curdir, os.pardir) else os.path.basename(os.path.abspath(path))


@lru_cache(MOST_NAMES_KEPT)
def find_partition_dir_name(name: str) -> PartitionDirName | None:
    """Parse a partition dir's name; return None for another name, or one that a broker does not find."""
    try:
        return parse_partition_dir_name(name) if is_visible_to_java(name) else None
    except Corrupt:
        return None


def partition_of(path: str | os.PathLike[str]) -> tuple[str | None, int | None]:
    """Return topic and partition of a file, by its folder's name; None, None if that is not a partition dir."""
    name = find_partition_dir_name(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return (name.topic, name.partition) if name else (None, None)
