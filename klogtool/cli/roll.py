"""klogtool roll."""

from __future__ import annotations

from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.plans.roll import COMMAND, RollQuestion
from klogtool.render.roll import roll_text


@commands.command("roll")
@click.argument("partition", metavar="PARTITION")
@click.option("--incoming-bytes", callback=options.long, metavar="N", help="Size of the next append.  [default: 0]")
@click.option(
    "--incoming-timestamp",
    callback=options.moment,
    metavar="TIME",
    help="Largest timestamp of the next append. A broker compares the age of the segment with it.  [default: --now]",
)
@click.option(
    "--incoming-offset",
    callback=options.long,
    metavar="N",
    help="Last offset of the next append.  [default: the log end offset]",
)
@click.option("--force", is_flag=True, help="Roll the segment even if it is not due.")
@options.purge
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(partition: str, circumstances: Circumstances, **chosen: Any) -> int:
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
    incoming = [f"--{name.replace('_', '-')}" for name in names if chosen[name] is not None]
    if chosen["force"] and incoming:
        raise click.UsageError(f"--force rolls in any case: remove {incoming[0]}.")
    question = RollQuestion(
        circumstances=circumstances,
        jobs=chosen["jobs"],
        purge=chosen["purge"],
        no_undo=chosen["no_undo"],
        incoming_bytes=chosen["incoming_bytes"],
        incoming_timestamp=chosen["incoming_timestamp"],
        incoming_offset=chosen["incoming_offset"],
        force=chosen["force"],
    )
    return decide_and_carry_out(COMMAND, [partition], question, chosen, text_of=roll_text)
