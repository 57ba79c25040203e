"""Which part of a log the cleaner would clean, and whether it is due (LogCleanerManager.cleanableOffsets, LogToClean).

Only whole segments below the first uncleanable offset are rewritten, and never the active one. A bound in the middle of
a segment counts as its base offset, so a segment with the first dirty offset in its middle is both clean and dirty.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import LogSegments
from klogtool.broker.unified_log.segment_age import age_of
from klogtool.format.java_numbers import MAX_LONG, wrap_long

MIN_COMPACTION_LAG = "min.compaction.lag.ms"


class LogToClean(Struct, frozen=True):
    """The range of a pass. first_uncleanable_offset: as found. bound: the base offset of its segment, where the pass
    ends. is_reset: the checkpoint's offset is impossible, so the pass begins at the log's start.

    why: what keeps the cleaner from going further: `last stable offset`, `active segment` or `min.compaction.lag.ms`,
    also where that is below the first dirty offset. clean_bytes, cleanable_bytes: of whole segments.
    compaction_delay_ms: how long ago the oldest dirty batch exceeded max.compaction.lag.ms, 0 if it did not.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    why: str
    is_reset: bool
    bound: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    min_cleanable_dirty_ratio: float

    @property
    def cleanable_ratio(self) -> float | None:
        """Cleanable bytes divided by clean and cleanable bytes; None if the log has neither."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else None

    @property
    def is_eligible(self) -> bool:
        """Whether a broker's cleaner would choose this log (grabFilthiestCompactedLog)."""
        ratio = self.cleanable_ratio
        if ratio is None:
            return False
        is_late = self.compaction_delay_ms > 0 and self.cleanable_bytes > 0
        return is_late or ratio > self.min_cleanable_dirty_ratio


def find_log_to_clean(log: LoadedLog, checkpoint: int | None, now_ms: int) -> LogToClean:
    """Return the range of the next pass. checkpoint: the log's offset in cleaner-offset-checkpoint.

    Raises Corrupt or Unsupported if a segment's first batch cannot be read.
    """
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    is_reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = log.log_start_offset
    limit, why = _first_uncleanable(log, first_dirty, now_ms)
    uncleanable = max(first_dirty, limit)
    bound = next(iter(non_active_from(log.segments, uncleanable)), log.segments.last).base_offset
    # maxCompactionDelay, which uses the largest timestamp of each segment's first batch.
    firsts = (segment.read_first_timestamp() for segment in non_active_from(log.segments, first_dirty))
    earliest = min((timestamp for timestamp in firsts if timestamp > 0), default=MAX_LONG)
    clean_until = wrap_long(now_ms - max(log.terms.config.max_compaction_lag_ms, 0))
    return LogToClean(
        first_dirty,
        uncleanable,
        why,
        is_reset,
        bound,
        clean_bytes=_size(log.segments.values(-1, first_dirty)),
        cleanable_bytes=_size(log.segments.values(min(first_dirty, bound), bound)),
        compaction_delay_ms=wrap_long(clean_until - earliest) if earliest < clean_until else 0,
        min_cleanable_dirty_ratio=log.terms.config.min_cleanable_dirty_ratio,
    )


def last_stable_offset(log: LoadedLog) -> int:
    """Return the high watermark, or the first offset of an undecided transaction below it (lastStableOffset)."""
    if log.first_unstable_offset is None:
        return log.high_watermark
    return min(log.first_unstable_offset, log.high_watermark)


def non_active_from(segments: LogSegments, offset: int) -> list[LogSegment]:
    """Return the segments from the one that contains the offset on, without the active one
    (nonActiveLogSegmentsFrom)."""
    active = segments.last.base_offset
    return [] if offset > active else segments.values(offset, active)


def _first_uncleanable(log: LoadedLog, first_dirty: int, now_ms: int) -> tuple[int, str]:
    """Return the lowest offset that limits the cleaner, and what it is."""
    bounds = [
        (last_stable_offset(log), "last stable offset"),
        (log.segments.last.base_offset, "active segment"),
    ]
    lag_ms = log.terms.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in non_active_from(log.segments, first_dirty):
            if age_of(log, segment).timestamp > wrap_long(now_ms - lag_ms):
                bounds.append((segment.base_offset, MIN_COMPACTION_LAG))
                break
    return min(bounds, key=lambda pair: pair[0])


def _size(segments: list[LogSegment]) -> int:
    return sum(segment.size for segment in segments)
