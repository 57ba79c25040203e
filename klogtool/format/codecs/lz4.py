"""LZ4 frames as Kafka's Lz4BlockInputStream reads and Lz4BlockOutputStream writes them.

Only independent blocks are read. A block checksum is verified, a content size is skipped, a content checksum must
exist but is not verified. The frame ends at the first EndMark, and bytes after it are ignored; a frame without one is
corrupt. Messages of magic 0 have a wrong descriptor checksum (KAFKA-3160), so theirs is never verified.

This is the reference of kernels/_codecs.pxi, which inflates what Kafka itself writes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import lz4.block
import lz4.frame

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer
from klogtool.format.codecs.inflated import Inflated

_MAGIC = bytes.fromhex("04224d18")
_STORED = 0x80000000  # bit of a block's size: the bytes are not compressed
_END_MARK = bytes(4)

# FLG: version 01, reserved 00 at the low end, and one bit each.
_FLG_VERSION_MASK, _FLG_VERSION = 0xC0, 0x40
_FLG_INDEPENDENT = 0x20
_FLG_BLOCK_CHECKSUM = 0x10
_FLG_CONTENT_SIZE = 0x08
_FLG_CONTENT_CHECKSUM = 0x04
_FLG_RESERVED = 0x03

# What Kafka writes: independent blocks of 64 KiB, no checksums, no content size.
_DESCRIPTOR = bytes((_FLG_VERSION | _FLG_INDEPENDENT, 0x40))
_BLOCK_BYTES = 64 * 1024
# At this level, Kafka's default, Lz4BlockOutputStream takes the fast compressor; at any other, the high one.
_FAST_LEVEL = 9
_corrupt = partial(Corrupt, kafka_class="KafkaException")


class _Header(NamedTuple):
    flags: int
    max_block_bytes: int
    end: int


def find_functions() -> tuple[int, int, int] | None:
    """Return the addresses of LZ4F_compressFrame, LZ4F_compressFrameBound and LZ4F_isError in the package's liblz4.

    For the kernels, which compress thousands of small batches in a call. None if the package does not export them.
    """
    try:
        library = ctypes.CDLL(lz4.frame._frame.__file__)
        names = ("LZ4F_compressFrame", "LZ4F_compressFrameBound", "LZ4F_isError")
        compress, bound, is_error = (ctypes.cast(library[name], ctypes.c_void_p).value for name in names)
    except (OSError, AttributeError):
        return None
    return None if compress is None or bound is None or is_error is None else (compress, bound, is_error)


def build_header(*, wrong_descriptor: bool = False) -> bytes:
    """Return the header of a frame, as Kafka writes it."""
    hashed = _MAGIC + _DESCRIPTOR if wrong_descriptor else _DESCRIPTOR
    return _MAGIC + _DESCRIPTOR + bytes((_hash_descriptor(hashed),))


def decompress(data: Buffer, limit: int, *, check_descriptor: bool) -> bytes:
    """Inflate one frame. `check_descriptor` is False for messages of magic 0.

    A block that inflates to nothing is skipped. No compressor writes one. Kafka skips it, too, when it reads into an
    array; when it reads a single byte (the size of a magic 2 record), it takes it for the end.
    """
    view = memoryview(data)
    flags, max_block_bytes, at = _parse_header(view, check_descriptor)
    out = Inflated(limit)
    while True:
        word = int.from_bytes(_take(view, at, 4), "little")
        at += 4
        size = word & ~_STORED
        if size == 0:
            break
        if size > max_block_bytes:
            raise _corrupt(f"Block size {size} exceeded max: {max_block_bytes}")
        block = _take(view, at, size)
        at += size
        out.add(block if word & _STORED else _inflate_block(block, max_block_bytes))
        if flags & _FLG_BLOCK_CHECKSUM:
            checksum = _take(view, at, 4, "BufferUnderflowException")
            if int.from_bytes(checksum, "little") != xxh32(block):
                raise _corrupt("Block checksum mismatch")
            at += 4
    if flags & _FLG_CONTENT_CHECKSUM:
        _take(view, at, 4, "BufferUnderflowException")
    return out.to_bytes()


def _parse_header(view: memoryview, check_descriptor: bool) -> _Header:
    start = bytes(_take(view, 0, 6))
    if start[:4] != _MAGIC:
        raise _corrupt("Stream unsupported (invalid magic bytes)")
    flags = start[4]
    max_block_bytes = _find_max_block_bytes(flags, start[5])
    end = 6 + (8 if flags & _FLG_CONTENT_SIZE else 0)
    (checksum,) = _take(view, end, 1)
    if check_descriptor and checksum != _hash_descriptor(bytes(view[4:end])):
        raise _corrupt("Stream frame descriptor corrupted")
    return _Header(flags, max_block_bytes, end + 1)


def _find_max_block_bytes(flags: int, block_descriptor: int) -> int:
    """Size that the BD byte names, after the checks of Lz4BlockOutputStream.FLG and .BD."""
    if flags & _FLG_RESERVED:
        raise _corrupt("Reserved bits must be 0")
    if not flags & _FLG_INDEPENDENT:
        raise _corrupt("Dependent block stream is unsupported")
    if flags & _FLG_VERSION_MASK != _FLG_VERSION:
        raise _corrupt(f"Version {flags >> 6} is unsupported")
    if block_descriptor & 0x0F:
        raise _corrupt("Reserved2 field must be 0")
    code = block_descriptor >> 4 & 7
    if code < 4:
        raise _corrupt("Block size value must be between 4 and 7")
    if block_descriptor & 0x80:
        raise _corrupt("Reserved3 field must be 0")
    return 1 << (2 * code + 8)


def _inflate_block(block: memoryview, max_bytes: int) -> bytes:
    try:
        inflated: bytes = lz4.block.decompress(block, uncompressed_size=max_bytes)
    except lz4.block.LZ4BlockError as error:
        raise _corrupt("Error decoding an LZ4 block") from error
    return inflated


def _take(view: memoryview, at: int, size: int, kafka_class: str = "KafkaException") -> memoryview:
    if size > len(view) - at:
        raise Corrupt("Stream ended prematurely", kafka_class=kafka_class)
    return view[at : at + size]


def _hash_descriptor(descriptor: bytes) -> int:
    return xxh32(descriptor) >> 8 & 0xFF


def compress(data: Buffer, level: int, *, wrong_descriptor: bool) -> bytes:
    """One frame. `wrong_descriptor` writes the checksum that messages of magic 0 have."""
    header = build_header(wrong_descriptor=wrong_descriptor)
    if level != _FAST_LEVEL:
        return b"".join((header, *_walk_blocks(memoryview(data), level), _END_MARK))
    # The frame functions, because lz4.block's fast mode finds other matches than lz4-java's.
    frame: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return header + frame[len(header) :]


def _walk_blocks(view: memoryview, level: int) -> Iterator[bytes | memoryview]:
    """Yield size and bytes of each block. A block that compression does not make smaller is stored uncompressed."""
    for at in range(0, len(view), _BLOCK_BYTES):
        block = view[at : at + _BLOCK_BYTES]
        compressed = lz4.block.compress(block, mode="high_compression", compression=level, store_size=False)
        if len(compressed) < len(block):
            yield len(compressed).to_bytes(4, "little")
            yield compressed
        else:
            yield (len(block) | _STORED).to_bytes(4, "little")
            yield block


_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF
_STRIPE = struct.Struct("<4I")


def xxh32(data: bytes | memoryview) -> int:
    """Hash of `data` as an unsigned number. Plain Python: some 10 MB/s."""
    striped = len(data) - len(data) % _STRIPE.size
    hashed = (_mix_stripes(data[:striped]) if striped else _PRIME_5) + len(data)
    end = len(data) - len(data) % 4
    for at in range(striped, end, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        hashed = _rotate(hashed + word * _PRIME_3 & _MASK, 17) * _PRIME_4
    for byte in data[end:]:
        hashed = _rotate(hashed + byte * _PRIME_5 & _MASK, 11) * _PRIME_1
    hashed &= _MASK
    hashed = (hashed ^ hashed >> 15) * _PRIME_2 & _MASK
    hashed = (hashed ^ hashed >> 13) * _PRIME_3 & _MASK
    return hashed ^ hashed >> 16


def _mix_stripes(data: bytes | memoryview) -> int:
    one, two, three, four = _PRIME_1 + _PRIME_2 & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK
    for a, b, c, d in _STRIPE.iter_unpack(data):
        one = _rotate(one + a * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
        two = _rotate(two + b * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
        three = _rotate(three + c * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
        four = _rotate(four + d * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
    return _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 32 - by) & _MASK
