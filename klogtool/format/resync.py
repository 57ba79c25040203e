"""Finds the next sound batch after damage: by its magic, a plausible header, and the CRC.

Cheap tests first exclude bytes that look like a header by chance. The strongest test is the window of base offsets.
Without it, random bytes with lengths of a hundred megabytes would each cost a CRC over so many bytes, and the search
would be quadratic.

This is the reference of kernels/_resync.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.format.batch import (
    CRC_COVERS_FROM,
    NO_PRODUCER_ID,
    RECORD_BATCH_OVERHEAD,
    RecordBatch,
    parse_batch,
)
from klogtool.format.batch_proof import KNOWN_MESSAGE_ATTRIBUTES, PRODUCER, batch_contradiction
from klogtool.format.buffers import Buffer
from klogtool.format.checksums import crc32, crc32c
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, Frame, find_frame
from klogtool.format.message import CRC_COVERS_FROM as MESSAGE_CRC_COVERS_FROM
from klogtool.format.message import HEAD_SIZES, SIZE_FIELD_SIZE, parse_message

OFFSETS_OF_A_SEGMENT = 1 << 31
LARGEST_SOUGHT_BYTES = 128 << 20  # larger batches are not searched after damage
LARGEST_KEY_BYTES = (
    1 << 20
)  # of a message; without a limit, a batch header shifted by a few bytes looks like a message of megabytes
GAVE_UP = -2


class Sought(Struct, frozen=True):
    """What a batch must be like: a base offset in [lowest, lowest + 2^31], and enough bytes before `end`.

    end: of the log, as a position in the searched buffer (it may be after the buffer's own end).
    """

    lowest: int
    end: int


def find_batch(data: Buffer, at: int, stop: int, sought: Sought) -> tuple[int, int]:
    """Return the first position in [at, stop) where an entry proves itself; -1 if there is none.

    Returns (position, bytes needed): not 0 if the entry is plausible, but incomplete in the buffer. Position GAVE_UP:
    bytes that imitate headers have cost more CRCs than any log does.
    """
    left = checksum_budget(len(data))
    for position in range(at, min(stop, len(data) - HEADER_SIZE_UP_TO_MAGIC)):
        if data[position + HEADER_SIZE_UP_TO_MAGIC - 1] > 2:
            continue
        frame = find_frame(data, position, sought.end)
        if not isinstance(frame, Frame) or frame.size > LARGEST_SOUGHT_BYTES or not is_plausible(data, frame, sought):
            continue
        if frame.size > len(data) - position:
            return position, frame.size
        left -= frame.size
        if left < 0:
            return GAVE_UP, 0
        if is_proved(data, frame):
            return position, 0
    return -1, 0


def find_head(data: Buffer, at: int, stop: int, sought: Sought) -> int:
    """Return the first position in [at, stop) where an entry is plausible, proved or not; -1 if there is none."""
    for position in range(at, min(stop, len(data) - HEADER_SIZE_UP_TO_MAGIC)):
        if data[position + HEADER_SIZE_UP_TO_MAGIC - 1] > 2:
            continue
        frame = find_frame(data, position, sought.end)
        if isinstance(frame, Frame) and frame.size <= LARGEST_SOUGHT_BYTES and is_plausible(data, frame, sought):
            return position
    return -1


def walk_unproved(data: Buffer, at: int, sought: Sought, last_offset: int) -> tuple[int, int, int]:
    """Walk consecutive record batches from `at` on by their headers alone, without a check of their CRCs. Each is
    plausible, has offsets above those before it, and is followed by a plausible one whose header is in the buffer.

    last_offset: of what is before them. Returns (where the next one begins, their number, their last offset).
    """
    count = 0
    head = _batch_head(data, at, sought)
    while head is not None and head.base_offset > last_offset:
        following = _batch_head(data, at + head.size, sought)
        if following is None or not head.base_offset <= head.last_offset < following.base_offset:
            break
        at, count, last_offset, head = at + head.size, count + 1, head.last_offset, following
    return at, count, last_offset


def _batch_head(data: Buffer, at: int, sought: Sought) -> RecordBatch | None:
    """Return the header of a plausible record batch, if it is in the buffer."""
    if len(data) - at < RECORD_BATCH_OVERHEAD:
        return None
    frame = find_frame(data, at, sought.end)
    if not isinstance(frame, Frame) or frame.magic != 2 or frame.size > LARGEST_SOUGHT_BYTES:
        return None
    return parse_batch(data, at) if is_plausible(data, frame, sought) else None


def checksum_budget(size: int) -> int:
    """Return over how many bytes a search of a buffer of `size` bytes may compute CRCs."""
    return 16 * size + (64 << 20)


def is_plausible(data: Buffer, frame: Frame, sought: Sought) -> bool:
    """Return whether the header, as far as it is in the buffer, may be an entry's."""
    if not 0 <= frame.offset - sought.lowest <= OFFSETS_OF_A_SEGMENT:
        return False
    if frame.magic < 2:
        attributes = data[frame.position + HEADER_SIZE_UP_TO_MAGIC]
        return not attributes & ~KNOWN_MESSAGE_ATTRIBUTES and _sizes_fit(data, frame)
    if frame.size < RECORD_BATCH_OVERHEAD or len(data) - frame.position < RECORD_BATCH_OVERHEAD:
        return bool(frame.size >= RECORD_BATCH_OVERHEAD)
    batch = parse_batch(data, frame.position)
    # A sequence of numbers passes all tests but that so many records fit into a batch of its size.
    fault = batch_contradiction(batch)
    return (fault is None or fault.field == PRODUCER) and batch.producer_id >= NO_PRODUCER_ID


def _sizes_fit(data: Buffer, frame: Frame) -> bool:
    """Return whether a message's key and value, as far as the buffer shows, fill it exactly."""
    at, end = frame.position + LOG_OVERHEAD + HEAD_SIZES[frame.magic], frame.position + frame.size
    for most, largest in (
        (2, LARGEST_KEY_BYTES),
        (1, LARGEST_SOUGHT_BYTES),
    ):  # limits for sizes that are not in the buffer yet
        if end - at < most * SIZE_FIELD_SIZE:
            return False
        if len(data) - at < SIZE_FIELD_SIZE:
            return True
        size = int.from_bytes(data[at : at + SIZE_FIELD_SIZE], "big", signed=True)
        if size > largest:
            return False
        at += SIZE_FIELD_SIZE + max(0, size)
    return bool(at == end)


def is_proved(data: Buffer, frame: Frame) -> bool:
    """Return whether the CRC of a plausible entry, complete in the buffer, is right."""
    view = memoryview(data)[frame.position : frame.position + frame.size]
    if frame.magic < 2:
        return crc32(view[LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM :]) == parse_message(view).crc
    return crc32c(view[CRC_COVERS_FROM:]) == parse_batch(view).crc
