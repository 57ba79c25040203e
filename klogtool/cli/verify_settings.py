"""The settings of klogtool verify: what the command line says, and a settings file where it says nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from klogtool.cli.output import note
from klogtool.errors import KlogError
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


def settings_of(chosen: Mapping[str, Any]) -> VerifySettings:
    """Return the settings of --settings, or of the file that is found; none with --isolated. Raises KlogError if the
    file is wrong."""
    if chosen["settings"] is not None:
        return read_settings(chosen["settings"])
    if chosen["isolated"]:
        return VerifySettings()
    try:
        here = os.getcwd()
    except OSError:  # the working directory is gone
        return VerifySettings()
    try:
        return _found_settings(here, quiet=chosen["quiet"])
    except KlogError as error:
        error.cure = "--isolated looks for no settings file."
        raise


def _found_settings(here: str, *, quiet: bool) -> VerifySettings:
    found = find_settings_file(here)
    if found is None:
        return VerifySettings()
    path = os.path.relpath(found, here)
    if not quiet:
        note(f"klogtool: settings of {path}")
    return read_settings(path)


def merged(ctx: click.Context, chosen: Mapping[str, Any], settings: VerifySettings) -> dict[str, Any]:
    """Return the options, with the settings in place of those that were not given."""
    of_file = {name: getattr(settings, name) for name in ("deep", "recursive", "fail_on", "baseline")}
    default = click.core.ParameterSource.DEFAULT
    used = {name: value for name, value in of_file.items() if value is not None}
    return {**chosen, **{name: used[name] for name in used if ctx.get_parameter_source(name) is default}}


def rules_of(chosen: Mapping[str, Any], settings: VerifySettings) -> tuple[SeverityRule, ...]:
    """Return the rules for severities; those of the command line come last, and win."""
    return (*settings.severities, *chosen["severity"])


def exclusions_of(chosen: Mapping[str, Any], settings: VerifySettings) -> tuple[Exclusion, ...]:
    """Return what is not to be verified."""
    return (*settings.exclude, *chosen["exclude"])


def severity_rules(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[SeverityRule, ...]:
    """Parse ID=SEVERITY (a click callback)."""
    rules = []
    for value in values:
        finding_id, equals, severity = value.partition("=")
        if not equals:
            raise click.BadParameter(f"'{value}' is not ID=SEVERITY.", ctx, param)
        try:
            rules.append(SeverityRule({kind_of(finding_id): parse_severity(severity)}, "--severity"))
        except KlogError as error:
            raise click.BadParameter(f"{error.reason}", ctx, param) from None
    return tuple(rules)


def exclusions(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Exclusion, ...]:
    """Parse patterns of paths (a click callback)."""
    try:
        here = os.path.realpath(os.curdir) if values else ""
        return tuple(Exclusion(make_pattern(value, here), "--exclude") for value in values)
    except KlogError as error:
        raise click.BadParameter(f"{error.reason}.", ctx, param) from None
