"""What a path is: a log dir, a partition dir or a file, judged by a folder's contents and a file's name."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from klogtool.errors import KlogError, Unsupported
from klogtool.format.names import FileKind
from klogtool.log.below import find_log_dirs
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, names_in, own_name
from klogtool.log.foreign import check_file, find_foreign
from klogtool.log.logdir import LogDir, has_root_files, is_log_dir
from klogtool.log.partition import Partition, has_partition_files
from klogtool.log.segment import KraftSnapshot, Segment
from klogtool.log.side_file import PARSERS_OF_ENTRIES, PARSERS_OF_PROPERTIES, EntriesFile, PropertiesFile, kind_of

Opened: TypeAlias = "LogDir | Partition | Segment | KraftSnapshot | EntriesFile[Any] | PropertiesFile[Any]"


def open_path(path: str | os.PathLike[str]) -> Opened:
    """Return a LogDir, a Partition, or the object for a file: a Segment for a `.log`, and so on by the file's name.

    Only the names in a folder are read yet, and no file stays open. Raises KlogError if the path does not exist, may
    not be read, is neither file nor folder, or is not Kafka's.
    """
    text = os.fsdecode(path)
    _check_path(text)
    return _open_folder(text) if os.path.isdir(text) else _open_file(text)


class NoLogDir(Unsupported):
    """A folder that is neither a log dir nor a partition dir.

    below: the log dirs found below it. is_all: False if there may be more.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            "neither a log dir nor a partition dir: it has no meta.properties, no checkpoint file of Kafka, "
            "and no partition dir with files of Kafka",
            path=path,
        )
        found = find_log_dirs(path)
        self.below, self.is_all = found.paths, found.is_all
        if self.below:
            self.add_note("log dirs below it: " + ", ".join(self.below))


def _open_folder(path: str) -> LogDir | Partition:
    """Open a folder: with a root file of a log dir it is a log dir; else with files of a partition it is a partition
    dir.

    Without either, partition dirs in it make it a log dir. Otherwise its own name decides: if it is empty, or in a log
    dir, it is a partition dir without files.
    """
    names = names_in(path)
    if has_root_files(names):
        return LogDir(path)
    if has_partition_files(names):
        return Partition(path)
    if is_log_dir(path, names):
        return LogDir(path)
    if find_partition_dir_name(own_name(path)) and (not names or _lies_in_log_dir(path)):
        return Partition(path)
    nothing = NoLogDir(path)
    raise nothing if nothing.below else find_foreign(path) or nothing


def _lies_in_log_dir(path: str) -> bool:
    try:
        return has_root_files(names_in(os.path.dirname(os.path.abspath(path))))
    except Unreadable:
        return False


def _open_file(path: str) -> Opened:
    check_file(path)
    kind = kind_of(path)
    if kind is FileKind.LOG:
        return Segment(path)
    if kind in (FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT):
        return KraftSnapshot(path)
    if kind in PARSERS_OF_ENTRIES:
        return EntriesFile(path)
    if kind in PARSERS_OF_PROPERTIES:
        return PropertiesFile(path)
    raise Unsupported("its name is not that of a Kafka file that klogtool can read", path=path)


def _check_path(path: str) -> None:
    """Raises KlogError for text that cannot be a path: system calls would raise errors of another type."""
    try:
        impossible = b"\0" in os.fsencode(path)
    except UnicodeEncodeError:
        impossible = True
    if impossible:
        raise KlogError("this text cannot be a path", path=ascii(path))
