"""Where new bytes go as they are made, so that nobody has to keep those of a whole log in memory.

Whoever only wants to know what would be written has them counted and summed up. Whoever is to write them gives a spool
that puts them where they wait (disk/spooling.py). What the plan says of them is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from klogtool.broker.content import Made, Part
from klogtool.kernels import crc32c

PART_BYTES = 8 << 20  # new bytes are told of in parts of so many


class Spool(Protocol):
    """The new bytes of one file, in order."""

    def write(self, data: bytes) -> None:
        """More of them."""

    def skip(self, size: int) -> None:
        """So many bytes that are pieces of other files come next."""

    def end_part(self) -> Part:
        """What was written since the last part, or since bytes were skipped."""


# For one new file.
MakeSpool: TypeAlias = Callable[[], Spool]


class InMemory:
    """They stay."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """More of them."""
        self._written.append(data)

    def skip(self, size: int) -> None:
        """Nothing: a part knows no place."""

    def end_part(self) -> Part:
        """What was written."""
        part = self._written[0] if len(self._written) == 1 else b"".join(self._written)
        self._written.clear()
        return part


class OnlyTold:
    """They are summed up, and gone: nothing can be made of them any more but the plan."""

    def __init__(self) -> None:
        self._size = self._crc = 0

    def write(self, data: bytes) -> None:
        """More of them."""
        self._size += len(data)
        self._crc = crc32c(data, self._crc)

    def skip(self, size: int) -> None:
        """Nothing: there is no place."""

    def end_part(self) -> Part:
        """What was written."""
        part = Made(self._size, self._crc)
        self._size = self._crc = 0
        return part
