"""klogtool spark export."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.output import Output, note
from klogtool.cli.spark_options import absolute, bar_of, local_of, on_spark, pairs, running
from klogtool.cli.status import DONE
from klogtool.cli.writing_options import header
from klogtool.disk.dataset import check_new
from klogtool.errors import KlogError
from klogtool.render.findings import row_line
from klogtool.render.fleet import exported_text
from klogtool.spark.converting import FORMS, Form
from klogtool.spark.exporting import (
    Export,
    HowToExport,
    begin_export,
    carry_out_export,
    resume_export,
    totals_of,
)

COMMAND = "spark export"


@click.command("export")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--output", type=click.Path(), required=True, metavar="DIR", help="Where to; new, or empty.")
@click.option("--resume", is_flag=True, help="Go on with an export that was cut short: what it was asked then counts.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; repeatable.  [default: all]")
@click.option("--by-day", is_flag=True, help="A folder for each day (UTC), below that of the topic.")
@click.option("--key-as", type=click.Choice(FORMS), default="binary", show_default=True, help="What keys are to be.")
@click.option(
    "--value-as", type=click.Choice(FORMS), default="binary", show_default=True, help="What values are to be."
)
@click.option("--committed", is_flag=True, help="Only what consumers with read_committed see.")
@click.option("--headers", is_flag=True, help="Also the headers.")
@click.option("--metadata", is_flag=True, help="Also where in the log each record is: segment, byte, producer, ...")
@click.option(
    "--mode",
    type=click.Choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"], case_sensitive=False),
    default="FAILFAST",
    show_default=True,
    help="What damage is: the end; or it is passed over.",
)
@click.option(
    "--compression",
    type=click.Choice(["snappy", "zstd", "gzip", "lz4", "none"]),
    default="snappy",
    show_default=True,
    help="Of the files.",
)
@click.option(
    "--option",
    "source_options",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help='Any option of format("klog"), such as startingOffsets=...; repeatable.',
)
@options.text_or_json
@on_spark
def command(paths: tuple[str, ...], form: str, output: str, **chosen: Any) -> int:
    """Write the records under LOGDIR to Parquet files, in folders by topic; replicas are not written twice.

    LOGDIR may be a URI such as s3://bucket/path. All files appear in DIR at the end; each record is there once, however
    often tasks failed. What is cut short can be resumed.

    Exit status: 0 done; 1 damage was found (--mode says what then); 2 wrong usage, no such path; 3 refused: DIR is not
    empty; 4 could not go on, Spark or Java is missing.
    """
    export = resume_export(output) if chosen["resume"] else _begun(absolute(paths), output, chosen)
    try:
        with bar_of(export.size, chosen) as bar, running(chosen) as session:
            messages = carry_out_export(session, export, on_progress=bar.advance)
    except (KlogError, KeyboardInterrupt):
        words = ["klogtool", *COMMAND.split(), *paths, "--output", output, "--resume"]
        note(f"klogtool: cut short; to go on with it: {shlex.join(words)}\nTo give it up: remove {output}")
        raise
    totals, invalid = list(totals_of(messages)), sum(message["invalid"] for message in messages)
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for total in totals:
            out.line(row_line({"type": "exported", **total}))
        rows, files = sum(t["rows"] for t in totals), sum(t["files"] for t in totals)
        out.line(row_line({"type": "summary", "records": rows, "files": files, "invalid": invalid, "output": output}))
    else:
        for line in exported_text(totals, invalid, output):
            out.line(line)
    out.flush()
    return DONE


def _begun(roots: list[str], output: str, chosen: dict[str, Any]) -> Export:
    check_new(output, local_of(roots))
    given = {"paths": json.dumps(roots), "mode": chosen["mode"]}
    if chosen["topics"]:
        given["subscribe"] = ",".join(chosen["topics"])
    if chosen["committed"]:
        given["kafka.isolation.level"] = "read_committed"
    how = HowToExport(
        {**given, **chosen["source_options"]},
        Form(chosen["key_as"], chosen["value_as"]),
        by_day=chosen["by_day"],
        compression=chosen["compression"],
        headers=chosen["headers"],
        metadata=chosen["metadata"],
    )
    notes: list[str] = []
    export = begin_export(output, how, notes)
    for text in notes if not chosen["quiet"] else ():
        note(f"klogtool: {text}")
    return export
