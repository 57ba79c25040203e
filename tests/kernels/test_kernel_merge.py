"""The kernel's merge of two copies' items, and its comparison of bytes, equal those of format/item_merge."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from copying import Copy, random_records

from klogtool.format import item_merge
from klogtool.format.item_merge import DAMAGED, MOST_STRETCHES


def random_items(rng: random.Random, count: int) -> array[int]:
    """Items that ascend: some with several offsets, some missing, some damaged."""
    items, offset = array("q"), rng.randrange(3)
    for position in range(count):
        last = offset + rng.choice((0, 0, 0, 1, 3))
        epoch = DAMAGED if rng.random() < 0.05 else rng.choice((1, 1, 1, 2))
        items.extend((offset, last, rng.choice((7, 7, 7, 8)), epoch, position))
        offset = last + 1 + rng.choice((0, 0, 0, 0, 2))
    return items


def merged(module: Any, a: array[int], b: array[int], rng: random.Random) -> list[Any]:
    """All that the merge says of items that come in pieces."""
    merge, at, taken = module.ItemMerge(), [0, 0], [0, 0]
    said: list[Any] = []
    whole = [len(a) // 5, len(b) // 5]
    while taken != whole or at != whole:
        pieces = []
        for n, items in enumerate((a, b)):
            if at[n] == taken[n]:
                taken[n] = min(whole[n], taken[n] + rng.randrange(1, 9))
            pieces.append(memoryview(items[at[n] * 5 : taken[n] * 5]))
        ends = [one == other for one, other in zip(taken, whole, strict=True)]
        done = merge.merge(pieces[0], 0, pieces[1], 0, *ends)
        at = [one + more for one, more in zip(at, done, strict=True)]
        said.append((done, merge.is_open))
    merge.note((0, 5000, 5009, 1, 1, -1, -1))
    return [*said, merge.stretches(), merge.totals(), merge.left_out]


@pytest.mark.parametrize("seed", range(60))
def test_merged_items(native: Any, seed: int) -> None:
    rng = random.Random(seed)
    a, b = random_items(rng, rng.randrange(60)), random_items(rng, rng.randrange(60))
    if seed % 3 == 0:
        b = a[: rng.randrange(len(a) // 5 + 1) * 5]
    assert merged(native, a, b, random.Random(seed)) == merged(item_merge, a, b, random.Random(seed))


def test_only_so_many_stretches_are_kept(native: Any) -> None:
    for module in (native, item_merge):
        merge = module.ItemMerge()
        for n in range(MOST_STRETCHES + 10):
            merge.note((2 + n % 2, n, n, 1, 1, -1, -1))
        assert len(merge.stretches()) == MOST_STRETCHES
        assert merge.left_out == 10
        assert [total[:3] for total in merge.totals()] == [(2, 0, 1008), (3, 1, 1009)]


@pytest.mark.parametrize("seed", range(20))
def test_equal_entries(native: Any, seed: int) -> None:
    rng = random.Random(seed)
    log = b"".join(Copy(random_records(rng, 30), rng).batches())
    other = bytearray(log)
    for _ in range(rng.randrange(2)):
        other[rng.randrange(len(other))] ^= 1
    a, b = log[: rng.randrange(len(log) + 1)], bytes(other)[: rng.randrange(len(log) + 1)]
    for one, two in ((a, b), (bytes(other), bytes(other)), (log, bytes(other))):
        for before in (-1, 5):
            assert native.equal_entries(one, two, before) == item_merge.equal_entries(one, two, before)
