"""Turns chosen options into plans that `klogtool apply` carries out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from klogtool.doctor.answers import Diagnosis, Option, Remedy, Trouble
from klogtool.errors import KlogError, Refused
from klogtool.plans.decisions import decide
from klogtool.plans.mend import COMMAND, MendQuestion
from klogtool.plans.plan import Plan


def choose(diagnosis: Diagnosis, numbers: Sequence[int]) -> list[Option]:
    """Return the options with these numbers; without numbers, the first option of each trouble that can be planned.

    Raises Refused if there is nothing to plan, for a number that no option has, and for an option that only a person
    can carry out.
    """
    if not numbers:
        firsts = [first for trouble in diagnosis.troubles if (first := first_fix(trouble)) is not None]
        if not firsts:
            why = "every option has to be carried out by hand" if diagnosis.troubles else "no trouble was found"
            raise Refused(f"there is nothing to plan: {why}")
        return firsts
    known = {option.number: option for trouble in diagnosis.troubles for option in trouble.options}
    for number in numbers:
        if number not in known:
            raise Refused(f"there is no option {number}: run klogtool doctor again, the options are numbered anew")
        if not known[number].remedies:
            raise Refused(f"option {number} is nothing that a plan can do; run it by hand: {known[number].command}")
    return [known[number] for number in dict.fromkeys(numbers)]


def first_fix(trouble: Trouble) -> Option | None:
    """Return the first option of a trouble that a plan can carry out. What removes a witness is for a person to
    choose."""
    return next((option for option in trouble.options if option.remedies and not option.erases_witness), None)


def plan_fixes(options: Iterable[Option]) -> Iterator[Plan]:
    """Yield the plans of the options. Edits in one log dir are one plan's question. Raises KlogError as the decisions
    do."""
    for remedy in merged_remedies([remedy for option in options for remedy in option.remedies]):
        for plan in decide(remedy.command, remedy.path, remedy.question):
            if (
                remedy.command == COMMAND or plan.path == remedy.path
            ):  # lines of checkpoints are edits: they go together
                yield plan


def plans_of(option: Option) -> list[Plan]:
    """Return the plans of an option; none if they cannot be made, or carried out."""
    try:
        plans = list(plan_fixes([option]))
    except KlogError:
        return []
    return plans if any(plan.steps for plan in plans) and not any(map(touches_other, plans)) else []


def touches_other(plan: Plan) -> bool:
    """Return whether a step changes a name that is no regular file (a folder, a link): it cannot be undone, so `apply`
    refuses it. Only an edit moves folders."""
    names = {name for step in plan.steps for name in (getattr(step, "path", ""), getattr(step, "to", ""))}
    paths = [os.path.join(plan.path, name) for name in names if name]
    if any(os.path.islink(path) and os.path.isfile(path) for path in paths):
        return True
    return plan.command != COMMAND and any(os.path.lexists(path) and not os.path.isfile(path) for path in paths)


def merged_remedies(remedies: Sequence[Remedy]) -> Iterator[Remedy]:
    """Yield the remedies; those that edit files of the same log dir as one, and last."""
    edits: dict[str, Remedy] = {}
    for remedy in remedies:
        question = remedy.question
        if remedy.command != COMMAND or not isinstance(question, MendQuestion):
            yield remedy
        elif (known := edits.get(remedy.path)) is not None and isinstance(known.question, MendQuestion):
            both = dict.fromkeys((*known.question.edits, *question.edits))  # two troubles may share an edit
            merged = replace(question, edits=tuple(both))
            edits[remedy.path] = replace(known, question=merged)
        else:
            edits[remedy.path] = remedy
    yield from edits.values()
