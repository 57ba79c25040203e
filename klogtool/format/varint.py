"""Variable-length integers, as Kafka reads and writes them (org.apache.kafka.common.utils.ByteUtils).

Zig-zag and base 128, least significant group first. Unlike construct's own VarInt and ZigZag these end: after
5 bytes a varint, after 10 a varlong; and bits that Java's int or long has no room for are dropped, as Java does.

All Python code reads and builds them here; what Kafka says of wrong ones differs, so callers translate the errors. The
kernel is in kernels/_varint.pxi.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from construct import Construct, ConstructError, StreamError, Subconstruct, stream_read

VARINT_BITS, VARLONG_BITS = 32, 64


class Overlong(ValueError):
    """A number that goes on behind the last byte it may have. groups: what it has up to there."""

    def __init__(self, most_bytes: int, groups: int) -> None:
        super().__init__(f"varint of more than {most_bytes} bytes")
        self.groups = groups


def most_bytes(bits: int) -> int:
    """How many bytes a number of so many bits takes at most."""
    return -(-bits // 7)


def read_groups(read: Callable[[int], bytes], bits: int) -> int:
    """The groups of seven bits of an unsigned number, with those bits of the last group that are above `bits`.

    read: the next so many bytes, fewer at the end. Raises Overlong, and EOFError where the bytes end inside the number.
    """
    groups = 0
    for shift in range(0, bits, 7):
        byte = read(1)
        if not byte:
            raise EOFError
        groups |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return groups
    raise Overlong(most_bytes(bits), groups)


def read_unsigned(read: Callable[[int], bytes], bits: int) -> int:
    """An unsigned number in base 128 (ByteUtils.readUnsignedVarint). Raises as `read_groups`."""
    return read_groups(read, bits) & ((1 << bits) - 1)


def read_zigzag(read: Callable[[int], bytes], bits: int) -> int:
    """A signed number (ByteUtils.readVarint, readVarlong). Raises as `read_groups`."""
    value = read_unsigned(read, bits)
    return (value >> 1) ^ -(value & 1)


def build_unsigned(value: int) -> bytes:
    """An unsigned value in base 128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def build_zigzag(value: int) -> bytes:
    """A signed value as varint or varlong (both have the same bytes)."""
    return build_unsigned((value << 1) ^ (value >> 63))


# ---------------------------------------------------------------- declarations


class OverlongVarint(StreamError):  # type: ignore[misc]
    """A variable-length integer that goes on where Kafka's would have ended."""


class ZigZag(Construct):  # type: ignore[misc]
    """Signed: Kafka's varint (32 bits) and varlong (64 bits)."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        try:
            return read_zigzag(stream.read, self.bits)
        except Overlong as error:
            raise OverlongVarint(str(error), path=path) from None
        except EOFError:
            raise StreamError("stream read less than specified amount, expected 1, found 0", path=path) from None

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        stream.write(build_zigzag(obj))
        return obj


Varint = ZigZag(VARINT_BITS)
Varlong = ZigZag(VARLONG_BITS)


class InvalidCount(ConstructError):  # type: ignore[misc]
    """A number of elements that cannot be."""


class TooMany(ConstructError):  # type: ignore[misc]
    """More elements than there is memory for, all of them sound perhaps."""


class VarintArray(Subconstruct):  # type: ignore[misc]
    """A varint count and that many elements; most: how many of them klogtool opens at all.

    The elements are structs; each is parsed as the tuple of its values. They end before byte `end` of the stream, a
    parameter: as each element takes a byte at least, a count above the
    bytes from its own on is an error (InvalidCount), and so is a negative one.
    """

    def __init__(self, element: Construct, *, most: int) -> None:
        super().__init__(element)
        self.most = most

    def _parse(self, stream: Any, context: Any, path: str) -> list[tuple[Any, ...]]:
        left = context._params.end - stream.tell()
        count = Varint._parse(stream, context, path)
        if not 0 <= count <= max(left, 0):
            raise InvalidCount(f"{count}")
        if count > self.most:
            raise TooMany(f"{count}")
        names = [member.name for member in self.subcon.subcons]
        # Tuples: construct's own containers of a million elements would take a gigabyte.
        parsed = (self.subcon._parsereport(stream, context, path) for _ in range(count))
        return [tuple(element[name] for name in names) for element in parsed]

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        stream.write(build_zigzag(len(obj)))
        for element in obj:
            self.subcon._build(element, stream, context, path)
        return obj


class VarintBytes(Construct):  # type: ignore[misc]
    """A varint length and that many bytes; any negative length is null, as Java's Utils.readBytes has it.

    null: whether null is legal (header keys must not be).
    """

    def __init__(self, *, null: bool = True) -> None:
        super().__init__()
        self.null = null

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        size = Varint._parse(stream, context, path)
        if size < 0:
            if not self.null:
                raise StreamError(f"negative header key size {size}", path=path)
            return None
        return bytes(stream_read(stream, size, path))

    def _build(self, obj: bytes | None, stream: Any, context: Any, path: str) -> bytes | None:
        if obj is None:
            stream.write(build_zigzag(-1))
        else:
            stream.write(build_zigzag(len(obj)) + obj)
        return obj
