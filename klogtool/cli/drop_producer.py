"""klogtool drop-producer."""

from __future__ import annotations

import click

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.plans.drop_producer import COMMAND, DropProducerQuestion
from klogtool.render.changes import drop_producer_text


@commands.command(COMMAND)
@click.argument("partitions", nargs=-1, required=True, metavar="PARTITION...")
@question_options(DropProducerQuestion)
@writing
def command(partitions: tuple[str, ...], question: DropProducerQuestion, writing: Writing) -> int:
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
    return decide_and_carry_out(COMMAND, partitions, question, writing, PlanFace(text_of=drop_producer_text))
