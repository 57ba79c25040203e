"""The formats of keys and values by their names; those of one value: text, hex, numbers of Kafka's serializers.

Decoders of other Python packages are entry points of the group klogtool.decoders: a callable (bytes, topic, is_key)
that returns what JSON can have. The topic is None if it is not known. Whatever it raises becomes the reason why a value
has no decoded form.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from klogtool.decoding.bounds import to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.decoding.schemas import Schemas
from klogtool.errors import Corrupt, KlogError
from klogtool.format import serdes
from klogtool.format.text import java_utf8

Decode = Callable[[bytes, str | None], Reading]
"""(bytes, topic) -> what it is. Raises Corrupt with a reason."""


@runtime_checkable
class WritesJson(Protocol):
    """A decoder that can also make the JSON of bytes without their value."""

    def json_text(self, data: bytes, topic: str | None) -> str | None:
        """Return what `decoded.json_text` makes of the value; None: decode it. Raises Corrupt."""


PARSERS: dict[str, Callable[[bytes], Any]] = {
    "string": java_utf8,
    "hex": bytes.hex,
    "short": serdes.parse_short,
    "int": serdes.parse_int,
    "long": serdes.parse_long,
    "float": serdes.parse_float,
    "double": serdes.parse_double,
    "boolean": serdes.parse_boolean,
    "uuid": serdes.parse_uuid_text,
    "void": serdes.parse_void,
}
WITH_SCHEMAS = ("avro", "protobuf")
GROUP = "klogtool.decoders"
FORMATS = (*PARSERS, "json", *WITH_SCHEMAS, "msgpack")


def find_decoder(name: str, schemas: Schemas | None, *, is_key: bool) -> Decode:
    """Return the decoder of a format, or of an entry point of that name.

    Raises KlogError for an unknown name, or without schemas where some are needed; Unsupported without the package
    that reads them.
    """
    if name in PARSERS:
        parse = PARSERS[name]
        return lambda data, _: Reading(to_json(parse(data), bytes_form, size=len(data)))
    if name in WITH_SCHEMAS:
        # The packages for these formats are imported only here.
        if schemas is None:
            raise KlogError(f"{name} needs --schemas DIR: a folder with the schemas")
        if name == "avro":
            from klogtool.decoding.avro_values import AvroDecoder

            return AvroDecoder(schemas, is_key=is_key)
        from klogtool.decoding.protobuf_values import ProtobufDecoder

        return ProtobufDecoder(schemas, is_key=is_key)
    if name == "json":
        from klogtool.decoding.json_values import decode_json

        return decode_json
    if name == "msgpack":
        from klogtool.decoding.msgpack_values import decode_msgpack

        return decode_msgpack
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        raise KlogError(f"no such format: {name} (there are {', '.join(known_formats())})")
    return _plugged(point, is_key=is_key)


def known_formats() -> list[str]:
    """Return the names of all formats, those of entry points included."""
    return [*FORMATS, *sorted({point.name for point in entry_points(group=GROUP)} - {*FORMATS})]


def _plugged(point: EntryPoint, *, is_key: bool) -> Decode:
    """Return the decoder of an entry point. Raises KlogError if it cannot be imported."""
    decode = _loaded(point)

    def decoder(data: bytes, topic: str | None) -> Reading:
        try:
            value = decode(data, topic, is_key)
        except BaseException as error:  # anything but an interrupt
            if not isinstance(error, Exception):
                raise
            raise Corrupt(_line(error)) from error
        return Reading(to_json(value, bytes_form, size=None))

    return decoder


def _loaded(point: EntryPoint) -> Callable[[bytes, str | None, bool], object]:
    try:
        decode = point.load()
    except BaseException as error:  # anything but an interrupt
        if not isinstance(error, Exception):
            raise
        raise KlogError(f"the decoder {point.name} ({point.value}) cannot be imported: {_line(error)}") from error
    if not callable(decode):
        raise KlogError(f"the decoder {point.name} ({point.value}) is no function")
    checked: Callable[[bytes, str | None, bool], object] = decode
    return checked


def _line(error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
