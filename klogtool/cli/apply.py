"""klogtool apply."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.journals import find_entries, only_one
from klogtool.cli.status import DONE, REFUSED
from klogtool.cli.writing import Show, apply_plans, output_format
from klogtool.disk.facts import check_facts
from klogtool.disk.journal import spools_for
from klogtool.disk.manifest import Progress
from klogtool.disk.writer import check_not_in_use, resume
from klogtool.log.file import read_whole
from klogtool.repair.saved_plan import SavedPlan, decide_saved, parse_saved_plans, paths_of

MAX_PLAN_BYTES = 1 << 32


@click.command("apply")
@click.argument("given", nargs=-1, metavar="FILE | --resume [ID] [PATH]")
@click.option("--resume", "resuming", is_flag=True, help="Finish a run that was cut short.")
@click.option("--journal", type=click.Path(), metavar="DIR", help="Where what undo needs is kept.")
@output_format
@options.quiet
@options.debug
def command(given: tuple[str, ...], resuming: bool, journal: str | None, **more: Any) -> int:
    """Carry out a plan that --plan-out saved, in place and with undo; or finish a run that was cut short.

    FILE is refused if any file that its plans relied on has changed, or if klogtool decides otherwise now. --resume
    needs no ID where only one run was cut short: of the journal beside PATH, or beside the folder you are in.

    Exit status: 0 done; 2 wrong usage, no such file; 3 refused, nothing changed; 4 could not go on: what had been done
    was taken back, or it is said how to go on.
    """
    if resuming:
        return _resume(given, journal, more)
    if len(given) != 1:
        raise click.UsageError("Name the FILE of one saved plan, or --resume.")
    head, plans = parse_saved_plans(read_whole(given[0], limit=MAX_PLAN_BYTES).splitlines(), given[0])
    show = Show("apply", more)
    with show.refusals():
        check_facts(plans)
        for plan in plans:
            check_not_in_use(plan.path)
        for plan in plans:
            show.row(plan.row)
            show.text(_line(plan))
        with ExitStack() as held:
            decided = decide_saved(
                plans, paths_of(head), lambda path: held.enter_context(spools_for(path, journal)).make_spool
            )
            apply_plans(show, head, decided, journal)
    return REFUSED if show.refused else DONE


def _resume(given: tuple[str, ...], journal: str | None, more: dict[str, Any]) -> int:
    cut_short = (Progress.PREPARING, Progress.STAGED)
    found = find_entries(given, journal)
    entry = only_one([e for e in found if e.progress() in cut_short] or found[:1], "finish")
    show = Show("apply", more)
    with show.refusals():
        show.applied(resume(entry))
    return REFUSED if show.refused else DONE


def _line(plan: SavedPlan) -> str:
    return f"Plan {plan.id}   {plan.command}   {plan.path}   {len(plan.steps):,} steps"
