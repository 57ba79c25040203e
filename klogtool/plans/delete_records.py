"""delete-records: moves the log start offset, and deletes the segments that are wholly below it.

This is what a broker does with a DeleteRecords request (Partition.deleteRecordsOnLeader) and with its next retention.
What that retention would delete by time or size is left to `retain`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from klogtool.broker.circumstances import Checkpoints, Long
from klogtool.broker.unified_log.kept_segments import ages_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.retention import delete_below_log_start
from klogtool.errors import Refused
from klogtool.log.folder import own_name
from klogtool.parameters import parameter
from klogtool.plans.causes import VerdictCause
from klogtool.plans.guessed_settings import Beside, check_delete_records
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.plan_change import Change, plan_change, settle
from klogtool.plans.question import DeletingQuestion
from klogtool.plans.results import ChangeResult
from klogtool.plans.retain import DeletedSegment, deleted_segments, deletion_verdicts

COMMAND = "delete-records"
HIGH_WATERMARK = -1  # DeleteRecordsRequest.HIGH_WATERMARK: up to the current high watermark


class DeleteRecordsQuestion(DeletingQuestion, frozen=True, kw_only=True):
    """What is deleted below an offset?"""

    before: Annotated[
        Long,
        parameter("The new log start offset. Records below it are deleted. -1: the high watermark."),
    ]


QUESTION = DeleteRecordsQuestion


class DeleteRecordsResult(ChangeResult, frozen=True):
    """What goes. moved: whether the log start offset changes."""

    moved: bool
    deletions: list[DeletedSegment]
    log_start_offset_before: int


def decide(path: str, question: DeleteRecordsQuestion) -> Iterator[Plan]:
    """Plan for one partition dir and its log dir.

    Raises Refused: if it would rely on a guessed setting; OffsetOutOfRangeException for an offset above the high
    watermark or below 0; PolicyViolationException for a topic that is only compacted; and as `plan_change` does.
    """
    beside = Beside.of(path, Checkpoints.beside(path))
    return plan_change(COMMAND, path, question, lambda log: _delete_records(log, question.before, beside))


def _delete_records(log: LoadedLog, before: int, beside: Beside) -> Change:
    check_delete_records(log, beside)
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
    verdicts = (*deletion_verdicts(log, deleted, ages), *_first_kept(log))
    result = DeleteRecordsResult(moved, deleted_segments(deleted), start_before, state=settle(log))
    return Change(result, verdicts, tuple(log.terms.setting_notes(("cleanup.policy",))))


def _first_kept(log: LoadedLog) -> Iterator[SegmentVerdict]:
    """Yield the segment that contains the new log start, if some of its records are below it."""
    first = log.segments.first
    if log.log_start_offset > first.base_offset:
        yield SegmentVerdict(first.base_offset, "keep", VerdictCause.STARTS_INSIDE())
