"""klogtool dump-log --format speedscope: where the bytes of a disk are."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from klogtool.cli import options
from klogtool.cli.output import Output, error_lines
from klogtool.cli.status import DONE, status_of
from klogtool.errors import KlogError
from klogtool.json_rows import row_line
from klogtool.render.speedscope import profile

NOT_WITH = ("files", "follow", "resync", "max_bytes", "offsets", "timestamps", "grep", "key", "producer_id")


def dump_speedscope(paths: Sequence[str]) -> int:
    """Print a file for speedscope. Returns the exit status: damage and what cannot be read is told, and left out."""
    if (other := options.first_used(*NOT_WITH)) is not None:
        raise click.UsageError(f"{other} does not go with --format speedscope.")
    output, statuses = Output(), [DONE]

    def tell(error: KlogError) -> None:
        statuses.append(status_of(error))
        output.note(*error_lines(error))

    result = profile(paths, tell, ", ".join(os.path.abspath(path) for path in paths))
    output.write_json(row_line(result).encode() + b"\n")
    output.flush()
    return max(statuses)
