"""klogtool dump-log --format spec: the description from which klogtool build makes the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from klogtool.building.describing import describe
from klogtool.building.spec_text import MOST_TEXT_BYTES
from klogtool.cli.output import Output, note
from klogtool.cli.status import DONE
from klogtool.disk.standard_input import NAME as STDIN
from klogtool.errors import AboveLimit
from klogtool.render.spec import spec_lines

KAFKA, KEPT = "kafka", ("quiet", "no_progress", "jobs", "resync", "output")
MOST_NAMED = 5


def dump_spec(paths: Sequence[str], chosen: dict[str, Any]) -> int:
    """Print the description of a log dir or partition dir; return the exit status.

    Raises UsageError for options that choose or change what is printed: a description is of everything. Else raises as
    `describe` does.
    """
    if len(paths) != 1 or chosen["files"] or paths[0] == STDIN:
        raise click.UsageError("--format spec describes one partition dir or log dir.")
    wrong = [name for name, value in chosen.items() if _is_given(name, value)]
    if wrong:
        raise click.UsageError(f"--{wrong[0].replace('_', '-')} does not go with --format spec, which has everything.")
    described = describe(paths[0], chosen[KAFKA])
    lines = list(spec_lines(described.spec))
    if (size := sum(map(len, lines))) > MOST_TEXT_BYTES:
        raise AboveLimit(f"its description has {size:,} characters: more than klogtool build reads", path=paths[0])
    out = Output()
    for line in lines:
        out.line(line)
    out.flush()
    if not chosen["quiet"]:
        for path in described.left_out[:MOST_NAMED]:
            note(f"klogtool: not in the description, because it is neither a file nor a folder: {path}")
    return DONE


def _is_given(name: str, value: Any) -> bool:
    context = click.get_current_context()
    source = context.get_parameter_source(name)
    is_given = source is not None and source is not click.core.ParameterSource.DEFAULT
    return is_given and name not in (KAFKA, *KEPT) and value not in (None, False, ())
