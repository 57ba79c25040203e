"""A set of offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Offsets:
    """A set of offsets, or of positions, as ranges."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __contains__(self, offset: int) -> bool:
        return self.covers(offset, offset)

    def add(self, first: int, last: int) -> None:
        """Add a range."""
        low, high = bisect_left(self._lasts, first - 1), bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high], self._lasts[low:high] = [first], [last]

    def add_all(self, others: Offsets) -> None:
        """Add what another set has."""
        for first, last in others.ranges:
            self.add(first, last)

    def first_in(self, first: int, last: int) -> int | None:
        """Return the lowest offset of a range that is in it, or None."""
        at = bisect_left(self._lasts, first)
        first_free = max(first, self._firsts[at]) if at < len(self._lasts) else last + 1
        return first_free if first_free <= last else None

    def covers(self, first: int, last: int) -> bool:
        """Return whether all of a range is in it."""
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and self._lasts[at] >= last

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether any of a range is in it."""
        at = bisect_right(self._firsts, last) - 1
        return at >= 0 and self._lasts[at] >= first

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield what it lacks of a range."""
        for at in range(bisect_left(self._lasts, first), len(self._firsts)):
            low = self._firsts[at]
            if low > last:
                break
            if first < low:
                yield first, low - 1
            first = max(first, self._lasts[at] + 1)
        if first <= last:
            yield first, last

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the offsets as ranges, ascending."""
        return list(zip(self._firsts, self._lasts, strict=True))
