"""klogtool fleet plan."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from klogtool.cli import commands, options
from klogtool.cli.output import Output, note
from klogtool.cli.output_file import output_file
from klogtool.cli.show import header
from klogtool.cli.status import DONE, FOUND
from klogtool.disk.facts import check_saving_place
from klogtool.escape import quoted
from klogtool.fleet.framed import walk_lines
from klogtool.fleet.planning import COMMAND, FleetPlan, make_fleet_plan
from klogtool.fleet.reading import read_collected
from klogtool.json_rows import row_line
from klogtool.render.fleet_plan import fleet_plan_text

_FILES = ("plan_out", "elections", "reassignments")


@commands.command("plan")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--plan-out", type=click.Path(), metavar="FILE", help="Save the plan, for fleet apply and fleet check.")
@click.option(
    "--elections", type=click.Path(), metavar="FILE", help="Write the JSON for kafka-leader-election.sh to this file."
)
@click.option(
    "--reassignments",
    type=click.Path(),
    metavar="FILE",
    help="Write the JSON for kafka-reassign-partitions.sh to this file.",
)
@options.output_format()
@options.quiet
@options.debug
def command(files: tuple[str, ...], form: str, **chosen: Any) -> int:
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
    for name in _FILES:
        if chosen[name]:
            check_saving_place(chosen[name])
    plan = make_fleet_plan([read_collected(path) for path in files])
    _print(plan, form, is_verbose=chosen["verbose"])
    _save(plan, chosen)
    return FOUND if any(_is_losing(choice) for choice in plan.choices) else DONE


def _is_losing(choice: Any) -> bool:
    return bool(choice.lost or choice.only_elsewhere or choice.missing or choice.problems) or choice.best is None


def _print(plan: FleetPlan, form: str, *, is_verbose: bool) -> None:
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for row in plan.rows():
            out.line(row_line(msgspec.to_builtins(row)))
        out.line(row_line({"type": "elections", **plan.elections()}))
        out.line(row_line({"type": "reassignments", **plan.reassignments()}))
    else:
        for line in fleet_plan_text(plan, is_verbose=is_verbose):
            out.line(line)
    out.flush()


def _save(plan: FleetPlan, chosen: dict[str, Any]) -> None:
    """Write the files that were asked for."""
    if chosen["plan_out"]:
        with output_file(chosen["plan_out"]) as sink:
            for line in walk_lines(header(COMMAND), plan.rows()):
                sink.write(line.encode() + b"\n")
        if not chosen["quiet"]:
            note(f"klogtool: plan saved; on each broker: klogtool fleet apply {quoted(chosen['plan_out'])} LOGDIR...")
    for name, told in (("elections", plan.elections()), ("reassignments", plan.reassignments())):
        if chosen[name]:
            with output_file(chosen[name]) as sink:
                sink.write(json.dumps(told, indent=1).encode() + b"\n")
