"""truncate: the result of cutting a partition at an offset, or of starting it anew at one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from klogtool.broker.circumstances import Long
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.truncation import truncate_fully_and_start_at, truncate_to
from klogtool.causes import Reason
from klogtool.errors import KlogError, Refused
from klogtool.parameters import parameter
from klogtool.plans.causes import PlanNote, PlanRefusal, VerdictCause
from klogtool.plans.checkpoint_lines import end_at_next_start
from klogtool.plans.plan import Plan, SizedVerdict
from klogtool.plans.plan_change import Change, plan_change, settle
from klogtool.plans.question import DeletingQuestion
from klogtool.plans.results import ChangeResult
from klogtool.verify.cures import rebuild_index
from klogtool.verify.swaps import offsets_in_log

COMMAND = "truncate"


class TruncateQuestion(DeletingQuestion, frozen=True, kw_only=True):
    """Cut at an offset, `to`; or start anew at one, `start_at`, with or without `log_start_offset_after`."""

    to: Annotated[Long | None, parameter("Truncate to this offset: records from N on are deleted.")] = None
    start_at: Annotated[Long | None, parameter("Delete all records. The log starts again, empty, at offset N.")] = None
    log_start_offset_after: Annotated[
        Long | None, parameter("With --start-at: the new log start offset.  [default: --start-at]")
    ] = None


QUESTION = TruncateQuestion


class LogSpan(Struct, frozen=True):
    """Where a log starts and ends."""

    log_start_offset: int
    log_end_offset: int


class TruncateResult(ChangeResult, frozen=True):
    """What is cut. truncated: whether anything is, and end_at_next_start: where the log ends after a start of a broker;
    neither if the log starts anew."""

    truncated: bool | UnsetType
    before: LogSpan
    end_at_next_start: int | UnsetType = UNSET


class CutVerdict(SizedVerdict, frozen=True):
    """size_after: bytes that stay."""

    size_after: int


def decide(path: str, question: TruncateQuestion) -> Iterator[Plan]:
    """Plan for one partition dir and its log dir.

    Raises Refused, Corrupt or Unsupported, with Kafka's class, if a broker refuses; KlogError for what is not a
    partition dir, and unless exactly one of the two offsets is given.
    """
    to, start_at = question.to, question.start_at
    if (to is None) == (start_at is None):
        raise KlogError(PlanRefusal.ONE_OFFSET(), path=path)
    if to is not None:
        return plan_change(COMMAND, path, question, lambda log: truncate_change(log, to))
    after = question.log_start_offset_after
    return plan_change(COMMAND, path, question, lambda log: _start(log, start_at or 0, after))


def truncate_change(log: LoadedLog, to: int) -> Change:
    """Cut a loaded log at an offset."""
    before, high_watermark = _Before(log), log.high_watermark
    truncated = truncate_to(log, to)
    if truncated:
        _check_cut(log, to)
    end = end_at_next_start(log)
    verdicts = tuple(before.verdicts(log))
    return Change(
        TruncateResult(truncated, before.span, end, state=settle(log)),
        verdicts,
        tuple(_notes(to, high_watermark, end)) if truncated else (),
        first_dirty_at_most=_first_dirty_at_most(log) if truncated else None,
    )


def _check_cut(log: LoadedLog, to: int) -> None:
    """Raises Refused if batches stay that were to go: the place of the cut is looked up in the offset index (Kafka's
    LogSegment.truncateTo), and this one is false. The log would end at the offset only until the next start. A damaged
    segment is not judged: there the damage may be the reason."""
    last = log.segments.last
    offsets = offsets_in_log(log.draft.files[last.log_name].content)
    if offsets.is_whole and offsets.all.ranges and (highest := offsets.all.ranges[-1][1]) >= to:
        raise Refused(
            PlanRefusal.FALSE_INDEX(segment=last.base_offset, highest=highest),
            path=log.draft.path,
            cure=rebuild_index(log.draft.path, "index", last.base_offset),
        )


def _notes(to: int, high_watermark: int, end_at_start: int) -> Iterator[Reason]:
    if to < high_watermark:
        yield PlanNote.BELOW_HIGH_WATERMARK(high_watermark=high_watermark)
    if end_at_start < to:
        yield PlanNote.NO_BATCH_ENDS(to=to, end=end_at_start)


def _start(log: LoadedLog, start_at: int, log_start_offset_after: int | None) -> Change:
    before = _Before(log)
    truncate_fully_and_start_at(log, start_at, log_start_offset_after)
    verdicts, result = tuple(before.verdicts(log)), TruncateResult(UNSET, before.span, state=settle(log))
    return Change(result, verdicts, first_dirty_at_most=_first_dirty_at_most(log))


def _first_dirty_at_most(log: LoadedLog) -> int:
    """Return the active segment's base offset: cleaning begins there at the latest (LogManager.truncateTo). A broker
    asks first whether the topic is compacted; here a line in the cleaner's checkpoint shows that."""
    return log.segments.last.base_offset


class _Before:
    """A log before it is cut."""

    def __init__(self, log: LoadedLog) -> None:
        self.sizes = {segment.base_offset: segment.size for segment in log.segments.all}
        self.span = LogSpan(log.log_start_offset, log.log_end_offset)

    def verdicts(self, log: LoadedLog) -> Iterator[CutVerdict]:
        """Yield what becomes of each segment."""
        after = {segment.base_offset: segment.size for segment in log.segments.all}
        for base in sorted({*self.sizes, *after}):
            before, now = self.sizes.get(base), after.get(base)
            sizes = before or 0, now or 0
            if before is None:
                yield CutVerdict(base, "create", VerdictCause.STARTS_AGAIN(), *sizes)
            elif now is None:
                yield CutVerdict(base, "delete", VerdictCause.ALL_DELETED(), *sizes)
            elif now < before:
                yield CutVerdict(base, "truncate", VerdictCause.CUT_OFF(cut=before - now, before=before), *sizes)
            else:
                yield CutVerdict(base, "keep", VerdictCause.NONE_DELETED(), *sizes)
