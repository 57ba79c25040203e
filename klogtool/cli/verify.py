"""klogtool verify."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, options
from klogtool.cli.verifying import run_verify
from klogtool.cli.writing_options import writing

ONLY_WITHOUT_RECOVER = ("deep", "notes", "fail_on", "baseline", "max_duration", "subset")
ONLY_WITH_RECOVER = ("mark_clean", "apply", "output", "plan_out", "journal")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a duration such as 90, 90s, 10m, 2h into seconds (a click callback)."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"'{value}' is not a duration such as 90s, 10m or 2h.", ctx, param)
    return float(found[1]) * _SECONDS[found[2]]


def _subset(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int]:
    """Parse N/T (a click callback)."""
    if value is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"'{value}' is not N/T, with N from 1 to T.", ctx, param)
    return int(found[1]), int(found[2])


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Also decompress and parse every record.")
@click.option("--notes", is_flag=True, help="Also show notes: things that are normal but worth knowing.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Lowest severity that makes the exit status 1.",
)
@click.option("--baseline", metavar="FILE", help="An earlier JSON output. Findings that are in it do not count.")
@click.option(
    "--max-duration",
    callback=_duration,
    metavar="TIME",
    help="After this time, start no further segment: 90s, 10m, 2h.",
)
@click.option(
    "--subset", callback=_subset, metavar="N/T", help="Split the partitions into T parts, and read only part N."
)
@click.option(
    "--recover", is_flag=True, help="Show what a broker would change at startup. With --apply or --output, do it."
)
@click.option("--mark-clean", is_flag=True, help="With --recover: leave the log dir as after a clean shutdown.")
@writing
@options.jobs
@options.verbose
@options.quiet
@options.no_progress
@circumstance_options.circumstances
@options.debug
@click.pass_context
def command(
    ctx: click.Context, /, paths: tuple[str, ...], form: str, circumstances: Circumstances, **chosen: Any
) -> int:
    """Find all damage under PATH: a file of a partition, a partition dir, or a log dir. Several log dirs are log dirs
    of one broker.

    verify reads on after damage, and never writes. `klogtool explain ID` says what a finding means, what a broker does
    about it, and what to do.

    With --recover, klogtool does what a broker does to the logs at startup: it cuts each log at its first damage,
    rebuilds indexes, and finishes interrupted operations. It prints the plan and stops. With --apply or --output, it
    carries the plan out. With --mark-clean, it also writes the checkpoints and the clean shutdown marker, if every
    batch of every partition is sound.

    Exit status: 0 nothing is wrong; 1 an error was found (with --fail-on warning: an error or a warning), or with
    --recover records are lost or missing; 2 wrong usage, no such path; 3 refused, nothing written: a broker does not
    start on this log dir, or takes it offline; 4 a PATH could not be read, or is not Kafka's, or the time
    (--max-duration) was up before damage was found.
    """
    _check_options(ctx, chosen)
    return run_verify(paths, form, circumstances, chosen)


def _check_options(ctx: click.Context, chosen: Mapping[str, Any]) -> None:
    """Raises UsageError for options that do not fit --recover, and those that fit only with it."""
    wrong, how = (ONLY_WITHOUT_RECOVER, "does not go") if chosen["recover"] else (ONLY_WITH_RECOVER, "goes")
    given = (name for name in wrong if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE)
    for name in given:
        raise click.UsageError(f"--{name.replace('_', '-')} {how} with --recover.", ctx)
