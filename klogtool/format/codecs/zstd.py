"""zstd as zstd-jni's ZstdInputStreamNoFinalizer reads and ZstdOutputStreamNoFinalizer writes it.

The input is a sequence of frames; some may be skippable. This module reads the headers of their blocks, to know where
each frame ends and how large its output can get. Only libzstd judges the content of blocks. Kafka 4.3.1 has libzstd
1.5.6, which accepts a few damaged blocks that 1.5.7 refuses.

This is the reference of kernels/_codecs.pxi, which inflates what Kafka itself writes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

import zstandard

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.buffers import Buffer
from klogtool.format.codecs.inflated import Inflated

_MAGIC = bytes.fromhex("28b52ffd")
# zstd 0.4 to 0.7: the first byte of the magic counts.
_OLD_MAGICS = tuple(bytes((first, *_MAGIC[1:])) for first in range(0x24, 0x28))
# A frame without content size, dictionary or checksum: its descriptor is 0, and a window byte ends the header.
_PLAIN_START = _MAGIC + bytes(1)
_PLAIN_HEADER_BYTES = len(_PLAIN_START) + 1
_SKIPPABLE_MAGIC = bytes.fromhex("502a4d18")  # the low half of the first byte is free
_SKIPPABLE_HEADER_BYTES = 8
_CHECKSUM_FLAG = 4  # of a frame's descriptor
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_MAX_BLOCK_BYTES = 128 * 1024
_RAW, _RLE, _COMPRESSED, _RESERVED = range(4)

# ZstdInputStreamNoFinalizer takes its input in pieces of ZSTD_DStreamInSize; ZstdCompression reads it out like this.
_INPUT_BYTES = _MAX_BLOCK_BYTES + _BLOCK_HEADER_BYTES
_OUTPUT_BYTES = 16 * 1024
_CUT_INPUT_BYTES = 256
# zstd-jni keeps the count of bytes that are still missing in an int, and takes -1 to -119 for an error.
_LEAST_MISTAKEN_BYTES = 2**32 - 119

# What comes out if nothing was ever written: the one frame with a content size, 0.
_EMPTY_FRAME = _MAGIC + bytes.fromhex("20 00 010000")


class _Contexts(threading.local):
    """libzstd's contexts, which are costly to make and must not be shared by threads."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}


_contexts = _Contexts()


def find_functions() -> tuple[int, int, int, int] | None:
    """Return the addresses of ZSTD_createDCtx, ZSTD_freeDCtx, ZSTD_decompressDCtx, ZSTD_isError in the package's
    libzstd.

    For the kernels, which inflate thousands of small batches in a call. None if the package does not export them. Its
    wheels have the library twice: one extension hides it, the other exports it and is not imported here.
    """
    names = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx", "ZSTD_isError")
    try:
        spec = find_spec("zstandard._cffi")
        if spec is None or spec.origin is None:
            return None
        library = ctypes.CDLL(spec.origin)
        create, release, decompress, is_error = (ctypes.cast(library[name], ctypes.c_void_p).value for name in names)
    except (OSError, AttributeError):
        return None
    if create is None or release is None or decompress is None or is_error is None:
        return None
    return create, release, decompress, is_error


class _Frame(NamedTuple):
    """Where a frame ends (if it is incomplete: the end of the input), and its content size, if it names one."""

    end: int
    is_whole: bool
    content_size: int | None = None


def decompress(data: Buffer, limit: int) -> bytes:
    """Inflate all frames. No input at all is no data."""
    view = memoryview(data)
    if bytes(view[:_PLAIN_HEADER_BYTES]).startswith(_PLAIN_START):
        end, max_bytes = _find_end_of_blocks(view, _PLAIN_HEADER_BYTES)
        if end == len(view) and 0 < max_bytes <= limit:
            # One frame as Kafka itself writes it, in one call. Not for others: it would believe a content size.
            try:
                inflated: bytes = _contexts.decompressor.decompress(view, max_bytes)
                return inflated
            except zstandard.ZstdError:
                pass  # the way below says in libzstd's words what is wrong
    try:
        return _inflate_frames(view, limit, _contexts.decompressor, is_new=False)
    except Corrupt:
        # Whether libzstd minds a wrong content size depends on the buffer that earlier frames have left it. Kafka
        # has a new context for each stream, so one shall have the last word.
        return _inflate_frames(view, limit, zstandard.ZstdDecompressor(), is_new=True)


