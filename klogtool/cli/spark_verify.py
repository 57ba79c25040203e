"""klogtool spark verify."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.spark_options import absolute, bar_of, local_of, on_spark, running
from klogtool.cli.status import DONE, FOUND
from klogtool.disk.dataset import Dataset, check_new
from klogtool.json_rows import row_line
from klogtool.log.log_files import log_files
from klogtool.render.findings import finding_row, summary_row
from klogtool.render.progress_bar import total_size
from klogtool.render.spark_text import findings_text
from klogtool.spark.verifying import HowToVerify, verify_with_spark, write_findings
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary

COMMAND = "spark verify"


@commands.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "--output",
    type=click.Path(),
    metavar="DIR",
    help="Write the findings to this folder, as Parquet. It must be new or empty.",
)
@click.option("--deep", is_flag=True, help="Also decompress and parse every record.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Lowest severity that makes the exit status 1.",
)
@options.output_format()
@on_spark
@question_options.circumstances
def command(paths: tuple[str, ...], form: str, circumstances: Circumstances, **chosen: Any) -> int:
    """Find all damage under LOGDIR. Several LOGDIRs are log dirs of one broker. LOGDIR may be a URI such as
    s3://bucket/path.

    The findings are those of `klogtool verify`. --output and JSON Lines have all of them; text shows how many there
    are of each kind, and where.

    \b
    Examples:
      klogtool spark verify /data/kafka-1 /data/kafka-2
      klogtool spark verify --master spark://host:7077 hdfs://cluster/kafka

    Exit status: 0 nothing is wrong; 1 an error was found (with --fail-on warning: an error or a warning); 2 wrong
    usage, no such path; 3 refused; 4 could not go on, or Spark or Java is missing.
    """
    roots = absolute(paths)
    if chosen["output"]:
        check_new(chosen["output"], local_of(roots))
    began = time.monotonic()
    with bar_of(total_size(log_files(roots)), chosen) as bar, running(chosen) as session:
        how = HowToVerify(circumstances, chosen["deep"])
        found = list(
            verify_with_spark(session, roots, how, seconds=lambda: time.monotonic() - began, on_progress=bar.advance)
        )
    findings, summary = list(_findings(found)), next(item for item in found if isinstance(item, Summary))
    if chosen["output"]:
        write_findings(Dataset.begin(chosen["output"], local_of(roots), {"command": COMMAND, "paths": roots}), findings)
    status = FOUND if summary.errors or (chosen["fail_on"] == "warning" and summary.warnings) else DONE
    _show(findings, summary, form, status)
    return status


def _findings(found: Iterable[Finding | Summary]) -> Iterator[Finding]:
    return (item for item in found if isinstance(item, Finding))


def _show(findings: list[Finding], summary: Summary, form: str, status: int) -> None:
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for finding in findings:
            out.line(row_line(finding_row(finding)))
        out.line(row_line(summary_row(summary, None)))
    else:
        for line in findings_text(findings, summary, status):
            out.line(line)
    out.flush()
