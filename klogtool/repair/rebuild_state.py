"""Producer state up to an offset, out of snapshots and batches (UnifiedLog.rebuildProducerState)."""

from __future__ import annotations

from klogtool.errors import Corrupt
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.java_hash import LongHashKeys
from klogtool.log.producer_state import CompletedTxn, ProducerAppendInfo, ProducerStateManager
from klogtool.repair.log_segments import LogSegments
from klogtool.repair.producer_snapshots import SnapshottedProducers
from klogtool.repair.segment import LogSegment, walk_entries


def rebuild_producer_state(
    producers: SnapshottedProducers, segments: LogSegments, log_start_offset: int, end_offset: int, *, is_clean: bool
) -> None:
    """State up to end_offset; snapshots out of range go, some at bases of segments and one at the end come to be.

    After a clean stop without any snapshot nothing is read: a broker takes it for an upgrade, and forgets everybody.
    Raises Corrupt or Unsupported where a batch cannot be applied, or a search meets damage.
    """
    marks = [segment.base_offset for segment in segments.all[-2:]] + [end_offset]
    if producers.latest_snapshot_offset is None and is_clean:
        for mark in marks:
            producers.map_end_offset = mark
            producers.take_snapshot()
        return
    is_trivial = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset)
    if end_offset > producers.map_end_offset and not is_trivial:
        last = segments.floor(end_offset)
        for segment in segments.values(producers.map_end_offset, end_offset):
            start_offset = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start_offset
            if segment.base_offset in marks:
                producers.take_snapshot()
            _load_segment(producers, segment, start_offset, end_offset if segment is last else None)
    producers.map_end_offset = end_offset
    producers.take_snapshot()


def _load_segment(producers: ProducerStateManager, segment: LogSegment, start_offset: int, end: int | None) -> None:
    """Batches of a segment from an offset on, up to (without) the one that holds the end."""
    end_position = segment.size
    if end is not None and (found := segment.translate_offset(end)) is not None:
        end_position = found.position
    start = segment.translate_offset(start_offset)
    if start is None:
        return
    if end_position < start.position:
        raise Corrupt(
            f"Invalid size: {end_position - start.position} in read from {segment.log_name}",
            path=segment.path,
            position=start.position,
            kafka_class="IllegalArgumentException",
        )
    _load_batches(producers, segment, start.position, end_position)


def _load_batches(producers: ProducerStateManager, segment: LogSegment, start: int, end: int) -> None:
    """All are looked at before any counts (loadProducersFromRecords)."""
    looked_at: dict[int, ProducerAppendInfo] = {}
    order = LongHashKeys()
    completed: list[CompletedTxn] = []
    with segment.open_log() as file:
        for entry in walk_entries(file, start, end):
            if not isinstance(entry, RecordBatch) or entry.producer_id <= NO_PRODUCER_ID:
                continue
            order.compute_if_absent(entry.producer_id)
            append_info = looked_at.get(entry.producer_id)
            if append_info is None:
                append_info = looked_at[entry.producer_id] = producers.prepare_update(entry.producer_id)
            txn = append_info.append(entry)
            if txn is not None:
                completed.append(txn)
    for producer_id in order.in_order:
        producers.update(looked_at[producer_id])
    for txn in completed:
        producers.complete_txn(txn)
