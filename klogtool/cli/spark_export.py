"""klogtool spark export."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import click
from msgspec import Struct

from klogtool.cli import commands, options
from klogtool.cli.causes import CommandCure, CommandRefusal
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Show
from klogtool.cli.spark_options import OnSpark, absolute, local_of, on_spark
from klogtool.cli.status import DONE
from klogtool.cli.value_options import FormatOptions
from klogtool.decoding.record_values import Formats
from klogtool.disk.dataset import check_new
from klogtool.errors import Corrupt, KlogError, Refused, StalePlan, Unsupported
from klogtool.escape import quoted
from klogtool.parameters import Unit, parameter
from klogtool.render.spark_text import exported_text
from klogtool.spark.converting import FORMS, Form
from klogtool.spark.exporting import (
    Export,
    HowToExport,
    begin_export,
    carry_out_export,
    resume_export,
    totals_of,
    with_mode,
)
from klogtool.spark.starting import DEFAULT_MASTER, SparkNotStarted

COMMAND = "spark export"


class ExportQuestion(Struct, frozen=True, kw_only=True):
    """Which records are exported, in which form, and where to."""

    output: Annotated[str, parameter("Write the files to this folder. It must be new or empty.", Unit.FOLDER)]
    resume: Annotated[
        bool, parameter("Continue an export that was interrupted. Of the options, only --mode may change.")
    ] = False
    topics: Annotated[
        tuple[str, ...],
        parameter("Export only this topic. Repeatable.  [default: all]", Unit.TOPIC, option="topic", metavar="TOPIC"),
    ] = ()
    by_day: Annotated[bool, parameter("Make one folder for each day (UTC) in the folder of the topic.")] = False
    key_as: Annotated[str, parameter("Type of the keys.", parse=click.Choice(FORMS))] = "binary"
    value_as: Annotated[str, parameter("Type of the values.", parse=click.Choice(FORMS))] = "binary"
    formats: FormatOptions = FormatOptions()
    committed: Annotated[bool, parameter("Export only what a consumer with read_committed sees.")] = False
    headers: Annotated[bool, parameter("Also export the record headers.")] = False
    metadata: Annotated[
        bool, parameter("Also export where each record is in the log: segment, byte, producer, ...")
    ] = False
    mode: Annotated[
        str,
        parameter(
            "What to do at damage: stop, or leave it out and continue.",
            metavar="[FAILFAST|PERMISSIVE|DROPMALFORMED]",
            parse=click.Choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"], case_sensitive=False),
        ),
    ] = "FAILFAST"
    compression: Annotated[
        Literal["snappy", "zstd", "gzip", "lz4", "none"], parameter("Compression of the Parquet files.")
    ] = "snappy"
    source_options: Annotated[
        Mapping[str, str],
        parameter(
            'Any option of format("klog"), such as startingOffsets=... Repeatable.',
            option="option",
            metavar="KEY=VALUE",
            parse=options.pairs,
        ),
    ] = {}

    def how(self, roots: Sequence[str]) -> HowToExport:
        """Return how Spark is to export. Raises UsageError for an option of the data source that is not for exports."""
        for name in self.source_options:
            if name.lower() in INSTEAD:
                raise click.UsageError(f"--option {name} is not for exports: {INSTEAD[name.lower()]}")
        of_source = {"paths": json.dumps(roots), "mode": self.mode}
        if self.topics:
            of_source["subscribe"] = ",".join(self.topics)
        if self.committed:
            of_source["kafka.isolation.level"] = "read_committed"
        schemas = self.formats.schemas
        return HowToExport(
            of_source | {name.lower(): value for name, value in self.source_options.items()},
            Form(self.key_as, self.value_as),
            by_day=self.by_day,
            compression=self.compression,
            headers=self.headers,
            metadata=self.metadata,
            key_format=self.formats.key_format,
            value_format=self.formats.value_format,
            schemas=None if schemas is None else os.path.abspath(schemas),
        )


@commands.command("export")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@question_options(ExportQuestion)
@on_spark
def command(paths: tuple[str, ...], question: ExportQuestion, run: OnSpark) -> int:
    """Write the records under LOGDIR to Parquet files, in one folder for each topic. Replicas are not written twice.

    LOGDIR may be a URI such as s3://bucket/path. All files appear in DIR at the end. Each record is there once, even
    if tasks failed and ran again. An interrupted export can be resumed.

    \b
    Examples:
      klogtool spark export LOGDIR --output parquet
      klogtool spark export LOGDIR --output parquet --topic orders --by-day

    Exit status: 0 done; 1 damage was found (see --mode); 2 wrong usage, no such path; 3 refused: DIR is not empty; 4
    could not go on, or Spark or Java is missing.
    """
    roots, output = absolute(paths), question.output
    export = _resumed(roots, question) if question.resume else _begun(roots, question, quiet=run.quiet)
    try:
        with run.bar(export.size) as bar, run.session() as session:
            messages = carry_out_export(session, export, on_progress=bar.advance)
    except (KlogError, KeyboardInterrupt) as error:
        if isinstance(error, SparkNotStarted | Unsupported) and not export.dataset.done() and not question.resume:
            export.dataset.abandon()
        else:
            _advise(error, export, paths, output, run)
        raise
    totals, invalid = totals_of(messages), sum(message.invalid for message in messages)
    undecoded = sum(message.undecoded for message in messages) if export.how.formats != Formats() else None
    show = Show(COMMAND, run)
    show.rows(totals)
    rows, files = sum(t.rows for t in totals), sum(t.files for t in totals)
    summary = {"type": "summary", "records": rows, "files": files, "invalid": invalid, "output": output}
    show.row(summary if undecoded is None else {**summary, "undecoded": undecoded})
    show.lines(exported_text(totals, invalid, output, undecoded or 0))
    return DONE


def _advise(error: BaseException, export: Export, paths: Sequence[str], output: str, run: OnSpark) -> None:
    """Say how to continue. Damage would be met again unless it is skipped; so would files that became shorter."""
    if isinstance(error, StalePlan):
        note(f"klogtool: interrupted, and the files that it read are gone: remove {quoted(output)} and start again")
        return
    how, mode = "to continue", []
    if isinstance(error, Corrupt | Unsupported) and export.how.mode == "FAILFAST":
        how, mode = "to continue and leave out what cannot be read", ["--mode", "permissive"]
    spark = [("--spark-conf", f"{name}={value}") for name, value in run.spark_conf.items()]
    if run.master != DEFAULT_MASTER:
        spark.insert(0, ("--master", run.master))
    words = [*map(quoted, paths), "--output", quoted(output), "--resume", *mode]
    words += [f"{option} {quoted(value)}" for option, value in spark]
    again = f"klogtool {COMMAND} {' '.join(words)}"
    note(f"klogtool: interrupted; {how}: {again}", f"To give up: remove {quoted(output)}")


def _resumed(roots: list[str], question: ExportQuestion) -> Export:
    """Return the interrupted export. Raises Refused if other things are requested now; the mode may change, see
    `with_mode`."""
    export, wanted = resume_export(question.output), question.how(roots)
    other = [name for param, name, of in FIXED if options.is_typed(param) and of(wanted) != of(export.how)]
    named = [name for name in question.source_options if name.lower() != "mode"]
    other += [f"--option {name}" for name in named if wanted.option(name) != export.how.option(name)]
    if other:
        cause = CommandRefusal.OTHER_EXPORT(options=tuple(other))
        raise Refused(cause, path=question.output, cure=CommandCure.FIRST_OPTIONS())
    has_mode = options.is_typed("mode") or len(named) < len(question.source_options)
    return with_mode(export, wanted.mode) if has_mode else export


def _begun(roots: list[str], question: ExportQuestion, *, quiet: bool) -> Export:
    question.formats.check()
    check_new(question.output, local_of(roots))
    notes: list[str] = []
    export = begin_export(question.output, question.how(roots), notes)
    for text in notes if not quiet else ():
        note(f"klogtool: {text}")
    return export


FIXED: tuple[tuple[str, str, Callable[[HowToExport], object]], ...] = (
    ("paths", "LOGDIR", lambda how: how.option("paths")),
    ("topics", "--topic", lambda how: how.option("subscribe")),
    ("committed", "--committed", lambda how: how.option("kafka.isolation.level")),
    ("key_as", "--key-as", lambda how: how.form.key),
    ("value_as", "--value-as", lambda how: how.form.value),
    ("key_format", "--key-format", lambda how: how.key_format),
    ("value_format", "--value-format", lambda how: how.value_format),
    ("schemas", "--schemas", lambda how: how.schemas),
    ("by_day", "--by-day", lambda how: how.by_day),
    ("headers", "--headers", lambda how: how.headers),
    ("metadata", "--metadata", lambda how: how.metadata),
    ("compression", "--compression", lambda how: how.compression),
)
"""Parameters that a resumed export must not change: parameter, name for users, value."""


INSTEAD = {
    **dict.fromkeys(("path", "paths"), "name the log dirs as LOGDIR"),
    "includeheaders": "use --headers",
    "includemetadata": "use --metadata",
    **dict.fromkeys(("table", "columns", "deep"), "an export has all columns of the records"),
}
"""Options of the data source that an export does not accept."""
