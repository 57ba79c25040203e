"""Inputs led by coverage. An input is its numbers: the first one draws it, each other one changes it further.

So a corpus is a text file with a line for each input that came where none had come before: small enough for git. When
it is read, each is tried anew, and what comes nowhere new any more is left out. reached.c tells where an input came.
"""

from __future__ import annotations

import ctypes
import pathlib
import random
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Numbers: TypeAlias = tuple[int, ...]

WAYS = 1 << 16
LONGEST = 8  # numbers of an input
NEW_ONES = 0.2  # of the inputs are drawn from the beginning
LARGEST = 1 << 32


class Ways:
    """The ways that code with reached.c in it has taken. Raises ValueError where there is none."""

    def __init__(self, library: str) -> None:
        self._map = (ctypes.c_uint8 * WAYS).in_dll(ctypes.CDLL(library), "klogtool_reached")

    def take(self) -> int:
        """Return those since the last time, each a bit."""
        found = int.from_bytes(self._map, "little")
        ctypes.memset(self._map, 0, WAYS)
        return found


class Led:
    """Draws inputs, and learns which of them came somewhere new. ways: None if nobody tells: then all are drawn from
    the beginning."""

    def __init__(self, ways: Ways | None, seed: int, corpus: Sequence[Numbers] = ()) -> None:
        self._ways, self._rng = ways, random.Random(seed)
        self._again = sorted(set(corpus), key=len)[::-1] if ways is not None else []
        self.kept: list[Numbers] = []
        self._seen = 0

    def walk(self) -> Iterator[Numbers]:
        """Yield inputs without end, those of the corpus first. Between two of them the first one is tried."""
        while True:
            numbers = self._again.pop() if self._again else self._drawn()
            if self._ways is not None:
                self._ways.take()
            yield numbers
            if self._ways is not None and (new := self._ways.take() & ~self._seen):
                self._seen |= new
                self.kept.append(numbers)

    @property
    def count(self) -> int:
        """Of the ways that were taken."""
        return self._seen.bit_count()

    def _drawn(self) -> Numbers:
        number = self._rng.randrange(LARGEST)
        if not self.kept or self._rng.random() < NEW_ONES:
            return (number,)
        return (*self._rng.choice(self.kept)[: LONGEST - 1], number)


def read_corpus(path: pathlib.Path) -> list[Numbers]:
    """Return the inputs of a file; none if it is not there."""
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [tuple(map(int, line.split())) for line in lines]


def write_corpus(path: pathlib.Path, kept: Sequence[Numbers]) -> None:
    """Write one line for each input."""
    path.write_text("".join(f"{' '.join(map(str, numbers))}\n" for numbers in sorted(kept)), encoding="ascii")
