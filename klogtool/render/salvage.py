"""What salvage keeps, loses and fills, as text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from klogtool.causes import Text
from klogtool.doctor.causes import few_names
from klogtool.escape import as_paragraph, quoted
from klogtool.format.names import (
    MAX_DIR_NAME_LENGTH,
    FileKind,
    PartitionDirState,
    build_file_name,
    build_partition_dir_name,
)
from klogtool.log.folder import find_partition_dir_name
from klogtool.plans.plan import Plan
from klogtool.plans.rejected_files import MANIFEST
from klogtool.plans.salvage_answer import CorrectedField, SalvageResult
from klogtool.render.plans import wrapped_table
from klogtool.render.words import count_text, offsets_text, words
from klogtool.salvage.losses import Loss
from klogtool.verify.cures import move_out
from klogtool.verify.findings import Kind

NOTHING_WRITTEN = "Nothing was written. --output DIR writes the result, and the rejected bytes beside it."
_CAUSES = {
    Kind.ZERO_TAIL: "zeros up to the end of the file",
    "segment-missing": "no segment has them",
    "unloadable": "a broker would stop at it",
}


@as_paragraph
def salvage_text(plan: Plan) -> Iterator[str]:
    """Show a plan of salvage: the answer first, then the segments, what is lost, filled and corrected, and notes."""
    result = plan.result
    if not isinstance(result, SalvageResult):
        return
    yield f"Salvage of {plan.path}   (plan {plan.id})"
    yield f"  {_summary(result, is_deep=plan.arguments['deep'])}"
    rows: list[tuple[str, ...]] = [
        (f"{s.segment:020d}", count_text(s.size, "byte"), s.action, words(s.why)) for s in plan.segments
    ]
    yield from _table("Segments", rows)
    details = {(part.file, part.start): part.detail for part in result.rejected}
    yield from _table("Lost", [_loss_row(loss, details) for loss in result.lost])
    filled = [(offsets_text(part.first_offset, part.last_offset), part.source) for part in result.filled]
    yield from _table("Filled", filled)
    yield from _table("Corrected", [_mended_row(part) for part in result.mended])
    yield from _table("Notes", [(words(note),) for note in plan.notes])


def rejected_text(place: str, files: int) -> str:
    """Show where the rejected bytes are."""
    return f"The rejected bytes are in {place}: {count_text(files, 'file')}; {MANIFEST} says where each comes from"


def place_lines(partition: str, output: str) -> Iterator[str]:
    """Yield commands that put the result into the place of the partition dir.

    A broker serves no folder with the suffix -delete or -stray, so the result gets the plain name, and the id of the
    topic as it is by then.
    """
    partition, output = os.path.abspath(partition), os.path.abspath(output)
    name = find_partition_dir_name(os.path.basename(partition))
    if name is not None and name.state in (PartitionDirState.DELETE, PartitionDirState.STRAY):
        log_dir = os.path.dirname(partition)
        is_cut = len(build_partition_dir_name(name)) >= MAX_DIR_NAME_LENGTH
        topic = "TOPIC" if is_cut else quoted(name.topic)
        words = f"--topic {topic} --partition {name.partition} --log-dir {quoted(log_dir)}"
        yield f"A broker does not serve a folder that ends in {name.state.value}. To bring its records back, create the"
        yield "topic again if it does not exist, stop the broker, and continue with:"
        yield f"  klogtool transplant {quoted(output)} {words} --output DIR"
        return
    yield "To replace the damaged partition dir, while no broker runs here:"
    yield f"  {move_out(partition, os.path.dirname(partition))}"
    yield f"  mv -nT {quoted(output)} {quoted(partition)}"
    yield f"  klogtool verify {quoted(os.path.dirname(partition))}  # before the broker starts"


def _summary(result: SalvageResult, *, is_deep: bool) -> str:
    how = "" if is_deep else ", by their headers (--deep opens them)"
    kept = f"{result.kept_records:,} records in {result.kept_batches:,} batches are kept{how}"
    filled = f", {result.filled_records:,} come from copies" if result.filled_records else ""
    is_lost = any(loss.first_offset is not None for loss in result.lost)
    lost = _lost_in_all(result) if is_lost else "nothing is lost"
    if is_lost and result.renamed:
        lost += f", unless {few_names(result.renamed)} has them"
    return f"{kept}{filled}; {lost}. The log ends at offset {result.log_end_offset:,}."


def lost_anything(plan: Plan) -> bool:
    """Whether records are lost, or may be lost because rejected bytes may have contained some."""
    return isinstance(plan.result, SalvageResult) and any(loss.first_offset is not None for loss in plan.result.lost)


def _lost_in_all(result: SalvageResult) -> str:
    spans = [(loss.first_offset, loss.last_offset) for loss in result.lost if loss.first_offset is not None]
    offsets = sum(last - first + 1 for first, last in spans if last is not None)
    is_open = any(last is None for _, last in spans)
    counted = f"{offsets:,} offset{'s' * (offsets != 1)} lost"
    if not offsets:
        return "the end of the log is lost"
    return f"{counted}, and the end of the log" if is_open else counted


def _lost_text(first: int | None, last: int | None) -> str:
    """Show a range of offsets. first None: there are none; last None: the range has no known end."""
    if first is None:
        return "no offsets"
    if last is None:
        return f"offsets from {first:,} on"
    return offsets_text(first, last)


def _loss_row(loss: Loss, details: Mapping[tuple[str, int], Text]) -> tuple[str, ...]:
    name = build_file_name(FileKind.LOG, loss.segment)
    detail = _CAUSES.get(loss.cause) or details.get((name, loss.start), "")
    place = f"bytes {loss.start:,} to {loss.end:,}" if loss.end else "-"
    return _lost_text(loss.first_offset, loss.last_offset), name, place, f"{loss.cause}: {detail}"


def _mended_row(part: CorrectedField) -> tuple[str, ...]:
    name = build_file_name(FileKind.LOG, part.segment)
    return f"{part.field} {part.was} -> {part.now}", name, f"batch at byte {part.position:,}"


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        yield title
        yield from wrapped_table(rows)
