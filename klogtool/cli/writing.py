"""What all commands that write have in common: the options, and how a plan is shown, saved and carried out.

Without --apply or --output nothing is written. Showing and doing are of the same plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from klogtool.cli.output import Output, note
from klogtool.cli.output_file import output_file
from klogtool.cli.status import DONE, REFUSED
from klogtool.disk.facts import check_saving_place
from klogtool.disk.output import carry_out_to, check_place
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.log.file import Unreadable
from klogtool.render.plans import NOTHING_CHANGED, plan_text, row_line
from klogtool.repair.decisions import decide
from klogtool.repair.draft import Content
from klogtool.repair.plan import Plan

Command = TypeVar("Command", bound=Callable[..., Any])
Row = Mapping[str, Any]
Given = Mapping[str, Any]


def writing(command: Command) -> Command:
    """--format, --apply, --output, --plan-out, --journal: the parameters form, apply, output, plan_out, journal."""
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
    choice = click.Choice(["text", "json"])
    return click.option("--format", "form", type=choice, default="text", show_default=True, help="What to print.")(
        command
    )


def decide_and_carry_out(
    command: str,
    paths: Sequence[str],
    arguments: Row,
    given: Given,
    *,
    text_of: Callable[[Plan], str] = plan_text,
    answers_of: Callable[[Plan], Iterable[Row]] = lambda _: (),
    status_of: Callable[[Plan], int] = lambda _: DONE,
) -> int:
    """The whole of a command that writes: decide for each path, show, perhaps do. Returns the exit status.

    command: a name in repair/decisions.py. given: the parameters of `writing`. text_of: the plan for people;
    answers_of: rows that follow its line in JSON, in place of its `answer`; status_of: the status if all goes well.
    What Kafka (or a rule of ours) refuses is an answer with `error`, status 3, and then nothing is written at all.
    """
    _check_given(given, paths)
    show = Show(command, given, text_of, answers_of)
    for path in paths:
        try:
            for plan in decide(command, os.path.abspath(path), arguments):
                show.plan(plan)
        except KlogError as error:
            show.refusal(error)
    if show.refused:
        return REFUSED
    return max([_carry_out(show, paths, given), *map(status_of, show.plans)])


def show_and_maybe_carry_out(
    command: str,
    plans: Iterable[Plan],
    source: str,
    given: Given,
    *,
    beside: Mapping[str, Mapping[str, Content]] | None = None,
    text_of: Callable[[Plan], str] = plan_text,
) -> int:
    """As `decide_and_carry_out`, for plans about `source` that are there already; beside: as `carry_out_to`."""
    _check_given(given, [source])
    show = Show(command, given, text_of)
    try:
        for plan in plans:
            show.plan(plan)
    except KlogError as error:
        show.refusal(error)
    return REFUSED if show.refused else _carry_out(show, [source], given, beside)


class Show:
    """Prints plans and refusals as they come, and remembers them."""

    def __init__(
        self,
        command: str,
        given: Given,
        text_of: Callable[[Plan], str] = plan_text,
        answers_of: Callable[[Plan], Iterable[Row]] = lambda _: (),
    ) -> None:
        self.command, self.out, self.json = command, Output(), given["form"] == "json"
        self.plans: list[Plan] = []
        self.refused = False
        self._text_of, self._answers_of = text_of, answers_of
        if self.json:
            self.row(header(command))

    def row(self, row: Row) -> None:
        """A JSON line."""
        self.out.line(row_line(dict(row)))

    def text(self, text: str) -> None:
        """A line for people."""
        if not self.json:
            self.out.line(text)

    def plan(self, plan: Plan) -> None:
        """Show a plan."""
        self.plans.append(plan)
        self.text(self._text_of(plan))
        if self.json:
            self.row(plan.as_json())
            for answer in self._answers_of(plan):
                self.row({"type": "answer", "command": self.command, **answer})

    def refusal(self, error: KlogError) -> None:
        """Show what was refused. Raises the error again if it is none: a file that cannot be read, a wrong path."""
        if not is_refusal(error):
            raise error
        self.refused = True
        if self.json:
            told = {"class": error.kafka_class or type(error).__name__, "message": str(error)}
            self.row({"type": "answer", "command": self.command, "error": told})
        else:
            self.out.note(f"klogtool: {error}".replace("\n", "\\n"))


def header(command: str) -> Row:
    """The first line of JSON, and of a saved plan."""
    from importlib.metadata import version

    return {"type": "klogtool", "version": version("klogtool"), "schema": 1, "command": command}


def is_refusal(error: KlogError) -> bool:
    """Whether a rule of Kafka's or ours said no, rather than that we could not go on."""
    if isinstance(error, Unreadable):
        return False
    return isinstance(error, Refused | Corrupt) or error.kafka_class is not None


def _check_given(given: Given, paths: Sequence[str]) -> None:
    """Before anything long is done. Raises UsageError or KlogError."""
    if given["apply"] and given["output"]:
        raise click.UsageError("--apply or --output: in place, or elsewhere.")
    if given["output"] and len(paths) != 1:
        raise click.UsageError("--output takes one PATH: DIR is to the result what PATH is to the source.")
    if given["journal"] and not given["apply"]:
        raise click.UsageError("--journal goes with --apply.")
    if given["output"]:
        check_place(given["output"], paths[0])
    if given["plan_out"]:
        check_saving_place(given["plan_out"])


def _carry_out(
    show: Show, paths: Sequence[str], given: Given, beside: Mapping[str, Mapping[str, Content]] | None = None
) -> int:
    if given["plan_out"]:
        save_plans(show.command, show.plans, given["plan_out"])
    if given["output"]:
        carry_out_to(show.plans, os.path.abspath(paths[0]), given["output"], beside=beside)
        show.text(f"Done: {given['output']}")
    elif not given["quiet"] and not show.json and any(plan.steps for plan in show.plans):
        show.text(NOTHING_CHANGED)
    return DONE


def save_plans(command: str, plans: Iterable[Plan], path: str) -> None:
    """A file with the header and a line for each plan. Raises Refused if there is a file of that name."""
    with output_file(path) as sink:
        for row in (header(command), *(plan.as_json() for plan in plans)):
            sink.write(row_line(dict(row)).encode() + b"\n")
    note(f"klogtool: plan saved; carry it out with: klogtool apply {path}")
