"""What klogtool verify is asked: by the command line, and by a settings file where that says nothing."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import options
from klogtool.cli.output import note
from klogtool.cli.output_file import MetricsFile
from klogtool.errors import KlogError
from klogtool.parameters import Unit, parameter
from klogtool.verify.settings import (
    Exclusion,
    SeverityRule,
    VerifySettings,
    find_settings_file,
    kind_of,
    make_pattern,
    parse_severity,
    read_settings,
)

if TYPE_CHECKING:
    from klogtool.verify.verification import Summary


def _subset(text: str) -> tuple[int, int]:
    """Parse N/T."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"'{text}' is not N/T, with N from 1 to T.")
    return int(match[1]), int(match[2])


def _severity_rule(text: str) -> SeverityRule:
    """Parse ID=SEVERITY."""
    finding_id, equals, severity = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not ID=SEVERITY.")
    try:
        return SeverityRule({kind_of(finding_id): parse_severity(severity)}, "--severity")
    except KlogError as error:
        raise click.BadParameter(error.reason) from None


def _exclusion(text: str) -> Exclusion:
    """Parse a pattern of paths."""
    try:
        return Exclusion(make_pattern(text, os.path.realpath(os.curdir)), "--exclude")
    except KlogError as error:
        raise click.BadParameter(f"{error.reason}.") from None


FailOn: TypeAlias = Annotated[Literal["error", "warning"], parameter("Lowest severity that makes the exit status 1.")]


def is_failed(summary: Summary, fail_on: str) -> bool:
    """Return whether the findings make the exit status 1."""
    return bool(summary.errors or (fail_on == "warning" and summary.warnings))


class VerifyQuestion(Struct, frozen=True, kw_only=True):
    """What is verified, how far, and which findings count. max_duration: seconds."""

    circumstances: Circumstances
    recursive: Annotated[bool, parameter("Verify every log dir and partition dir below PATH, each by itself.")] = False
    changed_files: Annotated[
        bool, parameter("PATHs are files that changed. Verify the log dirs that they are in, each by itself.")
    ] = False
    deep: Annotated[bool, parameter("Also decompress and parse every record.")] = False
    notes: Annotated[bool, parameter("Also show notes: things that are normal but worth knowing.")] = False
    fail_on: FailOn = "error"
    severity: Annotated[
        tuple[SeverityRule, ...],
        parameter(
            "Give findings with this id another severity: error, warning, info, or ignore. Repeatable.",
            Unit.TEXT,
            metavar="ID=SEVERITY",
            parse=_severity_rule,
        ),
    ] = ()
    exclude: Annotated[
        tuple[Exclusion, ...],
        parameter(
            "Do not verify paths that match, such as broken-* or fixtures/**/old. Repeatable.",
            Unit.TEXT,
            metavar="PATTERN",
            parse=_exclusion,
        ),
    ] = ()
    baseline: Annotated[
        str | None,
        parameter(
            "Findings in this file do not count: a file of --write-baseline, or an earlier JSON output.", Unit.FILE
        ),
    ] = None
    write_baseline: Annotated[
        str | None, parameter("Write the errors and warnings to this file, for --baseline.", Unit.FILE)
    ] = None
    metrics: MetricsFile = None
    statistics: Annotated[bool, parameter("Show only how many findings there are of each id.")] = False
    settings: Annotated[
        str | None,
        parameter(
            "Take settings from this file.  [default: klogtool.toml or pyproject.toml here or in a folder above]",
            Unit.FILE,
        ),
    ] = None
    isolated: Annotated[bool, parameter("Look for no settings file.")] = False
    max_duration: Annotated[
        float | None,
        parameter("After this time, start no further segment: 90s, 10m, 2h.", Unit.TIME, parse=options.duration),
    ] = None
    subset: Annotated[
        tuple[int, int],
        parameter("Split the partitions into T parts, and read only part N.", Unit.TEXT, metavar="N/T", parse=_subset),
    ] = (1, 1)

    @property
    def is_partial(self) -> bool:
        """Whether something is left out by request."""
        return self.subset != (1, 1) or self.max_duration is not None


def settings_of(question: VerifyQuestion, *, quiet: bool) -> VerifySettings:
    """Return the settings of --settings, or of the file that is found; none with --isolated. Raises KlogError if the
    file is wrong."""
    if question.settings is not None:
        return read_settings(question.settings)
    if question.isolated:
        return VerifySettings()
    try:
        here = os.getcwd()
    except OSError:  # the working directory is gone
        return VerifySettings()
    try:
        settings_path = find_settings_file(here)
        if settings_path is None:
            return VerifySettings()
        path = os.path.relpath(settings_path, here)
        if not quiet:
            note(f"klogtool: settings of {path}")
        return read_settings(path)
    except KlogError as error:
        error.cure = "--isolated looks for no settings file."
        raise


def merged(question: VerifyQuestion, settings: VerifySettings) -> VerifyQuestion:
    """Return the question, with the settings in place of options that were not given. Rules for severities of the
    command line come last, and win."""
    of_file = {name: getattr(settings, name) for name in ("deep", "recursive", "fail_on", "baseline")}
    used = {name: value for name, value in of_file.items() if value is not None and not options.is_typed(name)}
    if settings.kafka is not None and not options.is_typed("kafka"):
        used["circumstances"] = replace(question.circumstances, kafka=settings.kafka)
    severity, exclude = (*settings.severities, *question.severity), (*settings.exclude, *question.exclude)
    return replace(question, **used, severity=severity, exclude=exclude)
