"""roll: whether the active segment of a partition is due to be closed, and why; and what closing it makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.repair.change import Change, plan_change
from klogtool.repair.plan import Plan, SegmentVerdict
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.rolling import Incoming, RollVerdict, roll, should_roll
from klogtool.repair.unified_log.segment import LogSegment

COMMAND = "roll"
SETTINGS = ("segment.bytes", "segment.ms", "max.compaction.lag.ms")


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """The plans for one partition dir and its log dir. arguments: those of Circumstances; `incoming_bytes`,
    `incoming_timestamp`, `incoming_offset`: what is about to be appended (nothing, now, at the log end); `force`: roll,
    and do not ask; `purge`; `jobs`. Raises as `plan_change` does.
    """
    change = _force if arguments.get("force") else lambda log: _roll_if_due(log, arguments)
    return plan_change(COMMAND, path, arguments, change)


def _force(log: LoadedLog) -> Change:
    active = log.segments.last
    told = _facts_of(log, active)
    return Change({"due": False, "rolled_to": roll(log).base_offset, **told}, _verdicts(log, active, "as asked for"))


def _roll_if_due(log: LoadedLog, arguments: Mapping[str, Any]) -> Change:
    incoming = _incoming(log, arguments)
    active = log.segments.last
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
    notes = tuple(log.terms.setting_notes(SETTINGS))
    return Change(answer, _verdicts(log, active, ", ".join(reasons_of(verdict)) or "not due"), notes)


def reasons_of(verdict: RollVerdict) -> Iterator[str]:
    """The conditions that hold, in words."""
    if verdict.size:
        yield "by size"
    if verdict.time:
        yield "by time"
    if verdict.offset_index_full:
        yield "its index is full"
    if verdict.time_index_full:
        yield "its time index is full"
    if verdict.offset_overflow:
        yield "the offset to come is out of its range"


def _incoming(log: LoadedLog, arguments: Mapping[str, Any]) -> Incoming:
    size_bytes, timestamp, offset = (arguments.get(f"incoming_{name}") for name in ("bytes", "timestamp", "offset"))
    return Incoming(
        size_bytes or 0,
        log.terms.now_ms if timestamp is None else timestamp,
        log.log_end_offset if offset is None else offset,
    )


def _facts_of(log: LoadedLog, active: LogSegment) -> dict[str, Any]:
    """What the decision was made from; looking opens no index that stopping would not."""
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
    """What becomes of the active segment, and of the new one."""
    new = log.segments.last
    if new is active:
        return (SegmentVerdict(active.base_offset, "keep", why),)
    if new.base_offset == active.base_offset:
        return (SegmentVerdict(new.base_offset, "replace", f"{why}; it is empty: a new one takes its place"),)
    return (
        SegmentVerdict(active.base_offset, "close", why),
        SegmentVerdict(new.base_offset, "create", "the new active segment, empty"),
    )
