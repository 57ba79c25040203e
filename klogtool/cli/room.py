"""klogtool free: whether what is removed leaves the disk. A journal on the same disk would keep all of it there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from klogtool.disk.journal import journal_of
from klogtool.errors import Refused
from klogtool.log.log_dirs import log_dir_of
from klogtool.plans.free import COMMAND
from klogtool.plans.saved_plan import SavedPlan

HOW = "--to DIR moves it to another disk, with undo; --no-undo deletes it for good."


def check_makes_room(plans: Sequence[SavedPlan], journal: str | None) -> None:
    """Raises Refused if a plan of `free` would keep what it removes on the disk that is to get room."""
    for plan in plans:
        if plan.command == COMMAND and plan.steps and not plan.question.no_undo:
            place = journal_of(log_dir_of(plan.path)) if journal is None else os.path.realpath(journal)
            if os.stat(_existing(place)).st_dev == os.stat(plan.path).st_dev:
                raise Refused("what is removed would stay on the same disk, which frees nothing", path=place, cure=HOW)


def _existing(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
