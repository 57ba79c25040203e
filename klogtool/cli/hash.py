"""klogtool hash."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.output import Output, error_lines
from klogtool.cli.show import header
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.copies.record_hash import RecordHash, find_common_ranges, hash_partitions
from klogtool.errors import Unsupported
from klogtool.format.names import PartitionDirState
from klogtool.json_rows import row_line
from klogtool.log.cores import usable_cores
from klogtool.log.folder import own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.render.hash import common_range_lines, hash_row, hash_text

COMMAND = "hash"


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--from",
    "start",
    callback=options.long,
    metavar="OFFSET",
    help="Only records with this offset or a higher one.  [default: the log start offset]",
)
@click.option(
    "--to", "end", callback=options.long, metavar="OFFSET", help="Only records below this offset.  [default: all]"
)
@options.output_format()
@options.jobs
@options.quiet
@question_options.circumstances
@options.debug
def command(paths: tuple[str, ...], form: str, circumstances: Circumstances, **chosen: Any) -> int:
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
    if not chosen["quiet"]:
        note_if_in_use(paths)
    dirs = [found for path in paths for found in _partition_dirs(path)]
    jobs = chosen["jobs"] or usable_cores()
    found = hash_partitions(
        dirs, start=chosen["start"], end=chosen["end"], log_start=circumstances.log_start_offset, jobs=jobs
    )
    return _show(found, _names(dirs), form, is_quiet=chosen["quiet"])


def _partition_dirs(path: str) -> Iterator[str]:
    """Yield the partition dirs of a path. Those that a broker is deleting are left out."""
    opened = open_path(path)
    if isinstance(opened, LogDir):
        yield from (found.path for found in opened.partitions if found.state is not PartitionDirState.DELETE)
    elif isinstance(opened, Partition):
        yield path
    else:
        raise Unsupported("a file: a partition dir or a log dir is needed", path=path)


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Return how each partition dir is called: by its own name, or by its path if others have that name."""
    counted = Counter(own_name(path) for path in paths)
    return {path: own_name(path) if counted[own_name(path)] == 1 else os.path.normpath(path) for path in paths}


def _show(found: Iterator[RecordHash], names: dict[str, str], form: str, *, is_quiet: bool) -> int:
    out, seen, statuses = Output(), list[RecordHash](), set[int]()
    if form == "json":
        out.line(row_line(header(COMMAND)))
    for one in found:
        seen.append(one)
        row = {"type": "answer", "command": COMMAND, **hash_row(one)}
        out.line(row_line(row) if form == "json" else hash_text(one, names[one.path]))
        if one.error is not None:
            statuses.add(status_of(one.error))
            out.note(*error_lines(one.error))
    if not is_quiet:
        out.note(*common_range_lines(find_common_ranges(seen)))
    out.flush()
    return FOUND if FOUND in statuses else max(statuses, default=DONE)
