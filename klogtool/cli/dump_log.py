"""klogtool dump-log."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import commands, options, value_options
from klogtool.cli.dumping import dump_files
from klogtool.cli.kafka_options import CLASSES, DECODERS, KAFKA_NAMES, as_kafka_reads, kafka_options
from klogtool.cli.output import note
from klogtool.cli.status import COULD_NOT

FORMATS = ("text", "json", "csv", "arrow", "parquet", "spec", "speedscope")
KAFKAS, SELECTION, DECODED = "Kafka's options", "Selection", "Decoded keys and values"


class DumpLogCommand(commands.Command):
    """Parses its words as Kafka's own parser would; --help shows Kafka's options apart from klogtool's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Pass the words to click in klogtool's spelling."""
        return super().parse_args(ctx, as_kafka_reads(args))

    first_headings = (KAFKAS, SELECTION, DECODED, "klogtool's options")

    def heading_of(self, option: click.Option) -> str:
        """Return the heading of Kafka's options, or of klogtool's."""
        name = option.opts[0].removeprefix("--")
        if name in KAFKA_NAMES:
            return KAFKAS
        if name in value_options.NAMES:
            return DECODED
        return SELECTION if name in options.SELECTION else "klogtool's options"


@commands.command("dump-log", cls=DumpLogCommand)
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@kafka_options
@options.output_format(FORMATS, "Output format; also --json.")
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

    \b
    Examples:
      klogtool dump-log --print-data-log orders-0
      klogtool dump-log --json --offsets 100..199 orders-0

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
