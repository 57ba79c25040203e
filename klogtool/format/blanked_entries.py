"""Indexes and producer snapshots with only what parses as theirs; the rest becomes a hole.

An entry stays if each of its fields can be one of this segment. Otherwise all of its fields become numbers of the same
kind (`blanked_numbers`). Bytes behind the last entry become zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from typing import Any

from msgspec import Struct

from klogtool.format.blanked_numbers import (
    LARGEST_OFFSET,
    LARGEST_RELATIVE_OFFSET,
    LARGEST_SMALL,
    is_offset,
    is_producer_id,
    is_small,
    is_time,
    stand_in,
)
from klogtool.format.checksums import crc32c
from klogtool.format.fields import numbers
from klogtool.format.layouts import ABORTED_TXN, OFFSET_INDEX_ENTRY, PRODUCER_ENTRY, SNAPSHOT_HEADER, TIME_INDEX_ENTRY
from klogtool.format.names import FileKind

_ENTRIES = {
    FileKind.OFFSET_INDEX: numbers(OFFSET_INDEX_ENTRY),
    FileKind.TIME_INDEX: numbers(TIME_INDEX_ENTRY),
    FileKind.TXN_INDEX: numbers(ABORTED_TXN),
}
_PRODUCER, _SNAPSHOT_HEADER = numbers(PRODUCER_ENTRY), numbers(SNAPSHOT_HEADER)
_CRC_COVERS_FROM = 6
_KNOWN_VERSIONS = range(10)
_BITS = {"h": 16, "l": 32, "q": 64}


class Limits(Struct, frozen=True):
    """What the numbers of a segment can be at most. log_bytes: the size of its `.log`; 0 if there is none.

    offset: of any offset in this partition. relative_offset: of an offset, from the segment's base offset on.
    """

    log_bytes: int = 0
    offset: int = LARGEST_OFFSET
    relative_offset: int = LARGEST_RELATIVE_OFFSET


def blank_index(data: bytes, kind: FileKind, limits: Limits) -> bytes:
    """Return an offset, time or transaction index with only the entries that can be those of its segment."""
    layout, may_stay = _ENTRIES[kind], _RULES[kind]
    return _blanked_entries(data, layout, lambda fields: may_stay(fields, limits))


def blank_snapshot(data: bytes, limits: Limits) -> bytes:
    """Return a producer snapshot likewise. A right checksum stays right, and a wrong one stays wrong."""
    if len(data) < _SNAPSHOT_HEADER.size:
        return bytes(len(data))
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    size, at = _PRODUCER.size, _SNAPSHOT_HEADER.size
    stop = min(len(data), at + max(0, count) * size)
    body = _blanked_entries(data[at:stop], _PRODUCER, lambda fields: _is_producer(fields, limits))
    out = bytearray(data[:at] + body + bytes(len(data) - stop))
    count = count if 0 <= count <= LARGEST_SMALL else stand_in(count, bits=32)
    _SNAPSHOT_HEADER.pack_into(out, 0, version, crc, count)
    if version not in _KNOWN_VERSIONS:
        _SNAPSHOT_HEADER.pack_into(out, 0, version, 0, count)  # nobody looks at the checksum
    elif out != data:
        was_right, right = crc == crc32c(data[_CRC_COVERS_FROM:]), crc32c(out[_CRC_COVERS_FROM:])
        _SNAPSHOT_HEADER.pack_into(out, 0, version, right if was_right else right ^ 1, count)
    return bytes(out)


def _blanked_entries(data: bytes, layout: Layout, may_stay: Callable[[tuple[Any, ...]], bool]) -> bytes:
    """Return whole entries that may stay, or stand-ins for them, and zeros behind the last one."""
    used = -(-len(data.rstrip(b"\0")) // layout.size)  # zeros of an index that was not trimmed
    whole = min(used, len(data) // layout.size) * layout.size
    out = bytearray(data[:whole]) + bytes(len(data) - whole)
    kinds = layout.format.lstrip(">")
    for n, fields in enumerate(layout.iter_unpack(memoryview(data)[:whole])):
        if not may_stay(fields):
            others = (stand_in(value, bits=_BITS[kind]) for value, kind in zip(fields, kinds, strict=True))
            layout.pack_into(out, n * layout.size, *others)
    return bytes(out)


def _is_in_offset_index(fields: tuple[Any, ...], limits: Limits) -> bool:
    relative, position = fields
    return bool(0 <= relative <= limits.relative_offset and 0 <= position < limits.log_bytes) or fields == (0, 0)


def _is_in_time_index(fields: tuple[Any, ...], limits: Limits) -> bool:
    timestamp, relative = fields
    return is_time(timestamp) and 0 <= relative <= limits.relative_offset


def _is_aborted(fields: tuple[Any, ...], limits: Limits) -> bool:
    version, producer_id, *offsets = fields
    return version == 0 and is_producer_id(producer_id) and all(is_offset(at, limits.offset) for at in offsets)


def _is_producer(fields: tuple[Any, ...], limits: Limits) -> bool:
    producer_id, _, _, last_offset, delta, timestamp, coordinator_epoch, first_offset = fields
    return (
        is_producer_id(producer_id)
        and all(is_offset(at, limits.offset) for at in (last_offset, first_offset))
        and is_small(delta)
        and is_small(coordinator_epoch)
        and is_time(timestamp)
    )


_RULES: dict[FileKind, Callable[[tuple[Any, ...], Limits], bool]] = {
    FileKind.OFFSET_INDEX: _is_in_offset_index,
    FileKind.TIME_INDEX: _is_in_time_index,
    FileKind.TXN_INDEX: _is_aborted,
}
