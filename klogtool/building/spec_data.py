"""Keys, values and contents of files in a spec: as text where that is possible, else in hex or base64."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from klogtool.building.spec import Coded, Data, FileContent
from klogtool.errors import KlogError

MOST_HEX_BYTES = 64  # more bytes become base64
LEAST_ZEROS = 64  # fewer zeros are not worth a chunk of their own
_CONTROL = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]")
_ZEROS = re.compile(rb"\0{%d,}" % LEAST_ZEROS)


def data_bytes(data: Data) -> bytes | None:
    """Return the bytes of a key or a value; None for null. Raises KlogError if they are not written as they should."""
    return None if data is None else chunk_bytes(data)


def chunk_bytes(chunk: str | Coded) -> bytes:
    """Return the bytes of one chunk. Raises KlogError if it is not written as it should."""
    if isinstance(chunk, str):
        return _utf8(chunk)
    forms = [name for name in ("hex", "base64", "text", "zeros") if getattr(chunk, name) is not None]
    if len(forms) != 1:
        raise KlogError("bytes are one of hex, base64, text and zeros")
    if chunk.zeros is not None:
        return bytes(chunk.zeros)
    if chunk.text is not None:
        return _utf8(chunk.text)
    try:
        if chunk.hex is not None:
            return bytes.fromhex(chunk.hex)
        return base64.b64decode("".join((chunk.base64 or "").split()), validate=True)
    except (ValueError, binascii.Error) as error:
        raise KlogError(f"not {forms[0]}: {error}") from None


def content_bytes(content: FileContent) -> bytes:
    """Return the bytes of a content. Raises KlogError as `chunk_bytes` does."""
    if isinstance(content, tuple):
        return b"".join(map(chunk_bytes, content))
    return chunk_bytes(content)


def content_bound(content: FileContent) -> int:
    """Return an upper bound of the number of bytes, without making them."""
    if not isinstance(content, tuple):
        content = (content,)
    return sum(_size(chunk) for chunk in content)


def describe_data(data: bytes | None) -> Data:
    """Return how a spec says a key or a value."""
    return None if data is None else _describe_chunk(data)


def describe_content(data: bytes) -> FileContent:
    """Return how a spec says the bytes of a file: long runs of zeros as their number."""
    content = tuple(_walk_chunks(data))
    return content[0] if len(content) == 1 else content


def _walk_chunks(data: bytes) -> Iterator[str | Coded]:
    at = 0
    for run in _ZEROS.finditer(data):
        if run.start() > at:
            yield _describe_chunk(data[at : run.start()])
        yield Coded(zeros=run.end() - run.start())
        at = run.end()
    if at < len(data) or not data:
        yield _describe_chunk(data[at:])


def _describe_chunk(data: bytes) -> str | Coded:
    text = _text_of(data)
    return text if text is not None else _code_bytes(data)


def _code_bytes(data: bytes) -> Coded:
    if len(data) <= MOST_HEX_BYTES:
        return Coded(hex=data.hex())
    return Coded(base64=base64.b64encode(data).decode())


def _text_of(data: bytes) -> str | None:
    if _CONTROL.search(data):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise KlogError("a text with half a character: write these bytes as hex") from None


def _size(chunk: str | Coded) -> int:
    if isinstance(chunk, str):
        return 4 * len(chunk)
    return (chunk.zeros or 0) + sum(len(text or "") for text in (chunk.hex, chunk.base64)) + 4 * len(chunk.text or "")
