"""An index that is read in parts, because it is large, is judged as one that is read at once."""

from __future__ import annotations

import pathlib
import random

import pytest

from klogtool.log.file import LogFile
from klogtool.verify import index_damage
from klogtool.verify.index_damage import OFFSETS, TIMES, IndexFile, IndexKind


def judged(path: pathlib.Path, kind: IndexKind, most: int) -> tuple[object, ...]:
    with LogFile(str(path)) as file:
        index = IndexFile(file, kind, 0, most)
        return index.count, index.too_many, bytes(index.data), index.last_as_read(), list(index.findings())


def random_index(rng: random.Random, size: int) -> bytes:
    """Entries that ascend, now and then one of zeros or one that does not, and what was not trimmed behind them."""
    entries = [
        rng.choice((n, n, n, 0, rng.randrange(40))).to_bytes(size, "big") for n in range(1, rng.randrange(1, 30))
    ]
    return b"".join(entries) + bytes(size * rng.choice((0, 0, 1, 3, 50))) + bytes(rng.randrange(size))


@pytest.mark.parametrize("kind", [OFFSETS, TIMES], ids=["offsets", "times"])
@pytest.mark.parametrize("seed", range(40))
def test_parts_of_any_size_come_to_the_same(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: IndexKind, seed: int
) -> None:
    rng, path = random.Random(seed), tmp_path / "index"
    size = kind.layout.entry_size
    path.write_bytes(data := random_index(rng, size))
    for most in (1000, rng.randrange(30)):
        whole = judged(path, kind, most)
        for part in (size, 2 * size, 3 * size + 1, len(data) - 1):
            monkeypatch.setattr(index_damage, "PIECE_BYTES", max(size, part))
            assert judged(path, kind, most) == whole, part
        monkeypatch.undo()
