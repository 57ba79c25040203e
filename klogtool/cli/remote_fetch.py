"""klogtool remote fetch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import click
from msgspec import Struct

from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import StoreQuestion
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.clock import now_ms
from klogtool.disk.output import check_place, spools_beside, write_folder
from klogtool.errors import KlogError
from klogtool.format.typed import parse_moment
from klogtool.parameters import Unit, parameter
from klogtool.plans.remote_fetch import fetch_log
from klogtool.remote.fetching import choose_log, find_offset_at
from klogtool.remote.inventory import ListedPartition, walk_partitions
from klogtool.render.remote import choice_row, choice_text, fetched_row, fetched_text

COMMAND = "remote fetch"
_OFFSET = re.compile(r"\d{1,19}")


class FetchQuestion(Struct, frozen=True, kw_only=True):
    """What to fetch, and where to."""

    beside: StoreQuestion
    start: Annotated[
        str | None,
        parameter(
            "Begin with this offset, or with the segment that has this time (ISO 8601).  [default: the log start]",
            Unit.TEXT,
            option="from",
            metavar="OFFSET|TIME",
        ),
    ] = None
    topic_id: Annotated[
        str | None, parameter("Which of several topics with this name.", Unit.TOPIC_ID, metavar="ID")
    ] = None
    output: Annotated[
        str | None, parameter("Write the partition dir to this folder. It must be new or empty.", Unit.FOLDER)
    ] = None


@commands.command("fetch")
@click.argument("store", metavar="STORE")
@click.argument("partition", metavar="TOPIC-PARTITION")
@question_options(FetchQuestion)
@options.screen()
def command(store: str, partition: str, question: FetchQuestion, screen: Screen) -> int:
    """Bring a partition back from remote storage, as a partition dir that a broker without tiered storage can load.

    Without --output, shows what would be fetched and stops. With --metadata and --local, the segments are those that a
    broker would read, and the local part follows. Sound batches keep their bytes; indexes, snapshots and leader epochs
    are made as a broker's recovery makes them. What cannot be had is left out, and said.

    \b
    Examples:
      klogtool remote fetch s3://bucket/tier orders-0 --output rescued/orders-0
      klogtool remote fetch /mnt/tier orders-0 --metadata /data/kafka --local /data/kafka --from 120000

    Exit status: 0 done; 1 offsets are missing (the rest is written all the same), or no segment can be read (nothing
    is written); 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    if question.output is not None:
        check_place(question.output, None)
    opened, metadata = question.beside.open_segments(store), question.beside.read_metadata()
    listed = _find(
        walk_partitions(opened, metadata, question.beside.read_local()), partition, question.topic_id, opened.uri
    )
    choice = choose_log(opened, listed, metadata, _first_offset(listed, question.start, opened.uri))
    show = Show(COMMAND, screen)
    if question.output is None:
        show.row(choice_row(listed, choice))
        show.lines(choice_text(listed, choice))
        return FOUND if choice.missing else DONE
    with spools_beside(question.output) as spools:
        fetched = fetch_log(opened, listed, choice, question.output, spools.make_spool, now_ms())
        write_folder(question.output, fetched.files, opened.uri)
    show.row(fetched_row(listed, fetched, question.output))
    show.lines(fetched_text(listed, fetched, question.output))
    return FOUND if fetched.missing else DONE


def _find(partitions: Iterable[ListedPartition], name: str, topic_id: str | None, store: str) -> ListedPartition:
    """Return the partition of this name. Raises KlogError if there is none, or several topics have the name."""
    matching = [one for one in partitions if f"{one.topic}-{one.partition}" == name]
    matching = [one for one in matching if topic_id in (None, one.topic_id)]
    if not matching:
        raise KlogError(CommandRefusal.NO_PARTITION(partition=name), path=store)
    if len(matching) > 1:
        ids = ", ".join(one.topic_id for one in matching)
        raise KlogError(CommandRefusal.SEVERAL_TOPICS(ids=ids), path=store)
    return matching[0]


def _first_offset(partition: ListedPartition, start: str | None, store: str) -> int | None:
    if start is None:
        return None
    if _OFFSET.fullmatch(start):
        return int(start)
    try:
        timestamp = parse_moment(start)
    except KlogError as error:
        raise click.BadParameter(f"{error.reason}.", param_hint="--from") from None
    offset = find_offset_at(partition, timestamp)
    if offset is None:
        raise KlogError(CommandRefusal.NO_RECORD_SINCE(time=start), path=store)
    return offset
