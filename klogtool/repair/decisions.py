"""Which decision a command makes, by the command's name; so that a plan can be made again from what is saved of it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from klogtool.errors import Refused
from klogtool.repair.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klogtool.repair.spools import MakeSpool

# Each module has decide(path, arguments) -> plans, one for each partition dir (and one for a log dir's own files).
DECISIONS = {
    "verify --recover": "klogtool.repair.recover",
    "rebuild-index": "klogtool.repair.rebuild",
    "salvage": "klogtool.repair.salvage",
    "append": "klogtool.repair.append",
    "truncate": "klogtool.repair.truncate",
    "roll": "klogtool.repair.roll",
    "retain": "klogtool.repair.retain",
    "delete-records": "klogtool.repair.delete_records",
    "compact": "klogtool.repair.compact",
}

# Those that rewrite whole logs, and take a `make_spool` beside.
SPOOLING = ("compact",)


def decide(
    command: str, path: str, arguments: Mapping[str, Any], make_spool: MakeSpool | None = None
) -> Iterable[Plan]:
    """What the command would do to the partition dir or log dir; arguments in JSON's types.

    make_spool: for what should not be held in memory, where the command makes so much; the plans are the same.
    Raises KlogError for what cannot be decided or what Kafka refuses; Refused for a command that there is not.
    """
    if command not in DECISIONS:
        raise Refused(f"no command of that name makes plans: {command}")
    module = importlib.import_module(DECISIONS[command])
    plans: Iterable[Plan] = module.decide(path, arguments, *((make_spool,) if command in SPOOLING else ()))
    return plans
