"""What a path is: a log dir, a partition dir or a file, judged by a folder's contents and a file's name."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from klogtool.errors import KlogError, Unsupported
from klogtool.format.names import FileKind
from klogtool.log.file import check_path
from klogtool.log.foreign import check_file, find_foreign
from klogtool.log.log_dirs import FolderKind, kind_of_folder
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.search import find_log_dirs
from klogtool.log.segment import KraftSnapshot, Segment
from klogtool.log.side_file import PARSERS_OF_ENTRIES, PARSERS_OF_PROPERTIES, EntriesFile, PropertiesFile, kind_of

Opened: TypeAlias = "LogDir | Partition | Segment | KraftSnapshot | EntriesFile[Any] | PropertiesFile[Any]"


def open_path(path: str | os.PathLike[str]) -> Opened:
    """Return a LogDir, a Partition, or the object for a file: a Segment for a `.log`, and so on by the file's name.

    Only the names in a folder, or the first bytes of a file, are read yet, and no file stays open. Raises KlogError if
    the path does not exist, may not be read, is neither file nor folder, or is not Kafka's.
    """
    text = os.fsdecode(path)
    check_path(text)
    return _open_folder(text) if os.path.isdir(text) else _open_file(text)


def open_partition_dir(path: str) -> Partition:
    """Return a partition dir. Raises KlogError if the path is none."""
    opened = open_path(path)
    if not isinstance(opened, Partition):
        raise KlogError("not a partition dir", path=path)
    return opened


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
        log_dirs = find_log_dirs(path)
        self.below, self.is_all = log_dirs.paths, log_dirs.is_all
        if self.below:
            self.add_note("log dirs below it: " + ", ".join(self.below))


def _open_folder(path: str) -> LogDir | Partition:
    kind = kind_of_folder(path)
    if kind is FolderKind.PARTITION_DIR:
        return Partition(path)
    if kind is not FolderKind.OTHER:
        return LogDir(path)
    nothing = NoLogDir(path)
    raise nothing if nothing.below else find_foreign(path) or nothing


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
