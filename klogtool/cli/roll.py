"""klogtool roll."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.render.roll import roll_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.roll import COMMAND


@click.command("roll")
@click.argument("partition", metavar="PARTITION")
@click.option("--incoming-bytes", callback=options.long, metavar="N", help="What is to be appended.  [default: 0]")
@click.option(
    "--incoming-timestamp",
    callback=options.moment,
    metavar="TIME",
    help="Its largest timestamp, by which a broker tells how long the segment has waited.  [default: --now]",
)
@click.option("--incoming-offset", callback=options.long, metavar="N", help="Its last offset.  [default: the log end]")
@click.option("--force", is_flag=True, help="Close the segment, due or not.")
@options.purge
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(partition: str, given: Circumstances, **chosen: Any) -> int:
    """Tell whether a partition's active segment is due to be closed, and why; and do it.

    A broker asks when something is to be appended, and goes by that one's timestamp; without options, by the clock's.
    Prints the plan and stops; with --apply or --output, carries it out.

    Exit status: 0 done, or not due; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    names = ("incoming_bytes", "incoming_timestamp", "incoming_offset", "force", "purge", "jobs")
    incoming = [f"--{name.replace('_', '-')}" for name in names[:3] if chosen[name] is not None]
    if chosen["force"] and incoming:
        raise click.UsageError(f"--force does not ask what is to come: without {incoming[0]}.")
    arguments = given.as_arguments() | options.only_given(chosen, names)
    return decide_and_carry_out(COMMAND, [partition], arguments, chosen, text_of=roll_text)
