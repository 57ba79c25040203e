"""klogtool hash."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Show
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.copies.record_hash import RecordHash, find_common_ranges, hash_partitions
from klogtool.errors import FileCause, Unsupported
from klogtool.format.names import PartitionDirState
from klogtool.log.folder import own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.parameters import parameter
from klogtool.render.hash import common_range_lines, hash_row, hash_text

COMMAND = "hash"


class HashQuestion(Struct, frozen=True, kw_only=True):
    """Which records are digested."""

    circumstances: Circumstances
    start: Annotated[
        int | None,
        parameter(
            "Only records with this offset or a higher one.  [default: the log start offset]",
            option="from",
            metavar="OFFSET",
        ),
    ] = None
    end: Annotated[
        int | None, parameter("Only records below this offset.  [default: all]", option="to", metavar="OFFSET")
    ] = None


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@question_options(HashQuestion)
@options.reading()
@gently
def command(paths: tuple[str, ...], question: HashQuestion, reading: ReadingOptions) -> int:
    """Print a digest of the records of each PATH: a partition dir, or a log dir with all of its partitions.

    Copies of a partition with the same records have the same digest, whatever their batches and codecs are. The digest
    is of offsets, timestamps, keys, values and headers. All checksums and all records are checked. There is no digest
    of a damaged partition. Nothing is written.

    To compare brokers whose copies have different ends, give each of them the same --from and --to.

    \b
    Examples:
      klogtool hash broker-1/orders-0 broker-2/orders-0
      klogtool hash LOGDIR --json

    Exit status: 0 done; 1 a partition is damaged; 2 wrong usage, no such path; 4 a partition could not be read.
    """
    begin_reading(paths, quiet=reading.quiet)
    dirs = [partition_dir for path in paths for partition_dir in _partition_dirs(path)]
    counted, results, statuses = Counter(map(own_name, dirs)), list[RecordHash](), set[int]()
    show = Show(COMMAND, reading)
    log_start = question.circumstances.log_start_offset
    for result in hash_partitions(
        dirs, start=question.start, end=question.end, log_start=log_start, jobs=reading.threads
    ):
        results.append(result)
        show.answer(hash_row(result))
        # By its own name, or by its path if others have that name.
        name = own_name(result.path)
        show.line(hash_text(result, name if counted[name] == 1 else os.path.normpath(result.path)))
        if result.error is not None:
            statuses.add(status_of(result.error))
            show.error(result.error)
    if not reading.quiet:
        show.out.note(*common_range_lines(find_common_ranges(results)))
    show.close()
    return FOUND if FOUND in statuses else max(statuses, default=DONE)


def _partition_dirs(path: str) -> Iterator[str]:
    """Yield the partition dirs of a path. Those that a broker is deleting are left out."""
    opened = open_path(path)
    if isinstance(opened, LogDir):
        yield from (
            partition.path for partition in opened.partitions if partition.state is not PartitionDirState.DELETE
        )
    elif isinstance(opened, Partition):
        yield path
    else:
        raise Unsupported(FileCause.NEEDS_DIR(), path=path)
