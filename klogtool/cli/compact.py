"""klogtool compact."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import Show, decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.render.compact import compact_brief, compact_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.compact import COMMAND
from klogtool.repair.plan import Plan

_DECIDED_BY = ("first_dirty_offset", "passes_at_ms", "force", "keep_magic", "purge", "jobs")


def _moments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int] | None:
    """A callback: times."""
    return [at for value in values if (at := options.moment(ctx, param, value)) is not None] or None


@click.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--first-dirty-offset",
    callback=options.long,
    metavar="N",
    help="In place of the line in cleaner-offset-checkpoint, and judged as it is.",
)
@click.option(
    "--pass-at",
    "passes_at_ms",
    multiple=True,
    callback=_moments,
    metavar="TIME",
    help="A pass at this time; repeatable.  [default: one, at --now]",
)
@click.option("--why", is_flag=True, help="Tell why a log is not being compacted, and what to do; nothing is planned.")
@click.option(
    "--force",
    is_flag=True,
    help="Clean also what is not due; a partition dir also if its cleanup.policy has no compact.",
)
@click.option(
    "--keep-magic", is_flag=True, help="Messages of magic 0 and 1 stay such, as brokers before 4.0 left them."
)
@options.purge
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(paths: tuple[str, ...], given: Circumstances, **chosen: Any) -> int:
    """Clean compacted logs as the broker's log cleaner does: a partition dir, or each in a log dir, filthiest first.

    Keeps the last record of each key, tombstones until their time is over, and what a broker has to know of
    transactions and producers. What is not due stays as it is. Settings come from --config, --config-file, or the log
    dir's __cluster_metadata. Prints the plan and stops; with --apply or --output, carries it out.

    Exit status: 0 done, or nothing due; 1 partitions of a log dir are refused, since a broker's cleaner breaks off at
    them, too: the others are done; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    if chosen.pop("why"):
        return _tell_why(paths, given, chosen)
    is_one = len(paths) == 1 and isinstance(open_path(paths[0]), Partition)
    arguments = given.as_arguments() | options.only_given(chosen, _DECIDED_BY)
    text_of = compact_text if is_one else compact_brief
    return decide_and_carry_out(COMMAND, paths, arguments, chosen, text_of=text_of, status_of=_status_of)


def _status_of(plan: Plan) -> int:
    return FOUND if "error" in plan.answer else DONE


def _tell_why(paths: tuple[str, ...], given: Circumstances, chosen: Mapping[str, Any]) -> int:
    """An answer, or a paragraph, for each partition and log dir."""
    from klogtool.render.why_not_compacted import standing_text
    from klogtool.repair.cleaning.why_not_compacted import walk_standings

    if chosen["apply"] or chosen["output"] or chosen["plan_out"]:
        raise click.UsageError("--why only tells: there is no plan to carry out or to save.")
    show = Show(COMMAND, chosen)
    arguments = given.as_arguments() | options.only_given(chosen, ("first_dirty_offset",))
    for standing in walk_standings([os.path.abspath(path) for path in paths], arguments):
        show.row({"type": "answer", "command": COMMAND, **standing.as_json()})
        show.text(standing_text(standing))
    return DONE
