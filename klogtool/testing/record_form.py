"""Records as people write them in a test, with the fields that matter to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from klogtool.building.spec_data import told_data
from klogtool.errors import KlogError
from klogtool.format.batch import Header, Record

# A record: its fields by name, or (key, value), or a Record.
Given: TypeAlias = "Mapping[str, Any] | tuple[Any, Any] | Record"
Fields: TypeAlias = Mapping[str, Any]  # by name, in the types of a Record

FIELDS = ("offset", "timestamp", "key", "value", "headers")


def fields_of(given: Given, number: int) -> Fields:
    """Return the fields that are given of a record. number: for errors.

    Keys and values may be text, which becomes UTF-8. Headers are pairs or a mapping. Raises KlogError for another form.
    """
    if isinstance(given, Record):
        return {name: getattr(given, name) for name in FIELDS}
    if isinstance(given, tuple) and len(given) == 2:
        given = {"key": given[0], "value": given[1]}
    if not isinstance(given, Mapping):
        raise KlogError(f"record {number} is neither a mapping, nor a pair of key and value: {given!r:.60}")
    unknown = [str(name) for name in given if name not in FIELDS]
    if unknown:
        raise KlogError(f"record {number} has the field '{unknown[0]}': known are {', '.join(FIELDS)}")
    return {name: _typed(name, given[name], number) for name in FIELDS if name in given}


def _typed(name: str, value: Any, number: int) -> Any:
    if name in ("key", "value"):
        return _bytes_of(value, name, number)
    if name == "headers":
        pairs = value.items() if isinstance(value, Mapping) else value
        try:
            return tuple(
                Header(_bytes_of(key, name, number) or b"", _bytes_of(each, name, number)) for key, each in pairs
            )
        except (TypeError, ValueError):
            raise KlogError(f"headers of record {number} are no pairs: {value!r:.60}") from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise KlogError(f"{name} of record {number} is no whole number: {value!r:.60}")
    return value


def _bytes_of(value: Any, name: str, number: int) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if value is None or isinstance(value, bytes):
        return value
    raise KlogError(f"{name} of record {number} is neither bytes nor text nor None: {value!r:.60}")


def record_row(given: Given, number: int) -> dict[str, Any]:
    """Return a record as a spec has it. Raises KlogError as `fields_of` does."""
    row = dict(fields_of(given, number))
    for name in row.keys() & {"key", "value"}:
        row[name] = _row_of(row[name])
    if "headers" in row:
        row["headers"] = [[_row_of(header.key), _row_of(header.value)] for header in row["headers"]]
    return row


def _row_of(data: bytes | None) -> Any:
    return msgspec.to_builtins(told_data(data))
