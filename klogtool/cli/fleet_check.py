"""klogtool fleet check."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import commands, options
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.status import DONE, FOUND
from klogtool.fleet.checking import check
from klogtool.fleet.planning import read_fleet_plan
from klogtool.fleet.reading import read_collected
from klogtool.json_rows import row_line
from klogtool.render.fleet_apply import checked_text

COMMAND = "fleet check"


@commands.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.argument("plan", type=click.Path(), metavar="PLAN")
@options.output_format()
@options.quiet
@options.debug
def command(files: tuple[str, ...], plan: str, form: str, **_: Any) -> int:
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
    found = list(check(read_fleet_plan(plan), [read_collected(path) for path in files]))
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for each in found:
            out.line(row_line(each))
        holding = sum(each.holds for each in found)
        out.line(row_line({"type": "summary", "holds": holding, "fails": len(found) - holding}))
    else:
        for line in checked_text(found):
            out.line(line)
    out.flush()
    return FOUND if not all(each.holds for each in found) else DONE
