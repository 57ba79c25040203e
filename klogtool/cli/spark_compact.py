"""klogtool spark compact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.output import Output
from klogtool.cli.spark_options import absolute, bar_of, on_spark, running
from klogtool.cli.status import DONE
from klogtool.cli.writing_options import header
from klogtool.disk.assembling import Assembly
from klogtool.render.findings import row_line
from klogtool.render.fleet import compacted_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.plan import Plan
from klogtool.spark.compacting import Folder, compact_with_spark, find_folders
from klogtool.spark.findings import size_of

COMMAND = "spark compact"


@click.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--output", type=click.Path(), required=True, metavar="DIR", help="Where to; new, or empty.")
@click.option("--force", is_flag=True, help="Clean also what is not due.")
@click.option(
    "--keep-magic", is_flag=True, help="Messages of magic 0 and 1 stay such, as brokers before 4.0 left them."
)
@options.purge
@options.text_or_json
@on_spark
@options.circumstances
def command(paths: tuple[str, ...], form: str, given: Circumstances, output: str, **chosen: Any) -> int:
    """Clean the compacted partitions of LOGDIR as the broker's log cleaner does, and write the whole log dir to DIR.

    The result is that of `klogtool compact LOGDIR --output DIR`; of several log dirs, each is in a folder of its name.
    A task cleans a partition, many tasks a large one; DIR appears at the end, whole.

    Exit status: 0 done, or nothing due; 2 wrong usage, no such path; 3 refused, nothing written: a broker's cleaner
    breaks off, too; 4 could not go on, Spark or Java is missing.
    """
    arguments = given.as_arguments() | options.only_given(chosen, ("force", "keep_magic", "purge")) | {"jobs": 1}
    roots = absolute(paths)
    folders = [folder for root in roots for folder in find_folders(root, arguments)]
    assembly = Assembly.begin(output, roots)
    try:
        with bar_of(sum(size_of(folder.path) for folder in folders), chosen) as bar, running(chosen) as session:
            done = compact_with_spark(session, assembly, arguments, folders, on_progress=bar.advance)
    finally:
        assembly.abandon()
    _show(done, form, output)
    return DONE


def _show(done: Sequence[tuple[Folder, Plan]], form: str, output: str) -> None:
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for folder, plan in done:
            told = [{"segment": s.segment, "action": s.action, "reason": s.reason, **s.more} for s in plan.segments]
            answer = {"type": "answer", "command": COMMAND, "path": folder.path, **plan.answer, "segments": told}
            out.line(row_line(answer))
        out.line(row_line({"type": "written", "path": output}))
    else:
        for line in compacted_text([plan for _, plan in done], output):
            out.line(line)
    out.flush()
