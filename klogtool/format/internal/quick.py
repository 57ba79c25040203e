"""Messages of numbers, ids, texts and lists of these, read without construct: a metadata log has millions of them.

The readers are made from the same field tables as the declarations in `message`, which is the reference: what a reader
here is not sure of, it leaves to that. Tests hold the two together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from struct import Struct, error, unpack_from
from typing import Any, TypeAlias

from klogtool.format.internal.schema import Field, Values, schema_of
from klogtool.format.uuids import UUID_SIZE, build_uuid

_CODES = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q"}
_ONE_BYTE = 0x80  # below it, an unsigned varint is one byte
_KEPT_IDS = 1 << 16

Reader: TypeAlias = Callable[[bytes, int], tuple[Values, int]]  # the message at a byte, and where it ends
_Take: TypeAlias = Callable[[bytes, int], tuple[Any, int]]


class Unsure(Exception):
    """The reference has to read this message."""


# What reading raises where the message is cut short, or is not what these readers know.
UNSURE = (Unsure, IndexError, UnicodeDecodeError, error)


@functools.cache
def quick_reader(name: str, version: int, *, of_4_4: bool = False) -> Reader | None:
    """Return the reader of a message in one of its versions; None if only the reference reads it. It raises UNSURE."""
    schema = schema_of(name, of_4_4=of_4_4)
    fields = [field for field in schema.struct.fields if version in field.versions]
    takes = {field.name: _take(field, version) for field in fields}
    if version not in schema.versions or version not in schema.flexible or None in takes.values():
        return None
    plain = [(field.name, takes[field.name]) for field in fields if version not in field.tagged]
    tagged = {field.tag: (field.name, takes[field.name]) for field in fields if version in field.tagged}
    absent = {field.name: field.default(version) for field in fields}
    return (
        None if any(isinstance(absent[name], list) for name, _ in tagged.values()) else _reader(plain, tagged, absent)
    )


def _reader(plain: list[tuple[str, Any]], tagged: dict[int, tuple[str, Any]], absent: Values) -> Reader:
    def read(data: bytes, at: int) -> tuple[Values, int]:
        values = dict(absent)  # the order of the schema
        for name, take in plain:
            values[name], at = take(data, at)
        count = data[at]
        if count >= _ONE_BYTE:
            raise Unsure
        at += 1
        for _ in range(count):
            tag, size = data[at], data[at + 1]
            if tag not in tagged or size >= _ONE_BYTE:
                raise Unsure
            name, take = tagged[tag]
            values[name], at = take(data, at + 2)  # as in Kafka's reader, nobody compares the size
        return values, at

    return read


def _take(field: Field, version: int) -> _Take | None:
    """Return what reads a field; None if only the reference does."""
    is_nullable = version in field.nullable
    if field.is_array:
        return _take_list(field, is_nullable=is_nullable)
    if field.type in _CODES:
        return _take_number(_CODES[field.type])
    return {"uuid": _take_id, "string": _take_text}.get(field.type)


def _take_number(code: str) -> _Take:
    number = Struct(f">{code}")
    unpack, size = number.unpack_from, number.size
    return lambda data, at: (unpack(data, at)[0], at + size)


def _take_id(data: bytes, at: int) -> tuple[str, int]:
    end = at + UUID_SIZE
    uuid = data[at:end]
    if len(uuid) < UUID_SIZE:
        raise Unsure
    return _id_text(uuid), end


_id_text = functools.lru_cache(maxsize=_KEPT_IDS)(build_uuid)


def _take_text(data: bytes, at: int) -> tuple[str, int]:
    """Read a text that is ASCII: of others Java decodes some differently."""
    start = at + 1
    end = start + data[at] - 1
    text = data[start:end]
    if end < start or end > len(data) or data[at] >= _ONE_BYTE:
        raise Unsure
    return text.decode("ascii"), end


def _take_list(field: Field, *, is_nullable: bool) -> _Take | None:
    code = _CODES.get(field.type)
    if code is None and field.type != "uuid":
        return None
    width = UUID_SIZE if code is None else Struct(f">{code}").size

    def take(data: bytes, at: int) -> tuple[list[Any] | None, int]:
        count, start = data[at] - 1, at + 1
        if count < 0 and is_nullable:
            return None, start
        end = start + count * width
        if not 0 <= count < _ONE_BYTE - 1 or end > len(data):
            raise Unsure
        if code is not None:
            return list(unpack_from(f">{count}{code}", data, start)), end
        return [_id_text(data[n : n + UUID_SIZE]) for n in range(start, end, UUID_SIZE)], end

    return take
