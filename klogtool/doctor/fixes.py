"""Turns chosen options into plans that `klogtool apply` carries out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from klogtool.doctor.answers import Diagnosis, Option, Remedy, Trouble
from klogtool.errors import Refused
from klogtool.plans.decisions import decide
from klogtool.plans.mend import COMMAND, MendQuestion
from klogtool.plans.plan import Plan


def choose(diagnosis: Diagnosis, numbers: Sequence[int]) -> list[Option]:
    """Return the options with these numbers; without numbers, the first option of each trouble that can be planned.

    Raises Refused for a number that no option has, and for an option that only a person can carry out.
    """
    if not numbers:
        return [first for trouble in diagnosis.troubles if (first := first_fix(trouble)) is not None]
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
    for remedy in _merged([remedy for option in options for remedy in option.remedies]):
        for plan in decide(remedy.command, remedy.path, remedy.question):
            if (
                remedy.command == COMMAND or plan.path == remedy.path
            ):  # lines of checkpoints are edits: they go together
                yield plan


def _merged(remedies: Sequence[Remedy]) -> Iterator[Remedy]:
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
