"""klogtool dump-log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.kafka_options import KAFKA_NAMES, KafkaOptions, as_kafka_reads, kafka_options
from klogtool.cli.output import Output, error_line, note
from klogtool.cli.status import DONE, FOUND, status_of
from klogtool.errors import KlogError
from klogtool.log.in_order import usable_cores
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.progress import progress_bar

FORMATS = ("text", "json", "arrow", "parquet")


class DumpLogCommand(click.Command):
    """Reads its words as Kafka's own parser would; --help tells Kafka's options from klogtool's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """click's, on words in klogtool's spelling."""
        return super().parse_args(ctx, as_kafka_reads(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Under three headings."""
        lines: dict[str, list[tuple[str, str]]] = {"Kafka's options": [], "Selection": [], "klogtool's options": []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (told := parameter.get_help_record(ctx)) is not None:
                lines[_heading(parameter.opts[0].removeprefix("--"))].append(told)
        for heading, options_told in lines.items():
            with formatter.section(heading):
                formatter.write_dl(options_told)


def _heading(name: str) -> str:
    if name in KAFKA_NAMES:
        return "Kafka's options"
    return "Selection" if name in options.SELECTION else "klogtool's options"


@click.command("dump-log", cls=DumpLogCommand)
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@kafka_options
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="What to write.")
@click.option("--output", type=click.Path(), metavar="FILE", help="Where to, for arrow and parquet.")
@click.option("--resync", is_flag=True, help="Go on behind damage, where kafka-dump-log ends.")
@options.selection
@options.jobs
@options.quiet
@options.no_progress
@options.debug
def command(paths: tuple[str, ...], form: str, **given: Any) -> int:
    """Print files of a log dir as kafka-dump-log of Kafka 4.3.1 does, byte for byte; or as JSON lines, Arrow, Parquet.

    FILE is a file, a partition dir or a log dir, with all that is in it; a bad file does not end the dump. With --files
    instead, all is as in kafka-dump-log: F are files, and the first that cannot be read ends the dump.

    JSON lines have every batch and record with all its fields, internal topics decoded, without further options.

    Exit status: 0 done; 1 damage was found; 2 wrong usage, no such path; 3 the output is there already or would lie
    in a folder that is read; 4 a file could not be read or written.
    """
    if not given["files"] and not paths:
        raise click.UsageError("Nothing to dump: name files or folders, or --files F,F as for kafka-dump-log.")
    if given["output"] and form in ("text", "json"):
        raise click.UsageError(f"--output is for arrow and parquet; {form} goes to stdout: > {given['output']}")
    if given["files"] and paths and not given["quiet"]:
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        note(f"klogtool: not read, since there is --files: {paths[0]}{others}\nSeparate files by commas: --files F,F")
    if form in ("arrow", "parquet"):
        from klogtool.cli.dump_columns import dump_columns

        return dump_columns(paths, form, options.selected(given), given)
    output = Output()
    dump = KafkaDump(
        KafkaOptions(given),
        output.write,
        (lambda _: None) if given["quiet"] else output.note,
        selection=options.selected(given),
        go_on=given["resync"],
        jobs=given["jobs"] or usable_cores(),
    )
    with progress_bar(_logs(paths, given), wanted=not (given["quiet"] or given["no_progress"])) as dump.on_progress:
        if given["files"]:
            status = _as_kafka(dump, form, output, quiet=given["quiet"])
        else:
            status = _own_way(paths, dump, form, output)
    for line in dump.reports.lines() if form == "text" and status == DONE and not given["quiet"] else ():
        output.note(line)
    output.flush()
    return FOUND if status == DONE and dump.damaged else status


def _logs(paths: Iterable[str], given: dict[str, Any]) -> Iterator[str]:
    """The large files among those that will be read."""
    from klogtool.render.file_dump import walk_files

    with suppress(KlogError):  # told when its turn comes
        if given["files"]:
            yield from KafkaOptions(given).files()
            return
    for path in paths:
        yield from (file for file in walk_files(path, lambda _: None) if file.endswith(".log"))


def _as_kafka(dump: KafkaDump, form: str, output: Output, *, quiet: bool) -> int:
    """Ends at the first file that Kafka's tool would die of."""
    files: Iterator[str] = iter(())
    try:
        one = _one_file(dump, form)
        files = iter(dump.options.files())
        for path in files:
            one(path)
    except KlogError as error:
        output.note(error_line(error))
        if (left := len(list(files))) and not quiet:
            output.note(f"klogtool: --files ends there, as kafka-dump-log does; not read: {left} more")
        return status_of(error)
    return DONE


def _own_way(paths: Iterable[str], dump: KafkaDump, form: str, output: Output) -> int:
    """All files of all paths; the worst status of any."""
    from klogtool.render.file_dump import TextDump, walk_files

    options = dump.options
    options.records(), options.max_bytes(), options.max_message_size()  # wrong words are told before anything is read
    one = TextDump(dump).file if form == "text" else _one_file(dump, form)
    status = DONE
    for path in paths:
        tried: list[int] = []

        def tell(error: KlogError, tried: list[int] = tried) -> None:
            output.note(error_line(error))
            tried.append(status_of(error))

        for file in walk_files(path, tell):
            tried.append(_tried(one, file, tell))
        if not tried:
            output.note(f"klogtool: {path}: no files in it")
        status = max([status, *tried])
    return status


def _tried(one: Callable[[str], None], path: str, tell: Callable[[KlogError], None]) -> int:
    try:
        one(path)
    except KlogError as error:
        tell(error)
    return DONE


def _one_file(dump: KafkaDump, form: str) -> Callable[[str], None]:
    if form == "text":
        return dump.file
    from importlib.metadata import version

    from klogtool.render.file_dump import JsonDump
    from klogtool.render.json_lines import json_line

    first = {"type": "klogtool", "version": version("klogtool"), "schema": 1, "command": "dump-log"}
    dump.write(json_line(first))
    return JsonDump(dump).file
