"""A partition dir as salvage reads it: segments and small files, each as far as it is sound.

Unreadable bytes of a disk with bad sectors read as zeros, and are recorded.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.file_facts import listing_of
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.causes import Reason
from klogtool.errors import FileCause, KlogError
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.identity import PartitionMetadata, parse_partition_metadata
from klogtool.format.indexes import AbortedTxn, parse_txn_index
from klogtool.format.names import FileKind, FileName, TopicPartition, find_renamed_log, parse_file_name
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.salvage.stretches import Rejected, RejectedCause, Run, Stretch, walk_stretches
from klogtool.verify.cures import MOST_MAGIC_BYTES, filling_from_copy
from klogtool.verify.findings import Kind
from klogtool.verify.only_copies import find_orphans, may_have

_Value = TypeVar("_Value")


class SegmentFile(Struct, frozen=True):
    """A `.log` that is in use."""

    base_offset: int
    name: str
    path: str
    size: int
    mtime_ns: int | None

    def stretches(self, *, jobs: int = 1, deep: bool = False) -> list[Stretch]:
        """Return all of it; see walk_stretches. Bytes that the disk cannot read are rejected. Raises Unreadable."""
        with PatchyFile(self.path) as file:
            results = list(walk_stretches(file, self.base_offset, jobs=jobs, deep=deep))
            return [_or_unreadable(stretch, file) for stretch in results] if file.bad else results


def _or_unreadable(stretch: Stretch, file: PatchyFile) -> Stretch:
    bad = file.bad_within(stretch.start, stretch.stop) if isinstance(stretch, Rejected) else []
    if isinstance(stretch, Run) or not bad:
        return stretch
    return replace(stretch, cause=Kind.UNREADABLE, detail=RejectedCause.CANNOT_READ(first=bad[0][0], last=bad[-1][1]))


class PartitionFiles(Struct):
    """The files. swaps: cleaned segments that should replace others. metadata, epochs: None if the file is missing or
    damaged (`damaged`: why, by kind). aborted_txns: from all readable indexes. reaches: how far the log reached at
    least (exclusive), by sound producer snapshots. listed: as from `listing_of`."""

    path: str
    listed: tuple[int, frozenset[str]]
    files: dict[str, DraftFile]
    segments: list[SegmentFile]
    swaps: list[SegmentFile]
    metadata: PartitionMetadata | None = None
    epochs: LeaderEpochFileCache | None = None
    damaged: dict[FileKind, str] = field(default_factory=dict)
    aborted_txns: list[AbortedTxn] = field(default_factory=list)
    reaches: int = 0

    def may_have(self, ranges: Iterable[tuple[int, int]]) -> dict[str, Reason | None]:
        """Return the files that may have some of these offsets under names such as `.log.bak`, which nobody reads, with
        the command that fills them in from there; None if nobody knows how to unpack one."""
        named = ((name, find_renamed_log(name)) for name, file in sorted(self.files.items()) if file.size)
        copies = {name: log for name, log in named if log}
        return {name: self._filling_from(name, copies[name]) for name in may_have(copies, self.files, ranges)}

    def _filling_from(self, name: str, log: str) -> Reason | None:
        with ContentFile(name, self.files[name].content) as file:
            return filling_from_copy(os.path.join(self.path, name), log, file.read(0, MOST_MAGIC_BYTES))

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition, by the folder's name."""
        return Partition(self.path).topic_partition

    def names(self) -> list[FileName]:
        """All file names, parsed."""
        return [parse_file_name(name) for name in sorted(self.files)]

    def orphans(self) -> set[int]:
        """Base offsets of segments of which only indexes are left."""
        return set(find_orphans(self.files))


def read_partition_files(path: str) -> PartitionFiles:
    """Read a partition dir. Raises KlogError if there is none, or a file cannot be read."""
    draft = Draft.of(path)
    if isinstance(open_path(path), LogDir):
        raise KlogError(FileCause.NAME_ONE(), path=path)
    result = PartitionFiles(path, draft.listed or listing_of(path), draft.files, _logs(draft, ""), _swaps(draft))
    _read_small_files(draft, result)
    return result


