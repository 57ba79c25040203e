"""A compressed stream of a given size: the same content, and bytes that Kafka's readers ignore.

gzip, lz4: zeros behind the end. zstd: a skippable frame; for a few bytes, the id of no dictionary and empty blocks.
snappy: headers and empty chunks, and up to three bytes of a chunk's size.
"""

from __future__ import annotations

import struct

_ZSTD_SKIPPED = struct.Struct("<II")
_ZSTD_MAGIC = 0x184D2A50
_ZSTD_DESCRIPTOR = 4  # behind the magic number
_EMPTY_BLOCK_BYTES = 3
_SNAPPY_HEADER = bytes.fromhex("82 534e41505059 00 00000001 00000001")
_MOST_IN_BYTE = 0x7F  # of a varint
_CHUNK_SIZE = struct.Struct(">i")
_LEAST_CHUNK, _MOST_CHUNK = _CHUNK_SIZE.size + 1, _CHUNK_SIZE.size + 5  # empty, with a length of 1 to 5 bytes


def padded(codec: str, stream: bytes, size: int) -> bytes | None:
    """Return the stream in `size` bytes; None if it is too large, or if so few bytes cannot be added."""
    missing = size - len(stream)
    if missing <= 0:
        return None if missing else stream
    if codec == "zstd":
        return _padded_zstd(stream, missing)
    if codec == "snappy":
        return _padded_snappy(stream, missing)
    return stream + bytes(missing)


def _padded_zstd(stream: bytes, missing: int) -> bytes | None:
    if missing >= _ZSTD_SKIPPED.size:
        missing -= _ZSTD_SKIPPED.size
        return stream + _ZSTD_SKIPPED.pack(_ZSTD_MAGIC, missing) + bytes(missing)
    descriptor, blocks = stream[_ZSTD_DESCRIPTOR], _ZSTD_DESCRIPTOR + 2  # between them, the size of the window
    if descriptor:  # not as a stream of unknown length has it
        return None
    more, id_size = divmod(missing, _EMPTY_BLOCK_BYTES)  # the id's size is its flag, too
    head = stream[:_ZSTD_DESCRIPTOR] + bytes([id_size]) + stream[_ZSTD_DESCRIPTOR + 1 : blocks]
    return head + bytes(id_size + more * _EMPTY_BLOCK_BYTES) + stream[blocks:]


def _padded_snappy(stream: bytes, missing: int) -> bytes:
    """Add headers, then empty chunks, then as many bytes of a chunk's size as can be."""
    headers = max(0, missing - 2 * _MOST_CHUNK) // len(_SNAPPY_HEADER)
    stream += headers * _SNAPPY_HEADER
    missing -= headers * len(_SNAPPY_HEADER)
    rest = missing if missing < _CHUNK_SIZE.size else min(_CHUNK_SIZE.size - 1, missing - _LEAST_CHUNK)
    if rest < 0:  # there are four bytes to add
        stream, missing, rest = _with_longer_length(stream), _CHUNK_SIZE.size - 1, _CHUNK_SIZE.size - 1
    missing -= rest
    while missing:
        size = missing if missing <= _MOST_CHUNK else min(_MOST_CHUNK, missing - _LEAST_CHUNK)
        # A chunk whose content is empty: its length, 0, is a varint of more bytes than it needs.
        length = size - _CHUNK_SIZE.size
        stream += _CHUNK_SIZE.pack(length) + b"\x80" * (length - 1) + b"\0"
        missing -= size
    return stream + bytes(rest)


def _with_longer_length(stream: bytes) -> bytes:
    """Return the stream with one more byte in the length of its first chunk's content."""
    at = len(_SNAPPY_HEADER)
    (size,) = _CHUNK_SIZE.unpack_from(stream, at)
    end = at = at + _CHUNK_SIZE.size
    while stream[end] > _MOST_IN_BYTE:
        end += 1
    length = stream[at:end] + bytes([stream[end] | _MOST_IN_BYTE + 1, 0])
    return stream[: len(_SNAPPY_HEADER)] + _CHUNK_SIZE.pack(size + 1) + length + stream[end + 1 :]
