"""Commands asked as from a saved plan: by name, with what is asked in JSON's types."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.broker.spools import MakeSpool
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.rolling import roll
from klogtool.plans.compact import CompactQuestion
from klogtool.plans.decisions import decide, question_type
from klogtool.plans.plan import Plan
from klogtool.plans.plan_change import Change, settle
from klogtool.plans.question import Question, read_question
from klogtool.plans.results import ChangeResult


def question_of(command: str, asked: Mapping[str, Any]) -> Question:
    """The command's own question. Values that are None were not given."""
    given = {name: value for name, value in asked.items() if value is not None}
    return read_question(question_type(command), given)


def compact_question(asked: Mapping[str, Any]) -> CompactQuestion:
    """The same of compact."""
    return read_question(CompactQuestion, {name: value for name, value in asked.items() if value is not None})


def decided(
    command: str, path: str | os.PathLike[str], asked: Mapping[str, Any], make_spool: MakeSpool | None = None
) -> Iterator[Plan]:
    """The plans."""
    yield from decide(command, os.fspath(path), question_of(command, asked), make_spool)


class RolledTo(ChangeResult, frozen=True):
    """Where a log was rolled to."""

    rolled_to: int


def roll_at(log: LoadedLog, expected: int) -> Change:
    """Roll a log at an offset, as `UnifiedLog.roll` with an expected next offset."""
    return Change(RolledTo(roll(log, expected).base_offset, state=settle(log)))
