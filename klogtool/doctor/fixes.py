"""Turns chosen options into plans that `klogtool apply` carries out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from msgspec.structs import replace

from klogtool.doctor.answers import Diagnosis, Option, Remedy, Trouble
from klogtool.errors import KlogError, Refused
from klogtool.format.names import parse_file_name
from klogtool.plans.decisions import decide
from klogtool.plans.mend import COMMAND, DeleteFile, Edit, MendQuestion, MoveFolder, RenameFile
from klogtool.plans.plan import Plan

_NEW_LOG = ("recover", "salvage")


class OnlyByHand(Refused):
    """An option that no plan can carry out."""

    def __init__(self, option: Option) -> None:
        """Say which; its command is in words only above."""
        super().__init__(f"option {option.number} is nothing that a plan can do")
        self.option = option


def choose(diagnosis: Diagnosis, numbers: Sequence[int]) -> list[Option]:
    """Return the options with these numbers; without numbers, the first option of each trouble that can be planned, but
    none that excludes one of a worse trouble.

    Raises Refused if there is nothing to plan, for a number that no option has, for an option that only a person can
    carry out, and for two that exclude each other.
    """
    if not numbers:
        firsts = [first for trouble in diagnosis.troubles if (first := first_fix(trouble)) is not None]
        if not firsts:
            if diagnosis.troubles:
                raise Refused("there is nothing to plan: the best options have to be carried out by hand")
            raise Refused("there is nothing to plan: no trouble was found")
        fitting: list[Option] = []
        for option in firsts:
            if all(_find_excluded(one, option) is None for one in fitting):
                fitting.append(option)
        return fitting
    known = {option.number: option for trouble in diagnosis.troubles for option in trouble.options}
    for number in numbers:
        if number not in known:
            raise Refused(f"there is no option {number}: run klogtool doctor again, the options are numbered anew")
        if not known[number].remedies:
            raise OnlyByHand(known[number])
    options = [known[number] for number in dict.fromkeys(numbers)]
    for one, other in combinations(options, 2):
        if (both := _find_excluded(one, other)) is not None:
            raise Refused(
                f"options {one.number} and {other.number} exclude each other: choose one, apply it, and run klogtool "
                "doctor again",
                path=both,
            )
    return options


def _find_excluded(one: Option, other: Option) -> str | None:
    """Return the folder that both options change, each as if the other did not: one of them moves it, or makes another
    log of it, and the other another one, or other files of segments. Two troubles may have the same remedy, or share
    an edit."""
    if one.remedies == other.remedies:
        return None
    shared = _edits_of(one) & _edits_of(other)
    moved, changed = _changes_of(one, shared)
    others_moved, others_changed = _changes_of(other, shared)
    logs, others_logs = _new_logs(one), _new_logs(other)
    logs = logs & (others_logs | _segments_of(other, shared)) | others_logs & _segments_of(one, shared)
    return min(moved & (others_moved | others_changed) | others_moved & changed | logs, default=None)


def _new_logs(option: Option) -> set[str]:
    """Return the partition dirs of which an option makes another log."""
    return {remedy.path for remedy in option.remedies if remedy.command in _NEW_LOG}


def _segments_of(option: Option, shared: set[tuple[str, Edit]]) -> set[str]:
    """Return the partition dirs in which an option renames or deletes files of segments."""
    return {
        os.path.join(log_dir, os.path.dirname(edit.path))
        for log_dir, edit in _edits_of(option) - shared
        if isinstance(edit, RenameFile | DeleteFile)
        and parse_file_name(os.path.basename(edit.path)).base_offset is not None
    }


def _edits_of(option: Option) -> set[tuple[str, Edit]]:
    questions = ((remedy.path, remedy.question) for remedy in option.remedies)
    return {
        (path, edit) for path, question in questions if isinstance(question, MendQuestion) for edit in question.edits
    }


def _changes_of(option: Option, shared: set[tuple[str, Edit]]) -> tuple[set[str], set[str]]:
    """Return the partition dirs that an option moves, and those in which it changes files."""
    moved, changed = set[str](), {remedy.path for remedy in option.remedies if remedy.command != COMMAND}
    for log_dir, edit in _edits_of(option) - shared:
        if isinstance(edit, MoveFolder):
            moved.add(os.path.join(log_dir, edit.path))
        elif folder := os.path.dirname(edit.path):
            changed.add(os.path.join(log_dir, folder))
    return moved, changed


def first_fix(trouble: Trouble) -> Option | None:
    """Return the first option of a trouble that a plan can carry out; None if one by hand before it loses less. What
    removes a witness is for a person to choose."""
    by_hand: list[int] = []
    for option in trouble.options:
        if option.erases_witness:
            continue
        if option.remedies:
            lost = option.lost_records
            return None if by_hand and (lost is None or min(by_hand) < lost) else option
        if option.effect is None and option.lost_records is not None:
            by_hand.append(option.lost_records)
    return None


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


def edits_links(option: Option) -> bool:
    """Return whether an option only edits files, and some of them are links: a person can do that, but no plan."""
    try:
        plans = list(plan_fixes([option]))
    except KlogError:
        return False
    return all(plan.command == COMMAND for plan in plans) and any(map(touches_other, plans))


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
