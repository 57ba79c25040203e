"""Which part of a log the cleaner would clean, and whether it is due (LogCleanerManager.cleanableOffsets, LogToClean).

Only whole segments below the first uncleanable offset are ever rewritten, the active one never. A bound in the middle
of a segment counts as its base, so that a segment with the first dirty offset in its middle is clean and dirty both.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import LogSegments
from klogtool.format.java_numbers import MAX_LONG, wrap_long

_MILLISECOND_NS = 1_000_000


class LogToClean(Struct, frozen=True):
    """What a pass would go over. first_uncleanable_offset: as it was found; bound: its segment's base offset, which
    the pass goes up to. is_reset: the checkpoint's offset could not be, the log's start stands for it.

    why: what the first uncleanable offset is: `last stable offset`, `active segment`, `min.compaction.lag.ms` or
    `first dirty offset`. clean_bytes, cleanable_bytes: of whole segments. compaction_delay_ms: how long the oldest
    dirty batch is past max.compaction.lag.ms, 0 if it is not.
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
        """Cleanable bytes by all that are not uncleanable; None of a log without any."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else None

    @property
    def is_eligible(self) -> bool:
        """Whether a broker's cleaner would take it up (grabFilthiestCompactedLog)."""
        ratio = self.cleanable_ratio
        if ratio is None:
            return False
        is_late = self.compaction_delay_ms > 0 and self.cleanable_bytes > 0
        return is_late or ratio > self.min_cleanable_dirty_ratio


def find_log_to_clean(log: LoadedLog, checkpoint: int | None, now_ms: int) -> LogToClean:
    """The range of the next pass. checkpoint: the log's offset in cleaner-offset-checkpoint.

    Raises Corrupt or Unsupported where a segment's first batch cannot be read.
    """
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    is_reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = log.log_start_offset
    uncleanable, why = _first_uncleanable(log, first_dirty, now_ms)
    if uncleanable < first_dirty:
        uncleanable, why = first_dirty, "first dirty offset"
    bound = next(iter(non_active_from(log.segments, uncleanable)), log.segments.last).base_offset
    return LogToClean(
        first_dirty,
        uncleanable,
        why,
        is_reset,
        bound,
        clean_bytes=_size(log.segments.values(-1, first_dirty)),
        cleanable_bytes=_size(log.segments.values(min(first_dirty, bound), bound)),
        compaction_delay_ms=_compaction_delay_ms(log, first_dirty, now_ms),
        min_cleanable_dirty_ratio=log.terms.config.min_cleanable_dirty_ratio,
    )


def last_stable_offset(log: LoadedLog) -> int:
    """The high watermark, or the first offset of a transaction below it that is not decided (lastStableOffset)."""
    if log.first_unstable_offset is None:
        return log.high_watermark
    return min(log.first_unstable_offset, log.high_watermark)


def non_active_from(segments: LogSegments, offset: int) -> list[LogSegment]:
    """From the one that holds the offset on, without the active one (nonActiveLogSegmentsFrom)."""
    active = segments.last.base_offset
    return [] if offset > active else segments.values(offset, active)


def last_modified_ms(log: LoadedLog, segment: LogSegment) -> int:
    """The time of its `.log`; of one that loading has cut just now, that of the loading."""
    mtime_ns = segment.draft.files[segment.log_name].mtime_ns
    return log.terms.loaded_at_ms if mtime_ns is None else mtime_ns // _MILLISECOND_NS


def _first_uncleanable(log: LoadedLog, first_dirty: int, now_ms: int) -> tuple[int, str]:
    """The lowest of what holds the cleaner back, and what that is."""
    found = [
        (last_stable_offset(log), "last stable offset"),
        (log.segments.last.base_offset, "active segment"),
    ]
    lag_ms = log.terms.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in non_active_from(log.segments, first_dirty):
            if _largest_timestamp(log, segment) > wrap_long(now_ms - lag_ms):
                found.append((segment.base_offset, "min.compaction.lag.ms"))
                break
    return min(found, key=lambda pair: pair[0])


def _largest_timestamp(log: LoadedLog, segment: LogSegment) -> int:
    """That of its records if one is known, else the file's; asking opens the time index (largestTimestamp)."""
    timestamp = segment.read_max_timestamp_so_far().timestamp
    return timestamp if timestamp >= 0 else last_modified_ms(log, segment)


def _compaction_delay_ms(log: LoadedLog, first_dirty: int, now_ms: int) -> int:
    """maxCompactionDelay: by the largest timestamp of each segment's first batch."""
    firsts = (segment.read_first_timestamp() for segment in non_active_from(log.segments, first_dirty))
    earliest = min((timestamp for timestamp in firsts if timestamp > 0), default=MAX_LONG)
    clean_until = wrap_long(now_ms - max(log.terms.config.max_compaction_lag_ms, 0))
    return wrap_long(clean_until - earliest) if earliest < clean_until else 0


def _size(segments: list[LogSegment]) -> int:
    return sum(segment.size for segment in segments)
