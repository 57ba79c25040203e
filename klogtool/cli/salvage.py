"""klogtool salvage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import decide_and_carry_out, output_format
from klogtool.disk.facts import looks_like_log_dir
from klogtool.disk.output import check_place
from klogtool.errors import Refused
from klogtool.render.salvage import NOTHING_WRITTEN, lost_anything, salvage_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.draft import Content
from klogtool.repair.plan import Plan
from klogtool.repair.salvaging.rejected_files import rejected_files


def _refuse_in_place(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        raise click.UsageError("salvage does not work in place: --output DIR writes the result, elsewhere.", ctx)


@click.command("salvage")
@click.argument("partition", metavar="PARTITION")
@click.option("--output", type=click.Path(), metavar="DIR", help="Write the result there; new, or empty.")
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    type=click.Path(),
    metavar="DIR",
    help="Another copy of the partition, to fill holes from; repeatable, the first that has something wins.",
)
@click.option(
    "--rejected",
    type=click.Path(),
    metavar="DIR",
    help="Where bytes that are not kept go, with a manifest.  [default: the --output DIR with .rejected behind it]",
)
@click.option("--plan-out", type=click.Path(), metavar="FILE", help="Save the plan, for klogtool apply.")
@click.option("--apply", is_flag=True, hidden=True, expose_value=False, callback=_refuse_in_place)
@output_format
@options.circumstances
@options.jobs
@options.quiet
@options.debug
def command(partition: str, given: Circumstances, replicas: tuple[str, ...], **more: Any) -> int:
    """Keep every good batch of a damaged partition dir, on both sides of each damage.

    Prints the plan and stops; with --output, writes a partition dir that a broker loads as it is: offsets unchanged,
    side files rebuilt. What is wrong outside of a checksum is set right where the value is certain. What is not kept
    goes to --rejected, which must not lie in a log dir: a broker stops at a foreign folder.

    Exit status: 0 nothing is lost; 1 records are lost (the result is written all the same); 2 wrong usage, no such
    path; 3 refused, nothing written; 4 could not go on.
    """
    writing = {"apply": False, "journal": None, "output": more["output"], "plan_out": more["plan_out"]}
    writing |= {"form": more["form"], "quiet": True}
    rejected = _place_for_rejected(partition, more["output"], more["rejected"])
    arguments = {**given.as_arguments(), "replicas": [os.path.abspath(replica) for replica in replicas]}
    if more["jobs"] is not None:
        arguments["jobs"] = more["jobs"]

    def beside_of(plan: Plan) -> Mapping[str, Mapping[str, Content]]:
        files = rejected_files(plan) if rejected is not None else {}
        return {rejected: files} if rejected is not None and files else {}

    def text_of(plan: Plan) -> str:
        is_shown_only = not (more["output"] or more["plan_out"] or more["quiet"])
        return salvage_text(plan) + (f"\n{NOTHING_WRITTEN}" if is_shown_only else "")

    return decide_and_carry_out(
        "salvage",
        [partition],
        arguments,
        writing,
        text_of=text_of,
        status_of=lambda plan: FOUND if lost_anything(plan.answer) else DONE,
        beside_of=beside_of,
    )


def _place_for_rejected(partition: str, output: str | None, rejected: str | None) -> str | None:
    """Where rejected bytes go; None without --output. Raises Refused for a place in a log dir."""
    if output is None:
        if rejected is not None:
            raise click.UsageError("--rejected goes with --output.")
        return None
    place = output.rstrip(os.sep) + ".rejected" if rejected is None else rejected
    above = os.path.dirname(os.path.realpath(place))
    while above != os.path.dirname(above):
        if looks_like_log_dir(above):
            raise Refused(
                f"rejected bytes have no place in a log dir ({above}): a broker would stop at them", path=place
            )
        above = os.path.dirname(above)
    check_place(place, partition)
    return place
