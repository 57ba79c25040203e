"""klogtool dump-log."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import options, value_options
from klogtool.cli.dumping import dump_files
from klogtool.cli.kafka_options import CLASSES, DECODERS, KAFKA_NAMES, as_kafka_reads, kafka_options
from klogtool.cli.output import note
from klogtool.cli.status import COULD_NOT

FORMATS = ("text", "json", "csv", "arrow", "parquet", "spec", "speedscope")
DECODED = "Decoded keys and values"


class DumpLogCommand(click.Command):
    """Parses its words as Kafka's own parser would; --help shows Kafka's options apart from klogtool's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Pass the words to click in klogtool's spelling."""
        return super().parse_args(ctx, as_kafka_reads(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the options under three headings."""
        lines: dict[str, list[tuple[str, str]]] = {
            "Kafka's options": [],
            "Selection": [],
            DECODED: [],
            "klogtool's options": [],
        }
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (told := parameter.get_help_record(ctx)) is not None:
                lines[_heading(parameter.opts[0].removeprefix("--"))].append(told)
        for heading, options_told in lines.items():
            with formatter.section(heading):
                formatter.write_dl(options_told)


def _heading(name: str) -> str:
    if name in KAFKA_NAMES:
        return "Kafka's options"
    if name in value_options.NAMES:
        return DECODED
    return "Selection" if name in options.SELECTION else "klogtool's options"


@click.command("dump-log", cls=DumpLogCommand)
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@kafka_options
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format.")
@click.option("--output", type=click.Path(), metavar="FILE", help="The file to write, for arrow and parquet.")
@click.option(
    "--follow",
    is_flag=True,
    help="Go on with what is appended, until Ctrl-C. For one partition dir, or a segment to begin with.",
)
@click.option(
    "--resync",
    is_flag=True,
    help="Continue after damage. Without it, the dump of a file ends there, as with kafka-dump-log.",
)
@value_options.decoders
@options.kafka
@options.selection
@options.jobs
@options.quiet
@options.no_progress
@options.debug
def command(paths: tuple[str, ...], form: str, **chosen: Any) -> int:
    """Print files of a log dir, byte for byte as kafka-dump-log of that release prints them, or as JSON Lines,
    CSV, Arrow or Parquet.

    FILE is a file, a partition dir or a log dir; of a folder, all files are printed. A bad file does not end the dump.
    - is the bytes of a segment on standard input.
    With --files, klogtool does exactly what kafka-dump-log does: F are files, and the first file that cannot be read
    ends the dump.

    JSON Lines have every batch and every record with all fields. Internal topics are decoded without further options.
    CSV, Arrow and Parquet have a row for each record. spec is the description of a partition dir or a log dir
    from which klogtool build makes the same bytes. speedscope says where the bytes of a log dir or a partition dir are,
    for the viewer at speedscope.app.

    Exit status: 0 done; 1 damage was found; 2 wrong usage, no such path; 3 the output exists already, or would lie in
    a folder that is read; 4 a file could not be read or written.
    """
    if not chosen["files"] and not paths:
        raise click.UsageError("Nothing to dump: name files or folders, or --files F,F as for kafka-dump-log.")
    if chosen["output"] and form in ("text", "json", "csv", "spec", "speedscope"):
        raise click.UsageError(f"--output is for arrow and parquet; {form} goes to stdout: > {chosen['output']}")
    if chosen["files"] and paths and not chosen["quiet"]:
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        note(
            f"klogtool: not read, because --files is given: {paths[0]}{others}",
            "Separate files with commas: --files F,F",
        )
    value_options.refuse_columns(chosen, form)
    if form == "spec" and not chosen["follow"]:
        from klogtool.cli.dump_spec import dump_spec

        return dump_spec(paths, chosen)
    if form == "speedscope":
        from klogtool.cli.dump_speedscope import dump_speedscope  # needs an extra

        return dump_speedscope(paths, chosen)
    value_options.refuse_beside(chosen, {name.replace("-", "_"): f"--{name}" for name in (*CLASSES, *DECODERS)})
    if form in ("arrow", "parquet") and not chosen["follow"]:
        from klogtool.cli.dump_columns import dump_columns  # needs an extra

        return dump_columns(paths, form, options.selected(chosen), chosen)
    with value_options.asked_for(chosen) as asked:
        if chosen["follow"]:
            from klogtool.cli.dump_follow import follow  # loads ctypes

            return follow(paths, form, options.selected(chosen), chosen, asked.decoding)
        status = dump_files(paths, form, chosen, options.selected(chosen), asked.decoding)
    return max(status, COULD_NOT) if asked.is_cut else status
