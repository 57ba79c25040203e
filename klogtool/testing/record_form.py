"""Records as people write them in a test, with the fields that matter to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from klogtool.building.spec import Plain
from klogtool.building.spec_data import describe_data
from klogtool.errors import KlogError
from klogtool.format.batch import Header, Record

# A record: its fields by name, or (key, value), or a Record.
RecordLike: TypeAlias = "Mapping[str, object] | tuple[str | bytes | None, str | bytes | None] | Record"
Fields: TypeAlias = "Mapping[str, int | bytes | tuple[Header, ...] | None]"  # by name, in the types of a Record

FIELDS = ("offset", "timestamp", "key", "value", "headers")


def fields_of(record: RecordLike, number: int) -> Fields:
    """Return the fields that are given of a record. number: for errors.

    Keys and values may be text, which becomes UTF-8. Headers are pairs or a mapping. Raises KlogError for another form.
    """
    if isinstance(record, Record):
        return all_fields(record)
    if isinstance(record, tuple) and len(record) == 2:
        record = {"key": record[0], "value": record[1]}
    if not isinstance(record, Mapping):
        raise KlogError(f"record {number} is neither a mapping, nor a pair of key and value: {record!r:.60}")
    unknown = [str(name) for name in record if name not in FIELDS]
    if unknown:
        raise KlogError(f"record {number} has the field '{unknown[0]}': known are {', '.join(FIELDS)}")
    return {name: _typed(name, record[name], number) for name in FIELDS if name in record}


def all_fields(record: Record) -> Fields:
    """Return all fields of a record."""
    return {name: getattr(record, name) for name in FIELDS}


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


def record_row(record: RecordLike, number: int) -> dict[str, Plain]:
    """Return a record as a spec has it. Raises KlogError as `fields_of` does."""
    return {name: _plain(value) for name, value in fields_of(record, number).items()}


def _plain(value: int | bytes | tuple[Header, ...] | None) -> Plain:
    if isinstance(value, tuple):
        return [[_plain(header.key), _plain(header.value)] for header in value]
    plain: Plain = value if isinstance(value, int) else msgspec.to_builtins(describe_data(value))
    return plain
