"""Plans of commands that change a log as a running broker does, for people: the answer first, then the evidence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from klogtool.escape import joined
from klogtool.plans.plan import Plan
from klogtool.render.counts import count_text
from klogtool.render.plans import room_text, table_text

_MOST_SEGMENTS = 12


def change_text(plan: Plan, headline: str, evidence: Iterable[str] = ()) -> str:
    """Return the headline, the evidence, the verdict of each segment, the notes, and how many files change."""
    return joined(_lines(plan, headline, evidence))


def log_dir_text(plan: Plan) -> str | None:
    """Return the notes of a plan for the log dir's own files; None for a plan of a partition."""
    if plan.answer:
        return None
    name = os.path.basename(plan.path)
    return joined(f"{name}: {note}" for note in plan.notes)


def _lines(plan: Plan, headline: str, evidence: Iterable[str]) -> Iterator[str]:
    yield f"{os.path.basename(plan.path)}: {headline}"
    yield from (f"  {line}" for line in evidence)
    rows = [(f"{s.segment:020d}", s.action, s.reason) for s in plan.segments]
    shown = rows if len(rows) <= _MOST_SEGMENTS else [*rows[: _MOST_SEGMENTS // 2], *rows[-_MOST_SEGMENTS // 2 :]]
    yield from (f"  {line}" for line in table_text(shown).splitlines())
    if len(shown) < len(rows):
        yield f"  and {count_text(len(rows) - len(shown), 'segment')} in between (--format json shows all)"
    yield from (f"  {note}" for note in plan.notes)
    if plan.steps:
        changes = count_text(len(plan.steps), "change")
        yield f"  {changes} of files; {room_text(plan)}"
    else:
        yield "  No file changes."
