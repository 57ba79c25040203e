"""snappy as snappy-java's SnappyInputStream reads and SnappyOutputStream writes it.

Either chunks of raw blocks behind a header ("xerial" framing, what Java writes), or, if the input does not begin with
that header, one raw block (what librdkafka and others write). Raw blocks are judged as libsnappy does.

This is the reference of kernels/_codecs.pxi, which inflates what Kafka itself writes.
"""

from __future__ import annotations

import io
import struct
from functools import partial

import snappy

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer
from klogtool.format.codecs.inflated import Inflated
from klogtool.format.codecs.snappy_block import compress_block
from klogtool.format.varint import VARINT_BITS, Overlong, read_groups

_MAGIC = bytes.fromhex("82 534e41505059 00")
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)  # version, oldest version that can read this
_CHUNK_SIZE = struct.Struct(">i")
_VERSION = struct.Struct(">i")
_OLDEST_VERSION = 1
_MAX_CHUNK_BYTES = 512 * 1024 * 1024
_BLOCK_BYTES = 32 * 1024
# SnappyCompression reads through a buffer of this size.
_BUFFER_BYTES = 2 * 1024

_MAX_ARRAY_BYTES = 0x7FFFFFFF
# No element of a block gives more than 64 bytes, and none is shorter than a byte.
_MAX_RATIO = 64
_corrupt = partial(Corrupt, kafka_class="KafkaException")


def decompress(data: Buffer, limit: int) -> bytes:
    """Inflate a stream of chunks, or a single raw block."""
    view = memoryview(data)
    if not view:
        raise _corrupt("Cannot decompress empty stream")
    if len(view) < len(_HEADER) or bytes(view[: len(_MAGIC)]) != _MAGIC:
        return _inflate_block(view, Inflated(limit))
    return _inflate_chunks(view, limit)


def _inflate_chunks(view: memoryview, limit: int) -> bytes:
    """Inflate chunks until SnappyInputStream.hasNextChunk is false. An incomplete size at the end is ignored."""
    at = len(_HEADER)  # the first header's versions are not looked at
    out = Inflated(limit)
    read_from = 0
    while len(view) - at >= _CHUNK_SIZE.size:
        if bytes(view[at : at + _CHUNK_SIZE.size]) == _MAGIC[: _CHUNK_SIZE.size]:
            if not _check_inner_header(view[at : at + len(_HEADER)]):
                # hasNextChunk says no and yet stands behind the false header: the read under way ends early, and
                # only one that has nothing to give yet ends the stream.
                if (out.size() - read_from) % _BUFFER_BYTES == 0:
                    break
                read_from = out.size()
            at += len(_HEADER)
            continue
        (size,) = _CHUNK_SIZE.unpack_from(view, at)
        at += _CHUNK_SIZE.size
        if not 0 <= size <= _MAX_CHUNK_BYTES:
            raise Corrupt(f"chunkSize is too big or negative : {size}", kafka_class="SnappyError")
        if size > len(view) - at:
            raise _corrupt("failed to read chunk")
        out.add(_inflate_block(view[at : at + size], out))
        at += size
    return out.to_bytes()


def _check_inner_header(header: memoryview) -> bool:
    """True if this is a header of a version that can be read, False if it only begins like one."""
    if len(header) < len(_HEADER):
        raise _corrupt("Insufficient header size in a concatenated block")
    if bytes(header[: len(_MAGIC)]) != _MAGIC:
        return False
    (version,) = _VERSION.unpack_from(header, len(_MAGIC))
    if version < _OLDEST_VERSION:
        raise _corrupt(
            f"Compressed with an incompatible codec version {version}. At least version {_OLDEST_VERSION} is required"
        )
    return True


def _inflate_block(view: memoryview, out: Inflated) -> bytes:
    """Inflate one raw block, for which `out` must have room."""
    block = bytes(view)
    length, at = _parse_length(block)
    if length > _MAX_RATIO * len(block):
        raise _corrupt("FAILED_TO_UNCOMPRESS")
    if length > out.room:
        raise out.too_much()
    try:
        return bytes(snappy.uncompress(block))
    except snappy.UncompressError:
        # It also refuses sound blocks that no compressor writes, such as a last literal whose length takes two bytes.
        return _inflate_elements(block, at, length)


def _parse_length(block: bytes) -> tuple[int, int]:
    """Inflated size, a varint of at most 32 bits, and where it ends (snappy::GetUncompressedLength)."""
    stream = io.BytesIO(block)
    try:
        length = read_groups(stream.read, VARINT_BITS)
    except (EOFError, Overlong):
        raise _corrupt("PARSING_ERROR") from None
    if length > _MAX_ARRAY_BYTES:  # past 32 bits snappy refuses it, past 31 bits Java
        raise _corrupt("PARSING_ERROR")
    return length, stream.tell()


def _inflate_elements(block: bytes, at: int, length: int) -> bytes:
    """Inflate literals and copies to the end of the block. Raises Corrupt if they are not `length` bytes."""
    out = bytearray()
    while at < len(block):
        tag = block[at]
        kind = tag & 3
        if kind == 0:
            size, at = _parse_literal_size(block, at)
            if size > len(block) - at:
                raise _corrupt("FAILED_TO_UNCOMPRESS")
            chunk = block[at : at + size]
            at += size
        else:
            size, distance, at = _parse_copy(block, at)
            if not 0 < distance <= len(out):
                raise _corrupt("FAILED_TO_UNCOMPRESS")
            start = len(out) - distance
            # A copy may run into what it writes itself: then its bytes repeat.
            seen = bytes(out[start : start + size])
            chunk = (seen * (size // len(seen) + 1))[:size]
        if size > length - len(out):
            raise _corrupt("FAILED_TO_UNCOMPRESS")
        out += chunk
    if len(out) != length:
        raise _corrupt("FAILED_TO_UNCOMPRESS")
    return bytes(out)


def _parse_literal_size(block: bytes, at: int) -> tuple[int, int]:
    """Size of a literal and where its bytes begin."""
    size = (block[at] >> 2) + 1
    at += 1
    if size <= 60:
        return size, at
    width = size - 60
    return _parse_number(block, at, width) + 1, at + width


def _parse_copy(block: bytes, at: int) -> tuple[int, int, int]:
    """Size and distance of a copy, and where the next element begins."""
    tag = block[at]
    width = (0, 1, 2, 4)[tag & 3]
    distance = _parse_number(block, at + 1, width)
    if width == 1:
        return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | distance, at + 2
    return (tag >> 2) + 1, distance, at + 1 + width


def _parse_number(block: bytes, at: int, width: int) -> int:
    if width > len(block) - at:
        raise _corrupt("FAILED_TO_UNCOMPRESS")
    return int.from_bytes(block[at : at + width], "little")


def compress(data: Buffer) -> bytes:
    """A header and chunks of 32 KiB; the header alone for no data."""
    parts = [_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _BLOCK_BYTES):
        block = compress_block(bytes(view[at : at + _BLOCK_BYTES]))
        parts += (_CHUNK_SIZE.pack(len(block)), block)
    return b"".join(parts)
