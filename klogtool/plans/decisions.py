"""Finds the decision of a command by the command's name, so that a saved plan can be decided again."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from klogtool.broker.spools import MakeSpool
from klogtool.errors import Refused
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.plan import Plan
from klogtool.plans.question import Question

# Each module has QUESTION, a type, and decide(path, question) -> plans: one for each partition dir, and one for a log
# dir's own files.
DECISIONS = {
    "recover": "klogtool.plans.recover",
    "rebuild-index": "klogtool.plans.rebuild_index",
    "salvage": "klogtool.plans.salvage",
    "append": "klogtool.plans.append",
    "truncate": "klogtool.plans.truncate",
    "roll": "klogtool.plans.roll",
    "retain": "klogtool.plans.retain",
    "delete-records": "klogtool.plans.delete_records",
    "compact": "klogtool.plans.compact",
    "transplant": "klogtool.plans.transplant",
    "free": "klogtool.plans.free",
    "drop-producer": "klogtool.plans.drop_producer",
    "quorum": "klogtool.plans.quorum_voters",
    "doctor --fix": "klogtool.plans.mend",
    "fleet apply": "klogtool.plans.fleet_share",
}

# These rewrite whole logs, and also take `make_spool`.
SPOOLING = ("compact", "transplant")


def question_type(command: str) -> type[Question]:
    """Return the type of the command's question. Raises Refused for an unknown command."""
    kind: type[Question] = _module(command).QUESTION
    return kind


def decide(command: str, path: str, question: Question, make_spool: MakeSpool | None = None) -> Iterable[Plan]:
    """Return what the command would do to the partition dir or log dir. question: of the command's own type.

    make_spool: for new contents that should not be in memory, if the command makes such; the plans are the same. Raises
    KlogError for what cannot be decided or what Kafka refuses; Refused for an unknown command.
    """
    plans: Iterable[Plan] = _module(command).decide(path, question, *((make_spool,) if command in SPOOLING else ()))
    return plans


def _module(command: str) -> Any:
    if command not in DECISIONS:
        raise Refused(PlanRefusal.NO_COMMAND(command=command))
    return importlib.import_module(DECISIONS[command])
