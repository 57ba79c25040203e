"""The formats of keys and values by their names; those of one value: text, hex, numbers of Kafka's serializers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from klogtool.decoding.bounds import to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.decoding.plugged import plugged_decoder, plugged_names
from klogtool.decoding.schemas import Schemas
from klogtool.errors import KlogError
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
    decoder = plugged_decoder(name, is_key=is_key)
    if decoder is None:
        raise KlogError(f"no such format: {name} (there are {', '.join(known_formats())})")
    return decoder


def known_formats() -> list[str]:
    """Return the names of all formats, those of entry points included."""
    return [*FORMATS, *(name for name in plugged_names() if name not in FORMATS)]
