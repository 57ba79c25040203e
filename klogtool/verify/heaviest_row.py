"""Finds the heaviest ascending row in a sequence of weighted items."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Generic, TypeVar

Weight = TypeVar("Weight", int, tuple[int, int])


class Frontier(Generic[Weight]):
    """Of the rows so far, by their last key: those that are heavier than all rows with a lower last key."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._rows: list[tuple[Weight, int]] = []

    def heaviest(self) -> tuple[Weight, int] | None:
        """Return weight and number of the heaviest row; None if there is none."""
        return self._rows[-1] if self._rows else None

    def heaviest_up_to(self, key: int) -> tuple[Weight, int] | None:
        """Return weight and number of the heaviest row that ends with this key or a lower one; None if there is
        none."""
        n = bisect_right(self._keys, key)
        return self._rows[n - 1] if n else None

    def add(self, key: int, weight: Weight, number: int) -> None:
        """Add a row that ends with this key."""
        n = bisect_left(self._keys, key)
        if n and self._rows[n - 1][0] >= weight:
            return
        behind = n
        while behind < len(self._keys) and self._rows[behind][0] <= weight:
            behind += 1
        self._keys[n:behind] = [key]
        self._rows[n:behind] = [(weight, number)]


def heaviest_row(items: Iterable[tuple[int, int]]) -> list[int]:
    """Return the numbers of the (key, weight) pairs in the heaviest row whose keys never go down."""
    frontier: Frontier[int] = Frontier()
    before: list[int] = []
    for number, (key, weight) in enumerate(items):
        heaviest = frontier.heaviest_up_to(key)
        before.append(-1 if heaviest is None else heaviest[1])
        frontier.add(key, weight + (0 if heaviest is None else heaviest[0]), number)
    last = frontier.heaviest()
    row = []
    at = -1 if last is None else last[1]
    while at >= 0:
        row.append(at)
        at = before[at]
    return row[::-1]
