"""When the active segment has to be closed, and closing it: LogSegment.shouldRoll, UnifiedLog.roll, over a draft.

A broker checks only when batches arrive, and uses their time, not the clock. The clock counts only for a segment whose
first batch has no timestamp, from the moment when the broker opened the file.
"""

from __future__ import annotations

import os

from msgspec import Struct

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.errors import Refused
from klogtool.format.indexes import to_relative_offset
from klogtool.format.java_numbers import wrap_int, wrap_long
from klogtool.format.names import SEGMENT_KINDS, build_file_name


class Incoming(Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """What is about to be appended: its bytes, its largest timestamp, its last offset (RollParams)."""

    size_bytes: int
    max_timestamp: int
    last_offset: int


class RollVerdict(Struct, frozen=True):
    """Every condition of LogSegment.shouldRoll. waited_ms: how long the segment has waited; it may be negative."""

    size: bool
    time: bool
    waited_ms: int
    offset_index_full: bool
    time_index_full: bool
    offset_overflow: bool

    @property
    def due(self) -> bool:
        """Whether a broker would roll."""
        return self.size or self.time or self.offset_index_full or self.time_index_full or self.offset_overflow


def should_roll(log: LoadedLog, incoming: Incoming) -> RollVerdict:
    """Return whether the active segment has to be closed before this is appended. Random jitter (segment.jitter.ms) is
    0.

    This opens its indexes. Raises Corrupt if its first batch cannot be read.
    """
    active, config = log.segments.last, log.terms.config
    waited_ms = _waited_ms(log, active, incoming.max_timestamp)
    return RollVerdict(
        size=active.size > wrap_int(config.segment_bytes - incoming.size_bytes),
        time=active.size > 0 and waited_ms > config.max_segment_ms,
        waited_ms=waited_ms,
        offset_index_full=active.offset_index.is_full,
        time_index_full=active.time_index.is_full,
        offset_overflow=to_relative_offset(incoming.last_offset, active.base_offset) is None,
    )


def roll(log: LoadedLog, expected_next_offset: int | None = None) -> LogSegment:
    """Close the active segment and begin the next one at the log end, or at a later expected offset.

    Producers get a snapshot there. An empty active segment at that offset is replaced by a new one. Raises Refused
    (KafkaException) if another segment is there, Corrupt if the index has no room for the last time entry.
    """
    new_base = max(expected_next_offset or 0, log.log_end_offset)
    segment = _begin(log, new_base)
    log.move_log_end(log.log_end_offset)
    log.producers.map_end_offset = new_base
    log.producers.take_snapshot()
    log.keep_high_watermark_in_log()
    log.flush_later(new_base)
    return segment


def put_in_place(log: LoadedLog, new_base: int, old: LogSegment) -> LogSegment:
    """Put an empty segment in place of one that is deleted, so that the log always has a segment
    (createAndDeleteSegment)."""
    if new_base == old.base_offset:
        old.change_suffix(DELETED)
        return add_segment(log, new_base)
    segment = add_segment(log, new_base)
    log.segments.delete([old])
    return segment


def add_segment(log: LoadedLog, base_offset: int) -> LogSegment:
    """Add a new empty segment. Preallocation (preallocate) is ignored, because stopping cuts the file. There is one
    difference: if it is deleted before the stop, Kafka's `.log.deleted` has the preallocated zeros for a minute; ours
    is empty."""
    segment = LogSegment(log.draft, base_offset, log.terms.config, rules=log.terms.rules)
    segment.created_ms = log.terms.now_ms
    log.segments.add(segment)
    return segment


def _waited_ms(log: LoadedLog, segment: LogSegment, timestamp: int) -> int:
    """Return how long it has waited (LogSegment.timeWaitedForRoll): in record time from the first batch on, else since
    the broker opened it."""
    first_timestamp = segment.read_first_timestamp()
    if first_timestamp >= 0:
        return wrap_long(timestamp - first_timestamp)
    created_ms = log.terms.loaded_at_ms if segment.created_ms is None else segment.created_ms
    return wrap_long(log.terms.now_ms - created_ms)


def _begin(log: LoadedLog, new_base: int) -> LogSegment:
    """Begin a new segment (LocalLog.roll)."""
    active = log.segments.last
    if new_base in log.segments:
        if active.base_offset == new_base and not active.size:
            return put_in_place(log, new_base, active)
        raise Refused(
            f"Trying to roll a new log segment for topic partition {os.path.basename(log.draft.path)} with start "
            f"offset {new_base} (log end offset {log.log_end_offset}) while it already exists. Existing segment is "
            f"{log.segments[new_base].log_name}",
            path=log.draft.path,
            kafka_class="KafkaException",
        )
    for kind in SEGMENT_KINDS:
        log.draft.delete(build_file_name(kind, new_base))
    active.become_inactive()
    return add_segment(log, new_base)
