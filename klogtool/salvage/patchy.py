"""A file on a disk with bad sectors: unreadable bytes read as zeros, and are recorded."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator

from klogtool.log.file import LogFile, Unreadable

SECTOR_BYTES = 4096


class PatchyFile(LogFile):
    """A LogFile that continues after an I/O error. bad: ranges of unreadable bytes found so far, in whole sectors."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.bad: set[tuple[int, int]] = set()

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from byte `position`, fewer at the end of the file; zeros for unreadable bytes."""
        try:
            return super().read(position, size)
        except Unreadable as error:
            if error.errno != errno.EIO:
                raise
        return b"".join(self._sectors(position, min(size, self.size - position)))

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """Do the same into a buffer."""
        try:
            return super().read_into(buffer, position, size)
        except Unreadable as error:
            if error.errno != errno.EIO:
                raise
        view, done = memoryview(buffer), 0
        for chunk in self._sectors(position, min(size, self.size - position)):
            view[done : done + len(chunk)] = chunk
            done += len(chunk)
        return view[:done]

    def bad_within(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the unreadable ranges within [start, stop), by position."""
        return sorted((max(start, a), min(stop, b)) for a, b in self.bad if a < stop and start < b)

    def _sectors(self, position: int, size: int) -> Iterator[bytes]:
        end = position + size
        while position < end:
            stop = min(end, position - position % SECTOR_BYTES + SECTOR_BYTES)
            try:
                yield super().read(position, stop - position)
            except Unreadable as error:
                if error.errno != errno.EIO:
                    raise
                self.bad.add((position - position % SECTOR_BYTES, min(self.size, stop)))
                yield bytes(stop - position)
            position = stop
