"""Cuts a log at an offset, as a follower does, and starts it anew (UnifiedLog.truncateTo and what follows from it).

The batch that contains the offset is removed whole. Still, for a running broker the log ends at the offset: a gap is
legal. The next start finds the end after the last batch.
"""

from __future__ import annotations

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.replayed_batches import rebuild_producer_state
from klogtool.broker.unified_log.rolling import put_in_place
from klogtool.errors import Refused
from klogtool.log.folder import own_name


def truncate_to(log: LoadedLog, target_offset: int) -> bool:
    """Remove records from this offset on; return False if the log was already that short, so that only epochs were
    checked.

    Raises Refused (IllegalArgumentException) for a negative offset; Corrupt or Unsupported if the search for the batch
    meets damage, or producer state cannot be rebuilt.
    """
    if target_offset < 0:
        raise Refused(
            f"Cannot truncate partition {own_name(log.draft.path)} to a negative offset ({target_offset}).",
            path=log.draft.path,
            kafka_class="IllegalArgumentException",
        )
    if target_offset >= log.log_end_offset:
        log.epochs.truncate_from_end(log.log_end_offset)
        return False
    if log.segments.first.base_offset > target_offset:
        truncate_fully_and_start_at(log, target_offset)
        return True
    deleted = [segment for segment in log.segments.all if segment.base_offset > target_offset]
    _delete(log, deleted)
    log.segments.last.truncate_to(target_offset)
    log.move_log_end(target_offset)
    for segment in deleted:
        log.producers.mark_snapshot_deleted(segment.base_offset)
    log.epochs.truncate_from_end(target_offset)
    log.log_start_offset = min(target_offset, log.log_start_offset)
    log.local_log_start_offset = min(target_offset, log.local_log_start_offset)
    log.tiered_log_start_offset = min(target_offset, log.tiered_log_start_offset)
    _rebuild_producers(log, target_offset)
    if log.high_watermark >= log.log_end_offset:
        log.update_high_watermark(log.log_end_offset)
    return True


def truncate_fully_and_start_at(log: LoadedLog, new_offset: int, log_start_offset: int | None = None) -> None:
    """Remove everything. An empty segment begins at the offset; the log starts there too, unless log_start_offset is
    given.

    Raises Refused (IllegalArgumentException) for a negative offset.
    """
    holder = log.segments.floor(new_offset) if new_offset < log.log_end_offset or new_offset in log.segments else None
    *others, last = log.segments.all
    _delete(log, others)
    put_in_place(log, new_offset, last)
    log.report.cut_off.append(last.base_offset)
    log.report.began_anew = new_offset
    log.report.overlapped = None if holder is None else holder.base_offset
    log.move_log_end(new_offset)
    log.epochs.clear()
    log.producers.truncate_fully_and_start_at(new_offset)
    log.log_start_offset = new_offset if log_start_offset is None else log_start_offset
    log.local_log_start_offset = max(new_offset, log.log_start_offset)
    log.tiered_log_start_offset = log.log_start_offset
    _rebuild_producers(log, new_offset)
    log.update_high_watermark(log.log_end_offset)


def _delete(log: LoadedLog, segments: list[LogSegment]) -> None:
    log.report.cut_off += [segment.base_offset for segment in segments]
    log.segments.delete(segments)


def _rebuild_producers(log: LoadedLog, end_offset: int) -> None:
    rebuild_producer_state(log.producers, log.segments, log.log_start_offset, end_offset, is_clean=False)
