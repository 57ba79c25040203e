"""klogtool delete-records."""

from __future__ import annotations

import click

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.plans.delete_records import COMMAND, DeleteRecordsQuestion
from klogtool.render.retain import delete_records_text


@commands.command("delete-records")
@click.argument("partition", metavar="PARTITION")
@question_options(DeleteRecordsQuestion)
@writing
def command(partition: str, question: DeleteRecordsQuestion, writing: Writing) -> int:
    """Move the log start offset of a partition up, and delete the segments below it.

    klogtool does what a broker does for a DeleteRecords request, and updates the log dir's
    log-start-offset-checkpoint. It does not delete by size or time: 'klogtool retain' does. Prints the plan and stops.
    With --apply or --output, carries it out.

    \b
    Examples:
      klogtool delete-records orders-0 --before 4711
      klogtool delete-records orders-0 --before 4711 --apply

    Exit status: 0 done, or the log starts there already; 1 loading the log lost records, or records are missing at the
    end of the log; 2 wrong usage, no such path; 3 refused, nothing written: the offset is above the high watermark, or
    the topic is only compacted; 4 could not go on.
    """
    return decide_and_carry_out(COMMAND, [partition], question, writing, PlanFace(text_of=delete_records_text))
