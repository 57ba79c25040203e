"""delete-records: a later beginning of a partition, and the segments gone that lie wholly below it.

What a broker does with a DeleteRecords request (Partition.deleteRecordsOnLeader), and with its next retention; but
what that would delete by time or size is left to `retain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.errors import Refused
from klogtool.log.folder import own_name
from klogtool.repair.change import Change, plan_change
from klogtool.repair.plan import Plan, SegmentVerdict
from klogtool.repair.retain import deletion_verdicts, deletions_answer
from klogtool.repair.unified_log.kept_segments import ages_of
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.retention import delete_below_log_start

COMMAND = "delete-records"
HIGH_WATERMARK = -1  # DeleteRecordsRequest.HIGH_WATERMARK: whatever that is


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """The plans for one partition dir and its log dir. arguments: those of Circumstances; `before`: the first offset
    that stays, or HIGH_WATERMARK; `purge`; `jobs`.

    Raises Refused: OffsetOutOfRangeException for an offset above the high watermark, or below 0,
    PolicyViolationException for a topic that is only compacted; and as `plan_change` does.
    """
    before = int(arguments["before"])
    return plan_change(COMMAND, path, arguments, lambda log: _delete_records(log, before))


def _delete_records(log: LoadedLog, before: int) -> Change:
    if log.terms.config.compact and not log.terms.config.delete:
        raise Refused(
            f"Records of partition {own_name(log.draft.path)} can not be deleted due to the configured policy "
            "(cleanup.policy is compact)",
            path=log.draft.path,
            kafka_class="PolicyViolationException",
        )
    offset = log.high_watermark if before == HIGH_WATERMARK else before
    if offset < 0:
        raise Refused(
            f"The offset {offset} for partition {own_name(log.draft.path)} is not valid",
            path=log.draft.path,
            kafka_class="OffsetOutOfRangeException",
        )
    start_before, ages = log.log_start_offset, ages_of(log)
    moved = log.maybe_increment_log_start_offset(offset)
    log.run_scheduled()
    deleted = delete_below_log_start(log)
    answer = {"moved": moved, "deletions": deletions_answer(deleted), "log_start_offset_before": start_before}
    verdicts = (*deletion_verdicts(log, deleted, ages), *_first_kept(log))
    return Change(answer, verdicts, tuple(log.terms.setting_notes(("cleanup.policy",))))


def _first_kept(log: LoadedLog) -> Iterator[SegmentVerdict]:
    """The segment in which the log begins, if some of its records lie below that."""
    first = log.segments.first
    if log.log_start_offset > first.base_offset:
        why = "the log begins inside it: what lies below stays on the disk, and is not served"
        yield SegmentVerdict(first.base_offset, "keep", why)
