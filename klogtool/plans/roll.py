"""roll: whether the active segment of a partition is due to be closed, and why; and the result of closing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from klogtool.broker.circumstances import Long
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.rolling import Incoming, RollVerdict, roll, should_roll
from klogtool.parameters import Unit, parameter
from klogtool.plans.index_doubts import zeros_that_fill
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.plan_change import Change, plan_change
from klogtool.plans.question import DeletingQuestion

COMMAND = "roll"
SETTINGS = ("segment.bytes", "segment.ms", "max.compaction.lag.ms")


class RollQuestion(DeletingQuestion, frozen=True):
    """Is the active segment due?"""

    incoming_bytes: Annotated[Long | None, parameter("Size of the next append.  [default: 0]")] = None
    incoming_timestamp: Annotated[
        Long | None,
        parameter(
            "Largest timestamp of the next append. A broker compares the age of the segment with it.  [default: --now]",
            Unit.TIME,
        ),
    ] = None
    incoming_offset: Annotated[
        Long | None, parameter("Last offset of the next append.  [default: the log end offset]")
    ] = None
    force: Annotated[bool, parameter("Roll the segment even if it is not due.")] = False


QUESTION = RollQuestion


def decide(path: str, question: RollQuestion) -> Iterator[Plan]:
    """Plan for one partition dir and its log dir. Raises as `plan_change` does."""
    change = _force if question.force else lambda log: _roll_if_due(log, question)
    return plan_change(COMMAND, path, question, change)


def _force(log: LoadedLog) -> Change:
    active = log.segments.last
    told = _facts_of(log, active)
    return Change(
        {"due": False, "rolled_to": roll(log).base_offset, **told}, _verdicts(log, active, "because of --force")
    )


def _roll_if_due(log: LoadedLog, question: RollQuestion) -> Change:
    incoming = _incoming(log, question)
    active = log.segments.last
    zeros = zeros_that_fill(log)
    verdict = should_roll(log, incoming)
    told = _facts_of(log, active) | {
        "first_timestamp": active.read_first_timestamp(),
        "incoming": {
            "bytes": incoming.size_bytes,
            "max_timestamp": incoming.max_timestamp,
            "last_offset": incoming.last_offset,
        },
    }
    rolled_to = roll(log).base_offset if verdict.due else None
    why = {
        "size": verdict.size,
        "time": verdict.time,
        "waited_ms": verdict.waited_ms,
        "offset_index_full": verdict.offset_index_full,
        "time_index_full": verdict.time_index_full,
        "offset_overflow": verdict.offset_overflow,
    }
    answer = {"due": verdict.due, "why": why, "rolled_to": rolled_to, **told}
    if zeros:
        answer["zero_index_entries"] = zeros
    notes = tuple(log.terms.setting_notes(SETTINGS))
    return Change(answer, _verdicts(log, active, ", ".join(reasons_of(verdict)) or "not due"), notes)


def reasons_of(verdict: RollVerdict) -> Iterator[str]:
    """Yield the conditions that hold, in words."""
    if verdict.size:
        yield "by size"
    if verdict.time:
        yield "by time"
    if verdict.offset_index_full:
        yield "its index is full"
    if verdict.time_index_full:
        yield "its time index is full"
    if verdict.offset_overflow:
        yield "the next offset is out of its range"


def _incoming(log: LoadedLog, question: RollQuestion) -> Incoming:
    timestamp, offset = question.incoming_timestamp, question.incoming_offset
    return Incoming(
        question.incoming_bytes or 0,
        log.terms.now_ms if timestamp is None else timestamp,
        log.log_end_offset if offset is None else offset,
    )


def _facts_of(log: LoadedLog, active: LogSegment) -> dict[str, Any]:
    """Return the facts of the decision. Reading them opens no index that a clean stop would not open."""
    config = log.terms.config
    return {
        "active": {
            "segment": active.base_offset,
            "size": active.size,
            "offset_index": [active.offset_index.entries, active.offset_index.max_entries],
            "time_index": [active.time_index.entries, active.time_index.max_entries],
        },
        "limits": {"segment_bytes": config.segment_bytes, "max_segment_ms": config.max_segment_ms},
    }


def _verdicts(log: LoadedLog, active: LogSegment, why: str) -> tuple[SegmentVerdict, ...]:
    """Return what becomes of the active segment, and of the new one."""
    new = log.segments.last
    if new is active:
        return (SegmentVerdict(active.base_offset, "keep", why),)
    if new.base_offset == active.base_offset:
        return (SegmentVerdict(new.base_offset, "replace", f"{why}; it is empty: a new segment replaces it"),)
    return (
        SegmentVerdict(active.base_offset, "close", why),
        SegmentVerdict(new.base_offset, "create", "the new active segment, empty"),
    )
