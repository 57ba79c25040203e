"""The names in a folder of a log dir, files apart from folders, in order."""

from __future__ import annotations

import os

from klogtool.errors import Corrupt
from klogtool.format.names import FileName, PartitionDirName, parse_file_name, parse_partition_dir_name
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.file import unreadable


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in a folder, by name; what is no folder counts as a file, and links as what they lead to."""

    path: str
    files: tuple[FileName, ...]
    folders: tuple[str, ...]


def list_folder(path: str) -> Folder:
    """The names in a folder, sorted. Raises KlogError where they cannot be read."""
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise unreadable(path, error) from error
    folders = tuple(name for name in names if os.path.isdir(os.path.join(path, name)))
    files = (parse_file_name(name) for name in names if name not in folders)
    return Folder(path, tuple(files), folders)


def own_name(path: str) -> str:
    """The last part of a path, also of `.` and of one with a slash at its end."""
    return os.path.basename(os.path.abspath(path))


def find_partition_dir_name(name: str) -> PartitionDirName | None:
    """A partition dir's name taken apart; None for a name that is not one."""
    try:
        return parse_partition_dir_name(name)
    except Corrupt:
        return None
