"""The next batch in a file that proves itself, piece by piece."""

from __future__ import annotations

from klogtool import kernels
from klogtool.log.file import LogFile

PIECE_BYTES = 4 << 20
READ_AGAIN_BYTES = 1 << 30  # in all, for entries that reach out of the piece they begin in
OVERLAP_BYTES = 64  # so that a header at the end of a piece is seen whole in the next


def find_next_batch(file: LogFile, position: int, *, end: int, lowest: int) -> int | None:
    """Where, from byte `position` on, the next sound entry of a log begins that ends at byte `end`; None if nowhere.

    lowest: the smallest offset that it may have, such as the segment's base offset. None also where bytes that only
    look like large entries have cost more reading than any log does.
    """
    left = READ_AGAIN_BYTES
    while position < end and left > 0:
        wanted = min(PIECE_BYTES, end - position)
        piece = file.read(position, wanted)
        if len(piece) < wanted:  # the file was cut meanwhile
            end = position + len(piece)
        reach = len(piece) - (OVERLAP_BYTES if position + len(piece) < end else 0)
        found, needed = _find(piece, reach, lowest, end - position)
        if found >= 0 and not needed:
            return position + found
        if found < -1:
            return None  # the search gave up
        if found >= 0:
            left -= needed + len(piece)
            if _is_sound(file, position + found, needed, lowest):
                return position + found
            position += found + 1
        else:
            position += reach
    return None


def _find(piece: bytes, stop: int, lowest: int, end: int) -> tuple[int, int]:
    if kernels.native is not None:
        found: tuple[int, int] = kernels.native.find_batch(piece, 0, stop, lowest, end)
        return found
    from klogtool.format.resync import Sought, find_batch

    return find_batch(piece, 0, stop, Sought(lowest, end))


def _is_sound(file: LogFile, position: int, size: int, lowest: int) -> bool:
    """Whether an entry that reaches out of its piece proves itself."""
    return _find(file.read(position, size), 1, lowest, size) == (0, 0)
