"""The types of Kafka's protocol as construct declarations, with the errors that Kafka's reader gives for each.

They follow org.apache.kafka.common.protocol (ByteBufferAccessor, Readable) and the code that MessageDataGenerator
writes around it. Lengths are Java ints, wrap-around included. What Kafka's exception says is the reason of the error:
the text is printed by kafka-dump-log.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

from construct import Construct, Flag, Float64b, Int8sb, Int16sb, Int16ub, Int32sb, Int32ub, Int64sb, Subconstruct

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.fields import underflow
from klogtool.format.internal.schema import UNKNOWN_TAGS, Values
from klogtool.format.java_numbers import to_signed
from klogtool.format.text import java_utf8
from klogtool.format.varint import VARINT_BITS, Overlong, build_unsigned, read_unsigned

MAX_STRING_BYTES = 0x7FFF
UUID_BYTES = 16
_runtime = partial(Corrupt, kafka_class="RuntimeException")


class ValueStream(io.BytesIO):
    """The bytes of one message, as a stream that knows how many are left."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size = len(data)

    def remaining(self) -> int:
        """Bytes not read yet."""
        return self.size - self.tell()

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises Corrupt if there are fewer (ByteBuffer.get, whose exception has no message)."""
        data = self.read(size)
        if len(data) < size:
            raise underflow()
        return data

    def take_array(self, size: int) -> bytes:
        """ByteBufferAccessor.readArray."""
        left = self.remaining()
        if size > left:
            raise _runtime(f"Error reading byte array of {size} byte(s): only {left} byte(s) available")
        if size < 0:
            raise Corrupt(str(size), kafka_class="NegativeArraySizeException")
        return self.read(size)

    def take_slice(self, size: int) -> bytes:
        """ByteBufferAccessor.readByteBuffer."""
        left = self.remaining()
        if size > left:
            reason = f"newLimit > capacity: ({size} > {left})"
            raise Corrupt(reason, kafka_class="IllegalArgumentException")
        return self.read(size)


class JavaUnsignedVarint(Construct):  # type: ignore[misc]
    """ByteUtils.readUnsignedVarint. It is a Java int, so five bytes can give a negative one."""

    def _parse(self, stream: ValueStream, context: Any, path: str) -> int:
        try:
            return to_signed(read_unsigned(stream.read, VARINT_BITS), VARINT_BITS)
        except EOFError:
            raise underflow() from None
        except Overlong as error:
            value = f"{error.groups & 0xFFFFFFFF:x}"
            raise Corrupt(
                f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value}",
                kafka_class="IllegalArgumentException",
            ) from None

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        stream.write(build_unsigned(obj))
        return obj


class CompactLength(JavaUnsignedVarint):
    """A length, stored plus one. For null it is -1, as it is where lengths are not compact."""

    def _parse(self, stream: ValueStream, context: Any, path: str) -> int:
        return to_signed(super()._parse(stream, context, path) - 1, 32)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        return super()._build(obj + 1, stream, context, path)


UNSIGNED_VARINT, COMPACT_LENGTH = JavaUnsignedVarint(), CompactLength()


class _Sized(Construct, ABC):  # type: ignore[misc]
    """A value that follows its length. label: the name of the field in Kafka's exceptions."""

    def __init__(self, label: str, length: Construct, *, nullable: bool) -> None:
        super().__init__()
        self.label, self.length, self.nullable = label, length, nullable

    def _parse(self, stream: ValueStream, context: Any, path: str) -> Any:
        size = self.length._parse(stream, context, path)
        if size >= 0:
            return self._body(size, stream, context, path)
        if not self.nullable:
            raise _runtime(f"non-nullable field {self.label} was serialized as null")
        return None

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is not None:
            self._build_body(obj, stream, context, path)
        elif self.nullable:
            self.length._build(-1, stream, context, path)
        else:
            raise ValueError(f"{self.label} must not be null")
        return obj

    @abstractmethod
    def _body(self, size: int, stream: ValueStream, context: Any, path: str) -> Any:
        """Parse the value after a length that is not negative."""

    @abstractmethod
    def _build_body(self, obj: Any, stream: Any, context: Any, path: str) -> None:
        """Build the length and the value after it."""


class String(_Sized):
    """UTF-8 of at most 32767 bytes, decoded by Java's rules."""

    def _body(self, size: int, stream: ValueStream, context: Any, path: str) -> str:
        if size > MAX_STRING_BYTES:
            raise _runtime(f"string field {self.label} had invalid length {size}")
        return java_utf8(stream.take_array(size))

    def _build_body(self, obj: str, stream: Any, context: Any, path: str) -> None:
        data = obj.encode()
        if len(data) > MAX_STRING_BYTES:
            raise ValueError(f"'{self.label}' field is too long to be serialized")
        self.length._build(len(data), stream, context, path)
        stream.write(data)


class ByteArray(_Sized):
    """Bytes. zero_copy: Kafka reads them by another call, whose exceptions have other messages."""

    def __init__(self, label: str, length: Construct, *, nullable: bool, zero_copy: bool) -> None:
        super().__init__(label, length, nullable=nullable)
        self.zero_copy = zero_copy

    def _body(self, size: int, stream: ValueStream, context: Any, path: str) -> bytes:
        return stream.take_slice(size) if self.zero_copy else stream.take_array(size)

    def _build_body(self, obj: bytes, stream: Any, context: Any, path: str) -> None:
        self.length._build(len(obj), stream, context, path)
        stream.write(obj)


