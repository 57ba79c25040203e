"""Which numbers of a damaged file may stay in an image, and what stands for the others.

Bytes that are no number of a log read as one all the same. So a number stays only if a log can have it; text never
reads as such a number. Any other one becomes a number of the same kind: a negative one -1, a large one the largest.
"""

from __future__ import annotations

LARGEST_TIMESTAMP_MS = 253_402_300_799_999  # the end of the year 9999
LARGEST_OFFSET = (1 << 48) - 1
LARGEST_PRODUCER_ID = (1 << 37) - 1
LARGEST_PRODUCER_EPOCH = (1 << 13) - 1
LARGEST_SMALL = (1 << 24) - 1  # of epochs and counts: their first byte is no letter
LARGEST_RELATIVE_OFFSET = (1 << 28) - 1
FAR_OFFSET = 7 << 60  # no sum of it and of a number of a batch is too large for a long


def stand_in(number: int, *, bits: int) -> int:
    """Return what stands for a number that does not stay."""
    return -1 if number < 0 else (1 << (bits - 1)) - 1


def is_time(number: int) -> bool:
    """Whether a timestamp may stay."""
    return -1 <= number <= LARGEST_TIMESTAMP_MS


def is_offset(number: int, most: int = LARGEST_OFFSET) -> bool:
    """Whether an offset may stay. most: the largest one."""
    return -1 <= number <= min(most, LARGEST_OFFSET)


def is_producer_id(number: int) -> bool:
    """Whether a producer id may stay."""
    return -1 <= number <= LARGEST_PRODUCER_ID


def is_small(number: int) -> bool:
    """Whether an epoch, or a number of records, may stay."""
    return -1 <= number <= LARGEST_SMALL
