"""klogtool rebuild-index."""

from __future__ import annotations

from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.plans.rebuild_index import COMMAND, KINDS, RebuildIndexQuestion, SideFile, answer_rows


def _kinds(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[SideFile, ...]:
    """Parse kinds of side files, separated by commas (a click callback)."""
    names = [name.strip().removeprefix(".") for name in value.split(",")] if value is not None else []
    for name in names:
        if name not in KINDS:
            raise click.BadParameter(f"'{name}' is not one of {', '.join(KINDS)}.", ctx, param)
    return tuple(kind for name in names for kind in KINDS if kind == name)


def _bases(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...]:
    """Parse base offsets (a click callback)."""
    return tuple(base for value in values if (base := options.long(ctx, param, value)) is not None)


@commands.command("rebuild-index")
@click.argument("partition", metavar="PARTITION")
@click.option(
    "--segment",
    "segments",
    multiple=True,
    callback=_bases,
    metavar="BASE",
    help="Only rebuild the segment with this base offset. If it is damaged, cut it at the first "
    "damage, as a broker's recovery does. Repeatable.",
)
@click.option("--only", callback=_kinds, metavar="KIND,...", help=f"Only rebuild these side files: {', '.join(KINDS)}.")
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(
    partition: str, circumstances: Circumstances, segments: tuple[int, ...], only: tuple[SideFile, ...], **chosen: Any
) -> int:
    """Rebuild the side files of a partition from its logs, as a broker's recovery writes them.

    Prints the plan and stops. With --apply or --output, carries it out. A damaged .log is refused, unless --segment
    names it. Then the .log is cut at the damage, and the producer snapshots above the segment are deleted, as after a
    broker's recovery.

    \b
    Examples:
      klogtool rebuild-index orders-0
      klogtool rebuild-index orders-0 --only timeindex --apply

    Exit status: 0 done, or nothing to do; 2 wrong usage, no such path or segment; 3 refused, nothing written: a .log
    is damaged, or a broker refuses it; 4 could not go on.
    """
    question = RebuildIndexQuestion(circumstances=circumstances, jobs=chosen["jobs"], segments=segments, only=only)
    return decide_and_carry_out(COMMAND, [partition], question, chosen, answers_of=answer_rows)
