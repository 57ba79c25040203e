"""klogtool compact."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import Show, decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.plans.compact import COMMAND, CompactQuestion
from klogtool.plans.plan import Plan
from klogtool.plans.why_not_compacted import walk_standings
from klogtool.render.compact import compact_brief, compact_text, uncleaned_text
from klogtool.render.why_not_compacted import standing_text


def _moments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...] | None:
    """Parse times (a click callback)."""
    return tuple(at for value in values if (at := options.moment(ctx, param, value)) is not None) or None


@commands.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--first-dirty-offset",
    callback=options.long,
    metavar="N",
    help="Use N instead of the checkpointed first dirty offset. It is validated the same way.",
)
@click.option(
    "--pass-at",
    "passes_at_ms",
    multiple=True,
    callback=_moments,
    metavar="TIME",
    help="Run one cleaner pass at this time. Repeatable.  [default: one pass, at --now]",
)
@click.option("--why", is_flag=True, help="Say why a log is not being compacted, and what to do. Nothing is planned.")
@click.option(
    "--force",
    is_flag=True,
    help="Also clean a log that is not due, and a partition dir whose cleanup.policy does not contain compact.",
)
@click.option(
    "--keep-magic", is_flag=True, help="Keep messages of magic 0 and 1 in their format, as brokers before 4.0 do."
)
@options.purge
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(paths: tuple[str, ...], circumstances: Circumstances, **chosen: Any) -> int:
    """Clean compacted logs as the broker's log cleaner does: a partition dir, or all of a log dir, the dirtiest log
    first.

    Keeps the last record of each key, tombstones until their time is over, and what a broker needs for transactions
    and producers. A log that is not due stays as it is. Settings come from --config, --config-file, or the log dir's
    __cluster_metadata. Prints the plan and stops. With --apply or --output, carries it out.

    \b
    Examples:
      klogtool compact LOGDIR --why
      klogtool compact orders-0 --config cleanup.policy=compact --apply

    Exit status: 0 done, or nothing due; 1 some partitions of a log dir are refused because a broker's cleaner fails on
    them, too (the others are done), or loading a log lost records; 2 wrong usage, no such path; 3 refused, nothing
    written; 4 could not go on.
    """
    question = CompactQuestion(
        circumstances=circumstances,
        jobs=chosen["jobs"],
        purge=chosen["purge"],
        no_undo=chosen["no_undo"],
        first_dirty_offset=chosen["first_dirty_offset"],
        passes_at_ms=chosen["passes_at_ms"],
        force=chosen["force"],
        keep_magic=chosen["keep_magic"],
    )
    if chosen.pop("why"):
        return _tell_why(paths, question, chosen)
    is_one = len(paths) == 1 and isinstance(open_path(paths[0]), Partition)
    return decide_and_carry_out(
        COMMAND,
        paths,
        question,
        chosen,
        text_of=compact_text if is_one else compact_brief,
        brief_of=None if is_one else uncleaned_text,
        status_of=status_of_plan,
    )


def status_of_plan(plan: Plan) -> int:
    """Return FOUND if a broker's cleaner would fail."""
    return FOUND if "error" in plan.answer else DONE


def _tell_why(paths: tuple[str, ...], question: CompactQuestion, chosen: Mapping[str, Any]) -> int:
    """Show an answer, or a paragraph, for each partition and log dir."""
    if chosen["apply"] or chosen["output"] or chosen["plan_out"]:
        raise click.UsageError("--why makes no plan, so there is nothing to carry out or to save.")
    show = Show(COMMAND, chosen)
    for standing in walk_standings([os.path.abspath(path) for path in paths], question):
        show.row({"type": "answer", "command": COMMAND, **standing.as_json()})
        show.text(standing_text(standing))
    return DONE
