"""klogtool spark inventory."""

from __future__ import annotations

import os
from typing import Annotated

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, Circumstances
from klogtool.cli import commands
from klogtool.cli.output import note
from klogtool.cli.output_file import output_file
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Show
from klogtool.cli.spark_options import OnSpark, absolute, on_spark
from klogtool.cli.status import DONE
from klogtool.disk.facts import check_saving_place
from klogtool.parameters import Unit, parameter
from klogtool.render.inventory import inventory_page, inventory_text, totals_of
from klogtool.spark.inventory import find_fleet, take_inventory, write_inventory

COMMAND = "spark inventory"


class InventoryQuestion(Struct, frozen=True, kw_only=True):
    """Under which circumstances, and which files are written."""

    circumstances: Circumstances
    parquet: Annotated[str | None, parameter("Also write the table to this file, as Parquet.", Unit.FILE)] = None
    html: Annotated[str | None, parameter("Also write a page with plots to this file.", Unit.FILE)] = None


@commands.command("inventory")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@question_options(InventoryQuestion)
@on_spark
def command(paths: tuple[str, ...], question: InventoryQuestion, run: OnSpark) -> int:
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
    for path in filter(None, (question.parquet, question.html)):
        check_saving_place(path)
    circumstances = replace(question.circumstances, last_stop=question.circumstances.last_stop or CLEAN)
    copies = find_fleet(absolute(paths))
    with run.bar(sum(copy.size for copy in copies)) as bar, run.session() as session:
        rows = take_inventory(session, copies, circumstances, on_progress=bar.advance)
    show = Show(COMMAND, run)
    for row in rows:
        show.row({"type": "partition", **row.columns()})
    show.row({"type": "summary", **totals_of(rows)})
    show.lines(inventory_text(rows))
    if question.parquet:
        with output_file(question.parquet) as sink:
            write_inventory(rows, sink)
    if question.html:
        with output_file(question.html) as sink:
            sink.write(inventory_page(rows, absolute(paths), circumstances.now_ms).encode())
        if not run.quiet:
            note(f"klogtool: page: {os.path.abspath(question.html)}")
    return DONE
