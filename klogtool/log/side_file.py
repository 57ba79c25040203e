"""Files beside the logs, as objects; each access reads the file again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from klogtool.errors import AtPath
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import (
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, IndexLayout, entries_before_zero_tail, parse_txn_index
from klogtool.format.names import FileKind, parse_base_offset, parse_file_name
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.kernels import crc32c
from klogtool.log.file import Unreadable, read_whole

if TYPE_CHECKING:
    Entries = TypeVar("Entries")
    Properties = TypeVar("Properties")


else:

    class Generic:
        """Stands in for typing's at run time, where no types are checked."""

        __slots__ = ()

        def __class_getitem__(cls, _: object) -> type:
            return cls

    Entries = Properties = None


MOST_INDEX_BYTES = 2**31 - 1  # Kafka keeps the sizes of its files in an int
MOST_TEXT_BYTES = 64 << 20  # about fifty bytes for each of a million partitions


class NamedFile(Struct, frozen=True):
    """A file beside the logs."""

    path: str

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path

    @property
    def kind(self) -> FileKind:
        """The kind of file, by its name."""
        return kind_of(self.path)


class EntriesFile(NamedFile, Generic[Entries], frozen=True):
    """An index, a producer snapshot, or a checkpoint."""

    @property
    def base_offset(self) -> int:
        """The offset to which an index is relative; for a producer snapshot, the offset up to which it covers the log.

        Raises Corrupt for a name that does not begin with an offset, such as that of a checkpoint.
        """
        return base_offset_of(self.path)

    @property
    def entries(self) -> Entries:
        """Return all entries: a list in file order; for a checkpoint of partitions, a dict of their offsets.

        Preallocated zeros at the end of an index are left out. Raises Corrupt if Kafka's reader fails.
        """
        entries: Entries = read_content(self.path)
        return entries


class PropertiesFile(NamedFile, Generic[Properties], frozen=True):
    """meta.properties, partition.metadata, quorum-state or .kafka_cleanshutdown."""

    @property
    def content(self) -> Properties:
        """Return the contents. Raises Corrupt if Kafka's reader fails."""
        content: Properties = read_content(self.path)
        return content


def kind_of(path: str) -> FileKind:
    """Return the kind of a file, by its name."""
    return parse_file_name(os.path.basename(path)).kind


def base_offset_of(path: str) -> int:
    """Return the offset at the beginning of a file's name. Raises Corrupt if there is none."""
    with AtPath(path):
        return parse_base_offset(os.path.basename(path))


def read_content(path: str) -> Any:
    """Return the contents of a side file, as an object of its kind. Raises KlogError, always with the path."""
    kind = kind_of(path)
    data = read_whole(path, limit=MOST_INDEX_BYTES if kind.has_base_offset else MOST_TEXT_BYTES)
    with AtPath(path):
        return PARSERS[kind](data, path)


def find_content(path: str) -> Any:
    """Return the contents of a side file; None if it does not exist. Raises as `read_content`."""
    try:
        return read_content(path)
    except Unreadable as error:
        if error.errno != errno.ENOENT:
            raise
        return None


def _index(layout: IndexLayout[Any], data: bytes, path: str) -> list[Any]:
    whole = entries_before_zero_tail(data, layout.entry_size) * layout.entry_size
    return layout.parse(memoryview(data)[:whole], base_offset_of(path))


PARSERS_OF_ENTRIES: dict[FileKind, Callable[[bytes, str], Any]] = {
    FileKind.OFFSET_INDEX: partial(_index, OFFSET_ENTRIES),
    FileKind.TIME_INDEX: partial(_index, TIME_ENTRIES),
    FileKind.TXN_INDEX: lambda data, _: parse_txn_index(data),
    FileKind.PRODUCER_SNAPSHOT: lambda data, _: parse_producer_snapshot(data, crc32c),
    FileKind.LEADER_EPOCH_CHECKPOINT: lambda data, _: parse_leader_epoch_checkpoint(data),
    FileKind.RECOVERY_POINT_CHECKPOINT: lambda data, _: parse_offset_checkpoint(data),
    FileKind.REPLICATION_CHECKPOINT: lambda data, _: parse_offset_checkpoint(data),
    FileKind.LOG_START_CHECKPOINT: lambda data, _: parse_offset_checkpoint(data),
    FileKind.CLEANER_CHECKPOINT: lambda data, _: parse_offset_checkpoint(data),
}
PARSERS_OF_PROPERTIES: dict[FileKind, Callable[[bytes, str], Any]] = {
    FileKind.META_PROPERTIES: lambda data, _: parse_meta_properties(data),
    FileKind.PARTITION_METADATA: lambda data, _: parse_partition_metadata(data),
    FileKind.QUORUM_STATE: lambda data, _: parse_quorum_state(data),
    FileKind.CLEAN_SHUTDOWN: lambda data, _: parse_clean_shutdown(data),
}
PARSERS = PARSERS_OF_ENTRIES | PARSERS_OF_PROPERTIES
