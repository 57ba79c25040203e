"""The work of dump-log, after its options are parsed: text as Kafka prints it, or JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from klogtool.cli.kafka_options import KafkaOptions
from klogtool.cli.output import Output, error_lines
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.cli.version import VERSION
from klogtool.errors import KlogError
from klogtool.log.cores import usable_cores
from klogtool.render.file_dump import TextDump, walk_files
from klogtool.render.json_dump import JsonDump
from klogtool.render.json_lines import json_line
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.progress_bar import with_progress_bar

if TYPE_CHECKING:
    from klogtool.render.selection import Selection


def dump_files(paths: Sequence[str], form: str, chosen: dict[str, Any], selection: Selection | None = None) -> int:
    """Dump `chosen["files"]` as Kafka's tool would, or else the paths, as text or JSON; returns the exit status.

    chosen: Kafka's options (see KafkaOptions), and klogtool's jobs, quiet, no_progress, resync, if given.
    """
    output, quiet = Output(), bool(chosen.get("quiet"))

    def tell(error: KlogError) -> None:
        output.note(*error_lines(error, {**chosen, "form": form}))

    dump = KafkaDump(
        KafkaOptions(chosen),
        output.write_json if form == "json" else output.write,
        (lambda _: None) if quiet else output.note,
        selection=selection,
        go_on=bool(chosen.get("resync")),
        jobs=chosen.get("jobs") or usable_cores(),
    )

    def work(on_progress: Callable[[int], None] | None) -> int:
        dump.on_progress = on_progress
        if chosen["files"]:
            return _as_kafka(dump, form, tell, output, quiet=quiet)
        return _own_way(paths, dump, form, tell, output)

    status = with_progress_bar(work, _logs(paths, chosen), wanted=not (quiet or chosen.get("no_progress")))
    for line in dump.reports.lines() if form == "text" and status == DONE and not quiet else ():
        output.note(line)
    output.flush()
    return FOUND if status == DONE and dump.damaged else status


def _logs(paths: Iterable[str], chosen: dict[str, Any]) -> Iterator[str]:
    """Yield the large files among those that will be read."""
    if chosen["files"]:
        try:
            yield from KafkaOptions(chosen).files()
        except KlogError:
            return  # reported when it is read
    else:
        for path in paths:
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
    paths: Iterable[str], dump: KafkaDump, form: str, tell: Callable[[KlogError], None], output: Output
) -> int:
    """Dump all files of all paths; return the worst status."""
    options = dump.options
    (
        options.records(),
        options.max_bytes(),
        options.max_message_size(),
    )  # wrong values are reported before anything is read
    one = TextDump(dump).file if form == "text" else _one_file(dump, form)
    status = DONE
    for path in paths:
        tried: list[int] = []

        def failed(error: KlogError, tried: list[int] = tried) -> None:
            tell(error)
            tried.append(status_of(error))

        for file in walk_files(path, failed):
            tried.append(_tried(one, file, failed))
        if not tried:
            output.note(f"klogtool: {path}: no files in it")
        status = max([status, *tried])
    return status


def _tried(one: Callable[[str], None], path: str, failed: Callable[[KlogError], None]) -> int:
    try:
        one(path)
    except KlogError as error:
        failed(error)
    return DONE


def _one_file(dump: KafkaDump, form: str) -> Callable[[str], None]:
    if form == "text":
        return dump.file
    first = {"type": "klogtool", "version": VERSION, "schema": 1, "command": "dump-log"}
    dump.write(json_line(first))
    return JsonDump(dump).file
