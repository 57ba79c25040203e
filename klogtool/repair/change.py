"""What every command has in common that changes a partition as a running broker does: load, change, stop, plan.

The log is loaded on the terms of its log dir, as after a clean stop where it lies in none; it is changed; it is stopped
as a broker stops. Records that loading alone takes out of a damaged log are told in the answer, as `lost_by_recovery`.
What differs then is the plan. Where the partition dir lies in a log dir, the log dir's own files get plans beside it:
see checkpoint_lines.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from klogtool.errors import KlogError
from klogtool.lazy_dataclasses import dataclass, field
from klogtool.log.cores import usable_cores
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.repair.checkpoint_lines import CheckpointLines, lines_of, plan_checkpoints
from klogtool.repair.circumstances import Checkpoints, Circumstances, LoadTerms, terms_of
from klogtool.repair.draft import Draft
from klogtool.repair.plan import Fact, Plan, SegmentVerdict, facts_of
from klogtool.repair.recovered import losses_of_loading
from klogtool.repair.steps import order_steps
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.split import DELETED

_KRAFT_DELETED = ".checkpoint" + DELETED


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to a loaded log: the contract's answer (`state` comes by itself), verdicts on segments, notes.

    first_dirty_at_most: where cleaning has to begin at the latest, if the operation brings that down; first_dirty:
    where it is to begin next, if the operation is a cleaning.
    """

    answer: Mapping[str, Any] = field(default_factory=dict)
    verdicts: tuple[SegmentVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    first_dirty_at_most: int | None = None
    first_dirty: int | None = None


# Does something to a log, and tells what.
ChangeLog: TypeAlias = Callable[[LoadedLog], Change]


def plan_change(command: str, path: str, arguments: Mapping[str, Any], change: ChangeLog) -> Iterator[Plan]:
    """The plan for one partition dir, and plans for its log dir's files before and behind it, if they are to change.

    arguments: those of Circumstances; `purge`: no `.deleted` file stays; `jobs`. Raises Corrupt, Refused or
    Unsupported, with Kafka's class, where a broker refuses; KlogError for what is no partition dir.
    """
    checkpoints = Checkpoints.beside(path)
    plan, lines = plan_partition(command, path, arguments, change, checkpoints)
    if checkpoints.log_dir is None or lines is None:
        yield plan
        return
    before, after = plan_checkpoints(command, checkpoints.log_dir, arguments, [lines])
    yield from (found for found in (before, plan, after) if found is not None)


def plan_partition(
    command: str, path: str, arguments: Mapping[str, Any], change: ChangeLog, checkpoints: Checkpoints
) -> tuple[Plan, CheckpointLines | None]:
    """The plan for one partition dir, and what its log dir is to know of it: for commands over several. Raises as
    `plan_change` does."""
    if not isinstance(open_path(path), Partition):
        raise KlogError("not a partition dir", path=path)
    terms = terms_of(path, Circumstances.of_arguments(arguments), checkpoints=checkpoints)
    draft = Draft.of(path)
    return plan_draft(command, arguments, draft, facts_of(draft), terms, change)


def plan_draft(
    command: str,
    arguments: Mapping[str, Any],
    draft: Draft,
    facts: tuple[Fact, ...],
    terms: LoadTerms,
    change: ChangeLog,
) -> tuple[Plan, CheckpointLines | None]:
    """The same for a draft, which may be of a dir that is not there yet."""
    try:
        log = LoadedLog(draft, terms, jobs=int(arguments.get("jobs") or usable_cores()))
        lost = losses_of_loading(log)
        changed = change(log)
        log.run_scheduled()
        answer = {**changed.answer, "state": state_of(log)}
        if lost is not None:
            answer["lost_by_recovery"] = lost
        log.stop()
    except KlogError as error:
        error.at_path(draft.path)
        raise
    if arguments.get("purge"):
        _purge(draft)
    steps = order_steps(draft, log.report)
    notes = (*terms.notes, *changed.notes)
    plan = Plan(command, draft.path, arguments, facts, steps, changed.verdicts, answer, notes)
    return plan, lines_of(log, changed.first_dirty_at_most, changed.first_dirty)


def state_of(log: LoadedLog) -> dict[str, Any]:
    """The contract's `state`."""
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "log_start_checkpoint": log.log_start_checkpoint,
    }


def _purge(draft: Draft) -> None:
    """What a broker would do when file.delete.delay.ms has passed."""
    for name in draft.names():
        if name.endswith(DELETED) and not name.endswith(_KRAFT_DELETED):
            draft.delete(name)
