"""Which decision a command makes, by the command's name; so that a plan can be made again from what is saved of it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from klogtool.errors import Refused
from klogtool.repair.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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


def decide(command: str, path: str, arguments: Mapping[str, Any]) -> Iterable[Plan]:
    """What the command would do to the partition dir or log dir; arguments in JSON's types.

    Raises KlogError for what cannot be decided or what Kafka refuses; Refused for a command that there is not.
    """
    if command not in DECISIONS:
        raise Refused(f"no command of that name makes plans: {command}")
    plans: Iterable[Plan] = importlib.import_module(DECISIONS[command]).decide(path, arguments)
    return plans
