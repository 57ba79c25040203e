"""Merges the plans of one run that change the same file into one plan, so that their steps belong to one record.

The record of a plan says which file each name means before its first step, as found when the run begins. If two plans
with separate records changed the same file, the second would take the change of the first for somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.file_facts import Fact
from klogtool.plans.plan import Plan, Rename, RenameFolder, Step, names_of
from klogtool.plans.saved_plan import SavedPlan


def joined(plans: Sequence[SavedPlan], log_dir: str) -> Sequence[SavedPlan]:
    """Return the plans unchanged if no two of them change a file of the same name, else one plan for the whole log dir.

    The merged plan and all that it writes are held in memory. Raises StalePlan if a plan is now decided differently.
    """
    of_plans = ((plan, {os.path.normpath(n) for step in plan.steps for n in names_of(step)}) for plan in plans)
    names = [os.path.join(os.path.realpath(plan.path), name) for plan, own in of_plans for name in own]
    if len(names) == len(set(names)):
        return plans
    whole = [plan.decided() for plan in plans]
    steps = [_below(step, _relative(plan.path, log_dir)) for plan in whole for step in plan.steps]
    steps.sort(key=lambda step: isinstance(step, RenameFolder))  # these are the last ones
    facts = tuple(fact for plan in whole for fact in _facts_below(plan, log_dir))
    notes = tuple(note for plan in plans for note in plan.row.notes)
    return [SavedPlan.of(Plan(whole[0].command, log_dir, whole[0].question, facts, tuple(steps), (), None, notes))]


def _relative(path: str, log_dir: str) -> str:
    return os.path.relpath(os.path.realpath(path), os.path.realpath(log_dir))


def _below(step: Step, folder: str) -> Step:
    path = os.path.normpath(os.path.join(folder, step.path))
    if isinstance(step, Rename | RenameFolder):
        return replace(step, path=path, to=os.path.normpath(os.path.join(folder, step.to)))
    return replace(step, path=path)


def _facts_below(plan: Plan, log_dir: str) -> Iterator[Fact]:
    for fact in plan.facts:
        path = os.path.normpath(os.path.join(_relative(plan.path, log_dir), fact.path))
        yield replace(fact, path="" if path == os.curdir else path)
