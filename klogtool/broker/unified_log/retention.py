"""Which segments a broker's retention deletes, and how that changes the log (UnifiedLog.deleteOldSegments).

There are three rules, applied to the whole log in this order: below the log start offset, too large, too old. Each
begins with the oldest segment and ends at the first one that stays, because a log has no holes. None goes past the high
watermark. If all segments would be deleted, an empty one is created first, because a log always has a segment.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.rolling import roll
from klogtool.broker.unified_log.segment_age import age_of
from klogtool.format.java_numbers import wrap_long

LOG_START, SIZE, TIME = "log_start", "size", "time"


class Deletion(Struct, frozen=True):
    """A segment that is deleted. by: the rule. size: bytes of its `.log`. largest_timestamp: its age, -1 if the rule
    does not use it. is_file_time: the timestamp is the mtime of the `.log`, because the index has none."""

    segment: int
    by: str
    size: int
    largest_timestamp: int = -1
    is_file_time: bool = False


def delete_old_segments(log: LoadedLog) -> list[Deletion]:
    """Delete everything that retention deletes at the log's `now_ms`, in Kafka's order.

    Raises Refused or Corrupt, with Kafka's class, if Kafka fails.
    """
    deleted = delete_below_log_start(log)
    if log.terms.config.delete and not is_tiered(log):
        deleted += _delete_too_much(log)
        deleted += _delete_too_old(log)
    return deleted


def is_tiered(log: LoadedLog) -> bool:
    """Return whether segments are deleted only once they are in remote storage (remoteLogEnabledAndRemoteCopyEnabled),
    which only a running broker knows. A broker without remote storage deletes by retention.ms and retention.bytes."""
    return bool(log.terms.is_tiered) and not log.terms.config.remote_log_copy_disable


def upper_bound_of(log: LoadedLog, segment: LogSegment) -> int:
    """Return the offset that the high watermark must have reached before a segment may be deleted."""
    following = log.segments.higher(segment.base_offset)
    return log.log_end_offset if following is None else following.base_offset


def delete_below_log_start(log: LoadedLog) -> list[Deletion]:
    """Delete the segments that are wholly below the log start offset: only the first rule. Raises as
    delete_old_segments."""

    def is_below(segment: LogSegment) -> Deletion | None:
        following = log.segments.higher(segment.base_offset)
        if following is None or following.base_offset > log.local_log_start_offset:
            return None
        return Deletion(segment.base_offset, LOG_START, segment.size)

    return _delete_while(log, is_below)


def _delete_too_much(log: LoadedLog) -> list[Deletion]:
    limit = log.terms.config.retention_bytes
    excess = sum(segment.size for segment in log.segments.all) - limit
    if limit < 0 or excess < 0:
        return []

    def is_in_excess(segment: LogSegment) -> Deletion | None:
        nonlocal excess
        if excess < segment.size:
            return None
        excess -= segment.size
        return Deletion(segment.base_offset, SIZE, segment.size)

    return _delete_while(log, is_in_excess)


def _delete_too_old(log: LoadedLog) -> list[Deletion]:
    retention_ms, now_ms = log.terms.config.retention_ms, log.terms.now_ms
    if retention_ms < 0:
        return []

    def is_too_old(segment: LogSegment) -> Deletion | None:
        age = age_of(log, segment)
        if wrap_long(now_ms - age.timestamp) <= retention_ms:
            return None
        return Deletion(segment.base_offset, TIME, segment.size, age.timestamp, age.is_file_time)

    return _delete_while(log, is_too_old)


def _delete_while(log: LoadedLog, rule: Callable[[LogSegment], Deletion | None]) -> list[Deletion]:
    """Apply one rule (deletableSegments). It is also asked about an empty active segment, which stays."""
    deletions: list[Deletion] = []
    for segment in log.segments.all:
        deletion = rule(segment) if log.high_watermark >= upper_bound_of(log, segment) else None
        is_last_and_empty = segment is log.segments.last and segment.size == 0
        if deletion is None or is_last_and_empty:
            break
        deletions.append(deletion)
    if deletions:
        _delete([log.segments[deletion.segment] for deletion in deletions], log)
    return deletions


def _delete(segments: list[LogSegment], log: LoadedLog) -> None:
    """Rename the segments; a broker removes them after `file.delete.delay.ms` (UnifiedLog.deleteSegments)."""
    if len(segments) == len(log.segments):
        roll(log)
    following = log.segments.higher(segments[-1].base_offset)
    if following is not None:
        if is_tiered(log):
            log.local_log_start_offset = max(log.local_log_start_offset, following.base_offset)
        else:
            log.raise_start_of_kept(following.base_offset)
    log.report.dropped += [segment.base_offset for segment in segments]
    log.segments.delete(segments)
    for segment in segments:
        log.producers.mark_snapshot_deleted(segment.base_offset)
