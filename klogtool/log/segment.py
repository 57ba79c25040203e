"""A segment: a `.log` file and the indexes beside it; and the snapshots that KRaft writes in the same form."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from klogtool.format.batch import Record
from klogtool.format.indexes import AbortedTxn, OffsetIndexEntry, TimeIndexEntry
from klogtool.format.names import FileKind, FileName, parse_file_name
from klogtool.log.entries import Message, RecordBatch, tail_bytes, walk_entries, walk_records
from klogtool.log.file import LogFile
from klogtool.log.side_file import base_offset_of, find_content


class BatchFile(Struct, frozen=True):
    """A file of batches. Each method opens it, and closes it when done."""

    path: str

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path

    @property
    def name(self) -> FileName:
        """The name of the `.log`, parsed."""
        return parse_file_name(os.path.basename(self.path))

    @property
    def size(self) -> int:
        """Bytes of the file, now."""
        with LogFile(self.path) as file:
            return file.size

    def batches(self, start: int = 0) -> Iterator[RecordBatch | Message]:
        """Yield its record batches (magic 2) or messages (0 and 1) from byte `start` on, where one must begin.

        An incomplete batch at the end is not returned: see `tail_bytes`. A wrong CRC does not end the walk: see
        `crc_valid` of each batch. Keeping a batch keeps about a megabyte around it in memory. Raises Corrupt at an
        impossible length, after all batches before it.
        """
        return walk_entries(self.path, start)

    def records(self, start: int = 0) -> Iterator[Record]:
        """Yield the records of all its batches, including control records, whatever the CRCs say.

        Raises Corrupt or Unsupported at the first batch whose records cannot be read, with its position.
        """
        return walk_records(self.path, start)

    def tail_bytes(self) -> int:
        """Bytes after the last complete batch: 0 unless a write was interrupted. Raises Corrupt as `batches` does."""
        return tail_bytes(self.path)


class Segment(BatchFile, Struct, frozen=True):
    """One `.log` file, also a `.log.deleted`, `.log.cleaned` or `.log.swap`."""

    @property
    def base_offset(self) -> int:
        """The offset in its name. Raises Corrupt for a name without one."""
        return base_offset_of(self.path)

    @property
    def offset_index(self) -> list[OffsetIndexEntry] | None:
        """The entries of the `.index` beside it, without preallocated zeros; None if there is no such file."""
        entries: list[OffsetIndexEntry] | None = find_content(self.side_path(FileKind.OFFSET_INDEX))
        return entries

    @property
    def time_index(self) -> list[TimeIndexEntry] | None:
        """The entries of the `.timeindex` beside it, without preallocated zeros; None if there is no such file."""
        entries: list[TimeIndexEntry] | None = find_content(self.side_path(FileKind.TIME_INDEX))
        return entries

    @property
    def txn_index(self) -> list[AbortedTxn] | None:
        """The entries of the `.txnindex` beside it; None if the file does not exist, for example if nothing was
        aborted."""
        entries: list[AbortedTxn] | None = find_content(self.side_path(FileKind.TXN_INDEX))
        return entries

    def side_path(self, kind: FileKind) -> str:
        """Return the path of its file of another kind, existing or not."""
        folder, name = os.path.split(self.path)
        return os.path.join(folder, name.partition(".")[0] + kind.value + self.name.suffix)


class KraftSnapshot(BatchFile, Struct, frozen=True):
    """A `.checkpoint`: the state of a cluster's metadata as batches of its own, also a `bootstrap.checkpoint`."""

    @property
    def end_offset(self) -> int | None:
        """The first offset of the metadata log that is not in it; None if the name does not have it."""
        return self.name.base_offset

    @property
    def epoch(self) -> int | None:
        """The leader epoch of the last record in it; None if the name does not have it."""
        return self.name.epoch
