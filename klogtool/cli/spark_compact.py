"""klogtool spark compact."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Struct
from msgspec.structs import asdict

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands
from klogtool.cli.compact import status_of_plan
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Show
from klogtool.cli.spark_options import OnSpark, absolute, on_spark
from klogtool.cli.status import DONE
from klogtool.cli.writing import status_of_losses
from klogtool.disk.assembling import Assembly
from klogtool.parameters import Unit, parameter
from klogtool.plans.compact import CompactQuestion
from klogtool.render.spark_text import compacted_text
from klogtool.render.words import in_words, words
from klogtool.spark.compacting import compact_with_spark, find_folders, of_topics
from klogtool.spark.findings import size_of

COMMAND = "spark compact"


class SparkCompactQuestion(Struct, frozen=True, kw_only=True):
    """What is compacted, and where the result goes."""

    circumstances: Circumstances
    output: Annotated[str, parameter("Write the result to this folder. It must be new or empty.", Unit.FOLDER)]
    topics: Annotated[
        tuple[str, ...],
        parameter("Clean only this topic. Repeatable.  [default: all]", Unit.TOPIC, option="topic", metavar="TOPIC"),
    ] = ()
    force: Annotated[bool, parameter("Also clean a log that is not due.")] = False
    keep_magic: Annotated[
        bool, parameter("Keep messages of magic 0 and 1 in their format, as brokers before 4.0 do.")
    ] = False
    purge: Annotated[bool, parameter("Leave no .deleted files.")] = False

    def for_one(self) -> CompactQuestion:
        """Return what one task is asked."""
        return CompactQuestion(
            **asdict(self.circumstances),
            jobs=1,
            purge=self.purge,
            force=self.force,
            keep_magic=self.keep_magic,
        )


@commands.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@question_options(SparkCompactQuestion)
@on_spark
def command(paths: tuple[str, ...], question: SparkCompactQuestion, run: OnSpark) -> int:
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
    roots, output, of_task = absolute(paths), question.output, question.for_one()
    folders = [folder for root in roots for folder in find_folders(root, of_task)]
    folders = of_topics(folders, question.topics) if question.topics else folders
    assembly = Assembly.begin(output, roots)
    try:
        with run.bar(sum(size_of(folder.path) for folder in folders)) as bar, run.session() as session:
            done = compact_with_spark(session, assembly, of_task, folders, on_progress=bar.advance)
    finally:
        assembly.abandon()
    show = Show(COMMAND, run)
    for folder, plan in done:
        show.answer({"path": folder.path, **plan.released_answer(words), "segments": in_words(plan.segments)})
    show.row({"type": "written", "path": output})
    for line in compacted_text([plan for _, plan in done], output):
        show.text(line)
    return max([DONE, *(max(status_of_plan(plan), status_of_losses(plan)) for _, plan in done)])
