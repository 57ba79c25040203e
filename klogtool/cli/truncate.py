"""klogtool truncate."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.render.truncate import truncate_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.truncate import COMMAND


@click.command("truncate")
@click.argument("partition", metavar="PARTITION")
@click.option("--to", callback=options.long, metavar="N", help="Cut here: records from this offset on go.")
@click.option("--start-at", callback=options.long, metavar="N", help="Everything goes; the log begins anew here.")
@click.option(
    "--log-start-offset-after",
    callback=options.long,
    metavar="N",
    help="With --start-at: where the log starts then.  [default: --start-at]",
)
@options.purge
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(partition: str, given: Circumstances, **chosen: Any) -> int:
    """Cut a partition as a follower does: batches, indexes, leader epochs, producer state.

    A batch that holds the offset goes whole. Prints the plan and stops; with --apply or --output, carries it out.

    Exit status: 0 done, or nothing to cut; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    if (chosen["to"] is None) == (chosen["start_at"] is None):
        raise click.UsageError("--to N or --start-at N: one of the two.")
    if chosen["log_start_offset_after"] is not None and chosen["start_at"] is None:
        raise click.UsageError("--log-start-offset-after goes with --start-at.")
    names = ("to", "start_at", "log_start_offset_after", "purge", "jobs")
    arguments = given.as_arguments() | options.only_given(chosen, names)
    return decide_and_carry_out(COMMAND, [partition], arguments, chosen, text_of=truncate_text)
