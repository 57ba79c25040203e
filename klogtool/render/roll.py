"""The plan of roll, for people: whether the active segment is due, and each condition with its times and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from klogtool.broker.timestamps import duration_text, time_text
from klogtool.plans.plan import Plan
from klogtool.render.changes import change_text, log_dir_text
from klogtool.render.plans import table_text
from klogtool.verify.cures import rebuild_index


def roll_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    evidence = (*_zeros(plan), *_evidence(plan.answer))
    return log_dir_text(plan) or change_text(plan, _headline(plan.answer), evidence)


def _zeros(plan: Plan) -> Iterator[str]:
    """Warn of an index that is full only because it was never trimmed."""
    zeros = plan.answer.get("zero_index_entries")
    if zeros:
        yield f"warning: {zeros:,} entries of an index are zeros, so it only seems to be full; rebuild it first:"
        yield f"→  {rebuild_index(plan.path, 'index,timeindex')}"


def _headline(answer: Any) -> str:
    if answer["rolled_to"] is None:
        return f"segment {answer['active']['segment']} is not due"
    sentence = "segment {} is due" if answer["due"] else "segment {} is rolled because of --force"
    return f"{sentence.format(answer['active']['segment'])}; the next segment starts at offset {answer['rolled_to']:,}"


def _evidence(answer: Any) -> Iterator[str]:
    """Yield a line for each condition: whether it is met, and by how much; then the assumed next append."""
    if "why" not in answer:
        return
    rows = [
        ("due" if holds else "not due", what, told)
        for holds, what, told in (_size_row(answer), _time_row(answer), *_index_rows(answer), _offset_row(answer))
    ]
    yield from table_text(rows).splitlines()
    to_come = answer["incoming"]
    at = time_text(to_come["max_timestamp"])
    yield f"next append: {to_come['bytes']:,} bytes, largest timestamp {at}, last offset {to_come['last_offset']:,}"


def _size_row(answer: Any) -> tuple[bool, str, str]:
    size, limit = answer["active"]["size"], answer["limits"]["segment_bytes"]
    return answer["why"]["size"], "size", f"{size:,} bytes plus the next append; segment.bytes {limit:,}"


def _time_row(answer: Any) -> tuple[bool, str, str]:
    waited, first, limit = answer["why"]["waited_ms"], answer["first_timestamp"], answer["limits"]["max_segment_ms"]
    if not answer["active"]["size"]:
        text = "the segment is empty, so time does not matter"
    elif first >= 0:
        text = f"{_span(waited)} since its first batch, {time_text(first)}"
    else:
        text = f"{_span(waited)} since --loaded-at: its first batch has no timestamp"
    return answer["why"]["time"], "time", f"{text}; segment.ms {duration_text(limit)}"


def _span(ms: int) -> str:
    return duration_text(ms) if ms >= 0 else f"-{duration_text(-ms)}"


def _index_rows(answer: Any) -> Iterator[tuple[bool, str, str]]:
    for what, name in (("offset_index", "index"), ("time_index", "time index")):
        entries, most = answer["active"][what]
        kept = ", one of them reserved for the roll" if what == "time_index" else ""
        yield answer["why"][f"{what}_full"], name, f"{entries:,} entries; room for {most:,}{kept}"


def _offset_row(answer: Any) -> tuple[bool, str, str]:
    above = answer["incoming"]["last_offset"] - answer["active"]["segment"]
    return (
        answer["why"]["offset_overflow"],
        "offset",
        (f"{above:,} above the base offset after the next append; at most 2,147,483,647"),
    )
