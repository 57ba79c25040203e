"""Keys, values and pieces of files in a spec: as text where that is possible, else in hex or base64."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from klogtool.building.spec import Coded, Data, Pieces
from klogtool.errors import KlogError

MOST_HEX_BYTES = 64  # more bytes become base64
LEAST_ZEROS = 64  # fewer zeros are not worth a piece of their own
_CONTROL = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]")
_ZEROS = re.compile(rb"\0{%d,}" % LEAST_ZEROS)


def data_bytes(data: Data) -> bytes | None:
    """Return the bytes of a key or a value; None for null. Raises KlogError if they are not written as they should."""
    return None if data is None else piece_bytes(data)


def piece_bytes(piece: str | Coded) -> bytes:
    """Return the bytes of one piece. Raises KlogError if it is not written as it should."""
    if isinstance(piece, str):
        return _utf8(piece)
    given = [name for name in ("hex", "base64", "text", "zeros") if getattr(piece, name) is not None]
    if len(given) != 1:
        raise KlogError("bytes are one of hex, base64, text and zeros")
    if piece.zeros is not None:
        return bytes(piece.zeros)
    if piece.text is not None:
        return _utf8(piece.text)
    try:
        return bytes.fromhex(piece.hex) if piece.hex is not None else _from_base64(piece.base64 or "")
    except (ValueError, binascii.Error) as error:
        raise KlogError(f"not {given[0]}: {error}") from None


def pieces_bytes(pieces: Pieces) -> bytes:
    """Return the bytes of all pieces. Raises KlogError as `piece_bytes` does."""
    if isinstance(pieces, tuple):
        return b"".join(map(piece_bytes, pieces))
    return piece_bytes(pieces)


def pieces_size(pieces: Pieces) -> int:
    """Return an upper bound of the number of bytes, without making them."""
    if not isinstance(pieces, tuple):
        pieces = (pieces,)
    return sum(_size(piece) for piece in pieces)


def told_data(data: bytes | None) -> Data:
    """Return how a spec says a key or a value."""
    if data is None:
        return None
    text = _text_of(data)
    return text if text is not None else _told_bytes(data)


def told_pieces(data: bytes) -> Pieces:
    """Return how a spec says the bytes of a file: long runs of zeros as their number."""
    pieces = tuple(_walk_pieces(data))
    return pieces[0] if len(pieces) == 1 else pieces


def _walk_pieces(data: bytes) -> Iterator[str | Coded]:
    at = 0
    for run in _ZEROS.finditer(data):
        if run.start() > at:
            yield _told_piece(data[at : run.start()])
        yield Coded(zeros=run.end() - run.start())
        at = run.end()
    if at < len(data) or not data:
        yield _told_piece(data[at:])


def _told_piece(data: bytes) -> str | Coded:
    text = _text_of(data)
    return text if text is not None else _told_bytes(data)


def _told_bytes(data: bytes) -> Coded:
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


def _from_base64(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise KlogError("a text with half a character: write these bytes as hex") from None


def _size(piece: str | Coded) -> int:
    if isinstance(piece, str):
        return 4 * len(piece)
    return (piece.zeros or 0) + sum(len(text or "") for text in (piece.hex, piece.base64)) + 4 * len(piece.text or "")
