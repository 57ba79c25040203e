"""klogtool dump-log --follow: a partition that is being written to."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import click

from klogtool.causes import Reason
from klogtool.cli import options
from klogtool.cli.dump_question import Dumping
from klogtool.cli.dumping import beginning
from klogtool.cli.output import Output, ReaderGone, error_lines
from klogtool.cli.status import status_of
from klogtool.errors import KlogError
from klogtool.log.followed import Changes, FollowedPartition
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment
from klogtool.render.kafka_dump import FollowingDump
from klogtool.render.words import words

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

ONE_PARTITION = "--follow follows one partition: name its partition dir, or the segment to begin with."
FORMATS = ("text", "json", "csv")
NOT_WITH = ("files", "output", "resync", "max_bytes", "verify_index_only", "index_sanity_check")


def follow(dumping: Dumping, values: Decoding | None = None) -> int:
    """Print what a partition has, and then what is appended, until a signal or the end of the reader of stdout.

    Returns an exit status only where damage ends it.
    """
    form = dumping.form
    if (other := options.first_used(*NOT_WITH)) is not None:
        raise click.UsageError(f"--follow does not go with {other}.")
    if form not in FORMATS:
        raise click.UsageError(f"--follow has no end, and a file of {form} needs one: --format text, json or csv.")
    if len(dumping.paths) != 1 or dumping.paths[0] == "-":
        raise click.UsageError(ONE_PARTITION)
    output = Output()

    def tell(what: Reason) -> None:
        if not dumping.reading.quiet:
            output.note(f"klogtool: {words(what)}")

    folder, first = _place(dumping.paths[0])
    lowest = dumping.selection.offsets[0] if dumping.selection else 0
    partition = FollowedPartition(folder, first, tell, lowest=lowest)
    kafka = dumping.into(output, values)
    dump = FollowingDump(kafka, form)
    kafka.write(beginning(form))
    try:
        with closing(Changes(folder, reader=_pipe())) as changes:
            while True:
                partition.look(dump.read)
                output.flush()
                if not changes.wait():
                    raise ReaderGone
    except KlogError as error:
        output.note(*error_lines(error, form, resyncs=True))
        return status_of(error)
    finally:
        partition.close()


def _place(path: str) -> tuple[str, str | None]:
    """Return the partition dir, and the segment to begin with. Raises KlogError, and UsageError for other
    files and folders."""
    opened = open_path(path)
    if isinstance(opened, Partition):
        return path, None
    if isinstance(opened, Segment):
        return os.path.dirname(path) or os.curdir, path
    raise click.UsageError(ONE_PARTITION)


def _pipe() -> int | None:
    """Return the descriptor of stdout if it is a pipe or a socket, of which the reader may go away."""
    try:
        fd = sys.stdout.fileno()
        kind = os.fstat(fd).st_mode
    except (OSError, ValueError):
        return None
    return fd if (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) and hasattr(select, "poll") else None
