"""klogtool compact."""

from __future__ import annotations

import os
from functools import partial

import click

from klogtool.cli import commands
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Show
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.plans.causes import ObstacleCause
from klogtool.plans.compact import COMMAND, CleanerFailure, CompactQuestion
from klogtool.plans.plan import Plan
from klogtool.plans.why_not_compacted import walk_standings
from klogtool.render.compact import compact_text, standing_text, uncleaned_text
from klogtool.render.words import in_words, words


@commands.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@question_options(CompactQuestion)
@click.option("--why", is_flag=True, help="Say why a log is not being compacted, and what to do. Nothing is planned.")
@writing
def command(paths: tuple[str, ...], why: bool, question: CompactQuestion, writing: Writing) -> int:
    """Clean compacted logs as the broker's log cleaner does: a partition dir, or all of a log dir, the dirtiest log
    first.

    Keeps the last record of each key, tombstones until their time is over, and what a broker needs for transactions
    and producers. A log that is not due stays as it is. Settings come from --config, --config-file, or the log dir's
    __cluster_metadata. Prints the plan and stops. With --apply or --output, carries it out.

    \b
    Examples:
      klogtool compact LOGDIR --why
      klogtool compact orders-0 --config cleanup.policy=compact --apply

    Exit status: 0 done, or nothing due; 1 some partitions of a log dir are refused because a broker's cleaner fails on
    them, too (the others are done), or loading a log lost records; 2 wrong usage, no such path; 3 refused, nothing
    written; 4 could not go on.
    """
    if why:
        if writing.keeps_plans:
            raise click.UsageError("--why makes no plan, so there is nothing to carry out or to save.")
        show, is_empty = Show(COMMAND, writing), True
        for standing in walk_standings([os.path.abspath(path) for path in paths], question):
            is_empty = False
            show.row({"type": "answer", "command": COMMAND, **in_words(standing)})
            show.text(standing_text(standing))
        if is_empty:
            note(f"klogtool: {' '.join(paths)}: {words(ObstacleCause.NONE_COMPACTED())}")
        return DONE
    is_one = len(paths) == 1 and isinstance(open_path(paths[0]), Partition)
    face = PlanFace(
        text_of=partial(compact_text, is_whole=is_one),
        brief_of=None if is_one else uncleaned_text,
        status_of=status_of_plan,
    )
    return decide_and_carry_out(COMMAND, paths, question, writing, face)


def status_of_plan(plan: Plan) -> int:
    """Return FOUND if a broker's cleaner would fail."""
    return FOUND if isinstance(plan.result, CleanerFailure) else DONE
