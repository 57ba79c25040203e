"""klogtool fleet check."""

from __future__ import annotations

import click

from klogtool.cli import commands, options
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.fleet.checking import check
from klogtool.fleet.planning import read_fleet_plan
from klogtool.fleet.reading import read_collected
from klogtool.render.fleet_apply import checked_text

COMMAND = "fleet check"


@commands.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.argument("plan", type=click.Path(), metavar="PLAN")
@options.packed(options.taken(Screen), "screen", options.output_format(), options.quiet)
@options.debug
def command(files: tuple[str, ...], plan: str, screen: Screen) -> int:
    """Check that the disks are as the plan wants them: from files that were collected again, after fleet apply.

    The best copy must have all that it had, without damage. Copies that were to be cut must fit it. Folders that were
    to be set aside or renamed must be so. Brokers may have started meanwhile.

    \b
    Examples:
      klogtool fleet check *.klog plan.json
      klogtool fleet check --json *.klog plan.json

    Exit status: 0 all is as planned; 1 something is not, or a broker's file is missing; 2 wrong usage, no such file; 3
    a file that is not whole, or of another kind; 4 a file could not be read.
    """
    results = list(check(read_fleet_plan(plan), [read_collected(path) for path in files]))
    show, holding = Show(COMMAND, screen), sum(result.holds for result in results)
    for result in results:
        show.row(result)
    show.row({"type": "summary", "holds": holding, "fails": len(results) - holding})
    for line in checked_text(results):
        show.line(line)
    return DONE if holding == len(results) else FOUND
