"""Options made from the fields of a question, and of what a broker knows of a partition beside its dir."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import fields

from klogtool import clock
from klogtool.broker.circumstances import Circumstances, server_log_dirs
from klogtool.broker.config import KNOWN_NAMES, check_names, check_section, log_config, provided_names
from klogtool.cli import options
from klogtool.errors import AtPath, Corrupt, KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.java_text import parse_properties
from klogtool.format.names import FileKind
from klogtool.log.file import check_path, read_whole
from klogtool.log.side_file import kind_of
from klogtool.parameters import TEXTS, Parameter, Unit, parameters_of, structs_in

Command = TypeVar("Command", bound=Callable[..., Any])
DOCTOR = "doctor"  # says what a broker does with wrong values
MOST_CONFIG_BYTES = 16 << 20


def read_properties(path: str) -> dict[str, str]:
    """Return the settings of a server.properties. Raises KlogError with its path."""
    with AtPath(path):
        return parse_properties(_read_settings(path))


def _read_settings(path: str) -> bytes:
    """Read a file of settings. Raises UsageError for a file of a log dir, such as meta.properties: it has none."""
    if kind_of(path) is not FileKind.FOREIGN:
        name = os.path.basename(path)
        raise click.BadParameter(f"{path}: {name} is a file of a log dir, not the server.properties of a broker.")
    return read_whole(path, limit=MOST_CONFIG_BYTES)


def question_options(
    kind: type[Struct], name: str = "question", *, only: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Add an option for each parameter of a struct; the command gets the struct as one argument, `question`.

    An option of the command's own with the name of a field goes into the struct as well. only: the names of some
    parameters; the others keep their default.
    """
    known = [one for one in parameters_of(kind) if not only or one.name in only]
    return options.packed(partial(_build, kind), name, *map(_option_of, known))


def circumstances(command: Command) -> Command:
    """Add the options about what a broker knows; the command gets them as one argument, `circumstances`."""
    return question_options(Circumstances, "circumstances")(command)


def _build(kind: type[Struct], values: options.Values) -> Struct:
    """Build a struct of the values of its options, which are taken out of `values`."""
    if issubclass(kind, Circumstances) and values["now_ms"] is None:
        values["now_ms"] = clock.now_ms()
    known = {name: _build(inner, values) for name, inner in structs_in(kind).items()}
    named = {field.encode_name: field.name for field in fields(kind)}
    own = {named[key]: values.pop(key) for key in named.keys() & values.keys()}
    return kind(**known, **{name: value for name, value in own.items() if value not in (None, ())})


def _option_of(parameter: Parameter) -> Callable[[Command], Command]:
    """Return click's option for a parameter."""
    if parameter.unit is Unit.RELEASE:
        return options.kafka
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    how: dict[str, Any] = {"is_flag": True} if parameter.is_flag else _how_to_parse(parameter)
    if isinstance(default, str | int | float) and not parameter.is_flag:
        how |= {"default": str(default), "show_default": f"{default:g}" if isinstance(default, float) else True}
    return click.option(parameter.option, parameter.key, help=parameter.about, **how)


def _how_to_parse(parameter: Parameter) -> dict[str, Any]:
    """Return what click needs to know of the values of an option."""
    how: dict[str, Any] = {"metavar": parameter.metavar or parameter.unit.word, "multiple": parameter.is_many}
    parse: Any = parameter.parse or _PARSERS.get(parameter.unit)
    if isinstance(parse, click.Choice):
        how["metavar"] = parameter.metavar or None  # else the choices stand there
    if parse is not None:
        return how | ({"callback": lambda _, __, texts: parse(texts)} if parameter.is_mapping else {"type": parse})
    if parameter.choices and parameter.unit is Unit.KINDS:
        return how | {"type": _words(parameter.choices)}
    if parameter.choices:
        enum = parameter.enum
        return {"type": click.Choice(parameter.choices), "callback": enum and (lambda _, __, word: enum(word))}
    if parameter.bare is not None:
        return how | {"is_flag": False, "flag_value": parameter.bare}
    if parameter.unit in TEXTS:
        return how | {"required": parameter.is_required}
    is_time = parameter.unit is Unit.TIME
    how["required"] = parameter.is_required and not is_time
    low, high = parameter.low, MAX_LONG if parameter.high is None else parameter.high
    if low not in (None, ~MAX_LONG) or high < MAX_LONG:
        return how | {"type": options.Number(low, high)}
    return how | {"type": options.moment if is_time else options.long}


def _words(choices: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Return what parses some of the choices, separated by commas, with or without a dot."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(word.strip().removeprefix(".") for word in text.split(","))
        for word in words:
            if word not in choices:
                raise click.BadParameter(f"'{word}' is not one of {', '.join(choices)}.")
        return words

    return parse


def config(values: tuple[str, ...]) -> dict[str, str]:
    """Parse each KEY=VALUE. The last value of a key wins; keys that no log uses are refused."""
    settings = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"'{value}' is not KEY=VALUE.")
        settings[key.strip()] = text
    check_config(settings, check_names)
    return settings


def config_file(path: str) -> tuple[tuple[str | None, dict[str, str]], ...]:
    """Parse the sections of a file, each a pattern of topics (None: the part before the first
    section) and its settings. Before the first section, keys that no log uses are ignored, because a broker's
    server.properties has many of them; a key that is almost one of a log's is refused. In a topic's section all other
    keys are refused."""
    sections: list[tuple[str | None, list[bytes]]] = [(None, [])]
    for line in _read_settings(path).splitlines(keepends=True):
        stripped = line.strip()
        if stripped.startswith(b"[") and stripped.endswith(b"]"):
            sections.append((stripped[1:-1].strip().decode("utf-8", "surrogateescape"), []))
        else:
            sections[-1][1].append(line)
    try:
        parsed = tuple((pattern, parse_properties(b"".join(lines))) for pattern, lines in sections)
    except Corrupt as error:
        raise click.BadParameter(f"{path}: {error.reason}") from None
    for pattern, settings in parsed:
        if pattern is None and (unknown := sorted(provided_names(settings) & KNOWN_NAMES)):
            raise click.BadParameter(
                f"{path}: {', '.join(unknown)} from a config provider, which klogtool does not ask. "
                "Write the value into a copy of the file."
            )
        if pattern is None:
            _check_log_dirs(settings, path)
        is_judged = pattern is None and click.get_current_context().command.name == DOCTOR
        check_config(settings, partial(check_section, pattern), f"{path}: ", has_types=not is_judged)
    return parsed


def _check_log_dirs(settings: Mapping[str, str], path: str) -> None:
    """Raise BadParameter for a log dir that no system can have: what reads it would stumble later."""
    for log_dir in server_log_dirs(settings):
        try:
            check_path(log_dir)
        except KlogError as error:
            raise click.BadParameter(f"{path}: log dir {error}") from None


def check_config(
    settings: Mapping[str, str],
    check: Callable[[Mapping[str, str]], None],
    where: str = "",
    *,
    has_types: bool = True,
) -> None:
    """Raise BadParameter for names that `check` refuses, and for values of a wrong type (has_types), unless these are
    what the command judges. where: what the error begins with."""
    try:
        check(settings)
        if has_types:
            log_config(settings)
    except KlogError as error:
        raise click.BadParameter(where + error.reason) from None


_PARSERS = {Unit.SETTINGS: config, Unit.SETTINGS_FILE: config_file}
