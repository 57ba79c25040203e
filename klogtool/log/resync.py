"""The next batch in a file that proves itself, piece by piece."""

from __future__ import annotations

import os

from klogtool import kernels
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import parse_file_name
from klogtool.log.file import LogFile

CHUNK_BYTES = 4 << 20
NEAR_BYTES = 64 << 10  # read first: where every few batches are damaged, the next one is near
# What a search may cost beside one look at each byte: bytes read once more for entries that reach out of the piece they
# begin in, and those of pieces in which the search was given up.
MOST_EXTRA_BYTES, GIVEN_UP_BYTES = 1 << 30, 1 << 27
OVERLAP_BYTES = 64  # so that a header at the end of a piece is seen whole in the next


def find_batch_behind(file: LogFile, position: int, *, end: int) -> int | None:
    """Return where the next sound entry of a log file begins, after damage at byte `position`; None if there is none.

    All commands that continue after damage use this rule. Any entry that fits the segment counts, also one whose
    offsets came before, such as a batch that was written twice. The name of the file tells the segment.
    """
    base_offset = parse_file_name(os.path.basename(file.path)).base_offset or 0
    return find_next_batch(file, position + 1, end=end, lowest=base_offset)


def find_next_batch(file: LogFile, position: int, *, end: int, lowest: int, stop: int | None = None) -> int | None:
    """Return where the next sound entry of a log that ends at `end` begins, from `position` on; None if there is none.

    lowest: the smallest offset that it may have, such as the segment's base offset. stop: it begins before this byte.
    The result is also None if bytes that only look like large entries cost too much time: see `search_next_batch`.
    """
    return search_next_batch(file, position, end=end, lowest=lowest, stop=stop)[0]


def search_next_batch(
    file: LogFile, position: int, *, end: int, lowest: int, stop: int | None = None
) -> tuple[int | None, bool]:
    """Return where the next entry begins, and whether all bytes before it were searched: some cost too much time."""
    if lowest > MAX_LONG:  # behind a batch that has the last offset there is
        return None, True
    left, is_sure, buffer, size = MOST_EXTRA_BYTES, True, bytearray(), min(NEAR_BYTES, CHUNK_BYTES)
    while position < min(end, end if stop is None else stop) and left > 0:
        wanted, size = min(size, end - position), min(CHUNK_BYTES, 8 * size)
        buffer = buffer if len(buffer) >= wanted else bytearray(wanted)
        chunk = file.read_into(buffer, position, wanted)
        if len(chunk) < wanted:  # the file was cut meanwhile
            end = position + len(chunk)
        reach = len(chunk) - (OVERLAP_BYTES if position + len(chunk) < end else 0)
        reach = reach if stop is None else min(reach, stop - position)
        found_at, needed = kernels.native.find_batch(chunk, 0, reach, lowest, end - position)
        if found_at >= 0:
            # An entry that ends outside of its piece has to prove itself.
            whole = file.read(position + found_at, needed) if needed else b""
            if not needed or kernels.native.find_batch(whole, 0, 1, lowest, needed) == (0, 0):
                return position + found_at, is_sure
        if found_at >= 0:
            left -= needed + len(chunk) - found_at
            position += found_at + 1
        else:
            is_sure = is_sure and found_at == -1
            left -= 0 if found_at == -1 else GIVEN_UP_BYTES
            position += reach
    return None, is_sure and left > 0
