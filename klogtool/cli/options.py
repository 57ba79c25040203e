"""Options that several commands share, each once."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct

from klogtool.broker.releases import OPTION, REFERENCE, RELEASES, Release, find_release
from klogtool.cli.output import note
from klogtool.cli.show import ReadingOptions, Screen
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import INT_BITS
from klogtool.format.typed import parse_moment, parse_number, ungrouped
from klogtool.render.selection import LARGEST, SMALLEST

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d|)")
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86_400}
TEXT_OR_JSON, ABOUT_FORMAT = ("text", "json"), "Output format: text, or JSON Lines (--json)."

Command = TypeVar("Command", bound=Callable[..., Any])
Values: TypeAlias = dict[str, Any]  # of click's options, by the names of their parameters


def jobs(command: Command) -> Command:
    """--jobs N: threads."""
    return click.option(
        "--jobs", type=Number(min=1), default=None, metavar="N", help="Number of threads.  [default: all cores]"
    )(command)


def kafka(command: Command) -> Command:
    """--kafka VERSION: the release as which the command decides."""
    return click.option(
        OPTION,
        type=_release,
        default=REFERENCE,
        show_default=True,
        metavar="VERSION",
        help=f"Do as this release of Kafka does: {', '.join(RELEASES)}; 3.9 means the newest of 3.9.",
    )(command)


def _release(value: str) -> Release:
    """Find a release by its name; a short name is explained on stderr."""
    try:
        release = find_release(value)
    except KlogError as error:
        raise click.UsageError(f"{OPTION}: {error.reason}.") from None
    if release != value:
        note(f"klogtool: {OPTION} {value} means {release}, the newest release of {value} that klogtool knows")
    return release


def packed(
    build: Callable[[Values], Struct], name: str, *add: Callable[[Command], Command]
) -> Callable[[Command], Command]:
    """Add options; the command gets their values as one struct. build: takes them out of all values, by name."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_struct(*args: Any, **values: Any) -> Any:
            struct = build(values)
            return command(*args, **{name: struct}, **values)

        decorated: Any = with_struct
        for option in reversed(add):
            decorated = option(decorated)
        result: Command = decorated
        return result

    return decorate


def taken(kind: type[Struct]) -> Callable[[Values], Struct]:
    """Return what builds a struct of the values with the names of its fields, and takes them out."""
    return lambda values: kind(**{key: values.pop(key) for key in kind.__struct_fields__ if key in values})


def screen(*forms: str, about: str = "") -> Callable[[Command], Command]:
    """-o/--format, --json, -v, -q, --no-progress: the parameter screen."""
    return packed(taken(Screen), "screen", output_format(*forms, about=about), quiet)


def reading(*forms: str, about: str = "") -> Callable[[Command], Command]:
    """-o/--format, --json, --jobs, -v, -q, --no-progress: the parameter reading."""
    return packed(taken(ReadingOptions), "reading", output_format(*forms, about=about), jobs, quiet)


def quiet(command: Command) -> Command:
    """-q/--quiet: write only errors to stderr. -v/--verbose: show all partitions and files, even those without anything
    to report. --no-progress, also where there is no bar."""
    command = click.option("--no-progress", is_flag=True, help="Show no progress bar.")(command)
    command = click.option("-q", "--quiet", is_flag=True, help="Print only errors to stderr, no notes.")(command)
    return click.option("-v", "--verbose", is_flag=True, help="Name every partition, file and finding.")(command)


class FormatOption(click.Option):
    """-o/--format, which also takes --json for --format json."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add what click would, and --json."""
        super().add_to_parser(parser, ctx)
        parser.add_option(self, ["--json"], dest=self.name, action="store_const", const="json")


def output_format(*forms: str, about: str = "") -> Callable[[Command], Command]:
    """-o/--format and --json: the parameter form. forms: the default first."""
    forms = forms or TEXT_OR_JSON
    how = {"type": click.Choice(forms), "help": about or ABOUT_FORMAT, "default": forms[0], "show_default": True}
    return click.option("-o", "--format", "form", cls=FormatOption, **how)


def is_typed(name: str) -> bool:
    """Whether an option of the running command is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def first_used(*names: str) -> str | None:
    """Return the first of these options of the running command that is used, as it is typed."""
    values = click.get_current_context().params
    return next((f"--{name.replace('_', '-')}" for name in names if values[name]), None)


def moment(text: str) -> int:
    """Parse epoch milliseconds from a number or from ISO 8601, UTC by default. Raises BadParameter, as all parsers
    here."""
    try:
        return parse_moment(text)
    except KlogError:
        raise click.BadParameter(f"'{text}' is neither epoch milliseconds nor ISO 8601.") from None


def duration(text: str) -> float:
    """Parse a duration such as 90, 90s, 10m, 2h, 30d into seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"'{text}' is not a duration such as 90s, 10m or 2h.")
    return float(match[1]) * _SECONDS[match[2]]


def long(text: str) -> int:
    """Parse a number in the range of a Java long, also in the form that klogtool prints: 1,783."""
    try:
        return parse_number(text)
    except Corrupt:
        hint = ": commas must group digits by three, as in 1,783" if "," in text else ""
        raise click.BadParameter(f"'{text}' is not a 64-bit number{hint}.") from None


def java_int(text: str, what: str) -> int:
    """Parse a number in the range of a Java int. what: how an error calls it."""
    number = long(text)
    if not -(1 << (INT_BITS - 1)) <= number < 1 << (INT_BITS - 1):
        raise click.BadParameter(f"'{text}' is not {what}.")
    return number


class Number(click.IntRange):
    """A number in a range, also in the form that klogtool prints: 1,783."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert as click does."""
        typed: Any = ungrouped(value) if isinstance(value, str) else value
        return super().convert(typed, param, ctx)


def topic_id(text: str, option: str | None = None) -> str:
    """Return a topic id in Kafka's text form."""
    if re.fullmatch(r"[A-Za-z0-9_-]{22}", text) is None:
        raise click.BadParameter(f"'{text}' is not a topic id.", param_hint=option)
    return text


def pairs(values: tuple[str, ...], form: str = "KEY=VALUE") -> dict[str, str]:
    """Parse each KEY=VALUE; the last value of a key wins. form: how an error shows what is wanted."""
    parsed = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"'{value}' is not {form}.")
        parsed[key.strip()] = text
    return parsed


def span(text: str) -> tuple[int, int]:
    """Parse A..B, both ends included; a missing one is the smallest or largest Java long."""
    return _span(text, parse_number, "in 64-bit numbers")


def time_span(text: str) -> tuple[int, int]:
    """Parse a range of times."""
    return _span(text, parse_moment, "in epoch milliseconds or ISO 8601")


def _span(text: str, parse: Callable[[str], int], what: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    try:
        start = parse(first) if first or not dots else SMALLEST
        end = (parse(last) if last else LARGEST) if dots else start
    except KlogError:
        raise click.BadParameter(f"'{text}' is not a range (A..B, A.., ..B or A), {what}.") from None
    if start > end:
        raise click.BadParameter(f"'{text}' ends before it starts.")
    return start, end


def typed_bytes(text: str) -> bytes:
    r"""Parse bytes from text; \xHH stands for any byte."""
    try:
        first, *rest = text.encode("utf-8", "surrogateescape").split(b"\\x")
        return first + b"".join(bytes.fromhex(part[:2].decode("ascii")) + part[2:] for part in rest)
    except ValueError:
        raise click.BadParameter(f"'{text}' has a \\x without two hex digits after it.") from None
