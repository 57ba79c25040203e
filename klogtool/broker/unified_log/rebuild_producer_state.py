"""Producer state up to an offset, from snapshots and batches (UnifiedLog.rebuildProducerState)."""

from __future__ import annotations

from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import LogSegments
from klogtool.broker.unified_log.producer_snapshots import SnapshottedProducers
from klogtool.broker.unified_log.replayed_batches import replay_batches
from klogtool.errors import Corrupt
from klogtool.log.producer_state import ProducerStateManager


def rebuild_producer_state(
    producers: SnapshottedProducers, segments: LogSegments, log_start_offset: int, end_offset: int, *, is_clean: bool
) -> None:
    """Rebuild the state up to end_offset. Snapshots out of range are deleted; new ones are written at some segments'
    bases and at the end.

    After a clean stop without any snapshot nothing is read: a broker takes that for an upgrade, and forgets all
    producers. Raises Corrupt or Unsupported if a batch cannot be applied, or a search meets damage.
    """
    marks = [*segments.base_offsets[-2:], end_offset]
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
    """Apply batches of a segment from an offset on, up to (without) the one that contains the end."""
    end_position = segment.size
    if end is not None and (batch := segment.translate_offset(end)) is not None:
        end_position = batch.position
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
    replay_batches(producers, segment, start.position, end_position)
