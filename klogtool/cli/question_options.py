"""Options made from the fields of a question, and of what a broker knows of a partition beside its dir."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import fields

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.config import check_names, check_spelling, check_topic_names, log_config
from klogtool.cli import options
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_text import parse_properties
from klogtool.log.file import read_whole
from klogtool.parameters import TEXTS, Parameter, Unit, parameters_of

Command = TypeVar("Command", bound=Callable[..., Any])
MOST_CONFIG_BYTES = 16 << 20
LARGEST_LONG = (1 << 63) - 1


def question_options(kind: type[Struct]) -> Callable[[Command], Command]:
    """Add an option for each parameter of a question; the command gets the question as one argument, `question`.

    An option of the command's own with the name of a field goes into the question as well.
    """
    return _from_fields(kind, "question")


def circumstances(command: Command) -> Command:
    """Add the options about what a broker knows; the command gets them as one argument, `circumstances`."""
    return _from_fields(Circumstances, "circumstances")(command)


def _from_fields(kind: type[Struct], name: str) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_struct(*args: Any, **values: Any) -> Any:
            struct = _build(kind, values)
            return command(*args, **{name: struct}, **values)

        decorated: Any = with_struct
        for parameter in reversed(list(parameters_of(kind))):
            decorated = _option_of(parameter)(decorated)
        result: Command = decorated
        return result

    return decorate


def _build(kind: type[Struct], values: dict[str, Any]) -> Struct:
    """Build a struct of the values of its options, which are taken out of `values`."""
    known: dict[str, Any] = {}
    if kind is not Circumstances:
        known["circumstances"] = _build(Circumstances, values)
    elif values["now_ms"] is None:
        values["now_ms"] = time.time_ns() // 1_000_000
    named = {field.encode_name: field.name for field in fields(kind)}
    return kind(**known, **{named[key]: values.pop(key) for key in named.keys() & values.keys()})


def _option_of(parameter: Parameter) -> Callable[[Command], Command]:
    """Return click's option for a parameter."""
    names, about = (parameter.option, parameter.key), parameter.about
    if parameter.is_flag:
        return click.option(*names, is_flag=True, help=about)
    if parameter.unit is Unit.RELEASE:
        return options.kafka
    if parameter.unit in CALLBACKS:
        callback, is_many = CALLBACKS[parameter.unit]
        return click.option(*names, callback=callback, multiple=is_many, metavar=parameter.unit.value, help=about)
    if parameter.choices and parameter.unit is Unit.KINDS:
        return click.option(*names, callback=_words(parameter.choices), metavar=parameter.unit.value, help=about)
    if parameter.unit in TEXTS:
        return click.option(*names, multiple=parameter.is_many, metavar=parameter.unit.value, help=about)
    if parameter.choices:
        return click.option(*names, type=click.Choice(parameter.choices), help=about)
    return _option_of_number(parameter)


def _option_of_number(parameter: Parameter) -> Callable[[Command], Command]:
    """Return click's option for a number or a time, or several."""
    is_time, is_many = parameter.unit is Unit.TIME, parameter.is_many
    how: dict[str, Any] = {"required": parameter.is_required and not is_time, "metavar": parameter.unit.value}
    if parameter.high is not None and parameter.high < LARGEST_LONG:
        how["type"] = options.Number(parameter.low, parameter.high)
    else:
        one, many = (options.moment, options.moments) if is_time else (options.long, options.longs)
        how |= {"callback": many if is_many else one, "multiple": is_many}
    return click.option(parameter.option, parameter.key, help=parameter.about, **how)


def _words(choices: tuple[str, ...]) -> Callable[..., tuple[str, ...]]:
    """Return a click callback for some of the choices, separated by commas, with or without a dot."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        words = [word.strip().removeprefix(".") for word in value.split(",")] if value is not None else []
        for word in words:
            if word not in choices:
                raise click.BadParameter(f"'{word}' is not one of {', '.join(choices)}.", ctx, param)
        return tuple(words)

    return parse


def config(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE (a click callback). The last value of a key wins; keys that no log uses are refused."""
    settings = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"'{value}' is not KEY=VALUE.", ctx, param)
        settings[key.strip()] = text
    _check_config(settings, check_names, ctx, param)
    return settings


def config_file(
    ctx: click.Context, param: click.Parameter, path: str | None
) -> tuple[tuple[str | None, dict[str, str]], ...]:
    """Parse the sections of a file (a click callback), each a pattern of topics (None: the part before the first
    section) and its settings. Before the first section, keys that no log uses are ignored, because a broker's
    server.properties has many of them; a key that is almost one of a log's is refused. In a topic's section all other
    keys are refused."""
    if path is None:
        return ()
    sections: list[tuple[str | None, list[bytes]]] = [(None, [])]
    for line in read_whole(path, limit=MOST_CONFIG_BYTES).splitlines(keepends=True):
        stripped = line.strip()
        if stripped.startswith(b"[") and stripped.endswith(b"]"):
            sections.append((stripped[1:-1].strip().decode("utf-8", "surrogateescape"), []))
        else:
            sections[-1][1].append(line)
    try:
        parsed = tuple((pattern, parse_properties(b"".join(lines))) for pattern, lines in sections)
    except Corrupt as error:
        raise click.BadParameter(f"{path}: {error.reason}", ctx, param) from None
    for pattern, settings in parsed:
        check = check_spelling if pattern is None else check_topic_names
        _check_config(settings, check, ctx, param, where=f"{path}: ")
    return parsed


def _check_config(
    settings: dict[str, str],
    check: Callable[[Mapping[str, str]], None],
    ctx: click.Context,
    param: click.Parameter,
    where: str = "",
) -> None:
    try:
        check(settings)
        log_config(settings)
    except KlogError as error:
        raise click.BadParameter(where + error.reason, ctx, param) from None


# Of options whose values are none of the usual: the callback, and whether they may be repeated.
CALLBACKS = {Unit.SETTINGS: (config, True), Unit.SETTINGS_FILE: (config_file, False)}
