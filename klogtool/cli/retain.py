"""klogtool retain."""

from __future__ import annotations

from functools import partial

import click

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.plans.retain import COMMAND, RetainQuestion
from klogtool.render.retain import retain_text, unchanged_text


@commands.command("retain")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@question_options(RetainQuestion)
@writing
def command(paths: tuple[str, ...], question: RetainQuestion, writing: Writing) -> int:
    """Delete the segments that retention no longer keeps, in a partition dir or in every partition of a log dir.

    Segments are deleted by log start offset, retention.bytes and retention.ms, as on a broker, and never above the
    high watermark. Settings come from --config, --config-file, or the log dir's __cluster_metadata. Prints the plan
    and stops. With --apply or --output, carries it out.

    \b
    Examples:
      klogtool retain LOGDIR
      klogtool retain orders-0 --config retention.ms=86400000 --apply

    Exit status: 0 done, or nothing to delete; 1 loading the log lost records, or records are missing at the end of the
    log; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    is_one = len(paths) == 1 and isinstance(open_path(paths[0]), Partition)
    face = PlanFace(text_of=partial(retain_text, is_whole=is_one), brief_of=None if is_one else unchanged_text)
    return decide_and_carry_out(COMMAND, paths, question, writing, face)
