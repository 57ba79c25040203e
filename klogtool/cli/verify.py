"""klogtool verify."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.verify_settings import exclusions, merged, settings_of, severity_rules
from klogtool.cli.verifying import run_verify

FORMS = ("text", "json", "junit", "sarif", "github", "gitlab")
WITH_STATISTICS = ("text", "json")
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


@commands.command("verify")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--recursive", is_flag=True, help="Verify every log dir and partition dir below PATH, each by itself.")
@click.option(
    "--changed-files",
    is_flag=True,
    help="PATHs are files that changed. Verify the log dirs that they are in, each by itself.",
)
@click.option("--deep", is_flag=True, help="Also decompress and parse every record.")
@click.option("--notes", is_flag=True, help="Also show notes: things that are normal but worth knowing.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Lowest severity that makes the exit status 1.",
)
@click.option(
    "--severity",
    multiple=True,
    callback=severity_rules,
    metavar="ID=SEVERITY",
    help="Give findings with this id another severity: error, warning, info, or ignore. Repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    callback=exclusions,
    metavar="PATTERN",
    help="Do not verify paths that match, such as broken-* or fixtures/**/old. Repeatable.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    help="Findings in this file do not count: a file of --write-baseline, or an earlier JSON output.",
)
@click.option("--write-baseline", metavar="FILE", help="Write the errors and warnings to this file, for --baseline.")
@click.option("--statistics", is_flag=True, help="Show only how many findings there are of each id.")
@click.option(
    "--settings",
    metavar="FILE",
    help="Take settings from this file.  [default: klogtool.toml or pyproject.toml here or in a folder above]",
)
@click.option("--isolated", is_flag=True, help="Look for no settings file.")
@click.option(
    "--max-duration",
    callback=_duration,
    metavar="TIME",
    help="After this time, start no further segment: 90s, 10m, 2h.",
)
@click.option(
    "--subset", callback=_subset, metavar="N/T", help="Split the partitions into T parts, and read only part N."
)
@options.output_format(FORMS, "Output format: text, JSON Lines (--json), or a report for a CI system.")
@options.jobs
@options.quiet
@options.no_progress
@question_options.circumstances
@options.debug
@click.pass_context
def command(
    ctx: click.Context, /, paths: tuple[str, ...], form: str, circumstances: Circumstances, **chosen: Any
) -> int:
    """Find all damage under PATH: a file of a partition, a partition dir, or a log dir. Several log dirs are log dirs
    of one broker, unless --recursive finds them. Without PATH, the paths of the settings file are verified.

    verify reads on after damage, and never changes a log. `klogtool explain ID` says what a finding means, what a
    broker does about it, and what to do.

    \b
    Examples:
      klogtool verify /var/kafka-logs
      klogtool verify --deep --notes /var/kafka-logs/orders-0

    Exit status: 0 nothing is wrong; 1 an error was found (with --fail-on warning: an error or a warning); 2 wrong
    usage, no such path; 4 a PATH could not be read, or is not Kafka's, or the time (--max-duration) was up before
    damage was found.
    """
    _check_options(ctx, form, chosen)
    settings = settings_of(chosen)
    paths = paths if paths or chosen["changed_files"] else settings.paths
    if not paths and not chosen["changed_files"]:
        raise click.UsageError("Missing argument 'PATH...'.", ctx)
    if settings.kafka is not None and ctx.get_parameter_source("kafka") is click.core.ParameterSource.DEFAULT:
        circumstances = replace(circumstances, kafka=settings.kafka)
    return run_verify(paths, form, circumstances, settings, merged(ctx, chosen, settings))


def _check_options(ctx: click.Context, form: str, chosen: Mapping[str, Any]) -> None:
    """Raises UsageError for options that do not go together."""
    if form not in WITH_STATISTICS and chosen["statistics"]:
        raise click.UsageError(f"--format {form} does not go with --statistics.", ctx)
    is_partial = chosen["subset"] != (1, 1) or chosen["max_duration"] is not None
    if chosen["write_baseline"] is not None and (is_partial or chosen["baseline"] is not None):
        other = "--baseline" if chosen["baseline"] is not None else "--subset and --max-duration"
        raise click.UsageError(f"--write-baseline does not go with {other}.", ctx)
    if chosen["isolated"] and chosen["settings"] is not None:
        raise click.UsageError("--isolated does not go with --settings.", ctx)
