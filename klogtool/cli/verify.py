"""klogtool verify."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.verifying import run_verify
from klogtool.cli.writing_options import writing
from klogtool.repair.circumstances import Circumstances

ONLY_WITHOUT_RECOVER = ("deep", "notes", "fail_on", "baseline", "max_duration", "subset")
ONLY_WITH_RECOVER = ("mark_clean", "apply", "output", "plan_out", "journal")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A callback: 90, 90s, 10m, 2h; in seconds."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"'{value}' is no duration: 90s, 10m, 2h.", ctx, param)
    return float(found[1]) * _SECONDS[found[2]]


def _subset(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int]:
    """A callback: N/T."""
    if value is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"'{value}' is no part: N/T, N from 1 to T.", ctx, param)
    return int(found[1]), int(found[2])


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Also decompress and parse every record.")
@click.option("--notes", is_flag=True, help="Show notes, too: what is normal, and worth knowing.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="From where on the exit status is 1.",
)
@click.option("--baseline", metavar="FILE", help="A former JSON output: what is in it does not count.")
@click.option("--max-duration", callback=_duration, metavar="TIME", help="Begin no segment after it: 90s, 10m, 2h.")
@click.option(
    "--subset", callback=_subset, metavar="N/T", help="Only the N-th of T parts of the partitions, by their order."
)
@click.option("--recover", is_flag=True, help="Tell what a broker's start would make of it; or do that.")
@click.option("--mark-clean", is_flag=True, help="With --recover: leave a log dir as after a clean stop.")
@writing
@options.jobs
@options.quiet
@options.no_progress
@options.circumstances
@options.debug
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], form: str, given: Circumstances, **chosen: Any) -> int:
    """Find every damage under PATH: files of a partition, partition dirs, log dirs (several: those of one broker).

    It goes on behind a damage, and never writes. docs/findings.md says of each finding what it means, what a broker
    does about it, and what to do.

    With --recover it does what a broker's start does to partition dirs and log dirs: cuts each log at its first
    damage, rebuilds indexes, finishes what was interrupted. It prints the plan and stops; with --apply or --output,
    carries it out. --mark-clean goes on, if every batch of every partition is sound, to checkpoints and clean marker.

    Exit status: 0 nothing wrong; 1 an error was found (--fail-on warning: or a warning), or --recover would lose
    records; 2 wrong usage, no such path; 3 refused, nothing written: a broker would not start on it either; 4 a PATH
    could not be read, or is nothing of Kafka's.
    """
    _check_options(ctx, chosen)
    return run_verify(paths, form, given, chosen)


def _check_options(ctx: click.Context, chosen: Mapping[str, Any]) -> None:
    """Raises UsageError for options that do not go with --recover, and those that go only with it."""
    wrong, how = (ONLY_WITHOUT_RECOVER, "does not go") if chosen["recover"] else (ONLY_WITH_RECOVER, "goes")
    given = (name for name in wrong if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE)
    for name in given:
        raise click.UsageError(f"--{name.replace('_', '-')} {how} with --recover.", ctx)
