"""gzip as java.util.zip.GZIPInputStream of JDK 17 reads it, and Kafka's GzipOutputStream writes it.

Header flags and reserved bits are as lenient as in Java. Further members are read only where Java looks for them,
which depends on how much of its 8 KiB buffer is left; anything else after a member is ignored.
"""

from __future__ import annotations

import zlib
from functools import partial

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer
from klogtool.format.codecs.inflated import Inflated

# What GZIPOutputStream writes since JDK 16: deflate, no flags, no time, OS 255 (unknown).
_HEADER = bytes.fromhex("1f8b 08 00 00000000 00 ff")
_FIXED_HEADER_BYTES = len(_HEADER)
_TRAILER_BYTES = 8
# More than this inflates buffer by buffer: zlib's module holds the output of one call twice for a moment.
_AT_ONCE_BYTES = 4 * 1024 * 1024
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
# GzipCompression gives GZIPInputStream a buffer of this size.
_BUFFER_BYTES = 8 * 1024
# GZIPInputStream.readTrailer: trailer, shortest header and next trailer; with no more left it looks for no member.
_LEAST_REST_BYTES = 26
_corrupt = partial(Corrupt, kafka_class="KafkaException")


def decompress(data: Buffer, limit: int) -> bytes:
    """Inflate all members that GZIPInputStream would find."""
    view = memoryview(data)
    at = _find_deflated(view, 0)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    inflated = _inflate(inflater, view[at:], min(limit, _AT_ONCE_BYTES) + 1)
    if not inflater.eof or len(inflater.unused_data) != _TRAILER_BYTES or len(inflated) > limit:
        return _inflate_members(view, at, limit)
    # One member and nothing behind it: what Kafka writes.
    if inflater.unused_data != _build_trailer(zlib.crc32(inflated), len(inflated)):
        raise _corrupt("Corrupt GZIP trailer")
    return inflated


def _inflate_members(view: memoryview, at: int, limit: int) -> bytes:
    """Inflate the member whose header ends at `at`, and those that follow, buffer by buffer as Java does."""
    out = Inflated(limit)
    filled = at  # up to here the bytes have been taken into Java's buffer
    while True:
        at, filled = _inflate_member(view, at, filled, out)
        if filled == len(view) and filled - at <= _LEAST_REST_BYTES:
            return out.to_bytes()
        try:
            at = _find_deflated(view, at + _TRAILER_BYTES)
        except Corrupt:
            return out.to_bytes()  # readTrailer: "ignore any malformed, do nothing"
        filled = max(filled, at)


def _inflate_member(view: memoryview, at: int, filled: int, out: Inflated) -> tuple[int, int]:
    """Inflate from `at`, where the header has ended, and check the trailer.

    Returns where the trailer begins and how far Java's buffer has been filled by then.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    crc = size = 0
    is_full = False  # then zlib may hold more output, with all of the input taken
    while not inflater.eof:
        if at == filled and not is_full:
            filled = min(at + _BUFFER_BYTES, len(view))
            if at == filled:
                raise _corrupt("Unexpected end of ZLIB input stream")
        most = min(out.room, _AT_ONCE_BYTES) + 1
        chunk = _inflate(inflater, view[at:filled], most)
        is_full = len(chunk) == most
        out.add(chunk)
        crc = zlib.crc32(chunk, crc)
        size += len(chunk)
        at = filled - len(inflater.unused_data or inflater.unconsumed_tail)
    if bytes(view[at : at + _TRAILER_BYTES]) != _build_trailer(crc, size):
        raise _corrupt("Corrupt GZIP trailer")
    return at, filled


def _inflate(inflater: zlib._Decompress, deflated: memoryview, max_bytes: int) -> bytes:
    try:
        return inflater.decompress(deflated, max_bytes)
    except zlib.error as error:
        raise _corrupt(str(error).rpartition(": ")[2]) from error


def _find_deflated(view: memoryview, at: int) -> int:
    """Where the deflated data of the member at `at` begins (GZIPInputStream.readHeader)."""
    start = at
    at += _FIXED_HEADER_BYTES
    fixed = bytes(view[start:at])
    if fixed[:2] != _HEADER[:2]:
        raise _corrupt("Not in GZIP format")
    if fixed[2:3] != _HEADER[2:3]:
        raise _corrupt("Unsupported compression method")
    _check_room(view, at)
    flags = fixed[3]
    if flags & _FEXTRA:
        _check_room(view, at + 2)
        at += 2 + int.from_bytes(view[at : at + 2], "little")
        _check_room(view, at)
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            at = _find_zero(view, at) + 1
    if flags & _FHCRC:
        _check_room(view, at + 2)
        if int.from_bytes(view[at : at + 2], "little") != zlib.crc32(view[start:at]) & 0xFFFF:
            raise _corrupt("Corrupt GZIP header")
        at += 2
    return at


def _check_room(view: memoryview, end: int) -> None:
    if end > len(view):
        raise _corrupt("ends within the GZIP header")


def _find_zero(view: memoryview, at: int) -> int:
    """Position of the zero byte that ends a name or comment."""
    # In pieces: a member without name may be followed by megabytes, and there may be many members.
    for chunk_at in range(at, len(view), _BUFFER_BYTES):
        zero_at = bytes(view[chunk_at : chunk_at + _BUFFER_BYTES]).find(0)
        if zero_at >= 0:
            return chunk_at + zero_at
    raise _corrupt("ends within the GZIP header")


def _build_trailer(crc: int, size: int) -> bytes:
    return crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")


def compress(data: Buffer, level: int) -> bytes:
    """One member, as GzipOutputStream writes it."""
    deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = deflater.compress(data) + deflater.flush()
    return _HEADER + deflated + _build_trailer(zlib.crc32(data), len(data))
