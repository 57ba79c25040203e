"""klogtool dump-log --format arrow|parquet --output FILE: records as columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from klogtool.cli.dump_question import Dumping
from klogtool.cli.output import error_lines, note
from klogtool.cli.output_file import check_outside, output_file
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.disk.standard_input import NAME as STDIN
from klogtool.disk.standard_input import open_standard_input
from klogtool.errors import KlogError
from klogtool.log.file import LogFile, ReadErrors
from klogtool.log.foreign import check_head
from klogtool.render.arrow import Tally, find_left_out, find_logs, walk_files, write_arrow, write_parquet

WRITERS = {"arrow": write_arrow, "parquet": write_parquet}


def dump_columns(dumping: Dumping) -> int:
    """Write all records of the logs under the paths to the file of --output. Returns the exit status.

    Damage is reported and skipped, if a next batch is found. The file then has the rest, and the status is 1.
    """
    output = dumping.question.output
    if not output:
        raise click.UsageError(f"--format {dumping.form} needs --output FILE.")
    of_kafka = dumping.options().files() if dumping.arguments.files else []
    with standard_input_of(dumping.own_paths) as stdin:
        logs = of_kafka or _every_log(dumping.own_paths, stdin, quiet=dumping.reading.quiet)
        check_outside(output, of_kafka or [path for path in dumping.own_paths if path != STDIN])
        return _write(logs, output, dumping)


def _every_log(paths: Sequence[str], stdin: LogFile | None, *, quiet: bool) -> list[str | LogFile]:
    logs: list[str | LogFile] = []
    for path in paths:
        logs += [stdin.again()] if stdin is not None and path == STDIN else logs_of(path, quiet=quiet)
    return logs


def _write(logs: Sequence[str | LogFile], output: str, dumping: Dumping) -> int:
    statuses = [DONE]

    def tell(error: KlogError) -> None:
        statuses.append(status_of(error))
        note(*error_lines(error))

    tally = Tally()
    batches = walk_files(
        logs,
        end=dumping.options().max_bytes() if dumping.arguments.max_bytes else None,
        selection=dumping.selection,
        jobs=dumping.reading.jobs,
        on_damage=tell,
        tally=tally,
        resync=dumping.question.resync,
    )
    with output_file(output) as sink:
        WRITERS[dumping.form](batches, sink)
    if tally.invalid:
        note(f"klogtool: batches that do not match their checksum: {tally.invalid}; their records have _crc_ok false")
    return max(*statuses, FOUND if tally.invalid else DONE)


@contextmanager
def standard_input_of(paths: Sequence[str]) -> Iterator[LogFile | None]:
    """Open standard input if it is one of the paths; else give None."""
    if STDIN not in paths:
        yield None
        return
    if list(paths).count(STDIN) > 1:
        raise click.UsageError("Standard input can be read once only.")
    with open_standard_input(None if sys.stdin is None else sys.stdin.buffer) as stdin:
        check_head(stdin)
        yield stdin


def logs_of(path: str, *, quiet: bool) -> list[str]:
    """Return the logs under a path. Raises KlogError if it does not exist; files that are left out are noted."""
    with ReadErrors(path):
        os.lstat(path)
    logs, left_out = find_logs(path), find_left_out(path)
    for folder in left_out if not quiet else ():
        note(
            f"klogtool: {folder}: left out: being deleted, stray, or a second copy",
            "To read it, name it on the command line.",
        )
    if not logs and not left_out:
        note(f"klogtool: {path}: no logs in it")
    return logs
