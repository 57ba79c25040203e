"""A log with false files beside it, for tests of what reads it."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections.abc import Callable
from itertools import pairwise

from damage import flip_bit
from loading import NOW_MS, data, make

BASES = (0, 60, 100, 160)
SECONDS = 40  # timestamps are so many different seconds, out of order, so that many are equal


def write_sound(folder: pathlib.Path) -> pathlib.Path:
    """A partition of three segments, with batches of two records and timestamps out of order."""
    chance = random.Random(5)
    logs = {
        first: [data(n, records=2, time_ms=NOW_MS + 1000 * _second(n, chance)) for n in range(first, end, 2)]
        for first, end in pairwise(BASES)
    }
    return make(folder, logs)


def _second(offset: int, chance: random.Random) -> int:
    return min(SECONDS - 1, max(0, offset * SECONDS // BASES[-1] + chance.randint(-4, 4)))


Damage = Callable[[pathlib.Path, int, random.Random], None]


def _cut(file: pathlib.Path, entry: int, chance: random.Random) -> None:
    entries = file.stat().st_size // entry
    file.write_bytes(file.read_bytes()[: entry * chance.randrange(max(1, entries))])


def _padded(file: pathlib.Path, entry: int, chance: random.Random) -> None:
    file.write_bytes(file.read_bytes() + bytes(entry * chance.randint(1, 5) + chance.choice((0, 3))))


def _zeroed(file: pathlib.Path, _: int, chance: random.Random) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _random(file: pathlib.Path, _: int, chance: random.Random) -> None:
    file.write_bytes(chance.randbytes(file.stat().st_size))


def _flipped(file: pathlib.Path, _: int, chance: random.Random) -> None:
    found = bytearray(file.read_bytes())
    for _ in range(chance.randint(1, 3)):
        if found:
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    file.write_bytes(found)


def _without_some(file: pathlib.Path, entry: int, chance: random.Random) -> None:
    found = file.read_bytes()
    entries = [found[at : at + entry] for at in range(0, len(found), entry)]
    file.write_bytes(b"".join(one for one in entries if chance.random() < 0.6))


def _shuffled(file: pathlib.Path, entry: int, chance: random.Random) -> None:
    found = file.read_bytes()
    entries = [found[at : at + entry] for at in range(0, len(found), entry)]
    chance.shuffle(entries)
    file.write_bytes(b"".join(entries))


def _of_another(file: pathlib.Path, _: int, chance: random.Random) -> None:
    file.write_bytes(chance.choice(sorted(file.parent.glob("*" + file.suffix))).read_bytes())


def _gone(file: pathlib.Path, _: int, __: random.Random) -> None:
    file.unlink()


DAMAGES: tuple[Damage, ...] = (
    *(_cut, _padded, _zeroed, _random, _flipped),
    *(_without_some, _shuffled, _of_another, _gone),
)


HEADER_BYTES = range(70)
BATCH_BYTES = len(data(0, records=2, time_ms=NOW_MS))
BASE_OFFSET_BYTES = range(8)  # under no checksum


def wound_log(folder: pathlib.Path, chance: random.Random, at_bytes: range = HEADER_BYTES) -> None:
    """Flip one to three bits of the headers of batches."""
    for _ in range(chance.randint(1, 3)):
        log = chance.choice(sorted(folder.glob("*.log")))
        at = chance.choice(range(0, log.stat().st_size, BATCH_BYTES)) + chance.choice(at_bytes)
        flip_bit(log, at, chance.randrange(8))


def move_batch(folder: pathlib.Path, chance: random.Random) -> None:
    """Give a batch the base offset of another of its log."""
    log = chance.choice(sorted(folder.glob("*.log")))
    size = BATCH_BYTES
    found = bytearray(log.read_bytes())
    one, other = chance.sample(range(len(found) // size), 2)
    found[one * size : one * size + 8] = found[other * size : other * size + 8]
    log.write_bytes(found)


def damaged(sound: pathlib.Path, at: pathlib.Path, chance: random.Random) -> pathlib.Path:
    """A copy with something wrong in one to three of its indexes."""
    folder = pathlib.Path(shutil.copytree(sound, at))
    for _ in range(chance.randint(1, 3)):
        files = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
        file = chance.choice(files)
        chance.choice(DAMAGES)(file, 12 if file.suffix == ".timeindex" else 8, chance)
    return folder
