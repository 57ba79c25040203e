"""klogtool explain."""

from __future__ import annotations

import click

from klogtool.cli import options
from klogtool.cli.output import Output
from klogtool.cli.status import DONE
from klogtool.cli.writing_options import header
from klogtool.json_rows import row_line
from klogtool.render.explained import explain, explanation_text, list_text
from klogtool.verify.findings import SEVERITIES

COMMAND = "explain"


@click.command(COMMAND)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@options.text_or_json
@options.debug
def command(ids: tuple[str, ...], form: str) -> int:
    """Explain a finding of verify: what it means, how it comes about, what a broker does about it, and what to do.

    ID is the id of the finding, for example batch-crc. Without an ID, all ids are listed with a short meaning.

    Exit status: 0 done; 2 no finding has this id.
    """
    out, told = Output(), [explain(finding_id) for finding_id in ids]
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for explanation in told or map(explain, SEVERITIES):
            out.line(row_line(explanation.as_json()))
    else:
        out.text("\n\n".join(map(explanation_text, told)) if told else list_text())
    out.flush()
    return DONE
