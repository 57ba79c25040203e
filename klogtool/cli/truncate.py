"""klogtool truncate."""

from __future__ import annotations

import click

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.plans.truncate import COMMAND, TruncateQuestion
from klogtool.render.changes import truncate_text


@commands.command("truncate")
@click.argument("partition", metavar="PARTITION")
@question_options(TruncateQuestion)
@writing
def command(partition: str, question: TruncateQuestion, writing: Writing) -> int:
    """Truncate a partition as a follower does: batches, indexes, leader epochs, producer state.

    The batch that contains the offset is deleted as a whole. Prints the plan and stops. With --apply or --output,
    carries it out.

    \b
    Examples:
      klogtool truncate orders-0 --to 4711
      klogtool truncate orders-0 --start-at 9000 --apply

    Exit status: 0 done, or nothing to truncate; 1 loading the log lost records, or records are missing at the end of
    the log; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    if (question.to is None) == (question.start_at is None):
        raise click.UsageError("Give either --to N or --start-at N.")
    if question.log_start_offset_after is not None and question.start_at is None:
        raise click.UsageError("--log-start-offset-after needs --start-at.")
    return decide_and_carry_out(COMMAND, [partition], question, writing, PlanFace(text_of=truncate_text))
