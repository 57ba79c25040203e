"""Names and positions of the fields of a declaration in `layouts`, and a fast `struct` reader.

construct takes tens of microseconds for an entry, the struct module less than one. So construct reads where its error
paths or its sizes of single fields are needed; the rest is read by `numbers` of the same declaration.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from construct import Construct, Renamed, Struct

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer


def field_positions(declaration: Struct) -> Iterator[tuple[str, int, Construct]]:
    """Yield (field name, byte from the start of the struct, its type), for structs of fixed-size fields."""
    at = 0
    for member in declaration.subcons:
        inner = member.subcon if isinstance(member, Renamed) else member
        yield member.name, at, inner
        at += inner.sizeof()


def field_names(declaration: Struct) -> tuple[str, ...]:
    """Return the names of its fields, in order."""
    return tuple(member.name for member in declaration.subcons)


def numbers(declaration: Struct) -> struct.Struct:
    """Return the struct module's reader of a declaration whose fields are all big-endian numbers."""
    return struct.Struct(">" + "".join(kind.fmtstr.removeprefix(">") for _, _, kind in field_positions(declaration)))


def number(field: Construct) -> struct.Struct:
    """Return the struct module's reader of one field, such as `SNAPSHOT_HEADER.version`."""
    return struct.Struct(field.fmtstr)


def unpack_entries(unpacker: struct.Struct, data: Buffer) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of each complete entry, in order; bytes after the last complete entry are ignored.

    The buffer stays in use until the iterator is exhausted or deleted.
    """
    whole = len(data) // unpacker.size * unpacker.size
    return unpacker.iter_unpack(memoryview(data)[:whole])


def underflow() -> Corrupt:
    """Return the error for bytes that end inside a field. Kafka's exception for it has no message."""
    return Corrupt("the bytes end inside a field", kafka_class="BufferUnderflowException", kafka_message="null")
