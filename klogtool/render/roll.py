"""The plan of roll, for people: whether the active segment is due, and each condition with its times and sizes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from klogtool.broker.timestamps import duration_text, time_text
from klogtool.plans.plan import Plan
from klogtool.plans.roll import IndexRoom, RollResult
from klogtool.render.changes import change_text
from klogtool.render.plans import table_text
from klogtool.verify.cures import rebuild_index


def roll_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return change_text(plan, RollResult, _headline, lambda result: (*_zeros(plan.path, result), *_evidence(result)))


def _zeros(path: str, result: RollResult) -> Iterator[str]:
    """Warn of an index that is full only because it was never trimmed."""
    if result.zero_index_entries:
        zeros = f"{result.zero_index_entries:,} entries of an index are zeros"
        yield f"warning: {zeros}, so it only seems to be full; rebuild it first:"
        yield f"→  {rebuild_index(path, 'index,timeindex')}"


def _headline(result: RollResult) -> str:
    segment = result.active.segment
    if result.rolled_to is None:
        return f"segment {segment} is not due"
    sentence = f"segment {segment} {'is due' if result.due else 'is rolled because of --force'}"
    return f"{sentence}; the next segment starts at offset {result.rolled_to:,}"


def _evidence(result: RollResult) -> Iterator[str]:
    """Yield a line for each condition: whether it is met, and by how much; then the assumed next append."""
    why, to_come = result.why, result.incoming
    if why is UNSET or to_come is UNSET:
        return
    above = to_come.last_offset - result.active.segment
    rows = [
        (why.size, "size", _size_text(result)),
        (why.time, "time", _time_text(result, why.waited_ms)),
        (why.offset_index_full, "index", _room_text(result.active.offset_index)),
        (
            why.time_index_full,
            "time index",
            f"{_room_text(result.active.time_index)}, one of them reserved for the roll",
        ),
        (
            why.offset_overflow,
            "offset",
            f"{above:,} above the base offset after the next append; at most 2,147,483,647",
        ),
    ]
    yield from table_text(("due" if holds else "not due", what, text) for holds, what, text in rows).splitlines()
    at = time_text(to_come.max_timestamp)
    yield f"next append: {to_come.size_bytes:,} bytes, largest timestamp {at}, last offset {to_come.last_offset:,}"


def _size_text(result: RollResult) -> str:
    return f"{result.active.size:,} bytes plus the next append; segment.bytes {result.limits.segment_bytes:,}"


def _time_text(result: RollResult, waited_ms: int) -> str:
    first, waited = result.first_timestamp or 0, duration_text(abs(waited_ms))
    waited = waited if waited_ms >= 0 else f"-{waited}"
    if not result.active.size:
        text = "the segment is empty, so time does not matter"
    elif first >= 0:
        text = f"{waited} since its first batch, {time_text(first)}"
    else:
        text = f"{waited} since --loaded-at: its first batch has no timestamp"
    return f"{text}; segment.ms {duration_text(result.limits.max_segment_ms)}"


def _room_text(index: IndexRoom) -> str:
    return f"{index.entries:,} entries; room for {index.max_entries:,}"
