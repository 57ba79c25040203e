"""klogtool truncate."""

from __future__ import annotations

from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.plans.truncate import COMMAND, TruncateQuestion
from klogtool.render.truncate import truncate_text


@commands.command("truncate")
@click.argument("partition", metavar="PARTITION")
@click.option(
    "--to", callback=options.long, metavar="N", help="Truncate to this offset: records from N on are deleted."
)
@click.option(
    "--start-at",
    callback=options.long,
    metavar="N",
    help="Delete all records. The log starts again, empty, at offset N.",
)
@click.option(
    "--log-start-offset-after",
    callback=options.long,
    metavar="N",
    help="With --start-at: the new log start offset.  [default: --start-at]",
)
@options.purge
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(partition: str, circumstances: Circumstances, **chosen: Any) -> int:
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
    if (chosen["to"] is None) == (chosen["start_at"] is None):
        raise click.UsageError("Give either --to N or --start-at N.")
    if chosen["log_start_offset_after"] is not None and chosen["start_at"] is None:
        raise click.UsageError("--log-start-offset-after needs --start-at.")
    question = TruncateQuestion(
        circumstances=circumstances,
        jobs=chosen["jobs"],
        purge=chosen["purge"],
        no_undo=chosen["no_undo"],
        to=chosen["to"],
        start_at=chosen["start_at"],
        log_start_offset_after=chosen["log_start_offset_after"],
    )
    return decide_and_carry_out(COMMAND, [partition], question, chosen, text_of=truncate_text)
