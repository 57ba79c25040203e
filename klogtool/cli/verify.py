"""klogtool verify."""

from __future__ import annotations

import click

from klogtool.cli import commands, options
from klogtool.cli.gentle_reading import gently
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions
from klogtool.cli.verify_settings import VerifyQuestion, merged, settings_of
from klogtool.cli.verifying import run_verify

FORMS = ("text", "json", "junit", "sarif", "github", "gitlab")
WITH_STATISTICS = ("text", "json")


@commands.command("verify")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@question_options(VerifyQuestion)
@options.reading(*FORMS, about="Output format: text, JSON Lines (--json), or a report for a CI system.")
@gently
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], question: VerifyQuestion, reading: ReadingOptions) -> int:
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
    if reading.form not in WITH_STATISTICS and question.statistics:
        raise click.UsageError(f"--format {reading.form} does not go with --statistics.", ctx)
    if question.write_baseline is not None and (question.is_partial or question.baseline is not None):
        other = "--baseline" if question.baseline is not None else "--subset and --max-duration"
        raise click.UsageError(f"--write-baseline does not go with {other}.", ctx)
    if question.isolated and question.settings is not None:
        raise click.UsageError("--isolated does not go with --settings.", ctx)
    settings = settings_of(question, quiet=reading.quiet)
    paths = paths if paths or question.changed_files else settings.paths
    if not paths and not question.changed_files:
        raise click.UsageError("Missing argument 'PATH...'.", ctx)
    return run_verify(paths, merged(question, settings), reading, settings.path)
