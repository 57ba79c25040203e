"""Variable-length integers, as Kafka reads and writes them (org.apache.kafka.common.utils.ByteUtils).

Zig-zag and base 128, least significant group first. Unlike construct's own VarInt and ZigZag these end: after
5 bytes a varint, after 10 a varlong; and bits that Java's int or long has no room for are dropped, as Java does.
"""

from __future__ import annotations

from typing import Any

from construct import Construct, ConstructError, StreamError, Subconstruct, stream_read

from klogtool.format.zigzag import build_unsigned, build_zigzag

VARINT_BITS, VARLONG_BITS = 32, 64


class OverlongVarint(StreamError):  # type: ignore[misc]
    """A variable-length integer that goes on where Kafka's would have ended."""


class UnsignedVarint(Construct):  # type: ignore[misc]
    """Unsigned base 128 of at most `bits` bits (ByteUtils.readUnsignedVarint): the lengths of compact fields."""

    def __init__(self, bits: int = VARINT_BITS) -> None:
        super().__init__()
        self.bits = bits
        self.most_bytes = -(-bits // 7)

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for i in range(self.most_bytes):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return value & ((1 << self.bits) - 1)
        raise OverlongVarint(f"varint of more than {self.most_bytes} bytes", path=path)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        stream.write(build_unsigned(obj))
        return obj


class ZigZag(UnsignedVarint):
    """Signed: Kafka's varint (32 bits) and varlong (64 bits)."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value: int = super()._parse(stream, context, path)
        return (value >> 1) ^ -(value & 1)

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
