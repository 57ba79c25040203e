"""klogtool dump-log."""

from __future__ import annotations

import click

from klogtool.cli.kafka_options import KafkaOptions, as_kafka_reads, kafka_options
from klogtool.cli.output import Output, error_line
from klogtool.errors import KlogError
from klogtool.render.kafka_dump import KafkaDump

DAMAGE = 1


class DumpLogCommand(click.Command):
    """Reads its words as Kafka's own parser would."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """click's, on words in klogtool's spelling."""
        return super().parse_args(ctx, as_kafka_reads(args))


@click.command("dump-log", cls=DumpLogCommand)
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@kafka_options
@click.option("--format", "form", type=click.Choice(["text", "json", "arrow", "parquet"]), default="text", help="...")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(paths: tuple[str, ...], form: str, debug: bool, **given: object) -> int:
    """Print files of a log dir as kafka-dump-log does."""
    options = KafkaOptions(given)
    if not given["files"] and not paths:
        raise click.UsageError("Nothing to dump: name files or folders, or --files F,F as for kafka-dump-log.")
    output = Output()
    dump = KafkaDump(options, output.write, output.note)
    try:
        for path in options.files() if given["files"] else paths:
            dump.file(path)
    except KlogError as error:
        output.note(error_line(error))
        return DAMAGE
    for line in dump.reports.lines():
        output.note(line)
    output.flush()
    return DAMAGE if dump.damaged else 0
