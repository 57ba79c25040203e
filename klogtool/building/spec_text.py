"""A spec file read: YAML 1.2's plain types, with limits. Every error is one line with its place.

Not taken: aliases (a few lines of them make billions of values), tags, a key that is there twice, more than MOST_DEPTH
levels.
`12:30`, `no` and `2024-01-01` are texts, as in YAML 1.2.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from klogtool.building import spec as _spec
from klogtool.building.spec import Spec
from klogtool.errors import AboveLimit, KlogError
from klogtool.format.text import did_you_mean

MOST_TEXT_BYTES = 256 << 20
MOST_DEPTH = 32
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


class _Loader(_Base):  # type: ignore[misc]
    """Makes values of the types that a spec has."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's name and place

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Make a dict. Raises KlogError for a key that is there twice, or is no text."""
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                raise _wrong(key_node.start_mark, "a key is a text")
            if key in found:
                raise _wrong(key_node.start_mark, f"the key {key} is there twice")
            found[key] = self.construct_object(value_node, deep=deep)
        return found


def _construct_int(_: Any, node: Any) -> int:
    return int(node.value, 16 if node.value[:2] == "0x" else 10)


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:true|false)\Z"), ["t", "f"])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(rf"(?:{_INT.pattern})\Z"), list("-+0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


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
        raise KlogError(_told(error)) from None


def _load(data: bytes) -> Any:
    if len(data) > MOST_TEXT_BYTES:
        raise AboveLimit(f"a spec of more than {MOST_TEXT_BYTES:,} bytes")
    try:
        _check_shape(data)
        return yaml.load(data, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise _wrong(error.problem_mark or error.context_mark, reason) from None
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        raise KlogError(f"not YAML: {' '.join(str(error).split())}") from None


def _check_shape(data: bytes) -> None:
    """Raises KlogError for aliases, tags and deep nesting, before any value is made."""
    depth = documents = 0
    for event in yaml.parse(data, Loader=_Base):
        if isinstance(event, yaml.AliasEvent):
            raise _wrong(event.start_mark, "aliases are not taken: write the value again")
        if (tag := getattr(event, "tag", None)) is not None:
            raise _wrong(event.start_mark, f"tags are not taken: {tag}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                raise _wrong(event.start_mark, f"more than {MOST_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _wrong(event.start_mark, "a second document")


def _wrong(mark: Any, reason: str) -> KlogError:
    return KlogError(f"line {mark.line + 1}: {reason}" if mark is not None else reason)


def _told(error: msgspec.ValidationError) -> str:
    """Say what is wrong and where, without words of Python."""
    reason, _, place = str(error).partition(" - at `$")
    where = place.rstrip("`").lstrip(".") or "the spec"
    unknown = _UNKNOWN.fullmatch(reason)
    if unknown:
        return f"{where}: there is no {unknown[1]}{did_you_mean(unknown[1], _names())}"
    named = reason.replace("`int`", "a number").replace("`str`", "a text").replace("`object`", "an object")
    named = named.replace("`array`", "a list").replace("`null`", "nothing").replace(" | ", " or ").replace("`", "")
    return f"{where}: {named[:1].lower()}{named[1:]}"


def _names() -> list[str]:
    """Return the names of all fields of a spec."""
    kinds = [kind for kind in vars(_spec).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return sorted({name for kind in kinds for name in kind.__struct_fields__})
