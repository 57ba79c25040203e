"""Wounds for copies of fixtures, by name."""

from __future__ import annotations

import pathlib
import random


def tear_at(path: pathlib.Path, size: int) -> None:
    """The file ends after `size` bytes."""
    path.write_bytes(path.read_bytes()[:size])


def flip_bit(path: pathlib.Path, position: int, bit: int = 0) -> None:
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 1 << bit]))


def zero_from(path: pathlib.Path, position: int) -> None:
    """Zeros from there to the end, as where sizes reached the disk before the data."""
    data = path.read_bytes()
    path.write_bytes(data[:position] + bytes(len(data) - position))


def overwrite(path: pathlib.Path, position: int, new: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:position] + new + data[position + len(new) :])


def append_bytes(path: pathlib.Path, new: bytes) -> None:
    path.write_bytes(path.read_bytes() + new)


def shuffle_blocks(path: pathlib.Path, size: int = 64, seed: int = 1) -> None:
    """Blocks of the file in another order."""
    data = path.read_bytes()
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    random.Random(seed).shuffle(blocks)
    path.write_bytes(b"".join(blocks))
