"""What salvage keeps, loses and fills, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.format.names import FileKind, build_file_name
from klogtool.render.plans import table_text
from klogtool.repair.plan import Plan

NOTHING_WRITTEN = "Nothing was written: --output DIR writes the result, and what is rejected beside it."
_CAUSES = {
    "zero-tail": "zeros up to the end of the file",
    "segment-missing": "only other files tell of it",
    "unloadable": "a broker would stop at it",
}


def salvage_text(plan: Plan) -> str:
    """A plan of salvage for people: the answer first, then segment by segment, what is lost, and notes."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    answer = plan.answer
    yield f"Salvage of {plan.path}   (plan {plan.id})"
    yield f"  {_summary(answer)}"
    rows: list[tuple[str, ...]] = [
        (f"{segment.segment:020d}", f"{segment.more.get('size', 0):,} bytes", segment.action, segment.reason)
        for segment in plan.segments
    ]
    yield from _table("Segments", rows)
    yield from _table("Lost", [_loss_row(loss, answer) for loss in answer["lost"]])
    yield from _table(
        "Filled", [(offsets_text(part["first_offset"], part["last_offset"]), part["from"]) for part in answer["filled"]]
    )
    yield from _table("Set right", [_mended_row(part) for part in answer["mended"]])
    yield from _table("Notes", [(note,) for note in plan.notes])


def _summary(answer: Mapping[str, Any]) -> str:
    kept = f"{answer['kept_records']:,} records in {answer['kept_batches']:,} batches are kept"
    filled = f", {answer['filled_records']:,} come from copies" if answer["filled_records"] else ""
    lost = "nothing is lost" if not lost_anything(answer) else _lost_in_all(answer)
    return f"{kept}{filled}; {lost}. The log ends at offset {answer['log_end_offset']:,}."


def lost_anything(answer: Mapping[str, Any]) -> bool:
    """Whether records are lost, or may be: bytes are rejected that may have held some."""
    return any(loss["first_offset"] is not None for loss in answer["lost"])


def _lost_in_all(answer: Mapping[str, Any]) -> str:
    spans = [(loss["first_offset"], loss["last_offset"]) for loss in answer["lost"] if loss["first_offset"] is not None]
    offsets = sum(last - first + 1 for first, last in spans if last is not None)
    is_open = any(last is None for _, last in spans)
    counted = f"{offsets:,} offset{'s' * (offsets != 1)} lost"
    if not offsets:
        return "what the log ended with is lost"
    return f"{counted}, and what the log ended with" if is_open else counted


def offsets_text(first: int | None, last: int | None) -> str:
    """A span of offsets."""
    if first is None:
        return "no offsets"
    if last is None:
        return f"offsets from {first:,} on"
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"


def _loss_row(loss: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[str, ...]:
    name = build_file_name(FileKind.LOG, loss["segment"])
    details = {(part["file"], part["start"]): part["detail"] for part in answer["rejected"]}
    detail = _CAUSES.get(loss["cause"]) or details.get((name, loss["start"]), "")
    place = f"bytes {loss['start']:,} to {loss['end']:,}" if loss["end"] else "-"
    return offsets_text(loss["first_offset"], loss["last_offset"]), name, place, f"{loss['cause']}: {detail}"


def _mended_row(part: Mapping[str, Any]) -> tuple[str, ...]:
    name = build_file_name(FileKind.LOG, part["segment"])
    return f"{part['field']} {part['was']} -> {part['is']}", name, f"batch at byte {part['position']:,}"


def _table(title: str, rows: list[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        yield title
        yield from (f"  {line}" for line in table_text(rows).splitlines())
