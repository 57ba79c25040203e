"""klogtool spark verify."""

from __future__ import annotations

import time
from typing import Annotated

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Show
from klogtool.cli.spark_options import OnSpark, absolute, local_of, on_spark
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.verify_settings import FailOn, is_failed
from klogtool.disk.dataset import Dataset, check_new
from klogtool.log.log_files import log_files
from klogtool.parameters import Unit, parameter
from klogtool.render.findings import finding_row, summary_row
from klogtool.render.progress_bar import total_size
from klogtool.render.spark_text import findings_text
from klogtool.spark.verifying import verify_with_spark, write_findings
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary

COMMAND = "spark verify"


class SparkVerifyQuestion(Struct, frozen=True, kw_only=True):
    """How deep log dirs are verified, and what becomes of the findings."""

    circumstances: Circumstances
    output: Annotated[
        str | None,
        parameter("Write the findings to this folder, as Parquet. It must be new or empty.", Unit.FOLDER),
    ] = None
    deep: Annotated[bool, parameter("Also decompress and parse every record.")] = False
    fail_on: FailOn = "error"


@commands.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@question_options(SparkVerifyQuestion)
@on_spark
def command(paths: tuple[str, ...], question: SparkVerifyQuestion, run: OnSpark) -> int:
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
    if question.output:
        check_new(question.output, local_of(roots))
    began = time.monotonic()
    with run.bar(total_size(log_files(roots))) as bar, run.session() as session:
        results = list(
            verify_with_spark(
                session,
                roots,
                question.circumstances,
                deep=question.deep,
                seconds=lambda: time.monotonic() - began,
                on_progress=bar.advance,
            )
        )
    findings = [item for item in results if isinstance(item, Finding)]
    summary = next(item for item in results if isinstance(item, Summary))
    if question.output:
        dataset = Dataset.begin(question.output, local_of(roots), {"command": COMMAND, "paths": roots})
        write_findings(dataset, findings)
    status = FOUND if is_failed(summary, question.fail_on) else DONE
    show = Show(COMMAND, run)
    show.rows(map(finding_row, findings))
    show.row(summary_row(summary, None))
    show.lines(findings_text(findings, summary, status))
    return status
