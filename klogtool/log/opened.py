"""What a path is: a log dir, a partition dir or a file, by what is in the folder and by the file's name."""

from __future__ import annotations

import os

from klogtool.errors import KlogError, Unsupported
from klogtool.format.names import FileKind
from klogtool.log.file import LogFile
from klogtool.log.folder import find_partition_dir_name, list_folder, own_name
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir
from klogtool.log.partition import Partition, belongs_in_partition_dir
from klogtool.log.segment import KraftSnapshot, Segment
from klogtool.log.side_file import PARSERS_OF_ENTRIES, PARSERS_OF_PROPERTIES, EntriesFile, PropertiesFile, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Opened: TypeAlias = "LogDir | Partition | Segment | KraftSnapshot | EntriesFile[Any] | PropertiesFile[Any]"


def open_path(path: str | os.PathLike[str]) -> Opened:
    """A LogDir, a Partition, or the object for a file: a Segment for a `.log`, and so on by the file's name.

    Nothing is read yet but the names in a folder, and no file stays open. Raises KlogError where there is nothing,
    something that may not be read, something that is neither file nor folder, or nothing of Kafka's.
    """
    text = os.fsdecode(path)
    _check_path(text)
    return _open_folder(text) if os.path.isdir(text) else _open_file(text)


def _open_folder(path: str) -> LogDir | Partition:
    """A folder with files of a log dir is one, else one with files of a partition is that.

    Where neither is there, partition dirs in it make it a log dir, and its own name a partition dir without files.
    """
    folder = list_folder(path)
    if any(file.kind in KINDS_IN_LOG_DIR for file in folder.files):
        return LogDir(path)
    if any(belongs_in_partition_dir(file) for file in folder.files):
        return Partition(path)
    if any(find_partition_dir_name(name) for name in folder.folders):
        return LogDir(path)
    if find_partition_dir_name(own_name(path)):
        return Partition(path)
    raise Unsupported("neither a log dir nor a partition dir: nothing of Kafka's is in it", path=path)


def _open_file(path: str) -> Opened:
    with LogFile(path):
        kind = kind_of(path)
    if kind is FileKind.LOG:
        return Segment(path)
    if kind in (FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT):
        return KraftSnapshot(path)
    if kind in PARSERS_OF_ENTRIES:
        return EntriesFile(path)
    if kind in PARSERS_OF_PROPERTIES:
        return PropertiesFile(path)
    raise Unsupported("by its name not a file of Kafka's that has something to read", path=path)


def _check_path(path: str) -> None:
    """Raises KlogError for text that can be no path: the system's calls would raise errors of another type."""
    try:
        impossible = b"\0" in os.fsencode(path)
    except UnicodeEncodeError:
        impossible = True
    if impossible:
        raise KlogError("not a possible path", path=ascii(path))
