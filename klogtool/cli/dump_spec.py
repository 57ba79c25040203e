"""klogtool dump-log --format spec: the description from which klogtool build makes the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from klogtool.building.describing import describe
from klogtool.building.spec_text import MOST_TEXT_BYTES
from klogtool.cli import options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.dump_question import DumpQuestion
from klogtool.cli.output import Output, note
from klogtool.cli.show import ReadingOptions
from klogtool.cli.status import DONE
from klogtool.disk.standard_input import NAME as STDIN
from klogtool.errors import AboveLimit
from klogtool.render.spec import spec_lines

KEPT = ("paths", "form", "kafka", "quiet", "no_progress", "jobs", "resync", "output")
MOST_NAMED = 5


def dump_spec(paths: Sequence[str], question: DumpQuestion, reading: ReadingOptions) -> int:
    """Print the description of a log dir or partition dir; return the exit status.

    Raises UsageError for options that choose or change what is printed: a description is of everything. Else raises as
    `describe` does.
    """
    context = click.get_current_context()
    if len(paths) != 1 or context.params["files"] or paths[0] == STDIN:
        raise click.UsageError("--format spec describes one partition dir or log dir.")
    typed = [name for name in context.params if name not in KEPT and options.is_typed(name)]
    if (other := options.first_used(*typed)) is not None:
        raise click.UsageError(f"{other} does not go with --format spec, which has everything.")
    described = describe(paths[0], question.kafka)
    lines = list(spec_lines(described.spec))
    if (size := sum(map(len, lines))) > MOST_TEXT_BYTES:
        raise AboveLimit(CommandRefusal.LONG_DESCRIPTION(size=size), path=paths[0])
    out = Output()
    for line in lines:
        out.line(line)
    out.flush()
    if not reading.quiet:
        for path in described.left_out[:MOST_NAMED]:
            note(f"klogtool: not in the description, because it is neither a file nor a folder: {path}")
    return DONE
