"""How entries follow each other in a `.log` file: the 17 bytes that all magics share.

The rules are those of Kafka's FileLogInputStream, which are less strict than those for memory: 1 to 17 stray bytes at
the end, and an entry that runs past the end, end the walk without an error; only a size below 14 is an error.

This is the reference of kernels/_walk.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer
from klogtool.format.fields import numbers
from klogtool.format.layouts import FRAME

_FRAME = numbers(FRAME)
LOG_OVERHEAD = 12  # offset and length fields, which `length` does not include
HEADER_SIZE_UP_TO_MAGIC = _FRAME.size
CURRENT_MAGIC = 2  # RecordBatch.CURRENT_MAGIC_VALUE
MIN_LENGTH = 14  # LegacyRecord.RECORD_OVERHEAD_V0


class FrameStop(IntEnum):
    """Why a walk over entries ended where it did."""

    END = 0
    """No byte is left."""
    TAIL = 1
    """17 bytes or fewer are left, or an entry that needs more than there are."""
    LENGTH = 2
    """A length field below 14: Kafka throws CorruptRecordException."""


class Frame(Struct, frozen=True):
    """The place and magic of an entry. position: byte in the buffer; size: all of its bytes."""

    position: int
    offset: int
    size: int
    magic: int


def find_frame(data: Buffer, at: int, end: int) -> Frame | FrameStop:
    """Return the entry at byte `at` of a log that ends at byte `end`, or why there is none
    (FileLogInputStream.nextBatch)."""
    if end - at <= HEADER_SIZE_UP_TO_MAGIC:
        return FrameStop.TAIL if at < end else FrameStop.END
    offset, length, _, magic = _FRAME.unpack_from(data, at)
    if length < MIN_LENGTH:
        return FrameStop.LENGTH
    if length > end - at - LOG_OVERHEAD:
        return FrameStop.TAIL
    return Frame(at, offset, LOG_OVERHEAD + length, magic)


def walk_frames(data: Buffer, at: int, end: int, *, base: int = 0) -> Iterator[Frame]:
    """Yield entry after entry. base: position of data[0] in its file, only for the error.

    Raises Corrupt at a length below 14, as Kafka does; ends without an error at an incomplete entry.
    """
    while isinstance(frame := find_frame(data, at, end), Frame):
        yield frame
        at += frame.size
    if frame is FrameStop.LENGTH:
        raise corrupt_length(data, at, base)


def whole_frames(data: Buffer, end: int) -> tuple[int, int]:
    """Return how far complete entries reach in a buffer with the beginning of a log of `end` bytes.

    Returns (end of the last complete entry, bytes needed for the next one); 0: the log itself has no further one.
    """
    at = 0
    while True:
        if len(data) - at <= HEADER_SIZE_UP_TO_MAGIC < end - at:
            return at, HEADER_SIZE_UP_TO_MAGIC + 1
        frame = find_frame(data, at, end)
        if not isinstance(frame, Frame):
            return at, 0
        if frame.size > len(data) - at:
            return at, frame.size
        at += frame.size


def corrupt_length(data: Buffer, at: int, base: int) -> Corrupt:
    """Return the error for an entry whose length field is below the minimum."""
    length = _FRAME.unpack_from(data, at)[1]
    return Corrupt(
        f"record size {length} is smaller than the minimum record overhead ({MIN_LENGTH})",
        position=base + at,
        kafka_class="CorruptRecordException",
    )
