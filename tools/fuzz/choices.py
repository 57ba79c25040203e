"""Decisions out of an input's bytes: the same bytes, the same decisions; who changes bytes changes these."""

from __future__ import annotations

import random


class Choices(random.Random):
    """A random.Random that takes all it gives out of `data`, from left to right; behind its end everything is 0."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._at = data, 0

    def random(self) -> float:
        return self.getrandbits(8) / 256

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "big") & ((1 << k) - 1)

    def _randbelow(self, n: int) -> int:
        """As few bytes as can be, so that an input says a lot: choice, randrange, sample are made of this."""
        return self.getrandbits(8 * max(1, ((n - 1).bit_length() + 7) // 8)) % n

    def chance(self, one_in: int) -> bool:
        """True for one byte in so many; not for the 0 behind the end."""
        return self._randbelow(256) % one_in == one_in - 1
