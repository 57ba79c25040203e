"""klogtool delete-records."""

from __future__ import annotations

from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.plans.delete_records import COMMAND, DeleteRecordsQuestion
from klogtool.render.retain import delete_records_text


@commands.command("delete-records")
@click.argument("partition", metavar="PARTITION")
@click.option(
    "--before",
    callback=options.long,
    required=True,
    metavar="N",
    help="The new log start offset. Records below it are deleted. -1: the high watermark.",
)
@options.purge
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(partition: str, circumstances: Circumstances, **chosen: Any) -> int:
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
    question = DeleteRecordsQuestion(
        circumstances=circumstances,
        jobs=chosen["jobs"],
        purge=chosen["purge"],
        no_undo=chosen["no_undo"],
        before=chosen["before"],
    )
    return decide_and_carry_out(COMMAND, [partition], question, chosen, text_of=delete_records_text)