class Collection(_Sized):
    """A list of elements of one type."""

    def __init__(self, label: str, length: Construct, element: Construct, *, nullable: bool) -> None:
        super().__init__(label, length, nullable=nullable)
        self.element = element

    def _body(self, size: int, stream: ValueStream, context: Any, path: str) -> list[Any]:
        left = stream.remaining()
        if size > left:
            raise _runtime(f"Tried to allocate a collection of size {size}, but there are only {left} bytes remaining.")
        return [self.element._parsereport(stream, context, path) for _ in range(size)]

    def _build_body(self, obj: list[Any], stream: Any, context: Any, path: str) -> None:
        self.length._build(len(obj), stream, context, path)
        for item in obj:
            self.element._build(item, stream, context, path)


class Uuid(Construct):  # type: ignore[misc]
    """16 bytes, as the 22 characters of base64url that Kafka prints."""

    def _parse(self, stream: ValueStream, context: Any, path: str) -> str:
        return base64.urlsafe_b64encode(stream.take(UUID_BYTES))[:-2].decode()

    def _build(self, obj: str, stream: Any, context: Any, path: str) -> str:
        data = base64.urlsafe_b64decode(obj + "==")
        if len(data) != UUID_BYTES:
            raise ValueError(f"{obj} is no base64 of 16 bytes")
        stream.write(data)
        return obj


class Nullable(Construct):  # type: ignore[misc]
    """A struct after a number that says whether it is null: if that is negative (in a tagged field: zero), it is."""

    def __init__(self, subcon: Construct, *, tagged: bool) -> None:
        super().__init__()
        self.subcon, self.tagged = subcon, tagged
        self.mark = UNSIGNED_VARINT if tagged else Int8sb

    def _parse(self, stream: ValueStream, context: Any, path: str) -> Any:
        if self.mark._parse(stream, context, path) < (1 if self.tagged else 0):
            return None
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            self.mark._build(0 if self.tagged else -1, stream, context, path)
        else:
            self.mark._build(1, stream, context, path)
            self.subcon._build(obj, stream, context, path)
        return obj


class NotAbove(Subconstruct):  # type: ignore[misc]
    """A struct that refuses versions above the highest one of its message. A message itself does not refuse them."""

    def __init__(self, subcon: Construct, name: str, highest: int) -> None:
        super().__init__(subcon)
        self.name_in_kafka, self.highest = name, highest

    def _parse(self, stream: ValueStream, context: Any, path: str) -> Any:
        version = context._params.version
        if version > self.highest:
            reason = f"Can't read version {version} of {self.name_in_kafka}"
            raise Unsupported(reason, kafka_class="UnsupportedVersionException")
        return self.subcon._parsereport(stream, context, path)


class TaggedFields(Construct):  # type: ignore[misc]
    """The tagged fields at the end of a flexible struct, as a dict; unknown ones as (tag, bytes).

    As in Kafka's reader, the size of a known field is not checked, and tags may come in any order.
    known: tag -> (name, type). others: tags that only other versions know.
    """

    def __init__(self, known: Mapping[int, tuple[str, Construct]], others: frozenset[int]) -> None:
        super().__init__()
        self.known, self.others = known, others

    def _parse(self, stream: ValueStream, context: Any, path: str) -> Values:
        values: dict[str, object] = {}
        unknown: list[tuple[int, bytes]] = []
        for _ in range(UNSIGNED_VARINT._parse(stream, context, path)):
            tag = UNSIGNED_VARINT._parse(stream, context, path)
            size = UNSIGNED_VARINT._parse(stream, context, path)
            if tag in self.known:
                name, subcon = self.known[tag]
                values[name] = subcon._parsereport(stream, context, path)
            elif tag in self.others:
                raise _runtime(f"Tag {tag} is not valid for version {context._params.version}")
            else:
                unknown.append((tag, stream.take_array(size)))
        return {**values, UNKNOWN_TAGS: unknown} if unknown else values

    def _build(self, obj: Values, stream: Any, context: Any, path: str) -> Values:
        tags = {tag: bytes(data) for tag, data in obj.get(UNKNOWN_TAGS, ())}
        if len(tags) < len(obj.get(UNKNOWN_TAGS, ())) or tags.keys() & (self.known.keys() | self.others):
            raise ValueError(f"unknown tags {list(tags)} repeat each other or a known one")
        for tag, (name, subcon) in self.known.items():
            if name in obj:
                body = io.BytesIO()
                subcon._build(obj[name], body, context, path)
                tags[tag] = body.getvalue()
        stream.write(build_unsigned(len(tags)))
        for tag, data in sorted(tags.items()):
            stream.write(build_unsigned(tag) + build_unsigned(len(data)) + data)
        return obj


FIXED_TYPES: dict[str, Construct] = {
    "bool": Flag,
    "int8": Int8sb,
    "int16": Int16sb,
    "uint16": Int16ub,
    "int32": Int32sb,
    "uint32": Int32ub,
    "int64": Int64sb,
    "float64": Float64b,
    "uuid": Uuid(),
}
