"""klogtool remote ls."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Struct

from klogtool.cli import commands, options
from klogtool.cli.output import note
from klogtool.cli.output_file import check_outside, output_file
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import StoreQuestion
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.parameters import Unit, parameter
from klogtool.remote.inventory import walk_partitions
from klogtool.render.remote import listed_rows, listed_text, store_summary, store_text, unread_lines

COMMAND = "remote ls"


class ListQuestion(Struct, frozen=True, kw_only=True):
    """What is known beside the store, and where columns go."""

    beside: StoreQuestion
    output: Annotated[str | None, parameter("With --format arrow: the file to write.", Unit.FILE)] = None


@commands.command("ls")
@click.argument("store", metavar="STORE")
@question_options(ListQuestion)
@options.packed(
    options.taken(Screen),
    "screen",
    options.output_format("text", "json", "arrow", about="Output format: text, JSON Lines (--json), or columns."),
    options.quiet,
)
def command(store: str, question: ListQuestion, screen: Screen) -> int:
    """List the partitions of a store: offsets, leader epochs, segments, bytes and states.

    With --metadata, states are those of __remote_log_metadata. Without it, or for objects that it does not know, the
    objects say what they are. With -v, each segment has a line. With --format arrow --output FILE, each segment is a
    row of columns.

    \b
    Examples:
      klogtool remote ls /mnt/tier
      klogtool remote ls s3://bucket/tier --metadata /data/kafka --local /data/kafka --json
      klogtool remote ls /mnt/tier --format arrow --output segments.arrow

    Exit status: 0 done; 1 some objects or metadata could not be read, which is said; 2 wrong usage, no such path; 3
    refused: the file of --output; 4 could not go on.
    """
    is_arrow, beside = screen.form == "arrow", question.beside
    if is_arrow != (question.output is not None):
        raise click.UsageError("--format arrow and --output FILE go together.")
    opened, metadata = beside.open_store(store), beside.read_metadata()
    partitions = list(walk_partitions(opened, metadata, beside.read_local()))
    if question.output is not None:
        from klogtool.render.remote_columns import write_segments  # needs an extra

        check_outside(question.output, [store, *beside.metadata, *beside.local])
        with output_file(question.output) as sink:
            write_segments(partitions, sink)
    show = Show(COMMAND, screen)
    for partition in () if is_arrow else partitions:
        show.rows(listed_rows(partition))
        show.lines(listed_text(partition, verbose=screen.verbose))
    errors = [] if metadata is None else metadata.problems
    errors = [*errors, *(one.problem for each in partitions for one in each.segments if one.problem is not None)]
    whole = store_summary(opened, partitions, errors)
    show.row(whole)
    show.lines(() if is_arrow else store_text(opened, whole))
    for line in unread_lines(errors, verbose=screen.verbose) if not screen.quiet else ():
        note(f"klogtool: {line}")
    return FOUND if errors else DONE
