"""The work of dump-log, after its options are parsed: text as Kafka prints it, JSON lines, or CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from klogtool.cli.dump_columns import NamedLogs, logs_of, named_logs
from klogtool.cli.dump_question import Dumping
from klogtool.cli.output import Output, error_lines
from klogtool.cli.show import header
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.errors import KlogError
from klogtool.render.csv_lines import HEADING
from klogtool.render.file_dump import dump_csv, dump_json, dump_text, walk_files
from klogtool.render.json_lines import json_line
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.progress_bar import with_progress_bar

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding


def dump_files(dumping: Dumping, values: Decoding | None) -> int:
    """Dump --files as Kafka's tool would, or else the paths, as text, JSON or CSV; returns the exit status.

    values: how keys and values are decoded; they are printed then, in one thread.
    """
    form, quiet, output = dumping.form, dumping.reading.quiet, Output()

    def tell(error: KlogError) -> None:
        output.note(*error_lines(error, form, resyncs=dumping.question.resync))

    with named_logs(dumping) as stores:
        dump = dumping.into(output, values)
        dump.named = {name: log for logs in stores.values() for name, log in logs.items()}

        def work(on_progress: Callable[[int], None] | None) -> int:
            dump.on_progress = on_progress
            if dumping.arguments.files:
                return _as_kafka(dump, form, tell, output, quiet=quiet)
            return _own_way(dumping.paths, stores, dump, form, tell, output, quiet=quiet)

        status = with_progress_bar(work, _logs(dumping, stores), wanted=dumping.reading.wants_bar)
        ended = dumping.arguments.files and status != DONE  # Kafka's tool dies, and reports nothing
        for line in dump.reports.lines() if form == "text" and not ended and not quiet else ():
            output.note(line)
        output.flush()
        return FOUND if status == DONE and dump.damaged else status


def _logs(dumping: Dumping, stores: NamedLogs) -> Iterator[str]:
    """Yield the large files among those that will be read."""
    if dumping.arguments.files:
        try:
            yield from dumping.options().files()
        except KlogError:
            return  # reported when it is read
    for path in dumping.own_paths:
        if path not in stores:
            yield from (file for file in walk_files(path, lambda _: None) if file.endswith(".log"))


def _as_kafka(dump: KafkaDump, form: str, tell: Callable[[KlogError], None], output: Output, *, quiet: bool) -> int:
    """Dump as Kafka's tool does: stop at the first file at which it would fail."""
    files: Iterator[str] = iter(())
    try:
        one = _one_file(dump, form)
        files = iter(dump.options.files())
        for path in files:
            one(path)
    except KlogError as error:
        tell(error)
        if (left := len(list(files))) and not quiet:
            output.note(f"klogtool: --files ends there, as kafka-dump-log does; not read: {left} more")
        return status_of(error)
    return DONE


def _own_way(
    paths: Iterable[str],
    stores: NamedLogs,
    dump: KafkaDump,
    form: str,
    tell: Callable[[KlogError], None],
    output: Output,
    *,
    quiet: bool,
) -> int:
    """Dump all files of all paths; return the worst status."""
    # Wrong values are reported before anything is read.
    dump.options.records(), dump.options.max_bytes(), dump.options.max_message_size()
    one = partial(dump_text, dump) if form == "text" else _one_file(dump, form)
    walk = partial(_walk_logs, quiet=quiet) if form == "csv" else partial(walk_files, any_name=form == "json")
    status = DONE
    for path in paths:
        tried: list[int] = []

        def failed(error: KlogError, tried: list[int] = tried) -> None:
            tell(error)
            tried.append(status_of(error))

        for file in stores.get(path) or walk(path, failed):
            try:
                one(file)
            except KlogError as error:
                failed(error)
            tried.append(DONE)
        if not tried and form != "csv":
            output.note(f"klogtool: {path}: no files in it")
        status = max([status, *tried])
    return status


def _walk_logs(path: str, failed: Callable[[KlogError], None], *, quiet: bool) -> Iterator[str]:
    """Yield the logs under a path, as the other tables have them."""
    try:
        yield from logs_of(path, quiet=quiet)
    except KlogError as error:
        failed(error)


def _one_file(dump: KafkaDump, form: str) -> Callable[[str], None]:
    dump.write(beginning(form))
    return dump.file if form == "text" else partial(dump_csv if form == "csv" else dump_json, dump)


def beginning(form: str) -> bytes:
    """Return what comes before the first file."""
    if form == "text":
        return b""
    if form == "csv":
        return HEADING
    return json_line(header("dump-log"))
