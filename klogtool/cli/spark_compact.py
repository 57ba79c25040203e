"""klogtool spark compact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from msgspec import to_builtins

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.compact import status_of_plan
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.spark_options import absolute, bar_of, on_spark, running
from klogtool.cli.status import DONE
from klogtool.cli.writing import status_of_losses
from klogtool.disk.assembling import Assembly
from klogtool.json_rows import row_line
from klogtool.plans.compact import CompactQuestion
from klogtool.plans.plan import Plan
from klogtool.render.spark_text import compacted_text
from klogtool.spark.compacting import Folder, compact_with_spark, find_folders, of_topics
from klogtool.spark.findings import size_of

COMMAND = "spark compact"


@commands.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "--output",
    type=click.Path(),
    required=True,
    metavar="DIR",
    help="Write the result to this folder. It must be new or empty.",
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Clean only this topic. Repeatable.  [default: all]"
)
@click.option("--force", is_flag=True, help="Also clean a log that is not due.")
@click.option(
    "--keep-magic", is_flag=True, help="Keep messages of magic 0 and 1 in their format, as brokers before 4.0 do."
)
@click.option("--purge", is_flag=True, help="Leave no .deleted files.")
@options.output_format()
@on_spark
@question_options.circumstances
def command(paths: tuple[str, ...], form: str, circumstances: Circumstances, output: str, **chosen: Any) -> int:
    """Clean the compacted partitions of LOGDIR as the broker's log cleaner does, and write the whole log dir to DIR.

    The result is that of `klogtool compact LOGDIR --output DIR`. With several LOGDIRs, each has a folder of its name
    in DIR. One task cleans a partition; a large partition has many tasks. DIR appears at the end, complete.

    \b
    Examples:
      klogtool spark compact LOGDIR --output compacted
      klogtool spark compact --json LOGDIR --output compacted

    Exit status: 0 done, or nothing due; 1 some partitions are refused because a broker's cleaner fails on them, too
    (they are copied, the others are done), or loading a log lost records; 2 wrong usage, no such path; 3 refused,
    nothing written; 4 could not go on, or Spark or Java is missing.
    """
    question = CompactQuestion(
        circumstances=circumstances,
        jobs=1,
        purge=chosen["purge"],
        force=chosen["force"],
        keep_magic=chosen["keep_magic"],
    )
    roots = absolute(paths)
    folders = [folder for root in roots for folder in find_folders(root, question)]
    folders = of_topics(folders, chosen["topics"]) if chosen["topics"] else folders
    assembly = Assembly.begin(output, roots)
    try:
        with bar_of(sum(size_of(folder.path) for folder in folders), chosen) as bar, running(chosen) as session:
            done = compact_with_spark(session, assembly, question, folders, on_progress=bar.advance)
    finally:
        assembly.abandon()
    _show(done, form, output)
    return max([DONE, *(max(status_of_plan(plan), status_of_losses(plan)) for _, plan in done)])


def _show(done: Sequence[tuple[Folder, Plan]], form: str, output: str) -> None:
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for folder, plan in done:
            answer = {"type": "answer", "command": COMMAND, "path": folder.path, **plan.released_answer}
            out.line(row_line({**answer, "segments": to_builtins(plan.segments)}))
        out.line(row_line({"type": "written", "path": output}))
    else:
        for line in compacted_text([plan for _, plan in done], output):
            out.text(line)
    out.flush()
