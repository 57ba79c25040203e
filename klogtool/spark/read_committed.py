"""What a consumer with read_committed does not see: records of aborted transactions, and everything after the start of
the first open transaction.

Aborted transactions come from the transaction indexes, open ones from the newest producer snapshot and the batches
after it, as a broker knows them (UnifiedLog.collectAbortedTransactions, ProducerStateManager).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.indexes import parse_txn_index
from klogtool.format.names import FileKind
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.resync import find_next_batch
from klogtool.spark.copies import Copy, SegmentFiles
from klogtool.spark.heads import FAR_PIECE_BYTES, Head, find_position, read_marker, walk_heads


class AbortedRange(Struct, frozen=True):
    """Aborted records of one producer: its transactional batches from first_offset up to last_offset, which is the
    marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


class Committed(Struct, frozen=True):
    """What of a partition is committed. last_stable_offset: None if no transaction is open."""

    last_stable_offset: int | None
    aborted: tuple[AbortedRange, ...]


def find_committed(copy: Copy) -> Committed:
    """Return the aborted and the open transactions of a partition.

    A log without a producer snapshot, or without a readable transaction index, is read from its beginning.
    """
    committed = _by_indexes(copy)
    start, open_txns = _newest_snapshot(copy)
    if committed is None or start is None:
        return _by_walk(copy, copy.segments, {})
    segments = tuple(s for s in copy.segments if s.next_base_offset is None or s.next_base_offset > start)
    behind = _by_walk(copy, segments, open_txns, start)
    return Committed(behind.last_stable_offset, tuple(dict.fromkeys(committed + list(behind.aborted))))


def _by_indexes(copy: Copy) -> list[AbortedRange] | None:
    aborted = []
    for segment in copy.segments:
        index = segment.indexes.get(FileKind.TXN_INDEX)
        if index is not None and index.size:
            try:
                entries = parse_txn_index(copy.storage.read(index))
            except KlogError:
                return None
            aborted += [AbortedRange(entry.producer_id, entry.first_offset, entry.last_offset) for entry in entries]
    return aborted


def _newest_snapshot(copy: Copy) -> tuple[int | None, dict[int, int]]:
    """Return (the offset up to which it covers, first offset of each producer's open transaction); None without a
    snapshot."""
    for offset, stored in reversed(copy.snapshots):
        try:
            entries = parse_producer_snapshot(copy.storage.read(stored))
        except KlogError:  # a broker deletes it and uses the one before
            continue
        return offset, {
            entry.producer_id: entry.current_txn_first_offset
            for entry in entries
            if entry.current_txn_first_offset is not None
        }
    return None, {}


def _by_walk(copy: Copy, segments: tuple[SegmentFiles, ...], open_txns: dict[int, int], start: int = 0) -> Committed:
    """Return what is committed, by the batches from an offset on. open_txns: those that are open there."""
    aborted: list[AbortedRange] = []
    for segment in segments:
        for file, head, batch in _walk_of_producers(copy, segment, start):
            if not batch.is_control:
                if batch.is_transactional:
                    open_txns.setdefault(batch.producer_id, batch.base_offset)
            elif batch.records_count and (is_abort := read_marker(file, head)) is not None:
                first_offset = open_txns.pop(batch.producer_id, None)
                if is_abort and first_offset is not None:
                    aborted.append(AbortedRange(batch.producer_id, first_offset, batch.last_offset))
    return Committed(min(open_txns.values(), default=None), tuple(aborted))


def _walk_of_producers(copy: Copy, segment: SegmentFiles, start: int) -> Iterator[tuple[LogFile, Head, RecordBatch]]:
    """Yield the batches that have a producer, from an offset on, also those behind damage: that is reported by the
    reader of the records. Raises Unreadable."""
    index, is_active = segment.indexes.get(FileKind.OFFSET_INDEX), segment.next_base_offset is None
    at: int | None = find_position(copy.storage, segment.log, index, segment.base_offset, start)
    with copy.storage.open(segment.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        while at is not None:
            try:
                for head in walk_heads(file, at, segment.size, may_be_preallocated=is_active):
                    at, batch = head.end, head.entry
                    if not isinstance(batch, RecordBatch) or batch.base_offset < start:
                        continue
                    if batch.producer_id > NO_PRODUCER_ID:
                        yield file, head, batch
                return
            except Unreadable:  # what was not read may be an aborted transaction
                raise
            except KlogError:
                at = find_next_batch(file, at + 1, end=segment.size, lowest=segment.base_offset)
