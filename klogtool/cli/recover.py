"""klogtool recover."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.show import RefusalText
from klogtool.cli.writing import PlanFace, PlanShow, Writing, decide_and_carry_out, writing
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.log.log_dirs import find_log_dir_among, find_log_dir_around, is_log_dir
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.plans.recover import COMMAND, RecoverQuestion, check_mark_clean
from klogtool.plans.start_problems import find_start_problems
from klogtool.render.recover import RecoverTotals, recover_brief, recover_text, stop_row, stop_text
from klogtool.verify.stops import Stop, stop_of


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@question_options(RecoverQuestion)
@writing
def command(paths: tuple[str, ...], question: RecoverQuestion, writing: Writing) -> int:
    """Do what a broker does to the logs of a partition dir or a log dir at startup, after an unclean shutdown.

    klogtool cuts each log at its first damage, rebuilds indexes, and finishes interrupted operations. It prints the
    plan, with the offsets that would be lost, and stops. With --apply or --output, it carries the plan out. With
    --mark-clean, it also writes the checkpoints and the clean shutdown marker, if every batch of every partition is
    sound. Several log dirs are log dirs of one broker.

    \b
    Examples:
      klogtool recover /var/kafka-logs
      klogtool recover /var/kafka-logs --mark-clean --apply

    Exit status: 0 nothing is lost; 1 records are lost or missing; 2 wrong usage, no such path; 3 refused, nothing
    written: a broker does not start on this log dir, or takes it offline; 4 could not go on.
    """
    if question.mark_clean:
        for path in paths:
            check_mark_clean(path)
    face = PlanFace(
        text_of=recover_text,
        brief_of=recover_brief,
        totals=RecoverTotals(),
        begin=lambda show: _begin(show, paths, question.circumstances),
        refusal_of=_refusal_in_loading,
    )
    return decide_and_carry_out(COMMAND, paths, _with_log_dirs(paths, question), writing, face)


def _with_log_dirs(paths: Sequence[str], question: RecoverQuestion) -> RecoverQuestion:
    """Return the question with the log dirs of the paths, if one has the cluster's metadata, which others need. What
    --config-file says of log dirs counts more."""
    around = [path if is_log_dir(path) else find_log_dir_around(path) for path in map(os.path.abspath, paths)]
    log_dirs = list(dict.fromkeys(path for path in around if path is not None))
    has_metadata = [os.path.isdir(os.path.join(path, CLUSTER_METADATA_DIR)) for path in log_dirs]
    circumstances = question.circumstances
    if circumstances.log_dirs or all(has_metadata) or not any(has_metadata):
        return question
    sections = (*circumstances.config_sections, (None, {"log.dirs": ",".join(log_dirs)}))
    return replace(question, config_sections=sections)


def _begin(show: PlanShow, paths: Sequence[str], circumstances: Circumstances) -> list[str]:
    """First of all: whether a broker gets as far as its logs. Of several log dirs, which are those of one broker, it
    goes on without those that it gives up. Returns the paths that it gets to."""
    log_dirs = list(dict.fromkeys(os.path.abspath(path) for path in paths if isinstance(open_path(path), LogDir)))
    problems = find_start_problems(log_dirs, circumstances) if log_dirs else []
    for problem in problems:
        if problem.stop is not None:
            show.refusal(problem.as_error(), _refusal(problem.path, problem.detail, problem.cure, problem.stop))
    if any(problem.ends_broker for problem in problems):
        return []
    given_up = {find_log_dir_among(problem.path, log_dirs) for problem in problems}
    return [path for path in paths if os.path.abspath(path) not in given_up]


def _refusal_in_loading(error: KlogError) -> RefusalText | None:
    """Return the refusal for an error of Kafka; klogtool's own rules are reported on stderr alone."""
    if error.kafka_class is None or error.path is None:
        return None
    folder = error.path if os.path.isdir(error.path) else os.path.dirname(error.path)
    cure = f"klogtool verify {quoted(folder)}  # shows the damage, and how to repair it"
    return _refusal(error.path, error.reason, cure, stop_of(error))


def _refusal(path: str, detail: str, cure: str | None, stop: Stop) -> RefusalText:
    return RefusalText(stop_text(path, cure, stop), stop_row(path, detail, cure, stop))
