"""Decoded keys and values for people: one in a line, and what to say at the end of those that could not be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from klogtool.decoding.decoded import AS_THEY_ARE, MOST_SHOWN_BYTES, Decoded, json_text
from klogtool.escape import escaped

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding


def decoded_text(decoded: Decoded) -> str:
    """Return one line: what a key or value contains cannot begin a new line, or move the cursor."""
    if decoded.reading is None:
        more = len(decoded.data) - MOST_SHOWN_BYTES
        shown = decoded.data[:MOST_SHOWN_BYTES].hex() + (f"... and {more:,} bytes more" if more > 0 else "")
        return f"{shown} (not decoded: {escaped(decoded.failure or '')})".lstrip()
    value, unknown = decoded.reading.value, decoded.reading.unknown_bytes
    text = escaped(value) if isinstance(value, str) and decoded.form in AS_THEY_ARE else json_text(value)
    return f"{text} (and {unknown:,} bytes of unknown fields)" if unknown else text


def decoding_notes(decoding: Decoding) -> Iterator[str]:
    """Yield a line for keys and one for values, if some could not be decoded."""
    from klogtool.decoding.record_values import DECODER, KEY_AND_VALUE  # only for runs that decode

    for name, part in zip(KEY_AND_VALUE, (decoding.key, decoding.value), strict=True):
        if part is not None and part.failed:
            how = "by the decoder" if part.form == DECODER else f"as {part.form}"
            names = name if part.seen == 1 else f"{name}s"
            failures = f"{part.failed:,} of {part.seen:,} {names} could not be decoded {how}"
            yield f"{failures}; the first: {part.first_failure}"
