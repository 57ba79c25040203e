"""Damage that a reader of some offsets does not meet: which batch it is in, by the batches before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from klogtool.errors import KlogError
from klogtool.log.entries import Entry, walk_entries
from klogtool.render.selection import LARGEST


class UnneededDamage:
    """Tells of damage in one log file, in the order of the file, whether a wanted offset may be in it.

    The offsets of a damaged batch may be what is wrong, and a base offset is under no checksum. So those of the batches
    before and after it count, and only if its own are between them. What is not sure may be wanted.
    """

    def __init__(self, path: str, offsets: tuple[int, int]) -> None:
        self.path = path
        self._first, self._last = offsets
        self._entries = _readable_entries(path)
        self._end: int | None = None
        self._continues = self._is_ascending = True
        self._entry, self._after = next(self._entries, None), next(self._entries, None)

    def is_needed(self, position: int) -> bool:
        """Return whether a wanted offset may be in the batch at a position, or behind it if no batch is there."""
        while self._entry is not None and self._entry.position + self._entry.size <= position:
            self._pass(self._entry)
        if not self._is_ascending:
            return True
        if self._entry is None:
            return self._end is None or not self._continues or self._end <= self._last
        first, last = _first_offset(self._entry), self._entry.last_offset
        end, after = self._end or 0, LARGEST if self._after is None else _first_offset(self._after)
        return not end <= first <= last < after or (end <= self._last and self._first < after)

    def _pass(self, entry: Entry) -> None:
        """Take the batch that comes next. _end: the offset after those so far, which continues: without a gap."""
        first = _first_offset(entry)
        self._is_ascending = self._is_ascending and (self._end or 0) <= first <= entry.last_offset
        self._continues = first == self._end
        self._end = entry.last_offset + 1
        self._entry, self._after = self._after, next(self._entries, None)


def _first_offset(entry: Entry) -> int:
    return entry.last_offset if entry.base_offset is None else entry.base_offset


def _readable_entries(path: str) -> Iterator[Entry]:
    """Yield the entries before an impossible length. What ends them is judged by those who read the records."""
    with suppress(KlogError):
        yield from walk_entries(path)
