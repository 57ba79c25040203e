"""Sums of a file's bytes, made while the file is read for another reason."""

from __future__ import annotations

import mmap
import os
import re

from msgspec import Struct

from klogtool.errors import Changed
from klogtool.kernels import crc32c
from klogtool.log.file import LogFile

BLOCK_BYTES = 1 << 20  # of one sum
SUM_DIGITS = 8


class FileStat(Struct, frozen=True, array_like=True):
    """What the system says of a file."""

    size: int
    mtime_ns: int
    ino: int
    ctime_ns: int

    @classmethod
    def of(cls, about: os.stat_result) -> FileStat:
        """Return the part of a stat result that tells whether a file is still the same."""
        return cls(about.st_size, about.st_mtime_ns, about.st_ino, about.st_ctime_ns)

    def is_unwritten_since(self, earlier: FileStat, *, is_cleaned: bool) -> bool:
        """Return whether nobody can have written to the file since `earlier`. The cleaner gives a new file the mtime of
        the old one (Cleaner.cleanSegments), and the system may give it an inode that was free; so in a log that is
        cleaned, the ctime has to be the same, too."""
        mine, others = ((one.size, one.mtime_ns, one.ino) for one in (self, earlier))
        return mine == others and not (is_cleaned and self.ctime_ns != earlier.ctime_ns)


class FileSums(Struct, frozen=True, array_like=True):
    """The bytes of a file, read at read_ms. sums: CRC-32C in hex digits for each block of BLOCK_BYTES."""

    stat: FileStat
    sums: str
    read_ms: int

    def __post_init__(self) -> None:
        """Raises ValueError for sums that cannot be of such a file: these come from a file on a disk."""
        digits = SUM_DIGITS * -(-self.stat.size // BLOCK_BYTES)
        if len(self.sums) != digits or not re.fullmatch("[0-9a-f]*", self.sums):
            raise ValueError("no sums of such a file")

    def changed_blocks(self, earlier: FileSums) -> list[tuple[int, int]]:
        """Return the byte ranges whose sums are others; neighbours are one range. Both are of the same size."""
        ranges: list[tuple[int, int]] = []
        for at in range(0, len(self.sums), SUM_DIGITS):
            if self.sums[at : at + SUM_DIGITS] != earlier.sums[at : at + SUM_DIGITS]:
                start = at // SUM_DIGITS * BLOCK_BYTES
                first = ranges.pop()[0] if ranges and ranges[-1][1] == start else start
                ranges.append((first, min(start + BLOCK_BYTES, self.stat.size)))
        return ranges


class SummedFile(LogFile):
    """A file whose bytes are summed as they are read for the first time, from its beginning on. is_doubtful: bytes were
    read a second time, which verify does where the first read did not match a checksum."""

    is_mappable = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._reached, self._crc, self._sums = 0, 0, list[str]()
        self.is_doubtful = False

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """Read as LogFile does."""
        view = super().read_into(buffer, position, size)
        if position <= self._reached < position + len(view):
            self._add(view[self._reached - position :])
        elif len(view):
            self.is_doubtful = True
        return view

    def _add(self, data: memoryview) -> None:
        while data:
            part = data[: BLOCK_BYTES - self._reached % BLOCK_BYTES]
            self._crc = crc32c(part, self._crc)
            self._reached += len(part)
            data = data[len(part) :]
            if self._reached % BLOCK_BYTES == 0:
                self._end_block()

    def _end_block(self) -> None:
        self._sums.append(f"{self._crc:08x}")
        self._crc = 0

    def finish(self, read_ms: int) -> FileSums:
        """Read what nobody has read yet, and return the sums. Raises KlogError on an I/O error, Changed if the file
        does not end where it ended when it was opened."""
        buffer = bytearray(BLOCK_BYTES)
        while self.read_into(buffer, self._reached, BLOCK_BYTES):
            pass
        if self._reached % BLOCK_BYTES:
            self._end_block()
        about = FileStat.of(self.about())
        if about.size != self._reached:
            raise Changed("it changed while it was read", path=self.path)
        return FileSums(about, "".join(self._sums), read_ms)