def _inflate_frames(view: memoryview, limit: int, decompressor: zstandard.ZstdDecompressor, *, is_new: bool) -> bytes:
    """Return the output of all frames. Unless the context is new, more output than the content size is Corrupt."""
    out = Inflated(limit)
    at = 0
    while at < len(view):
        frame = _find_frame(view, at)
        expected_bytes = None if is_new else frame.content_size
        walk = _walk_chunks if frame.is_whole else _walk_cut_chunks
        start = out.size()
        for chunk in walk(view[at : frame.end], decompressor):
            if expected_bytes is not None and out.size() - start + len(chunk) > expected_bytes:
                raise Corrupt("a zstd frame gives more than its content size", kafka_class="KafkaException")
            out.add(chunk)
        # zstd-jni does not notice that a frame is cut short if another one has ended since it last read a piece.
        if not frame.is_whole and (at == 0 or (at - 1) // _INPUT_BYTES != (len(view) - 1) // _INPUT_BYTES):
            raise Corrupt("Truncated source", kafka_class="KafkaException")
        at = frame.end
    return out.to_bytes()


def _walk_chunks(frame: memoryview, decompressor: zstandard.ZstdDecompressor) -> Iterator[bytes]:
    # In Kafka's steps: where a frame with a content size fits in the room it is given, libzstd takes a shortcut
    # that judges some faults otherwise.
    reader = decompressor.stream_reader(frame)
    try:
        while chunk := reader.read(_OUTPUT_BYTES):
            yield chunk
    except zstandard.ZstdError as error:
        raise _corrupt(error) from error


def _walk_cut_chunks(cut: memoryview, decompressor: zstandard.ZstdDecompressor) -> Iterator[bytes]:
    """Yield the output of an incomplete frame. (A stream_reader drops what libzstd still holds at the end.)"""
    stream = decompressor.decompressobj()
    try:
        # So little at a time, because a block of 4 bytes may give 128 KiB, and this call has no limit.
        for at in range(0, len(cut), _CUT_INPUT_BYTES):
            yield stream.decompress(cut[at : at + _CUT_INPUT_BYTES])
    except zstandard.ZstdError as error:
        raise _corrupt(error) from error


def _find_frame(view: memoryview, at: int) -> _Frame:
    """Measure the frame at `at` by its headers."""
    magic = bytes(view[at : at + 4])
    if magic == _MAGIC:
        return _find_zstd_frame(view, at + len(_MAGIC))
    if magic in _OLD_MAGICS:
        raise Unsupported("a zstd frame of a format older than zstd 1.0")
    if len(view) - at >= _SKIPPABLE_HEADER_BYTES and magic[0] & 0xF0 == 0x50 and magic[1:] == _SKIPPABLE_MAGIC[1:]:
        end = at + _SKIPPABLE_HEADER_BYTES + int.from_bytes(view[at + 4 : at + 8], "little")
        if end <= len(view):
            return _Frame(end, True)
        if end - len(view) >= _LEAST_MISTAKEN_BYTES:
            raise Corrupt("Error (generic)", kafka_class="KafkaException")
    # Cut short, or no frame at all: libzstd tells which.
    return _Frame(len(view), False)


def _find_zstd_frame(view: memoryview, at: int) -> _Frame:
    """Measure the frame whose descriptor is at `at`, block by block."""
    size = len(view)
    if at == size:
        return _Frame(size, False)
    blocks, content_size = _parse_header(view, at)
    end, _ = _find_end_of_blocks(view, blocks)
    if view[at] & _CHECKSUM_FLAG:
        end += _CHECKSUM_BYTES
    return _Frame(min(end, size), end <= size, content_size)


def _parse_header(view: memoryview, at: int) -> tuple[int, int | None]:
    """Where the blocks of the frame whose descriptor is at `at` begin, and its content size if it names one."""
    descriptor = view[at]
    single_segment = descriptor >> 5 & 1  # then there is no window byte
    at += 2 - single_segment + (0, 1, 2, 4)[descriptor & 3]  # dictionary id
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    if not width:
        return at, None
    content_size = int.from_bytes(view[at : at + width], "little")
    return at + width, content_size + 256 if width == 2 else content_size


def _find_end_of_blocks(view: memoryview, at: int) -> tuple[int, int]:
    """Where the last block ends, past the input's end if it is not there, and the most that all inflate to."""
    last_header = len(view) - _BLOCK_HEADER_BYTES
    max_bytes = 0
    while at <= last_header:
        header = view[at] | view[at + 1] << 8 | view[at + 2] << 16
        kind, size = header >> 1 & 3, header >> 3
        at += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else size)
        max_bytes += _MAX_BLOCK_BYTES if kind == _COMPRESSED or size > _MAX_BLOCK_BYTES else size
        if header & 1 or kind == _RESERVED:  # libzstd refuses the latter
            return at, max_bytes
    return len(view) + 1, max_bytes


def _corrupt(error: zstandard.ZstdError) -> Corrupt:
    return Corrupt(str(error).rpartition(": ")[2], kafka_class="KafkaException")


def compress(data: Buffer, level: int) -> bytes:
    """Return one frame without content size and checksum, as for a stream of unknown length."""
    if not len(data):
        return _EMPTY_FRAME
    if level not in _contexts.compressors:
        _contexts.compressors[level] = zstandard.ZstdCompressor(level=level, write_content_size=False)
    stream = _contexts.compressors[level].compressobj()
    # Closing Kafka's stream flushes it first, so that the last block is an empty one.
    parts = (stream.compress(memoryview(data)), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), stream.flush())
    return b"".join(parts)
