"""klogtool dump-log --format arrow|parquet --output FILE: records as columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeAlias

import click

from klogtool.cli.dump_question import Dumping
from klogtool.cli.output import error_lines, note
from klogtool.cli.output_file import check_outside, output_file
from klogtool.cli.remote_options import key_of
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.disk.standard_input import NAME as STDIN
from klogtool.disk.standard_input import open_standard_input
from klogtool.errors import KlogError
from klogtool.format.names import FileKind, build_file_name
from klogtool.log.file import ReadErrors
from klogtool.log.foreign import check_head
from klogtool.remote.named import find_named, walk_logs
from klogtool.remote.segment_file import open_log
from klogtool.remote.store import RemoteStore
from klogtool.render.arrow import (
    NamedLog,
    RecordQuery,
    Tally,
    find_left_out,
    find_logs,
    walk_files,
    write_arrow,
    write_parquet,
)

NamedLogs: TypeAlias = Mapping[str, Mapping[str, NamedLog]]
WRITERS = {"arrow": write_arrow, "parquet": write_parquet}


def dump_columns(dumping: Dumping) -> int:
    """Write all records of the logs under the paths to the file of --output. Returns the exit status.

    Damage is reported and skipped, if a next batch is found. The file then has the rest, and the status is 1.
    """
    output = dumping.question.output
    if not output:
        raise click.UsageError(f"--format {dumping.form} needs --output FILE.")
    of_kafka = dumping.options().files() if dumping.arguments.files else []
    with named_logs(dumping) as stores:
        logs: list[str | NamedLog] = [*of_kafka]
        for path in () if of_kafka else dumping.own_paths:
            logs += stores[path].values() if path in stores else logs_of(path, quiet=dumping.reading.quiet)
        check_outside(output, of_kafka or [path for path in dumping.own_paths if path not in stores])
        return _write(logs, output, dumping)


def _write(logs: Sequence[str | NamedLog], output: str, dumping: Dumping) -> int:
    statuses = [DONE]

    def tell(error: KlogError) -> None:
        statuses.append(status_of(error))
        note(*error_lines(error))

    tally = Tally()
    query = RecordQuery(
        selection=dumping.selection,
        on_damage=tell,
        resync=dumping.question.resync,
        jobs=dumping.reading.jobs,
        tally=tally,
    )
    end = dumping.options().max_bytes() if dumping.arguments.max_bytes else None
    with output_file(output) as sink:
        WRITERS[dumping.form](walk_files(logs, query, end=end), sink)
    if tally.invalid:
        note(f"klogtool: batches that do not match their checksum: {tally.invalid}; their records have _crc_ok false")
    return max(*statuses, FOUND if tally.invalid else DONE)


@contextmanager
def named_logs(dumping: Dumping) -> Iterator[NamedLogs]:
    """Open standard input and segments in remote storage, if they are paths of a dump: for each such path its logs, by
    the names under which they are shown. Raises KlogError if a store cannot be listed."""
    paths, keys = dumping.own_paths, dict(map(key_of, dumping.question.store_key))
    if list(paths).count(STDIN) > 1:
        raise click.UsageError("Standard input can be read once only.")
    remote = {path: store for path in paths if path != STDIN and (store := find_named(path, keys)) is not None}
    stores: dict[str, Mapping[str, NamedLog]] = {path: _logs_in(store) for path, store in remote.items()}
    with ExitStack() as closing:
        if STDIN in paths:
            stdin = closing.enter_context(open_standard_input(None if sys.stdin is None else sys.stdin.buffer))
            check_head(stdin)
            stores[STDIN] = {STDIN: NamedLog(stdin.again)}
        yield stores


def _logs_in(store: RemoteStore) -> dict[str, NamedLog]:
    logs = {}
    for one in walk_logs(store):
        name = build_file_name(FileKind.LOG, one.start_offset)
        log = NamedLog(partial(open_log, store, one), name, one.topic, one.key.partition)
        logs[one.path_of_log] = log
    return logs


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
    if not logs and not left_out and not quiet:
        note(f"klogtool: {path}: no logs in it")
    return logs
