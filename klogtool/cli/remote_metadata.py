"""klogtool remote metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import click
from msgspec import Struct

from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import StoreQuestion
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.clock import now_ms
from klogtool.disk.output import check_place, write_folder
from klogtool.errors import KlogError
from klogtool.format.names import REMOTE_TOPIC
from klogtool.format.partitioner import METADATA_PARTITIONS
from klogtool.log.logdir import LogDir
from klogtool.parameters import Unit, parameter
from klogtool.plans.remote_metadata import rebuild_metadata
from klogtool.remote.inventory import walk_partitions
from klogtool.remote.metadata import find_topic
from klogtool.render.remote import rebuilt_row, rebuilt_text

COMMAND = "remote metadata"
MOST_PARTITIONS = 1 << 20


class RebuildQuestion(Struct, frozen=True, kw_only=True):
    """What is known of the topic, and where it goes."""

    beside: StoreQuestion
    partitions: Annotated[
        int | None,
        parameter(
            "How many partitions __remote_log_metadata has (remote.log.metadata.topic.num.partitions).  [default: as "
            "the cluster's metadata or --metadata has, else 50]",
            parse=options.Number(1, MOST_PARTITIONS),
        ),
    ] = None
    adopt: Annotated[
        str | None,
        parameter(
            "The objects of this topic id come from another cluster: give their segments one leader epoch.",
            Unit.TOPIC_ID,
        ),
    ] = None
    output: Annotated[
        str | None, parameter("Write the partition dirs to this folder. It must be new or empty.", Unit.FOLDER)
    ] = None


@commands.command("metadata")
@click.argument("store", metavar="STORE")
@question_options(RebuildQuestion)
@options.screen()
def command(store: str, question: RebuildQuestion, screen: Screen) -> int:
    """Rebuild a lost __remote_log_metadata from the objects alone. It must be in place before the first start.

    Without --output, shows what it would have and stops. A broker that starts without this topic moves the log start of
    its tiered partitions up, and forgets all that is remote. With --local, segments below the log start are left out.

    \b
    Examples:
      klogtool remote metadata s3://bucket/tier --local /data/kafka --output rebuilt
      klogtool remote metadata /mnt/tier --adopt AejNNKazRgCOP9s5ws4LnA --output rebuilt

    Exit status: 0 done; 1 some objects do not say what they are, and are left out, or some offsets are in no object; 2
    wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    if question.adopt is not None:
        options.topic_id(question.adopt, "--adopt")
    if question.output is not None:
        check_place(question.output, None)
    opened, metadata = question.beside.open_segments(store), question.beside.read_metadata()
    topic = find_topic((*question.beside.local, *question.beside.metadata))
    known = topic.partitions or (None if metadata is None else max(metadata.numbers) + 1)
    count = question.partitions or known or METADATA_PARTITIONS
    if question.partitions is None and known is None and (named := _highest_number(question.beside.local)) is not None:
        note(
            f"klogtool: the log dirs have partitions of {REMOTE_TOPIC} up to {named}: is {count} the "
            "number that it has? Another one is given with --partitions; a broker ignores records in other partitions."
        )
    listed = list(walk_partitions(opened, None, question.beside.read_local()))
    if question.adopt is not None and all(one.topic_id != question.adopt for one in listed):
        raise KlogError(CommandRefusal.NO_OBJECTS_OF(topic_id=question.adopt), path=opened.uri)
    rebuilt = rebuild_metadata(opened, listed, count, question.adopt, now_ms(), topic.topic_id)
    if question.output is not None:
        write_folder(question.output, rebuilt.files, opened.uri, folders=rebuilt.folders)
    show = Show(COMMAND, screen)
    show.row(rebuilt_row(rebuilt, question.output))
    show.lines(rebuilt_text(rebuilt, question.output, is_adopted=question.adopt is not None, verbose=screen.verbose))
    return FOUND if rebuilt.missing or any(one.why is not None for one in rebuilt.left_out) else DONE


def _highest_number(log_dirs: Sequence[str]) -> int | None:
    """Return the highest partition of the topic in these log dirs, with or without records."""
    partitions = (one for path in log_dirs for one in LogDir(path).partitions if not one.state.value)
    return max((one.partition or 0 for one in partitions if one.topic == REMOTE_TOPIC), default=None)
