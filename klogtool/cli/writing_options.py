"""What commands that write are asked in common. What carries it out takes longer to import than a small verification
takes, and is in cli/writing.py; so does click, without which cli/plain.py does."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Command = TypeVar("Command", bound=Callable[..., Any])

SCHEMA = 1


def writing(command: Command) -> Command:
    """--format, --apply, --output, --plan-out, --journal: the parameters form, apply, output, plan_out, journal."""
    import click

    for option in (
        click.option("--journal", type=click.Path(), metavar="DIR", help="Where --apply keeps what undo needs."),
        click.option("--plan-out", type=click.Path(), metavar="FILE", help="Save the plan, for klogtool apply."),
        click.option("--output", type=click.Path(), metavar="DIR", help="Write the result there; new, or empty."),
        click.option("--apply", is_flag=True, help="Do it in place, with undo."),
        output_format,
    ):
        command = option(command)
    return command


def output_format(command: Command) -> Command:
    """--format text|json: the parameter form."""
    import click

    choice = click.Choice(["text", "json"])
    return click.option("--format", "form", type=choice, default="text", show_default=True, help="What to print.")(
        command
    )


def header(command: str) -> dict[str, Any]:
    """The first line of JSON, and of a saved plan."""
    from klogtool.cli.version import VERSION

    return {"type": "klogtool", "version": VERSION, "schema": SCHEMA, "command": command}
