"""Plans of one run that have a file in common, as one plan: so that its steps are those of one record.

What a name means before a plan's steps is told by what lies there when the run begins; a plan that comes to a file
which another one has changed meanwhile would take that for somebody else's work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.file_facts import Fact
from klogtool.plans.plan import Plan, Rename, Step
from klogtool.plans.saved_plan import SavedPlan


def joined(plans: Sequence[SavedPlan], log_dir: str) -> Sequence[SavedPlan]:
    """The plans as they are, if no two of them change a file of the same name; else one plan about the log dir.

    That one is held in memory with all that it writes. Raises StalePlan if a plan is decided otherwise now.
    """
    names = [os.path.join(os.path.realpath(plan.path), name) for plan in plans for name in _names_in(plan)]
    if len(names) == len(set(names)):
        return plans
    whole = [plan.decided() for plan in plans]
    steps = tuple(_below(step, _relative(plan.path, log_dir)) for plan in whole for step in plan.steps)
    facts = tuple(fact for plan in whole for fact in _facts_below(plan, log_dir))
    notes = tuple(note for plan in whole for note in plan.notes)
    return [SavedPlan.of(Plan(whole[0].command, log_dir, whole[0].question, facts, steps, (), {}, notes))]


def _names_in(plan: SavedPlan) -> set[str]:
    return {os.path.normpath(name) for step in plan.steps for name in step.names}


def _relative(path: str, log_dir: str) -> str:
    return os.path.relpath(os.path.realpath(path), os.path.realpath(log_dir))


def _below(step: Step, folder: str) -> Step:
    path = os.path.normpath(os.path.join(folder, step.path))
    if isinstance(step, Rename):
        return Rename(path, os.path.normpath(os.path.join(folder, step.to)))
    return replace(step, path=path)


def _facts_below(plan: Plan, log_dir: str) -> Iterator[Fact]:
    for fact in plan.facts:
        path = os.path.normpath(os.path.join(_relative(plan.path, log_dir), fact.path))
        yield replace(fact, path="" if path == os.curdir else path)
