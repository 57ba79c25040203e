"""The plan of retain, for people: how much is deleted, then each segment with its reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from klogtool.broker.timestamps import LARGEST_MS, in_milliseconds, time_text
from klogtool.escape import joined
from klogtool.plans.index_doubts import doubts_of
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.render.changes import change_text, log_dir_text
from klogtool.render.counts import count_text
from klogtool.render.index_doubts import doubt_lines
from klogtool.render.plans import change_count, ends_of, wrapped_table

_HEADS = ("segment", "size", "newest record", "verdict", "")
_YEAR_MS = 31_556_952_000
_RULES = {"log_start": "below the log start offset", "size": "by retention.bytes", "time": "by retention.ms"}


def retain_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    if "skipped" in plan.answer:
        return joined([f"{os.path.basename(plan.path)}: {plan.answer['skipped']}"])
    return log_dir_text(plan) or joined(_lines(plan))


def retain_brief(plan: Plan) -> str:
    """Show the plan as one of many: without the single segments, and in one line if nothing is deleted."""
    answer = plan.answer
    if "deletions" not in answer:
        return retain_text(plan)
    warnings = list(doubt_lines(plan.path, doubts_of(answer)))
    if not answer["deletions"]:
        return joined([f"{_headline(plan)}: {_why_kept(answer['kept'][0])}", *warnings])
    by = Counter(deletion["reason"] for deletion in answer["deletions"])
    rules = ", ".join(f"{count:,} {_RULES[rule]}" for rule, count in by.items())
    return joined([_headline(plan), *warnings, f"  {rules}", *(f"  {note}" for note in answer["settings"])])


def unchanged_text(plan: Plan) -> str | None:
    """Return the text by which partitions without a deletion are counted together; None for other partitions."""
    if "skipped" in plan.answer:
        return str(plan.answer["skipped"])
    is_doubtful = bool(doubts_of(plan.answer))
    return "nothing to delete" if plan.answer.get("deletions") == [] and not is_doubtful else None


def delete_records_text(plan: Plan) -> str:
    """Show the plan of delete-records for a partition, or for its log dir."""
    return log_dir_text(plan) or change_text(plan, _moved(plan))


def _moved(plan: Plan) -> str:
    answer = plan.answer
    before, after = answer["log_start_offset_before"], answer["state"]["log_start_offset"]
    if not answer["moved"]:
        return f"the log starts at offset {after:,} already"
    gone = len(answer["deletions"])
    return f"the log starts at offset {after:,}, not at {before:,}; {count_text(gone, 'segment')} deleted"


def _lines(plan: Plan) -> Iterator[str]:
    yield _headline(plan)
    doubts = doubts_of(plan.answer)
    yield from doubt_lines(plan.path, doubts)
    false = {doubt.segment for doubt in doubts}
    kept = {row["segment"]: row for row in plan.answer["kept"]}
    shown, between = ends_of(plan.segments)
    yield from wrapped_table([_HEADS, *(_row(verdict, kept, false) for verdict in shown)])
    yield from between
    yield from (f"  {note}" for note in plan.notes)
    if plan.steps:
        yield change_count(plan)


def _headline(plan: Plan) -> str:
    name, answer = os.path.basename(plan.path), plan.answer
    gone, there = len(answer["deletions"]), sum(verdict.action != "create" for verdict in plan.segments)
    if not gone:
        return f"{name}: nothing to delete, {count_text(there, 'segment')}"
    size = sum(verdict.more["size"] for verdict in plan.segments if verdict.action == "delete")
    start = answer["state"]["log_start_offset"]
    text = f"{name}: {gone:,} of {count_text(there, 'segment')} {'goes' if gone == 1 else 'go'}, {size_text(size)}"
    moved = "" if start == answer["log_start_offset_before"] else f", not at {answer['log_start_offset_before']:,}"
    return f"{text}; then the log starts at offset {start:,}{moved}"


def _row(
    verdict: SegmentVerdict, kept: Mapping[int, Mapping[str, Any]], false: Collection[int]
) -> tuple[str, str, str, str, str]:
    """false: base offsets of segments with a false time index."""
    more = verdict.more
    why = _why_kept(kept[verdict.segment]) if verdict.action == "keep" else verdict.reason
    newest = more.get("newest_ms")
    told = "" if newest is None else str(newest) if newest > LARGEST_MS else _seconds(newest)
    mark = " (file)" if told and more["file_time"] else " (FALSE)" if verdict.segment in false else ""
    return f"…{verdict.segment}", size_text(more.get("size", 0)), told + mark, verdict.action, why


def _why_kept(row: Mapping[str, Any]) -> str:
    """Return why a segment stays, with the record that holds it and the time when it is due."""
    holder, due_ms = row["held_by"], row["due_ms"]
    if row["reason"] == "behind" or holder is None:
        return str(row["detail"])
    due = "never due" if due_ms is None else _due(due_ms)
    if holder["offset"] is None or row["reason"] == "young":
        return f"{row['detail']}; {due}"
    producer = holder["producer_id"]
    by = f" (producer {producer})" if producer is not None and producer >= 0 else ""
    text = str(row["detail"]).removeprefix("the newest record ")
    if row["reason"] != "future":
        text = f"is in {row['reason']}, as its size shows, {_seconds(in_milliseconds(holder['timestamp']))}"
    return f"held by offset {holder['offset']:,}{by}: its timestamp {text}; {due}"


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
