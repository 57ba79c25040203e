"""klogtool verify --recover."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klogtool.broker.circumstances import Circumstances
from klogtool.cli.writing import Refusal, Show, decide_and_carry_out
from klogtool.errors import KlogError
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.plans.recover import COMMAND, check_mark_clean
from klogtool.plans.recover_log_dir import RecoverQuestion
from klogtool.plans.recover_start import find_start_problems, problem_of
from klogtool.render.recover import recover_text, start_problem_row, start_problem_text
from klogtool.render.recover_totals import RecoverTotals, recover_brief

if TYPE_CHECKING:
    from klogtool.plans.recover_start import StartProblem


def recover(paths: Sequence[str], form: str, circumstances: Circumstances, chosen: Mapping[str, Any]) -> int:
    """Show what a broker's start would make of the paths; carry it out if requested. Returns the exit status."""
    if chosen["mark_clean"]:
        for path in paths:
            check_mark_clean(path)
    question = RecoverQuestion(circumstances=circumstances, jobs=chosen["jobs"], mark_clean=chosen["mark_clean"])
    return decide_and_carry_out(
        COMMAND,
        paths,
        question,
        {**chosen, "form": form},
        text_of=recover_text,
        brief_of=recover_brief,
        totals=RecoverTotals(),
        begin=lambda show: _begin(show, paths, circumstances),
        refusal_of=_refusal_in_loading,
    )


def _begin(show: Show, paths: Sequence[str], circumstances: Circumstances) -> list[str]:
    """First of all: whether a broker gets as far as its logs. Of several log dirs, which are those of one broker, it
    goes on without those that it gives up. Returns the paths that it gets to."""
    log_dirs = [os.path.abspath(path) for path in paths if isinstance(open_path(path), LogDir)]
    if not log_dirs:
        return list(paths)
    problems = find_start_problems(list(dict.fromkeys(log_dirs)), circumstances)
    for problem in problems:
        show.refusal(problem.as_error(), _refusal(problem))
    if any(problem.is_fatal for problem in problems):
        return []
    given_up = {problem.log_dir for problem in problems}
    return [path for path in paths if os.path.abspath(path) not in given_up]


def _refusal_in_loading(error: KlogError) -> Refusal | None:
    """Return the refusal for an error of Kafka; klogtool's own rules are reported on stderr alone."""
    if error.kafka_class is None or error.path is None:
        return None
    folder = error.path if os.path.isdir(error.path) else os.path.dirname(error.path)
    return _refusal(problem_of(error, folder))


def _refusal(problem: StartProblem) -> Refusal:
    return Refusal(start_problem_text(problem), start_problem_row(problem))
