"""klogtool remote ls."""

from __future__ import annotations

import click

from klogtool.cli import commands, options
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import StoreQuestion
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.remote.inventory import walk_partitions
from klogtool.render.remote import listed_rows, listed_text, store_summary, store_text

COMMAND = "remote ls"


@commands.command("ls")
@click.argument("store", metavar="STORE")
@question_options(StoreQuestion)
@options.packed(options.taken(Screen), "screen", options.output_format(), options.quiet)
@options.debug
def command(store: str, question: StoreQuestion, screen: Screen) -> int:
    """List the partitions of a store: offsets, leader epochs, segments, bytes and states.

    With --metadata, states are those of __remote_log_metadata. Without it, or for objects that it does not know, the
    objects say what they are. With -v, each segment has a line.

    \b
    Examples:
      klogtool remote ls /mnt/tier
      klogtool remote ls s3://bucket/tier --metadata /data/kafka --local /data/kafka --json

    Exit status: 0 done; 1 some objects or metadata could not be read, which is said; 2 wrong usage, no such path; 4
    could not go on.
    """
    opened, metadata, local = question.open_store(store), question.read_metadata(), question.read_local()
    partitions = list(walk_partitions(opened, metadata, local))
    show = Show(COMMAND, screen)
    for partition in partitions:
        for row in listed_rows(partition):
            show.row(row)
        for line in listed_text(partition, verbose=screen.verbose):
            show.line(line)
    show.row(store_summary(opened, partitions))
    for line in store_text(opened, partitions):
        show.line(line)
    problems = [] if metadata is None else metadata.problems
    problems = [*problems, *(one.problem for each in partitions for one in each.segments if one.problem is not None)]
    for problem in problems if not screen.quiet else ():
        note(f"klogtool: {problem}")
    return FOUND if problems else DONE
