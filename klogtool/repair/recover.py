"""verify --recover: what a broker's start, and a clean stop after it, would make of a partition dir or a log dir.

Of a log dir, each partition dir that a broker would load is a plan of its own, by the checkpoints and the clean marker
there. With `mark_clean` comes a last plan, for the checkpoints and the marker: only if every batch of every partition
was read and found sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from klogtool.errors import KlogError, Refused
from klogtool.log.cores import usable_cores
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.repair.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.repair.draft import Draft
from klogtool.repair.plan import Plan, facts_of
from klogtool.repair.recover_logdir import plan_log_dir
from klogtool.repair.recovered import recovery_answer, recovery_notes, recovery_verdicts
from klogtool.repair.steps import order_steps
from klogtool.repair.unified_log.loading import LoadedLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = "verify --recover"


def decide(path: str, arguments: Mapping[str, Any]) -> Iterator[Plan]:
    """A plan for each partition dir. arguments: those of Circumstances; `mark_clean` (of a log dir); `jobs`: threads.

    Raises Corrupt, Refused or Unsupported, with Kafka's class, where a broker refuses to load; other KlogErrors for
    what is no log dir and no partition dir, or cannot be read.
    """
    opened = open_path(path)
    if isinstance(opened, Partition):
        yield plan_partition(path, arguments)[1]
    elif isinstance(opened, LogDir):
        yield from plan_log_dir(path, arguments, plan_partition)
    else:
        raise KlogError("neither a partition dir nor a log dir", path=path)


def plan_partition(
    path: str, arguments: Mapping[str, Any], checkpoints: Checkpoints | None = None, threads: int | None = None
) -> tuple[LoadedLog, Plan]:
    """The log as it would be, stopped, and the plan that makes it so. threads: default `jobs` of the arguments."""
    given = Circumstances.of_arguments(arguments)
    terms = terms_of(path, given, clean_by_default=False, checkpoints=checkpoints)
    draft = Draft.of(path)
    facts = facts_of(draft)
    try:
        log = LoadedLog(draft, terms, jobs=threads or int(arguments.get("jobs") or usable_cores()))
        log.stop()
    except KlogError as error:
        error.at_path(path)
        raise
    plan = Plan(
        COMMAND,
        path,
        arguments,
        facts,
        order_steps(draft, log.report),
        recovery_verdicts(log),
        recovery_answer(log),
        (*terms.notes, *recovery_notes(log)),
    )
    return log, plan


def loses_records(plan: Plan) -> bool:
    """Whether the plan takes records, or what is left of them, out of the log."""
    return bool(plan.answer.get("loses_records"))


def check_mark_clean(path: str) -> None:
    """Raises KlogError: only a log dir has a clean marker."""
    if not isinstance(open_path(path), LogDir):
        raise Refused("not a log dir: only a whole log dir can be marked clean", path=path)
