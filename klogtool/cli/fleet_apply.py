"""klogtool fleet apply."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec.structs import replace

from klogtool.cli import commands
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Show
from klogtool.cli.writing import APPLY, JOURNAL, PLAN_OUT, PlanFace, Writing, decide_and_carry_out, writing_by
from klogtool.errors import Refused
from klogtool.fleet.planning import read_fleet_plan
from klogtool.fleet.sharing import AlreadyThere, Todo, find_share
from klogtool.plans.fleet_share import COMMAND, FleetShareQuestion
from klogtool.render.fleet_plan import share_line, share_row
from klogtool.render.plans import plan_text


@commands.command("apply")
@click.argument("plan", type=click.Path(), metavar="PLAN")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@question_options(FleetShareQuestion)
@writing_by(APPLY, PLAN_OUT, JOURNAL)
def command(plan: str, paths: tuple[str, ...], question: FleetShareQuestion, writing: Writing) -> int:
    """Do what the plan of fleet plan says about this broker, before it starts. Name all its log dirs.

    Copies that a broker would not cut right are cut; a copy beside a better one is moved out of the log dir; the best
    copy of this broker gets the plain name. All other copies are left to the brokers. Without --apply nothing is
    changed. Run again, after an error or an interrupt, it does what is left.

    \b
    Examples:
      klogtool fleet apply plan.json /data/kafka-1
      klogtool fleet apply plan.json /data/kafka-1 --apply

    Exit status: 0 done, or nothing to do; 2 wrong usage, no such file; 3 refused, nothing changed: the plan is not
    about this broker, or a copy was changed since it was collected; 4 could not go on.
    """
    share: list[AlreadyThere | Todo] = []
    try:
        share = find_share(read_fleet_plan(plan), paths, question.circumstances)
    except Refused as error:
        show = Show(COMMAND, writing)
        show.refusal(error)
        return 3
    acts = tuple(each.act for each in share if isinstance(each, Todo))
    if not writing.quiet and not share:
        note("klogtool: the plan leaves all copies of this broker to the broker itself")
    face = PlanFace(
        text_of=plan_text,
        begin=lambda show: _begin(show, share, paths),
        nothing_changed="Nothing was changed. --apply does it, with undo.",
    )
    return decide_and_carry_out(COMMAND, paths, replace(question, acts=acts), writing, face)


def _begin(show: Show, outlook: Sequence[AlreadyThere | Todo], paths: Sequence[str]) -> Sequence[str]:
    """Show what is done and what is to do; return the log dirs in which something is to do."""
    for each in outlook:
        show.row(share_row(each))
        show.line(share_line(each))
    return paths if any(isinstance(each, Todo) for each in outlook) else ()
