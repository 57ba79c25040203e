"""Where new bytes go while they are produced, so that those of a whole log need not be in memory.

If only the plan is wanted, the bytes are counted and summed, then dropped. If they will be written, the caller gives a
spool that stores them (disk/spooling.py). The plan is the same in both cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from klogtool.broker.content import Part, Spooled
from klogtool.kernels import crc32c

PART_BYTES = 8 << 20  # size of the parts in which new bytes are reported


class Spool(Protocol):
    """Takes the new bytes of one file, in order."""

    def write(self, data: bytes) -> None:
        """Append new bytes."""

    def skip(self, size: int) -> None:
        """Skip bytes that come from pieces of other files."""

    def end_part(self) -> Part:
        """Return the part written since the last part or skip."""


# Makes a spool for one new file.
MakeSpool: TypeAlias = Callable[[], Spool]


class InMemory:
    """Keeps the bytes in memory."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Append new bytes."""
        self._written.append(data)

    def skip(self, size: int) -> None:
        """Do nothing: the part has no position."""

    def end_part(self) -> Part:
        """Return the part that was written."""
        part = self._written[0] if len(self._written) == 1 else b"".join(self._written)
        self._written.clear()
        return part


class CountingSpool:
    """Sums the bytes and drops them: only the plan can be made from them."""

    def __init__(self) -> None:
        self._size = self._crc = 0

    def write(self, data: bytes) -> None:
        """Append new bytes."""
        self._size += len(data)
        self._crc = crc32c(data, self._crc)

    def skip(self, size: int) -> None:
        """Do nothing: the part has no position."""

    def end_part(self) -> Part:
        """Return the part that was written."""
        part = Spooled(self._size, self._crc)
        self._size = self._crc = 0
        return part
