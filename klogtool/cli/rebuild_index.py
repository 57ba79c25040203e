"""klogtool rebuild-index."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.rebuilding import run_rebuild_index
from klogtool.cli.writing_options import writing
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.rebuild import KINDS


def _kinds(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    """A callback: kinds of side files, with commas between them."""
    kinds = [name.strip().removeprefix(".") for name in value.split(",")] if value is not None else []
    for name in kinds:
        if name not in KINDS:
            raise click.BadParameter(f"'{name}' is none of {', '.join(KINDS)}.", ctx, param)
    return kinds


def _bases(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int]:
    """A callback: base offsets."""
    return [base for value in values if (base := options.long(ctx, param, value)) is not None]


@click.command("rebuild-index")
@click.argument("partition", metavar="PARTITION")
@click.option(
    "--segment",
    "segments",
    multiple=True,
    callback=_bases,
    metavar="BASE",
    help="Only this segment, by base offset, cut at its first damage as a broker's recovery does; repeatable.",
)
@click.option("--only", callback=_kinds, metavar="KIND,...", help=f"Only these side files: {', '.join(KINDS)}.")
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(partition: str, given: Circumstances, segments: list[int], only: list[str], **chosen: Any) -> int:
    """Build the side files of a partition anew from its logs, as a broker's recovery writes them.

    Prints the plan and stops; with --apply or --output, carries it out. A damaged .log is refused, unless --segment
    names it: then it is cut there, and the producer snapshots above it go, as after a broker's recovery.

    Exit status: 0 done, or nothing to do; 2 wrong usage, no such path or segment; 3 refused, nothing written: a .log is
    damaged, or a broker refuses it; 4 could not go on.
    """
    return run_rebuild_index(partition, given, {**chosen, "segments": segments, "only": only})
