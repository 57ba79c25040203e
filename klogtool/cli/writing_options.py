"""Options that commands which write have in common; what they lead to is in cli/writing.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from klogtool.cli import options
from klogtool.cli.show import Screen

Command = TypeVar("Command", bound=Callable[..., Any])


class Writing(Screen, frozen=True, kw_only=True):
    """What a command that writes is to do with its plans, and how it shows them."""

    apply: bool = False
    output: str | None = None
    plan_out: str | None = None
    journal: str | None = None

    @property
    def keeps_plans(self) -> bool:
        """Whether something is done with the plans after they are shown."""
        return self.apply or self.output is not None or self.plan_out is not None


APPLY = click.option("--apply", is_flag=True, help="Change the files in place. klogtool undo takes it back.")
OUTPUT = click.option(
    "--output",
    type=click.Path(),
    metavar="DIR",
    help="Write the result to this folder. It must be new or empty.",
)
PLAN_OUT = click.option("--plan-out", type=click.Path(), metavar="FILE", help="Save the plan, for klogtool apply.")
JOURNAL = click.option(
    "--journal",
    type=click.Path(),
    metavar="DIR",
    help="Where --apply keeps what undo needs.  [default: a folder beside the log dir]",
)


def writing_by(*add: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Some of the options, and those about output: the parameter writing."""
    shown = (options.quiet, options.no_progress)
    return options.packed(options.taken(Writing), "writing", options.output_format(), *add, *shown)


def writing(command: Command) -> Command:
    """--apply, --output, --plan-out, --journal, and the options about output: the parameter writing."""
    return writing_by(APPLY, OUTPUT, PLAN_OUT, JOURNAL)(command)