def _logs(draft: Draft, suffix: str) -> list[SegmentFile]:
    results = [
        SegmentFile(name.base_offset, name.name, os.path.join(draft.path, name.name), file.size, file.mtime_ns)
        for file, name in ((draft.files[name], parse_file_name(name)) for name in draft.names())
        if name.kind is FileKind.LOG and name.suffix == suffix and name.base_offset is not None
    ]
    return sorted(results, key=lambda segment: (segment.base_offset, segment.name))


def _swaps(draft: Draft) -> list[SegmentFile]:
    """Return segments that a cleaning has finished. A `.swap` at or above the lowest `.cleaned` belongs to an
    incomplete set, and does not count (LogLoader.removeTempFilesAndCollectSwapFiles)."""
    names = [parse_file_name(name) for name in draft.names()]
    cleaned = [name.base_offset for name in names if name.suffix == ".cleaned" and name.base_offset is not None]
    return [swap for swap in _logs(draft, ".swap") if not cleaned or swap.base_offset < min(cleaned)]


def _read_small_files(draft: Draft, result: PartitionFiles) -> None:
    metadata, epochs = FileKind.PARTITION_METADATA, FileKind.LEADER_EPOCH_CHECKPOINT
    result.metadata = _parsed(draft, metadata.value, parse_partition_metadata, result.damaged)
    result.epochs = _parsed(draft, epochs.value, _parse_epochs, result.damaged)
    for file in result.names():
        if file.suffix or file.base_offset is None:
            continue
        if file.kind is FileKind.TXN_INDEX:
            result.aborted_txns += _parsed(draft, file.name, parse_txn_index, {}) or []
        is_snapshot = file.kind is FileKind.PRODUCER_SNAPSHOT and file.base_offset > result.reaches
        if is_snapshot and _parsed(draft, file.name, parse_producer_snapshot, {}) is not None:
            result.reaches = file.base_offset


def _parse_epochs(data: bytes) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(parse_leader_epoch_checkpoint(data))


def _parsed(draft: Draft, name: str, parse: Callable[[bytes], _Value], damaged: dict[FileKind, str]) -> _Value | None:
    """Return the parsed file; None if it is missing, damaged or unreadable (`damaged` then has the reason)."""
    if name not in draft:
        return None
    try:
        return parse(draft.read(name))
    except KlogError as error:
        if isinstance(error, Unreadable) and error.errno != errno.EIO:
            raise
        damaged[parse_file_name(name).kind] = error.reason
        return None


SECTOR_BYTES = 4096


class PatchyFile(LogFile):
    """A LogFile that continues after an I/O error. bad: ranges of unreadable bytes found so far, in whole sectors."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.bad: set[tuple[int, int]] = set()

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from byte `position`, fewer at the end of the file; zeros for unreadable bytes."""
        try:
            return super().read(position, size)
        except Unreadable as error:
            if error.errno != errno.EIO:
                raise
        return b"".join(self._sectors(position, min(size, self.size - position)))

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """Read into a buffer, as `read`: zeros for unreadable bytes."""
        try:
            return super().read_into(buffer, position, size)
        except Unreadable as error:
            if error.errno != errno.EIO:
                raise
        view, done = memoryview(buffer), 0
        for chunk in self._sectors(position, min(size, self.size - position)):
            view[done : done + len(chunk)] = chunk
            done += len(chunk)
        return view[:done]

    def bad_within(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the unreadable ranges within [start, stop), by position."""
        return sorted((max(start, a), min(stop, b)) for a, b in self.bad if a < stop and start < b)

    def _sectors(self, position: int, size: int) -> Iterator[bytes]:
        end = position + size
        while position < end:
            stop = min(end, position - position % SECTOR_BYTES + SECTOR_BYTES)
            try:
                yield super().read(position, stop - position)
            except Unreadable as error:
                if error.errno != errno.EIO:
                    raise
                self.bad.add((position - position % SECTOR_BYTES, min(self.size, stop)))
                yield bytes(stop - position)
            position = stop
