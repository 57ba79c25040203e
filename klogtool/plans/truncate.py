"""truncate: the result of cutting a partition at an offset, or of starting it anew at one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from klogtool.broker.circumstances import Long
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.truncation import truncate_fully_and_start_at, truncate_to
from klogtool.errors import KlogError
from klogtool.parameters import parameter
from klogtool.plans.checkpoint_lines import end_at_next_start
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.plan_change import Change, plan_change
from klogtool.plans.question import DeletingQuestion

COMMAND = "truncate"


class TruncateQuestion(DeletingQuestion, frozen=True):
    """Cut at an offset, `to`; or start anew at one, `start_at`, with or without `log_start_offset_after`."""

    to: Annotated[Long | None, parameter("Truncate to this offset: records from N on are deleted.")] = None
    start_at: Annotated[Long | None, parameter("Delete all records. The log starts again, empty, at offset N.")] = None
    log_start_offset_after: Annotated[
        Long | None, parameter("With --start-at: the new log start offset.  [default: --start-at]")
    ] = None


QUESTION = TruncateQuestion


def decide(path: str, question: TruncateQuestion) -> Iterator[Plan]:
    """Plan for one partition dir and its log dir.

    Raises Refused, Corrupt or Unsupported, with Kafka's class, if a broker refuses; KlogError for what is not a
    partition dir, and unless exactly one of the two offsets is given.
    """
    to, start_at = question.to, question.start_at
    if (to is None) == (start_at is None):
        raise KlogError("give either an offset to truncate to, or an offset to start at", path=path)
    if to is not None:
        return plan_change(COMMAND, path, question, lambda log: truncate_change(log, to))
    after = question.log_start_offset_after
    return plan_change(COMMAND, path, question, lambda log: _start(log, start_at or 0, after))


def truncate_change(log: LoadedLog, to: int) -> Change:
    """Cut a loaded log at an offset."""
    before, high_watermark = _Before(log), log.high_watermark
    truncated = truncate_to(log, to)
    found = end_at_next_start(log)
    return Change(
        {"truncated": truncated, **before.answer, "end_at_next_start": found},
        tuple(before.verdicts(log)),
        tuple(_notes(to, high_watermark, found)) if truncated else (),
        first_dirty_at_most=_first_dirty_at_most(log) if truncated else None,
    )


def _notes(to: int, high_watermark: int, end_at_start: int) -> Iterator[str]:
    if to < high_watermark:
        yield f"below the high watermark {high_watermark}: records that consumers may have read are deleted"
    if end_at_start < to:
        yield f"no batch ends at offset {to}: after the next startup the log ends at {end_at_start}"


def _start(log: LoadedLog, start_at: int, log_start_offset_after: int | None) -> Change:
    before = _Before(log)
    truncate_fully_and_start_at(log, start_at, log_start_offset_after)
    return Change(before.answer, tuple(before.verdicts(log)), first_dirty_at_most=_first_dirty_at_most(log))


def _first_dirty_at_most(log: LoadedLog) -> int:
    """Return the active segment's base offset: cleaning begins there at the latest (LogManager.truncateTo). A broker
    asks first whether the topic is compacted; here a line in the cleaner's checkpoint shows that."""
    return log.segments.last.base_offset


class _Before:
    """A log before it is cut."""

    def __init__(self, log: LoadedLog) -> None:
        self.sizes = {segment.base_offset: segment.size for segment in log.segments.all}
        self.answer = {
            "before": {"log_start_offset": log.log_start_offset, "log_end_offset": log.log_end_offset},
        }

    def verdicts(self, log: LoadedLog) -> Iterator[SegmentVerdict]:
        """Yield what becomes of each segment."""
        after = {segment.base_offset: segment.size for segment in log.segments.all}
        for base in sorted({*self.sizes, *after}):
            before, now = self.sizes.get(base), after.get(base)
            more = {"size": before or 0, "size_after": now or 0}
            if before is None:
                yield SegmentVerdict(base, "create", "empty: the log starts again with it", more)
            elif now is None:
                yield SegmentVerdict(base, "delete", "all its records are deleted", more)
            elif now < before:
                yield SegmentVerdict(base, "truncate", f"{before - now:,} of {before:,} bytes are cut off", more)
            else:
                yield SegmentVerdict(base, "keep", "no record is deleted", more)
