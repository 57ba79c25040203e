"""The plan of retain, for people: how much is deleted, then each segment with its reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from klogtool.broker.timestamps import LARGEST_MS, in_milliseconds, time_text
from klogtool.broker.unified_log.kept_segments import Kept
from klogtool.escape import as_paragraph
from klogtool.plans.delete_records import DeleteRecordsResult
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.plans.retain import AgedVerdict, RetainResult
from klogtool.render.changes import change_text, notes_lines
from klogtool.render.index_doubts import doubt_lines
from klogtool.render.plans import change_count, ends_of, wrapped_table
from klogtool.render.words import count_text, words

_HEADS = ("segment", "size", "newest record", "verdict", "")
_YEAR_MS = 31_556_952_000
_RULES = {"log_start": "below the log start offset", "size": "by retention.bytes", "time": "by retention.ms"}


def unchanged_text(plan: Plan) -> str | None:
    """Return the text by which partitions without a deletion are counted together; None for other partitions."""
    result = plan.result
    is_quiet = isinstance(result, RetainResult) and not (result.deletions or result.index_doubts)
    return "nothing to delete" if is_quiet else None


def delete_records_text(plan: Plan) -> str:
    """Show the plan of delete-records for a partition, or for its log dir."""
    return change_text(plan, DeleteRecordsResult, _moved)


def _moved(result: DeleteRecordsResult) -> str:
    before, after = result.log_start_offset_before, result.state.log_start_offset
    if not result.moved:
        return f"the log starts at offset {after:,} already"
    gone = count_text(len(result.deletions), "segment")
    return f"the log starts at offset {after:,}, not at {before:,}; {gone} deleted"


@as_paragraph
def retain_text(plan: Plan, *, is_whole: bool = True) -> Iterator[str]:
    """Show the plan of a partition, or of its log dir. is_whole: with the single segments; one of many has none, and
    one line if nothing is deleted."""
    result = plan.result
    if not isinstance(result, RetainResult):
        yield from notes_lines(plan)
        return
    headline, doubts = _headline(plan, result), result.index_doubts or ()
    yield headline if is_whole or result.deletions else f"{headline}: {_why_kept(result.kept[0])}"
    yield from doubt_lines(plan.path, doubts)
    if is_whole:
        false = {doubt.segment for doubt in doubts}
        kept = {segment.segment: segment for segment in result.kept}
        shown, between = ends_of(plan.segments)
        yield from wrapped_table([_HEADS, *(_row(verdict, kept, false) for verdict in shown)])
        yield from between
        yield from (f"  {words(note)}" for note in plan.notes)
        if plan.steps:
            yield change_count(plan)
    elif result.deletions:
        by = Counter(deletion.reason for deletion in result.deletions)
        yield f"  {', '.join(f'{count:,} {_RULES[rule]}' for rule, count in by.items())}"
        yield from (f"  {words(note)}" for note in result.settings)


def _headline(plan: Plan, result: RetainResult) -> str:
    name = os.path.basename(plan.path)
    gone, there = len(result.deletions), sum(verdict.action != "create" for verdict in plan.segments)
    if not gone:
        return f"{name}: nothing to delete, {count_text(there, 'segment')}"
    size = sum(verdict.size for verdict in plan.segments if verdict.action == "delete")
    start, before = result.state.log_start_offset, result.log_start_offset_before
    text = f"{name}: {gone:,} of {count_text(there, 'segment')} {'goes' if gone == 1 else 'go'}, {size_text(size)}"
    moved = "" if start == before else f", not at {before:,}"
    return f"{text}; then the log starts at offset {start:,}{moved}"


def _row(verdict: SegmentVerdict, kept: Mapping[int, Kept], false: Collection[int]) -> tuple[str, str, str, str, str]:
    """false: base offsets of segments with a false time index."""
    why = _why_kept(kept[verdict.segment]) if verdict.action == "keep" else words(verdict.why)
    newest, is_file_time = (verdict.newest_ms, verdict.file_time) if isinstance(verdict, AgedVerdict) else (None, False)
    time = "" if newest is None else str(newest) if newest > LARGEST_MS else _seconds(newest)
    mark = " (file)" if time and is_file_time else " (FALSE)" if verdict.segment in false else ""
    return f"…{verdict.segment}", size_text(verdict.size), time + mark, verdict.action, why


def _why_kept(kept: Kept) -> str:
    """Return why a segment stays, with the record that holds it and the time when it is due."""
    holder, text = kept.held_by, words(kept.detail)
    if kept.reason == "behind" or holder is None:
        return text
    due = "never due" if kept.due_ms is None else _due(kept.due_ms)
    if holder.offset is None or kept.reason == "young":
        return f"{text}; {due}"
    producer = holder.producer_id
    by = f" (producer {producer})" if producer is not None and producer >= 0 else ""
    if kept.reason == "future":
        text = f"is {kept.detail.values['duration']} in the future"
    else:
        text = f"is in {kept.reason}, as its size shows, {_seconds(in_milliseconds(holder.timestamp))}"
    return f"held by offset {holder.offset:,}{by}: its timestamp {text}; {due}"


def _due(due_ms: int) -> str:
    return f"due {_seconds(due_ms)}" if due_ms <= LARGEST_MS else f"due in some {due_ms // _YEAR_MS:,} years"


def _seconds(ms: int) -> str:
    """Show a time without its milliseconds; JSON has them."""
    return time_text(ms // 1000 * 1000)


def size_text(size: int) -> str:
    """Show bytes; from 1 KiB on in the largest fitting unit up to TiB."""
    if size < 1024:
        return f"{size} B"
    number, units = float(size), iter(("KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    number /= 1024
    while number >= 1024 and unit != "TiB":
        number, unit = number / 1024, next(units)
    return f"{number:.1f}".removesuffix(".0") + f" {unit}"
