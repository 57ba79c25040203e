"""klogtool export."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Meta, Struct

from klogtool.cli import commands, options
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Screen, Show
from klogtool.cli.spark_options import absolute, local_of
from klogtool.cli.status import DONE, FOUND
from klogtool.parameters import Unit, parameter
from klogtool.render.spark_text import (
    PartitionExport,
    export_summary_row,
    export_summary_text,
    partition_rows,
    partition_text,
)
from klogtool.spark.export_store import open_target
from klogtool.spark.growing_export import GrowingExport
from klogtool.spark.notes import notes_elsewhere

COMMAND = "export"


class GrowingExportQuestion(Struct, frozen=True, kw_only=True):
    """Which records are exported, and where to."""

    output: Annotated[
        str,
        parameter("Write to this folder or prefix, such as s3://bucket/prefix. A later run adds to it.", Unit.FOLDER),
    ]
    topics: Annotated[
        tuple[str, ...],
        parameter("Export only this topic. Repeatable.  [default: all]", Unit.TOPIC, option="topic", metavar="TOPIC"),
    ] = ()
    max_file_bytes: Annotated[int, Meta(ge=1), parameter("Begin another file when one has about so many bytes.")] = (
        134217728
    )


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@question_options(GrowingExportQuestion)
@options.screen()
@gently
def command(paths: tuple[str, ...], question: GrowingExportQuestion, screen: Screen) -> int:
    """Write records to Parquet files by topic and day, without Spark. A second run adds only what is new.

    PATH is a log dir, a partition dir, or a URI such as s3://bucket/path. Replicas are not written twice. A manifest
    in DIR says which offsets are there. A run that was killed is continued by the same command.

    \b
    Examples:
      klogtool export LOGDIR --output parquet
      klogtool export LOGDIR --output s3://bucket/broker-1 --topic orders --rate 50MB/s

    Exit status: 0 done; 1 something was left out, which is said; 2 wrong usage, no such path; 3 refused: DIR is in a
    log dir, or has other files; 4 could not go on.
    """
    roots = absolute(paths)
    begin_reading(local_of(roots), quiet=screen.quiet)
    notes: list[str] = []
    export = GrowingExport(open_target(question.output), most_bytes=question.max_file_bytes)
    show, results = Show(COMMAND, screen), list[PartitionExport]()
    try:
        with notes_elsewhere():
            for result in export.walk(roots, question.topics, notes):
                results.append(result)
                show.rows(partition_rows(result))
                show.lines(partition_text(result, verbose=screen.verbose))
    finally:
        export.end()
    for text in notes if not screen.quiet else ():
        note(f"klogtool: {text}")
    show.row(export_summary_row(results, question.output))
    show.line(export_summary_text(results, question.output))
    return DONE if all(result.is_whole for result in results) else FOUND
