"""klogtool rebuild-index."""

from __future__ import annotations

import click

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.plans.rebuild_index import COMMAND, RebuildIndexQuestion, walk_rebuilt


@commands.command("rebuild-index")
@click.argument("partition", metavar="PARTITION")
@question_options(RebuildIndexQuestion)
@writing
def command(partition: str, question: RebuildIndexQuestion, writing: Writing) -> int:
    """Rebuild the side files of a partition from its logs, as a broker's recovery writes them.

    Prints the plan and stops. With --apply or --output, carries it out. A damaged .log is refused, unless --segment
    names it. Then the .log is cut at the damage, and the producer snapshots above the segment are deleted, as after a
    broker's recovery.

    \b
    Examples:
      klogtool rebuild-index orders-0
      klogtool rebuild-index orders-0 --only timeindex --apply

    Exit status: 0 done, or nothing to do; 2 wrong usage, no such path or segment; 3 refused, nothing written: a .log
    is damaged, or a broker refuses it; 4 could not go on.
    """
    return decide_and_carry_out(COMMAND, [partition], question, writing, PlanFace(answers_of=walk_rebuilt))
