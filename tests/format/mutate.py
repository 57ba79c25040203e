"""Damaged variants of some bytes: what a disk, a bug or an enemy may have made of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice

Damage = Callable[[random.Random, bytearray], bytearray]

_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)
_FIELD_SIZES = (1, 2, 4, 8)


def mutations(seed: int | str, data: bytes, count: int | None = None) -> Iterator[bytes]:
    """Damaged variants of `data`, without end or `count` of them; the same ones for the same seed.

    One kind of damage each, now and then two or three. Half of it strikes the first and last bytes, where headers
    and trailers are.
    """
    return islice(_endless(random.Random(seed), data), count)


def _endless(rng: random.Random, data: bytes) -> Iterator[bytes]:
    while True:
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            damaged = rng.choice(_DAMAGES)(rng, damaged)
        yield bytes(damaged)


def _place(rng: random.Random, data: bytearray) -> int:
    """A position in the data, or its end."""
    chance = rng.random()
    if chance < 0.3:
        return rng.randrange(min(len(data), 40) + 1)
    if chance < 0.5:
        return len(data) - rng.randrange(min(len(data), 40) + 1)
    return rng.randrange(len(data) + 1)


def flip_bit(rng: random.Random, data: bytearray) -> bytearray:
    at = _place(rng, data)
    data[at : at + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1])
    return data


def set_byte(rng: random.Random, data: bytearray) -> bytearray:
    at = _place(rng, data)
    data[at : at + 1] = bytes((rng.choice((*_EXTREMES, rng.randrange(256))),))
    return data


def set_field(rng: random.Random, data: bytearray) -> bytearray:
    """A number of 1 to 8 bytes, in either order, becomes the largest, smallest, one more or less than it was."""
    at, size, order = _place(rng, data), rng.choice(_FIELD_SIZES), rng.choice(("big", "little"))
    was = int.from_bytes(data[at : at + size], order)
    most = (1 << 8 * size) - 1
    new = rng.choice((0, 1, most, most >> 1, (most >> 1) + 1, was + 1 & most, was - 1 & most, was << 1 & most))
    data[at : at + size] = new.to_bytes(size, order)
    return data


def cut_end(rng: random.Random, data: bytearray) -> bytearray:
    return data[: _place(rng, data)]


def cut_start(rng: random.Random, data: bytearray) -> bytearray:
    return data[rng.randrange(min(len(data), 40) + 1) :]


def cut_out(rng: random.Random, data: bytearray) -> bytearray:
    at = _place(rng, data)
    del data[at : at + rng.choice((1, 1, 2, 4, rng.randrange(100)))]
    return data


def insert(rng: random.Random, data: bytearray) -> bytearray:
    at = _place(rng, data)
    data[at:at] = _noise(rng)
    return data


def append(rng: random.Random, data: bytearray) -> bytearray:
    return data + _noise(rng)


def repeat(rng: random.Random, data: bytearray) -> bytearray:
    """A stretch of the data comes twice."""
    start, end = sorted((_place(rng, data), _place(rng, data)))
    data[end:end] = data[start:end]
    return data


def double(_: random.Random, data: bytearray) -> bytearray:
    return data + data


def swap_halves(rng: random.Random, data: bytearray) -> bytearray:
    at = _place(rng, data)
    return data[at:] + data[:at]


def zero_rest(rng: random.Random, data: bytearray) -> bytearray:
    at = _place(rng, data)
    return data[:at] + bytes(len(data) - at)


def _noise(rng: random.Random) -> bytes:
    size = rng.choice((1, 2, 3, 4, 8, 16, rng.randrange(1, 60)))
    return rng.choice((rng.randbytes(size), bytes(size), bytes((rng.choice(_EXTREMES),)) * size))


_DAMAGES: tuple[Damage, ...] = (
    flip_bit,
    flip_bit,
    flip_bit,
    set_byte,
    set_field,
    set_field,
    cut_end,
    cut_start,
    cut_out,
    insert,
    append,
    repeat,
    double,
    swap_halves,
    zero_rest,
)
