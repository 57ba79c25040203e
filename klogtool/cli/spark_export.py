"""klogtool spark export."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from klogtool.cli import commands, options, value_options
from klogtool.cli.output import Output, note
from klogtool.cli.show import header
from klogtool.cli.spark_options import absolute, bar_of, local_of, on_spark, pairs, running
from klogtool.cli.status import DONE
from klogtool.decoding.record_values import Formats
from klogtool.disk.dataset import check_new
from klogtool.errors import Corrupt, KlogError, Refused, StalePlan, Unsupported
from klogtool.escape import quoted
from klogtool.json_rows import row_line
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


@commands.command("export")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "--output",
    type=click.Path(),
    required=True,
    metavar="DIR",
    help="Write the files to this folder. It must be new or empty.",
)
@click.option(
    "--resume", is_flag=True, help="Continue an export that was interrupted. Of the options, only --mode may change."
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Export only this topic. Repeatable.  [default: all]"
)
@click.option("--by-day", is_flag=True, help="Make one folder for each day (UTC) in the folder of the topic.")
@click.option("--key-as", type=click.Choice(FORMS), default="binary", show_default=True, help="Type of the keys.")
@click.option("--value-as", type=click.Choice(FORMS), default="binary", show_default=True, help="Type of the values.")
@value_options.formats
@click.option("--committed", is_flag=True, help="Export only what a consumer with read_committed sees.")
@click.option("--headers", is_flag=True, help="Also export the record headers.")
@click.option(
    "--metadata", is_flag=True, help="Also export where each record is in the log: segment, byte, producer, ..."
)
@click.option(
    "--mode",
    type=click.Choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"], case_sensitive=False),
    metavar="[FAILFAST|PERMISSIVE|DROPMALFORMED]",
    default="FAILFAST",
    show_default=True,
    help="What to do at damage: stop, or leave it out and continue.",
)
@click.option(
    "--compression",
    type=click.Choice(["snappy", "zstd", "gzip", "lz4", "none"]),
    default="snappy",
    show_default=True,
    help="Compression of the Parquet files.",
)
@click.option(
    "--option",
    "source_options",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help='Any option of format("klog"), such as startingOffsets=... Repeatable.',
)
@options.output_format()
@on_spark
def command(paths: tuple[str, ...], form: str, output: str, **chosen: Any) -> int:
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
    roots = absolute(paths)
    export = _resumed(roots, output, chosen) if chosen["resume"] else _begun(roots, output, chosen)
    try:
        with bar_of(export.size, chosen) as bar, running(chosen) as session:
            messages = carry_out_export(session, export, on_progress=bar.advance)
    except (KlogError, KeyboardInterrupt) as error:
        if isinstance(error, SparkNotStarted | Unsupported) and not export.dataset.done() and not chosen["resume"]:
            export.dataset.abandon()
        else:
            _advise(error, export, paths, output, chosen)
        raise
    totals, invalid = list(totals_of(messages)), sum(message["invalid"] for message in messages)
    undecoded = sum(message.get("undecoded", 0) for message in messages) if export.how.formats != Formats() else None
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for total in totals:
            out.line(row_line({"type": "exported", **total}))
        rows, files = sum(t["rows"] for t in totals), sum(t["files"] for t in totals)
        summary = {"type": "summary", "records": rows, "files": files, "invalid": invalid, "output": output}
        out.line(row_line(summary if undecoded is None else {**summary, "undecoded": undecoded}))
    else:
        for line in exported_text(totals, invalid, output, undecoded or 0):
            out.line(line)
    out.flush()
    return DONE


def _advise(error: BaseException, export: Export, paths: Sequence[str], output: str, chosen: dict[str, Any]) -> None:
    """Say how to continue. Damage would be met again unless it is skipped; so would files that became shorter."""
    if isinstance(error, StalePlan):
        note(f"klogtool: interrupted, and the files that it read are gone: remove {quoted(output)} and start again")
        return
    how, mode = "to continue", []
    if isinstance(error, Corrupt | Unsupported) and export.how.mode == "FAILFAST":
        how, mode = "to continue and leave out what cannot be read", ["--mode", "permissive"]
    spark = [("--spark-conf", f"{name}={value}") for name, value in chosen["spark_conf"].items()]
    if chosen["master"] != DEFAULT_MASTER:
        spark.insert(0, ("--master", chosen["master"]))
    words = [*map(quoted, paths), "--output", quoted(output), "--resume", *mode]
    words += [f"{option} {quoted(value)}" for option, value in spark]
    again = f"klogtool {COMMAND} {' '.join(words)}"
    note(f"klogtool: interrupted; {how}: {again}", f"To give up: remove {quoted(output)}")


def _resumed(roots: list[str], output: str, chosen: dict[str, Any]) -> Export:
    """Return the interrupted export. Raises Refused if other things are requested now; the mode may change, see
    `with_mode`."""
    export, asked = resume_export(output), _asked(roots, chosen)
    other = [name for param, name, of in ASKED if _is_given(param) and of(asked) != of(export.how)]
    named = [name for name in chosen["source_options"] if name.lower() != "mode"]
    other += [f"--option {name}" for name in named if asked.option(name) != export.how.option(name)]
    if other:
        cure = "--resume continues with the first options: leave these out, or start again in another folder."
        raise Refused(f"this export was started with another {', '.join(other)}", path=output, cure=cure)
    is_given = _is_given("mode") or len(named) < len(chosen["source_options"])
    return with_mode(export, asked.mode) if is_given else export


def _is_given(param: str) -> bool:
    return click.get_current_context().get_parameter_source(param) is ParameterSource.COMMANDLINE


ASKED: tuple[tuple[str, str, Callable[[HowToExport], Any]], ...] = (
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


def _asked(roots: list[str], chosen: dict[str, Any]) -> HowToExport:
    for name in chosen["source_options"]:
        if name.lower() in INSTEAD:
            raise click.UsageError(f"--option {name} is not for exports: {INSTEAD[name.lower()]}")
    given = {"paths": json.dumps(roots), "mode": chosen["mode"]}
    if chosen["topics"]:
        given["subscribe"] = ",".join(chosen["topics"])
    if chosen["committed"]:
        given["kafka.isolation.level"] = "read_committed"
    return HowToExport(
        given | {name.lower(): value for name, value in chosen["source_options"].items()},
        Form(chosen["key_as"], chosen["value_as"]),
        by_day=chosen["by_day"],
        compression=chosen["compression"],
        headers=chosen["headers"],
        metadata=chosen["metadata"],
        key_format=chosen["key_format"],
        value_format=chosen["value_format"],
        schemas=None if chosen["schemas"] is None else os.path.abspath(chosen["schemas"]),
    )


def _begun(roots: list[str], output: str, chosen: dict[str, Any]) -> Export:
    value_options.check_formats(chosen)
    check_new(output, local_of(roots))
    notes: list[str] = []
    export = begin_export(output, _asked(roots, chosen), notes)
    for text in notes if not chosen["quiet"] else ():
        note(f"klogtool: {text}")
    return export
