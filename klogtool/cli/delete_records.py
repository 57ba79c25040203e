"""klogtool delete-records."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.render.retain import delete_records_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.delete_records import COMMAND


@click.command("delete-records")
@click.argument("partition", metavar="PARTITION")
@click.option(
    "--before",
    callback=options.long,
    required=True,
    metavar="N",
    help="The first offset that stays; -1: the high watermark.",
)
@options.purge
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(partition: str, given: Circumstances, **chosen: Any) -> int:
    """Let a partition begin at a later offset, and delete the segments that lie wholly below it.

    As a broker does that is asked to delete records: the log start offset moves, in the log dir's checkpoint too. What
    is too old or too much is left to 'klogtool retain'. Prints the plan and stops; with --apply or --output, carries it
    out.

    Exit status: 0 done, or it begins there already; 2 wrong usage, no such path; 3 refused, nothing written: above the
    high watermark, or a topic that is only compacted; 4 could not go on.
    """
    arguments = given.as_arguments() | options.only_given(chosen, ("before", "purge", "jobs"))
    return decide_and_carry_out(COMMAND, [partition], arguments, chosen, text_of=delete_records_text)
