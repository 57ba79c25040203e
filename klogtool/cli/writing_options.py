"""Options that commands which write have in common; what they lead to is in cli/writing.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from klogtool.cli import options
from klogtool.cli.version import VERSION

Command = TypeVar("Command", bound=Callable[..., Any])
SCHEMA = 1


def writing(command: Command) -> Command:
    """--format, --apply, --output, --plan-out, --journal: the parameters form, apply, output, plan_out, journal."""
    for option in (
        click.option(
            "--journal",
            type=click.Path(),
            metavar="DIR",
            help="Where --apply keeps what undo needs.  [default: a folder beside the log dir]",
        ),
        click.option("--plan-out", type=click.Path(), metavar="FILE", help="Save the plan, for klogtool apply."),
        click.option(
            "--output",
            type=click.Path(),
            metavar="DIR",
            help="Write the result to this folder. It must be new or empty.",
        ),
        click.option("--apply", is_flag=True, help="Change the files in place. klogtool undo takes it back."),
    ):
        command = option(command)
    return options.output_format()(command)


def header(command: str) -> dict[str, Any]:
    """The first line of JSON, and of a saved plan."""
    return {"type": "klogtool", "version": VERSION, "schema": SCHEMA, "command": command}
