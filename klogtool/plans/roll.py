"""roll: whether the active segment of a partition is due to be closed, and why; and the result of closing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from klogtool.broker.circumstances import Long
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.rolling import Incoming, RollVerdict, roll, should_roll
from klogtool.causes import Reason, Text
from klogtool.format.typed import Moment
from klogtool.parameters import NOT_GIVEN, Given, Unit, parameter
from klogtool.plans.causes import RollCause, VerdictCause
from klogtool.plans.index_doubts import zeros_that_fill
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.plan_change import Change, plan_change, settle
from klogtool.plans.question import DeletingQuestion
from klogtool.plans.results import ChangeResult

COMMAND = "roll"
SETTINGS = ("segment.bytes", "segment.ms", "max.compaction.lag.ms")


class RollQuestion(DeletingQuestion, frozen=True, kw_only=True):
    """Is the active segment due?"""

    incoming_bytes: Annotated[Long | None, parameter("Size of the next append.  [default: 0]")] = None
    incoming_timestamp: Annotated[
        Given[Long | None, Moment | None],
        parameter(
            "Largest timestamp of the next append. A broker compares the age of the segment with it.  [default: --now]",
            Unit.TIME,
        ),
    ] = NOT_GIVEN
    incoming_offset: Annotated[
        Long | None, parameter("Last offset of the next append.  [default: the log end offset]")
    ] = None
    force: Annotated[bool, parameter("Roll the segment even if it is not due.")] = False


QUESTION = RollQuestion


class IndexRoom(Struct, frozen=True, array_like=True):
    """How many entries an index has, and can have."""

    entries: int
    max_entries: int


class ActiveSegment(Struct, frozen=True):
    """The active segment before the roll."""

    segment: int
    size: int
    offset_index: IndexRoom
    time_index: IndexRoom


class RollLimits(Struct, frozen=True):
    """The settings that decide: segment.bytes, and the smaller of segment.ms and max.compaction.lag.ms."""

    segment_bytes: int
    max_segment_ms: int


class RollResult(ChangeResult, frozen=True):
    """Whether the segment is due, and why; with --force without `why`. zero_index_entries: how many zeros fill an
    index, if they do."""

    due: bool
    why: RollVerdict | UnsetType
    rolled_to: int | None
    active: ActiveSegment
    limits: RollLimits
    first_timestamp: int | UnsetType = UNSET
    incoming: Incoming | UnsetType = UNSET
    zero_index_entries: int | UnsetType = UNSET


def decide(path: str, question: RollQuestion) -> Iterator[Plan]:
    """Plan for one partition dir and its log dir. Raises as `plan_change` does."""
    change = _force if question.force else lambda log: _roll_if_due(log, question)
    return plan_change(COMMAND, path, question, change)


def _force(log: LoadedLog) -> Change:
    active = log.segments.last
    size, limits = _active(active), _limits(log)
    rolled_to, verdicts = roll(log).base_offset, _verdicts(log, active, ("because of --force",))
    return Change(RollResult(False, UNSET, rolled_to, size, limits, state=settle(log)), verdicts)


def _roll_if_due(log: LoadedLog, question: RollQuestion) -> Change:
    incoming = _incoming(log, question)
    active = log.segments.last
    zeros = zeros_that_fill(log)
    verdict = should_roll(log, incoming)
    size, limits, first_timestamp = _active(active), _limits(log), active.read_first_timestamp()
    rolled_to = roll(log).base_offset if verdict.due else None
    verdicts = _verdicts(log, active, tuple(reasons_of(verdict)) or ("not due",))
    result = RollResult(
        verdict.due, verdict, rolled_to, size, limits, first_timestamp, incoming, zeros or UNSET, state=settle(log)
    )
    return Change(result, verdicts, tuple(log.terms.setting_notes(SETTINGS)))


def reasons_of(verdict: RollVerdict) -> Iterator[Reason]:
    """Yield the conditions that hold."""
    if verdict.size:
        yield RollCause.SIZE()
    if verdict.time:
        yield RollCause.TIME()
    if verdict.offset_index_full:
        yield RollCause.INDEX_FULL()
    if verdict.time_index_full:
        yield RollCause.TIME_INDEX_FULL()
    if verdict.offset_overflow:
        yield RollCause.OUT_OF_RANGE()


def _incoming(log: LoadedLog, question: RollQuestion) -> Incoming:
    timestamp, offset = question.incoming_timestamp, question.incoming_offset
    return Incoming(
        question.incoming_bytes or 0,
        log.terms.now_ms if timestamp is None else timestamp,
        log.log_end_offset if offset is None else offset,
    )


def _active(active: LogSegment) -> ActiveSegment:
    """Return its size. Reading it opens no index that a clean stop would not open."""
    indexes = active.offset_index, active.time_index
    return ActiveSegment(
        active.base_offset, active.size, *(IndexRoom(index.entries, index.max_entries) for index in indexes)
    )


def _limits(log: LoadedLog) -> RollLimits:
    return RollLimits(log.terms.config.segment_bytes, log.terms.config.max_segment_ms)


def _verdicts(log: LoadedLog, active: LogSegment, why: tuple[Text, ...]) -> tuple[SegmentVerdict, ...]:
    """Return what becomes of the active segment, and of the new one."""
    new = log.segments.last
    if new is active:
        return (SegmentVerdict(active.base_offset, "keep", VerdictCause.ROLLED(reasons=why)),)
    if new.base_offset == active.base_offset:
        return (SegmentVerdict(new.base_offset, "replace", VerdictCause.ROLLED_EMPTY(reasons=why)),)
    return (
        SegmentVerdict(active.base_offset, "close", VerdictCause.ROLLED(reasons=why)),
        SegmentVerdict(new.base_offset, "create", VerdictCause.NEW_ACTIVE()),
    )
