"""Plans of commands that change a log as a running broker does, for people: the answer first, then the evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from klogtool.escape import joined
from klogtool.plans.plan import Plan
from klogtool.render.plans import change_count, ends_of, table_text

Result = TypeVar("Result")


def change_text(
    plan: Plan,
    kind: type[Result],
    headline: Callable[[Result], str],
    evidence: Callable[[Result], Iterable[str]] = lambda _: (),
) -> str:
    """Return headline and evidence of a result, the verdict of each segment, the notes, and how many files change.
    kind: of the result; a plan with another one is shown by its notes."""
    result = plan.result
    return joined(_lines(plan, headline(result), evidence(result))) if isinstance(result, kind) else notes_text(plan)


def notes_text(plan: Plan) -> str:
    """Return the notes: of a plan for the log dir's own files, or for a partition that is left alone."""
    name = os.path.basename(plan.path)
    return joined(f"{name}: {note}" for note in plan.notes)


def _lines(plan: Plan, headline: str, evidence: Iterable[str]) -> Iterator[str]:
    yield f"{os.path.basename(plan.path)}: {headline}"
    yield from (f"  {line}" for line in evidence)
    shown, between = ends_of(plan.segments)
    rows = [(f"{s.segment:020d}", s.action, s.why) for s in shown]
    yield from (f"  {line}" for line in table_text(rows).splitlines())
    yield from between
    yield from (f"  {note}" for note in plan.notes)
    yield change_count(plan) if plan.steps else "  No file changes."
