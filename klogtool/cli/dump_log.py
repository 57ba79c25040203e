"""klogtool dump-log."""

from __future__ import annotations

import click

from klogtool.cli import commands, options, value_options
from klogtool.cli.dump_question import Dumping, DumpQuestion, SelectionOptions
from klogtool.cli.dumping import dump_files
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions
from klogtool.cli.status import COULD_NOT
from klogtool.disk.standard_input import NAME as STDIN
from klogtool.parameters import parameters_of
from klogtool.render.kafka_options import DECODERS, KAFKAS, KafkaArguments, as_kafka_reads

FORMATS = ("text", "json", "csv", "arrow", "parquet", "spec", "speedscope")
OF_KAFKA, SELECTION, DECODED = "Kafka's options", "Selection", "Decoded keys and values"
_SELECTING = {one.option for one in parameters_of(SelectionOptions)}


class DumpLogCommand(commands.Command):
    """Parses its words as Kafka's own parser would; --help shows Kafka's options apart from klogtool's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Pass the words to click in klogtool's spelling."""
        return super().parse_args(ctx, as_kafka_reads(args))

    first_headings = (OF_KAFKA, SELECTION, DECODED, "klogtool's options")

    def heading_of(self, option: click.Option) -> str:
        """Return the heading of Kafka's options, or of klogtool's."""
        name = option.opts[0].removeprefix("--")
        if name in KAFKAS:
            return OF_KAFKA
        if name in value_options.NAMES:
            return DECODED
        return SELECTION if option.opts[0] in _SELECTING else "klogtool's options"


@commands.command("dump-log", cls=DumpLogCommand)
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@question_options(KafkaArguments, "arguments")
@options.output_format(*FORMATS, about="Output format; also --json.")
@question_options(DumpQuestion)
@options.packed(options.taken(ReadingOptions), "reading", options.jobs, options.quiet)
@gently
def command(paths: tuple[str, ...], arguments: KafkaArguments, question: DumpQuestion, reading: ReadingOptions) -> int:
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
    form, values = reading.form, question.values
    if not arguments.files and not paths:
        raise click.UsageError("Nothing to dump: name files or folders, or --files F,F as for kafka-dump-log.")
    if question.output and form in ("text", "json", "csv", "spec", "speedscope"):
        raise click.UsageError(f"--output is for arrow and parquet; {form} goes to stdout: > {question.output}")
    if arguments.files and paths and not reading.quiet:
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        note(
            f"klogtool: not read, because --files is given: {paths[0]}{others}",
            "Separate files with commas: --files F,F",
        )
    values.refuse_columns(form)
    # Who follows reads what was just written, which is in the page cache.
    read = [file for named in arguments.files for file in named.split(",")] or [path for path in paths if path != STDIN]
    begin_reading([] if question.follow else read, quiet=reading.quiet)
    if form == "spec" and not question.follow:
        from klogtool.cli.dump_spec import dump_spec

        return dump_spec(paths, question, reading)
    if form == "speedscope":
        from klogtool.cli.dump_speedscope import dump_speedscope  # needs an extra

        return dump_speedscope(paths)
    if values.is_wanted and (other := options.first_used("value_decoder_class", "key_decoder_class", *DECODERS)):
        raise click.UsageError(f"{other} decodes as kafka-dump-log does: it excludes --key-format and --value-format.")
    dumping = Dumping(paths, arguments, question, reading)
    if form in ("arrow", "parquet") and not question.follow:
        from klogtool.cli.dump_columns import dump_columns  # needs an extra

        return dump_columns(dumping)
    with values.decoders(quiet=reading.quiet) as decoders:
        if question.follow:
            from klogtool.cli.dump_follow import follow  # loads ctypes

            return follow(dumping, decoders.decoding)
        status = dump_files(dumping, decoders.decoding)
    return max(status, COULD_NOT) if decoders.is_cut else status
