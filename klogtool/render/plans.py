"""A plan as text and as a JSON line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from klogtool.repair.plan import Delete, Plan, Rename, Step, Truncate, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOTHING_CHANGED = "Nothing was changed: --apply does it, with undo; --output DIR writes the result elsewhere."


def row_line(row: dict[str, Any]) -> str:
    """One object, compact; in ASCII, since bytes of file names that are no text have no other form in JSON."""
    import json  # not for text, whose start it would slow down

    return json.dumps(row, separators=(",", ":"))


def plan_text(plan: Plan) -> str:
    """The plan for people: what becomes of each segment, the steps, what it frees, holds and answers."""
    return "\n".join(_plan_lines(plan))


def _plan_lines(plan: Plan) -> Iterator[str]:
    yield f"Plan {plan.id}   {plan.command}   {plan.path}"
    yield from (f"  {note}" for note in plan.notes)
    yield from _aligned((f"{s.segment:020d}", s.action, s.reason) for s in plan.segments)
    yield from _aligned(_step_cells(plan, step) for step in plan.steps)
    yield f"  {_closing(plan)}" if plan.steps else "  Nothing to do."


def _step_cells(plan: Plan, step: Step) -> tuple[str, str, str]:
    match step:
        case Write():
            there = any(fact.path == step.path for fact in plan.facts)
            return "replace" if there else "write", step.path, f"{step.size:,} bytes"
        case Truncate():
            before = next((f": cuts {f.size - step.size:,}" for f in plan.facts if f.path == step.path), "")
            return "truncate", step.path, f"to {step.size:,} bytes{before}"
        case Rename():
            return "rename", step.path, f"to {os.path.basename(step.to)}"
        case Delete():
            return "delete", step.path, ""


def _closing(plan: Plan) -> str:
    freed = plan.bytes_freed
    change = f"{freed:,} bytes less" if freed >= 0 else f"{-freed:,} bytes more"
    return f"{len(plan.steps):,} steps; {change} afterwards; {plan.bytes_held:,} bytes are held for undo (--apply)."


def table_text(rows: Iterable[tuple[str, ...]]) -> str:
    """Rows of cells under one another."""
    return "\n".join(line[2:] for line in _aligned(rows))


def _aligned(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Cells under one another, two blanks between and before them."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "".join(f"  {cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
