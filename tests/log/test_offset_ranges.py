"""A set of offsets: what was added is in it, in whatever order, and nothing else."""

from __future__ import annotations

import random

import pytest

from klogtool.log.offset_ranges import Offsets


@pytest.mark.parametrize("seed", range(20))
def test_offsets_are_what_was_added_and_nothing_else(seed: int) -> None:
    rng, offsets, added = random.Random(seed), Offsets(), set[int]()
    for first in rng.sample(range(60), 6):
        last = first + rng.choice((0, 1, 5))
        offsets.add(first, last)
        added |= set(range(first, last + 1))
    assert {offset for offset in range(-2, 70) if offset in offsets} == added
    assert {offset for first, last in offsets.ranges for offset in range(first, last + 1)} == added
