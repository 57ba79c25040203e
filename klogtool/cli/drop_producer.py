"""klogtool drop-producer."""

from __future__ import annotations

from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.plans.drop_producer import COMMAND, DropProducerQuestion
from klogtool.render.drop_producer import drop_producer_text


@commands.command(COMMAND)
@click.argument("partitions", nargs=-1, required=True, metavar="PARTITION...")
@click.option("--producer-id", required=True, callback=options.long, metavar="ID", help="The producer to remove.")
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(partitions: tuple[str, ...], circumstances: Circumstances, **chosen: Any) -> int:
    """Remove one producer from the producer snapshots of a partition, and say what that exposes to readers.

    A broker forgets the producer at its next start, and keeps all others. Its open transaction no longer holds the last
    stable offset. Prints the plan and stops. With --apply or --output, carries it out.

    \b
    Examples:
      klogtool drop-producer /var/kafka-logs/orders-0 --producer-id 4711
      klogtool drop-producer /var/kafka-logs/orders-0 --producer-id 4711 --apply

    Exit status: 0 done, or no snapshot has the producer; 1 loading the log lost records; 2 wrong usage, no such path; 3
    refused, nothing written: the next start of a broker would find the producer again; 4 could not go on.
    """
    question = DropProducerQuestion(circumstances=circumstances, jobs=chosen["jobs"], producer_id=chosen["producer_id"])
    return decide_and_carry_out(COMMAND, partitions, question, chosen, text_of=drop_producer_text)
