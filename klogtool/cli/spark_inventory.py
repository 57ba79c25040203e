"""klogtool spark inventory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click
from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.output import Output, note
from klogtool.cli.output_file import output_file
from klogtool.cli.show import header
from klogtool.cli.spark_options import absolute, bar_of, on_spark, running
from klogtool.cli.status import DONE
from klogtool.disk.facts import check_saving_place
from klogtool.json_rows import row_line
from klogtool.render.inventory import inventory_text, totals_of
from klogtool.render.inventory_page import inventory_page
from klogtool.spark.inventory import COLUMNS, find_fleet, take_inventory, write_inventory

COMMAND = "spark inventory"


@commands.command("inventory")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--parquet", type=click.Path(), metavar="FILE", help="Also write the table to this file, as Parquet.")
@click.option("--html", type=click.Path(), metavar="FILE", help="Also write a page with plots to this file.")
@options.output_format()
@on_spark
@question_options.circumstances
def command(paths: tuple[str, ...], form: str, circumstances: Circumstances, **chosen: Any) -> int:
    """Describe what is under LOGDIR, with one row for each copy of each partition. LOGDIR may be a URI such as
    s3://bucket/path.

    Shows sizes, record formats, codecs, batch sizes, use of transactions, topic ids, copies, and how much retention
    and compaction could delete now. Settings come from --config, --config-file, or the log dir's __cluster_metadata.
    Only batch headers are read. Every log is treated as cleanly closed, unless --last-stop says otherwise.

    \b
    Examples:
      klogtool spark inventory /data/kafka-1 /data/kafka-2
      klogtool spark inventory --json LOGDIR

    Exit status: 0 done; 2 wrong usage, no such path; 3 refused: a file exists already; 4 could not go on, or Spark or
    Java is missing.
    """
    for path in filter(None, (chosen["parquet"], chosen["html"])):
        check_saving_place(path)
    circumstances = replace(circumstances, last_stop=circumstances.last_stop or CLEAN)
    fleet = find_fleet(absolute(paths))
    with bar_of(fleet.size, chosen) as bar, running(chosen) as session:
        rows = take_inventory(session, fleet, circumstances, on_progress=bar.advance)
    _print(rows, form)
    if chosen["parquet"]:
        with output_file(chosen["parquet"]) as sink:
            write_inventory(rows, sink)
    if chosen["html"]:
        with output_file(chosen["html"]) as sink:
            sink.write(inventory_page(rows, absolute(paths), circumstances.now_ms).encode())
        if not chosen["quiet"]:
            note(f"klogtool: page: {os.path.abspath(chosen['html'])}")
    return DONE


def _print(rows: Sequence[dict[str, Any]], form: str) -> None:
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for row in rows:
            out.line(row_line({"type": "partition", **{name: row[name] for name in COLUMNS}}))
        out.line(row_line({"type": "summary", **totals_of(rows)}))
    else:
        for line in inventory_text(rows):
            out.line(line)
    out.flush()
