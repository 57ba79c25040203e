"""klogtool fleet plan."""

from __future__ import annotations

import json
from typing import Annotated

import click
from msgspec import Struct

from klogtool.cli import commands, options
from klogtool.cli.output import note
from klogtool.cli.output_file import output_file
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Screen, Show, header
from klogtool.cli.status import DONE, FOUND
from klogtool.disk.facts import check_saving_place
from klogtool.escape import quoted
from klogtool.fleet.framed import CollectedFiles, walk_lines
from klogtool.fleet.planning import COMMAND, FleetPlan, make_fleet_plan
from klogtool.parameters import Unit, parameter
from klogtool.render.fleet_plan import fleet_plan_text
from klogtool.render.words import in_words


class FleetPlanQuestion(Struct, frozen=True, kw_only=True):
    """Which files are written."""

    plan_out: Annotated[str | None, parameter("Save the plan, for fleet apply and fleet check.", Unit.FILE)] = None
    elections: Annotated[
        str | None, parameter("Write the JSON for kafka-leader-election.sh to this file.", Unit.FILE)
    ] = None
    reassignments: Annotated[
        str | None, parameter("Write the JSON for kafka-reassign-partitions.sh to this file.", Unit.FILE)
    ] = None


@commands.command("plan")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@question_options(FleetPlanQuestion)
@options.screen()
def command(files: tuple[str, ...], question: FleetPlanQuestion, screen: Screen) -> int:
    """Choose the best copy of each partition, from the files of fleet collect: one for each broker.

    The best copy has the highest last leader epoch; of several, the highest end. The plan says what this loses, what
    each broker has to do, in which order brokers start, and which elections are needed. Nothing is changed.

    \b
    Examples:
      klogtool fleet plan *.klog
      klogtool fleet plan *.klog --plan-out plan.json

    Exit status: 0 nothing is lost; 1 records are lost with every choice, or a broker is missing; 2 wrong usage, no such
    file; 3 files that do not belong together, or are not whole; a file to write exists; 4 a file could not be read.
    """
    for place in filter(None, (question.plan_out, question.elections, question.reassignments)):
        check_saving_place(place)
    plan = make_fleet_plan(list(map(CollectedFiles().read, files)))
    show = Show(COMMAND, screen)
    show.rows(plan.rows())
    show.row({"type": "elections", **plan.elections()})
    show.row({"type": "reassignments", **plan.reassignments()})
    show.lines(fleet_plan_text(plan, is_verbose=screen.verbose))
    if question.plan_out:
        save_fleet_plan(question.plan_out, plan, quiet=screen.quiet)
    for path, content in ((question.elections, plan.elections()), (question.reassignments, plan.reassignments())):
        if path:
            with output_file(path) as sink:
                sink.write(json.dumps(content, indent=1).encode() + b"\n")
    loses = (one.lost or one.only_elsewhere or one.missing or one.problems or one.best is None for one in plan.choices)
    return FOUND if any(loses) else DONE


def save_fleet_plan(path: str, plan: FleetPlan, *, quiet: bool) -> None:
    """Write the plan to a new file, and say how to go on. Raises Refused, Unreadable."""
    with output_file(path) as sink:
        for line in walk_lines(header(COMMAND), map(in_words, plan.rows())):
            sink.write(line.encode() + b"\n")
    if not quiet:
        note(f"klogtool: plan saved; on each broker: klogtool fleet apply {quoted(path)} LOGDIR...")
