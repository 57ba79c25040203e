"""Kafka's own deserializers: keys and values of one number, one UUID, or nothing.

Each function takes bytes, never null. Raises Corrupt (SerializationException) for bytes that Kafka's deserializer of
that name refuses. The sources are IntegerDeserializer, LongDeserializer, ... of org.apache.kafka.common.serialization.
"""

from __future__ import annotations

import re
import struct
from functools import partial

from klogtool.errors import Corrupt
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.text import java_utf8

_HEX_LONG = re.compile(r"\+?[\dA-Fa-f]+")  # also digits of other scripts, as in Java
_WIDE_LETTERS = {0xFF21 + n + case: ord("a") + n for case in (0, 0x20) for n in range(6)}
_LONGEST_UUID_TEXT = 36
ABOVE_FLOATS = 3.40282356e38  # from here on, a number is infinite in 32 bits
_UUID_DIGITS = (8, 4, 4, 4, 12)
_refused = partial(Corrupt, kafka_class="SerializationException")


def parse_short(data: bytes) -> int:
    """ShortDeserializer: 2 bytes, big-endian."""
    return _number(data, 2)


def parse_int(data: bytes) -> int:
    """IntegerDeserializer: 4 bytes, big-endian."""
    return _number(data, 4)


def parse_long(data: bytes) -> int:
    """LongDeserializer: 8 bytes, big-endian."""
    return _number(data, 8)


def parse_float(data: bytes) -> float:
    """FloatDeserializer: 4 bytes, big-endian."""
    _check_size(data, 4)
    return _shortest(struct.unpack(">f", data)[0])


def parse_double(data: bytes) -> float:
    """DoubleDeserializer: 8 bytes, big-endian."""
    _check_size(data, 8)
    value: float = struct.unpack(">d", data)[0]
    return value


def parse_boolean(data: bytes) -> bool:
    """BooleanDeserializer: one byte, 0 or 1."""
    _check_size(data, 1)
    if data not in (b"\x00", b"\x01"):
        raise _refused(f"the byte is {data[0]}, not 0 or 1")
    return data == b"\x01"


def parse_uuid_text(data: bytes) -> str:
    """UUIDDeserializer: the text of a UUID, as java.util.UUID.fromString takes it: five numbers without regard to their
    length, each a hexadecimal long, of which the highest digits may be dropped."""
    text = java_utf8(data).translate(_WIDE_LETTERS)
    parts = text.split("-")
    if len(text) > _LONGEST_UUID_TEXT or len(parts) != len(_UUID_DIGITS) or not all(map(_HEX_LONG.fullmatch, parts)):
        raise _refused("not a UUID")
    numbers = [int(part, 16) for part in parts]
    if max(numbers) > MAX_LONG or max(text) > "\uffff":  # Java takes no digits beyond 16 bits here
        raise _refused("not a UUID")
    return "-".join(f"{number:0{size}x}"[-size:] for number, size in zip(numbers, _UUID_DIGITS, strict=True))


def parse_void(data: bytes) -> None:
    """VoidDeserializer: nothing but null is allowed."""
    raise Corrupt(f"{len(data)} bytes, where only null is allowed", kafka_class="IllegalArgumentException")


def parse_little_float(data: bytes) -> float:
    """Four bytes, little-endian: not Kafka's, but Avro's."""
    return _shortest(struct.unpack("<f", data)[0])


def parse_little_double(data: bytes) -> float:
    """Eight bytes, little-endian: not Kafka's, but Avro's."""
    value: float = struct.unpack("<d", data)[0]
    return value


def _shortest(value: float) -> float:
    """Return the number with the fewest digits that is the same in 32 bits: 0.1, not 0.10000000149011612."""
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if abs(short) < ABOVE_FLOATS and struct.unpack(">f", struct.pack(">f", short))[0] == value:
            return short
    return value


def _number(data: bytes, size: int) -> int:
    _check_size(data, size)
    return int.from_bytes(data, "big", signed=True)


def _check_size(data: bytes, size: int) -> None:
    if len(data) != size:
        raise _refused(f"{len(data)} bytes, not {size}")
