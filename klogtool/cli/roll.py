"""klogtool roll."""

from __future__ import annotations

import click

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.plans.roll import COMMAND, RollQuestion
from klogtool.render.changes import roll_text


@commands.command("roll")
@click.argument("partition", metavar="PARTITION")
@question_options(RollQuestion)
@writing
def command(partition: str, question: RollQuestion, writing: Writing) -> int:
    """Say whether a broker would roll the active segment of a partition, and why, and roll it.

    A broker decides this when it appends, by the timestamp of the new records. Without --incoming-timestamp, klogtool
    uses --now. Prints the plan and stops. With --apply or --output, carries it out.

    \b
    Examples:
      klogtool roll orders-0
      klogtool roll orders-0 --force --apply

    Exit status: 0 done, or not due; 1 loading the log lost records, or records are missing at the end of the log; 2
    wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    names = ("incoming_bytes", "incoming_timestamp", "incoming_offset")
    incoming = [f"--{name.replace('_', '-')}" for name in names if getattr(question, name) is not None]
    if question.force and incoming:
        raise click.UsageError(f"--force rolls in any case: remove {incoming[0]}.")
    return decide_and_carry_out(COMMAND, [partition], question, writing, PlanFace(text_of=roll_text))
