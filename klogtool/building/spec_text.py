"""A spec file read: YAML 1.2's plain types, with limits. Every error is one line with its place.

Not taken: aliases (a few lines of them make billions of values), tags, a key that is there twice, more than MOST_DEPTH
levels.
`12:30`, `no` and `2024-01-01` are texts, as in YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from klogtool.building import spec as _spec
from klogtool.building.spec import Spec
from klogtool.errors import AboveLimit, KlogError
from klogtool.format.text import did_you_mean

MOST_TEXT_BYTES = 64 << 20
MOST_DEPTH = 32
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "false": False}
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def read_spec(data: bytes, path: str | None = None) -> Spec:
    """Return the spec of a file's bytes. Raises KlogError, with line or place, for anything that is none."""
    try:
        rows = _load(data)
        return spec_of({} if rows is None else rows)
    except KlogError as error:
        if path is not None:
            error.at_path(path)
        raise


def spec_of(rows: Any) -> Spec:
    """Return the spec of plain values, as YAML or JSON has them. Raises KlogError, with the place, if it is none."""
    try:
        return msgspec.convert(rows, Spec)
    except msgspec.ValidationError as error:
        raise KlogError(_in_words(error)) from None


def _load(data: bytes) -> Any:
    if len(data) > MOST_TEXT_BYTES:
        raise AboveLimit(f"a spec of more than {MOST_TEXT_BYTES:,} bytes")
    try:
        return _value_of(yaml.parse(data, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise _wrong(error.problem_mark or error.context_mark, reason) from None
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        raise KlogError(f"not YAML: {' '.join(str(error).split())}") from None


def _value_of(events: Iterable[Any]) -> Any:
    """Return the value of a document, level by level and never recursively. Raises KlogError."""
    levels: list[_Level] = [_Level([])]
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            done = levels.pop()
            levels[-1].add(done.value, done.mark)
        elif isinstance(event, yaml.DocumentStartEvent) and levels[0].value:
            raise _wrong(event.start_mark, "a second document")
        elif isinstance(event, yaml.NodeEvent):
            depth = len(levels)
            if isinstance(event, yaml.AliasEvent):
                raise _wrong(event.start_mark, "aliases are not taken: write the value again")
            if event.tag is not None:
                raise _wrong(event.start_mark, f"tags are not taken: {event.tag}")
            if depth > MOST_DEPTH:
                raise _wrong(event.start_mark, f"more than {MOST_DEPTH} levels")
            if isinstance(event, yaml.ScalarEvent):
                levels[-1].add_scalar(event)
            else:
                levels.append(_Level({} if isinstance(event, yaml.MappingStartEvent) else [], event.start_mark))
    return levels[0].value[0] if levels[0].value else None


class _Level:
    """A list or mapping that is being read. key: of the value that comes next."""

    __slots__ = ("key", "mark", "value")

    def __init__(self, value: Any, mark: Any = None) -> None:
        self.value, self.mark, self.key = value, mark, _NO_KEY

    def add_scalar(self, event: Any) -> None:
        """Add a scalar, or take it for the next key. Raises KlogError for a key that is there twice."""
        if self.key is not _NO_KEY or isinstance(self.value, list):
            self.add(_scalar(event.value) if event.implicit[0] else event.value, event.start_mark)
            return
        if event.value in self.value:
            raise _wrong(event.start_mark, f"the key {event.value} is there twice")
        self.key = event.value

    def add(self, value: Any, mark: Any) -> None:
        """Add a value. Raises KlogError for a mapping or a list in the place of a key."""
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is _NO_KEY:
            raise _wrong(mark, "a key is a text")
        else:
            self.value[self.key], self.key = value, _NO_KEY


_NO_KEY: Any = object()
_STEP = re.compile(r"\.log\[\d*\]$|\.log\[\.\.\.\]$")


def _scalar(text: str) -> Any:
    """Return what a scalar without quotes is: null, true, false, a whole number, or a text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+0123456789" and _INT.fullmatch(text):
        return int(text, 16 if text[:2] == "0x" else 10)
    return text


def _wrong(mark: Any, reason: str) -> KlogError:
    return KlogError(f"line {mark.line + 1}: {reason}" if mark is not None else reason)


def _in_words(error: msgspec.ValidationError) -> str:
    """Say what is wrong and where, without words of Python."""
    of_msgspec, _, place = str(error).partition(" - at `$")
    where = place.rstrip("`").lstrip(".") or "the spec"
    unknown = _UNKNOWN.fullmatch(of_msgspec)
    if unknown:
        return f"{where}: {_unknown_in_words(unknown[1], where)}"
    named = of_msgspec.replace("`int`", "a number").replace("`str`", "a text").replace("`object`", "an object")
    named = named.replace("`array`", "a list").replace("`null`", "nothing").replace(" | ", " or ").replace("`", "")
    return f"{where}: {named[:1].lower()}{named[1:]}"


def _unknown_in_words(name: str, where: str) -> str:
    """Say that there is no such field here: it is misspelt, or it belongs to another part of the spec."""
    if name not in _names():
        return f"there is no {name}{did_you_mean(name, _names())}"
    is_step = _STEP.search(where) is not None
    return f"{name} does not belong here" + (
        f"; a step is one of {', '.join(_spec.StepSpec.__struct_fields__)}" if is_step else ""
    )


def _names() -> list[str]:
    """Return the names of all fields of a spec."""
    kinds = [kind for kind in vars(_spec).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return sorted({name for kind in kinds for name in kind.__struct_fields__})
