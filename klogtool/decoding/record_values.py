"""Keys and values of one dump: how each is decoded, and how many could not be decoded."""

from __future__ import annotations

from msgspec import Struct

from klogtool.decoding.bounds import MOST_BYTES
from klogtool.decoding.decoded import Decoded
from klogtool.decoding.formats import Decode, WritesJson, find_decoder
from klogtool.decoding.schemas import Schemas
from klogtool.errors import Corrupt

KEY_AND_VALUE = ("key", "value")
DECODER = "decoder"  # the format of what a program decodes


class Formats(Struct, frozen=True):
    """The formats of keys and values; None: they are not decoded."""

    key: str | None = None
    value: str | None = None


class PartDecoder:
    """The keys or the values of a dump. seen: those that are not null; failed: those without a decoded form."""

    def __init__(self, form: str, decode: Decode) -> None:
        self.form, self._decode = form, decode
        self._json_text = decode.json_text if isinstance(decode, WritesJson) else None
        self.seen = self.failed = 0
        self.first_failure: str | None = None

    def json_text(self, data: bytes, topic: str | None) -> str | None:
        """Return the JSON of bytes where it can be had without their value; None: see what `decoded` says."""
        if self._json_text is None or len(data) > MOST_BYTES:
            return None
        try:
            text = self._json_text(data, topic)
        except Corrupt:
            return None
        self.seen += text is not None
        return text

    def decoded(self, data: bytes, topic: str | None) -> Decoded:
        """Decode bytes. If that fails, the reason is in the answer."""
        self.seen += 1
        try:
            if len(data) > MOST_BYTES:
                raise Corrupt(f"larger than {MOST_BYTES >> 20} MiB")
            return Decoded(self.form, data, self._decode(data, topic))
        except Corrupt as error:
            self.failed += 1
            self.first_failure = self.first_failure or error.reason
            return Decoded(self.form, data, failure=error.reason)


class Decoding:
    """How keys and values are decoded. None: these are not decoded."""

    def __init__(self, key: PartDecoder | None = None, value: PartDecoder | None = None) -> None:
        self.key, self.value = key, value

    def of_key(self, data: bytes | None, topic: str | None) -> Decoded | None:
        """Decode a key; None if it is null, or keys are not decoded."""
        return None if data is None or self.key is None else self.key.decoded(data, topic)

    def of_value(self, data: bytes | None, topic: str | None) -> Decoded | None:
        """Decode a value; None if it is null, or values are not decoded."""
        return None if data is None or self.value is None else self.value.decoded(data, topic)

    def fields(self, key: bytes | None, value: bytes | None, topic: str | None) -> dict[str, object]:
        """Return `key_decoded` and `value_decoded` as JSON has them: null for null, absent if not asked for."""
        row: dict[str, object] = {}
        if self.key is not None:
            row["key_decoded"] = None if (decoded := self.of_key(key, topic)) is None else decoded.row()
        if self.value is not None:
            row["value_decoded"] = None if (decoded := self.of_value(value, topic)) is None else decoded.row()
        return row


def decoding_of(formats: Formats, schemas: Schemas | None = None) -> Decoding:
    """Return how keys and values of these formats are decoded. Raises KlogError for a format that is not there."""
    coders = (
        None if form is None else PartDecoder(form, find_decoder(form, schemas, is_key=is_key))
        for form, is_key in ((formats.key, True), (formats.value, False))
    )
    return Decoding(*coders)
