"""The work of dump-log, after its options are parsed: text as Kafka prints it, JSON lines, or CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from klogtool.cli.dump_columns import logs_of, standard_input_of
from klogtool.cli.kafka_options import KafkaOptions
from klogtool.cli.output import Output, error_lines
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.cli.version import VERSION
from klogtool.disk.standard_input import NAME as STDIN
from klogtool.errors import KlogError
from klogtool.log.cores import usable_cores
from klogtool.render.csv_lines import HEADING
from klogtool.render.file_dump import dump_csv, dump_json, dump_text, walk_files
from klogtool.render.json_lines import json_line
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.progress_bar import with_progress_bar

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding
    from klogtool.log.file import LogFile
    from klogtool.render.selection import Selection


def dump_files(
    paths: Sequence[str],
    form: str,
    chosen: dict[str, Any],
    selection: Selection | None = None,
    values: Decoding | None = None,
) -> int:
    """Dump `chosen["files"]` as Kafka's tool would, or else the paths, as text, JSON or CSV; returns the exit status.

    The path `-` is standard input. chosen: Kafka's options (see KafkaOptions), and klogtool's jobs, quiet, no_progress,
    resync, if given. values: how keys and values are decoded; they are printed then, in one thread.
    """
    with standard_input_of([] if chosen["files"] else paths) as stdin:
        return _dump(paths, form, chosen, selection, stdin, values)


def _dump(
    paths: Sequence[str],
    form: str,
    chosen: dict[str, Any],
    selection: Selection | None,
    stdin: LogFile | None,
    values: Decoding | None,
) -> int:
    output, quiet = Output(), bool(chosen.get("quiet"))

    def tell(error: KlogError) -> None:
        output.note(*error_lines(error, {**chosen, "form": form}))

    dump = dump_into(output, form, chosen, selection, values)
    dump.stdin = stdin

    def work(on_progress: Callable[[int], None] | None) -> int:
        dump.on_progress = on_progress
        if chosen["files"]:
            return _as_kafka(dump, form, tell, output, quiet=quiet)
        return _own_way(paths, dump, form, tell, output, quiet=quiet)

    status = with_progress_bar(work, _logs(paths, chosen), wanted=not (quiet or chosen.get("no_progress")))
    for line in dump.reports.lines() if form == "text" and status == DONE and not quiet else ():
        output.note(line)
    output.flush()
    return FOUND if status == DONE and dump.damaged else status


def dump_into(
    output: Output, form: str, chosen: dict[str, Any], selection: Selection | None, values: Decoding | None
) -> KafkaDump:
    """Return what dumps files as these options say."""
    return KafkaDump(
        KafkaOptions(chosen if values is None else {**chosen, "print_data_log": True}),
        {"json": output.write_json, "csv": output.write_csv}.get(form, output.write),
        (lambda _: None) if chosen.get("quiet") else output.note,
        selection=selection,
        go_on=bool(chosen.get("resync")),
        jobs=(chosen.get("jobs") or usable_cores()) if values is None else 1,
        values=values,
    )


def _logs(paths: Iterable[str], chosen: dict[str, Any]) -> Iterator[str]:
    """Yield the large files among those that will be read."""
    if chosen["files"]:
        try:
            yield from KafkaOptions(chosen).files()
        except KlogError:
            return  # reported when it is read
    else:
        for path in paths:
            if path == STDIN:
                continue
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
    paths: Iterable[str], dump: KafkaDump, form: str, tell: Callable[[KlogError], None], output: Output, *, quiet: bool
) -> int:
    """Dump all files of all paths; return the worst status."""
    options = dump.options
    (
        options.records(),
        options.max_bytes(),
        options.max_message_size(),
    )  # wrong values are reported before anything is read
    one = partial(dump_text, dump) if form == "text" else _one_file(dump, form)
    walk = partial(_walk_logs, quiet=quiet) if form == "csv" else partial(walk_files, any_name=form == "json")
    status = DONE
    for path in paths:
        tried: list[int] = []

        def failed(error: KlogError, tried: list[int] = tried) -> None:
            tell(error)
            tried.append(status_of(error))

        for file in [STDIN] if path == STDIN else walk(path, failed):
            tried.append(_tried(one, file, failed))
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


def _tried(one: Callable[[str], None], path: str, failed: Callable[[KlogError], None]) -> int:
    try:
        one(path)
    except KlogError as error:
        failed(error)
    return DONE


def _one_file(dump: KafkaDump, form: str) -> Callable[[str], None]:
    dump.write(beginning(form))
    return dump.file if form == "text" else partial(dump_csv if form == "csv" else dump_json, dump)


def beginning(form: str) -> bytes:
    """Return what comes before the first file."""
    if form == "text":
        return b""
    if form == "csv":
        return HEADING
    return json_line({"type": "klogtool", "version": VERSION, "schema": 1, "command": "dump-log"})
