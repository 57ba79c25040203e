"""The plan of compact, for people: how much stays, then what goes and why, then each segment."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.escape import joined
from klogtool.plans.index_doubts import doubts_of
from klogtool.plans.plan import Plan, SegmentVerdict
from klogtool.render.changes import log_dir_text
from klogtool.render.counts import count_text
from klogtool.render.index_doubts import doubt_lines
from klogtool.render.plans import change_count, ends_of, wrapped_table
from klogtool.render.retain import size_text

_GONE = {
    "superseded": "superseded by a later record of the key",
    "tombstones": "expired tombstones",
    "keyless": "without a key",
    "aborted": "of aborted transactions",
    "markers": "markers of transactions without any records left",
}


def compact_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    if "skipped" in plan.answer:
        return joined([f"{os.path.basename(plan.path)}: {plan.answer['skipped']}"])
    if "error" in plan.answer:
        error = plan.answer["error"]
        return joined([f"{os.path.basename(plan.path)}: refused, as it stays: {error['message']} ({error['class']})"])
    return log_dir_text(plan) or joined(_lines(plan))


def compact_brief(plan: Plan) -> str:
    """Show the plan as one of many: without the single segments."""
    if "passes" not in plan.answer:
        return compact_text(plan)
    warnings = doubt_lines(plan.path, doubts_of(plan.answer))
    lines = [_headline(plan), *warnings, *(f"  {line}" for row in plan.answer["passes"] for line in _pass_lines(row))]
    return joined(lines)


def uncleaned_text(plan: Plan) -> str | None:
    """Return the reason why a partition is not cleaned, by which partitions are counted; None if it is cleaned."""
    answer = plan.answer
    if "skipped" in answer:
        return str(answer["skipped"])
    is_due = any("stats" in row for row in answer.get("passes", ()))
    return None if is_due or doubts_of(answer) or "passes" not in answer else "not due"


def _lines(plan: Plan) -> Iterator[str]:
    answer = plan.answer
    yield _headline(plan)
    yield from doubt_lines(plan.path, doubts_of(answer))
    for n, row in enumerate(answer["passes"]):
        if len(answer["passes"]) > 1:
            yield f"  pass {n + 1}"
        yield from (f"  {line}" for line in _pass_lines(row))
    shown, between = ends_of(plan.segments)
    yield from wrapped_table([("segment", "size", "verdict", ""), *map(_row, shown)])
    yield from between
    yield f"  producers: {answer['producers']}"
    yield from (f"  {note}" for note in plan.notes)
    deleted = sum(verdict.more["size"] for verdict in plan.segments if verdict.action in ("clean", "merge"))
    if deleted and not plan.question.purge:
        yield (
            f"  the old segments, {size_text(deleted)}, stay as .deleted until a broker removes them (--purge "
            "leaves none)"
        )
    if plan.steps:
        yield change_count(plan)


def _headline(plan: Plan) -> str:
    name, cleaned = os.path.basename(plan.path), [row for row in plan.answer["passes"] if "stats" in row]
    if not cleaned:
        last = plan.answer["passes"][-1]
        return f"{name}: not due: {last['why']}"
    if cleaned[-1]["split"]:
        return f"{name}: offsets do not fit into a segment: it is split now, and cleaned another time"
    first, last = cleaned[0]["stats"], cleaned[-1]["stats"]
    read, kept = first["bytes_read"], last["bytes_written"]
    gone = sum((Counter(row["gone"]) for row in cleaned), Counter[str]())
    won = f"{size_text(read - kept)} saved" if read >= kept else f"{size_text(kept - read)} more than before"
    return f"{name}: {sum(gone.values()):,} records go, {last['messages_written']:,} stay; {won} of {size_text(read)}"


def _pass_lines(row: Mapping[str, Any]) -> Iterator[str]:
    parts = (("clean", "clean_bytes"), ("dirty", "cleanable_bytes"), ("uncleanable", "uncleanable_bytes"))
    text = ", ".join(f"{name} {size_text(row[field])}" for name, field in parts)
    yield f"{text}; {row['why']}" if "stats" in row else text
    if row["reset_checkpoint"]:
        start = row["first_dirty_offset"]
        yield f"cleaner-offset-checkpoint does not fit the log: everything from offset {start:,} is dirty"
    if "stats" not in row:
        return
    if row["map_is_full"]:
        text = "log.cleaner.dedupe.buffer.size has no room for more keys"
        yield f"ended at offset {row['end_offset']:,} of {row['bound']:,}: {text}; another pass continues there"
    yield from (f"{count:,} {_GONE[reason]}" for reason, count in row["gone"].items())
    if row["deletions"]:
        yield f"{count_text(len(row['deletions']), 'segment')} deleted by retention"


def _row(verdict: SegmentVerdict) -> tuple[str, str, str, str]:
    return f"…{verdict.segment}", size_text(verdict.more.get("size", 0)), verdict.action, verdict.reason
