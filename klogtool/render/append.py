"""The plan of append, for people: how many calls succeeded, what was refused and why, where the log ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from klogtool.plans.plan import Plan
from klogtool.render.changes import change_text, log_dir_text
from klogtool.render.counts import count_text

_MOST_REFUSALS = 4
_LONGEST_MESSAGE = 240


def append_text(plan: Plan) -> str:
    """Show the plan of a partition, or of its log dir."""
    return log_dir_text(plan) or change_text(plan, _headline(plan.answer), _refusals(plan.answer["appends"]))


def _headline(answer: Any) -> str:
    rows = answer["appends"]
    done = [row for row in rows if "error" not in row]
    refused = f"; {len(rows) - len(done):,} REFUSED" if len(done) < len(rows) else ""
    return (
        f"{count_text(len(done), 'append')}{_span(done)}{refused}; the log ends at offset "
        f"{answer['state']['log_end_offset']:,}"
    )


def _span(done: list[Any]) -> str:
    """Return the appended offsets; for old formats only the last one is known."""
    lasts = [row["last_offset"] for row in done if row["valid_bytes"]]
    if not lasts:
        return ""
    firsts = [row["first_offset"] for row in done if row["valid_bytes"] and row["first_offset"] >= 0]
    rolls = sum(row["rolled"] for row in done)
    size = sum(row["valid_bytes"] for row in done)
    span = f"offsets {min(firsts):,} to {max(lasts):,}" if firsts else f"offsets up to {max(lasts):,}"
    return f", {span}, {size:,} bytes" + (f", {count_text(rolls, 'roll')}" if rolls else "")


def _refusals(rows: list[Any]) -> Iterator[str]:
    refused = [(n, row) for n, row in enumerate(rows, 1) if "error" in row]
    for n, row in refused[:_MOST_REFUSALS]:
        of = f" ({os.path.basename(row['file'])})" if "file" in row else ""
        yield f"refused  append {n}{of}: {row['error']['class']}"
        yield f"         {shortened(row['error']['message'])}"
    if len(refused) > _MOST_REFUSALS:
        yield f"and {len(refused) - _MOST_REFUSALS:,} more are refused (--format json shows all)"


def shortened(message: str) -> str:
    """Cut a message to two or three lines."""
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "..."
