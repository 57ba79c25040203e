"""Damaged copies of what brokers wrote: random wounds, half of them healed where only a checksum would tell."""

from __future__ import annotations

import pathlib
import random
import sys
from collections.abc import Callable

from construct import Struct

from klogtool.format.fields import field_positions
from klogtool.format.layouts import BATCH_HEADER, ENTRY_HEAD, MESSAGE_V1_HEAD

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from damage import frames_of, heal_checksums  # noqa: E402

FIXTURES = ROOT / "fixtures"
LARGEST_SEED_BYTES = 8192
EXTREMES = (0, 1, -1, 13, 14, 48, 49, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 127, 255, 65535)

Wound = Callable[[random.Random, bytearray], None]


def seeds(suffixes: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """(path inside fixtures, bytes) of the files with one of these suffixes, small ones only."""
    files = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and "golden" not in path.parts)
    return [
        (str(path.relative_to(FIXTURES)), path.read_bytes())
        for path in files
        if path.name.endswith(suffixes) and path.stat().st_size <= LARGEST_SEED_BYTES
    ]


def flip_bits(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_bytes(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    for i in range(at, min(len(data), at + rng.choice((1, 2, 4, 8, 30)))):
        data[i] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def cut_out(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 2, 8, 61, 200))]


def insert(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice((b"\0", b"\xff", rng.randbytes(1))) * rng.choice((1, 2, 12, 61, 300))


def zero_tail(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    data[at:] = bytes(len(data) - at)


def repeat(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    piece = data[at : at + rng.choice((8, 61, 200, 1000))]
    to = rng.randrange(len(data) + 1)
    data[to:to] = piece


def set_field(rng: random.Random, data: bytearray) -> None:
    """An extreme value in a field of some entry's header."""
    frames = list(frames_of(data))
    if not frames:
        return set_bytes(rng, data)
    frame = rng.choice(frames)
    head: Struct = BATCH_HEADER if frame.magic == 2 else rng.choice((ENTRY_HEAD, MESSAGE_V1_HEAD))
    start = frame.position + (ENTRY_HEAD.sizeof() if head is MESSAGE_V1_HEAD else 0)
    _, at, kind = rng.choice(list(field_positions(head)))
    size = kind.sizeof()
    data[start + at : start + at + size] = (rng.choice(EXTREMES) % (1 << 8 * size)).to_bytes(size, "big")
    return None


WOUNDS: tuple[Wound, ...] = (flip_bits, set_bytes, cut, cut_out, insert, zero_tail, repeat, set_field, set_field)


def damaged(rng: random.Random, data: bytes, *, healed: bool) -> bytes:
    """A copy with one to three wounds; healed: its checksums are right all the same."""
    wounded = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if wounded:
            rng.choice(WOUNDS)(rng, wounded)
    if healed:
        heal_checksums(wounded)
    return bytes(wounded)
