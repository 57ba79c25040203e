"""One key or value after decoding: its value, or its bytes and why it has none."""

from __future__ import annotations

import base64
import json
from typing import Any

from msgspec import Struct

from klogtool.escape import escaped_json

MOST_SHOWN_BYTES = 1 << 20  # of bytes in hex
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
AS_THEY_ARE = ("string", "hex", "uuid")  # their text has no quotation marks


class Reading(Struct, frozen=True):
    """What a decoder made of bytes. schema: what it followed, or None. unknown_bytes: of fields that the schema does
    not have."""

    value: Any
    schema: str | None = None
    unknown_bytes: int = 0


class Decoded(Struct, frozen=True):
    """A key or value that is not null. failure: why there is no reading."""

    form: str
    data: bytes
    reading: Reading | None = None
    failure: str | None = None

    def row(self) -> dict[str, object]:
        """Return the fields of `key_decoded` and `value_decoded` in JSON."""
        row: dict[str, object] = {"format": self.form}
        if self.reading is None:
            return row | {"error": self.failure, "hex": self.data[:MOST_SHOWN_BYTES].hex()}
        if self.reading.schema is not None:
            row["schema"] = self.reading.schema
        row["value"] = self.reading.value
        if self.reading.unknown_bytes:
            row["unknown_bytes"] = self.reading.unknown_bytes
        return row


def json_text(value: Any) -> str:
    """Return a value as compact JSON that a terminal shows as it is."""
    return shown_json(_ENCODER.encode(value))


def shown_json(text: str) -> str:
    """Return JSON as a terminal shows it as it is."""
    return text if text.isascii() and text.isprintable() else escaped_json(text)


def bytes_form(data: bytes) -> dict[str, str]:
    """Return bytes inside a decoded value, as all bytes are in JSON."""
    try:
        return {"utf8": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
