"""Formats with one value each: text, hex, and the numbers of Kafka's own serializers (format/serdes.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from klogtool.decoding.bounds import to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.format import serdes
from klogtool.format.text import java_utf8

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


def serdes_decoder(name: str) -> Callable[[bytes, str | None], Reading]:
    """Return the decoder of a format in PARSERS."""
    parse = PARSERS[name]
    return lambda data, _: Reading(to_json(parse(data), bytes_form, size=len(data)))
