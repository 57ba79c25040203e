"""Status 0 of `verify` is a promise: a broker that believes side files does not fail over them.

What a start refuses, loses or hides by them is an error of `verify`; and the cures of `verify`, carried out in a shell
one after the other, end where nothing is.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil
from collections.abc import Callable

import pytest
from curing import MOST_ROUNDS, carry_out, verified
from running import FIXTURES, run_here

NOW_MS = 1_800_000_000_000
SOURCE = FIXTURES / "transactions" / "logdir"
BASES = (0, 7, 36, 38)
SIDE_FILES = ("index", "index", "index", "timeindex", "txnindex", "snapshot")
Hurt = Callable[[random.Random, pathlib.Path], bytes]


def entries(rng: random.Random, path: pathlib.Path) -> bytes:
    """Ascending entries of an offset index, with positions anywhere in the log."""
    size = path.with_suffix(".log").stat().st_size if path.with_suffix(".log").exists() else 100
    count = rng.randint(1, 5)
    offsets, positions = sorted(rng.sample(range(60), count)), sorted(rng.sample(range(size + 50), count))
    return b"".join(a.to_bytes(4, "big") + b.to_bytes(4, "big") for a, b in zip(offsets, positions, strict=True))


def flipped(rng: random.Random, path: pathlib.Path) -> bytes:
    data = bytearray(path.read_bytes() or b"\0" * 8)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


HURTS: tuple[Hurt, ...] = (
    entries,
    entries,
    flipped,
    lambda rng, path: path.read_bytes()[: rng.randint(0, path.stat().st_size)],
    lambda rng, path: path.read_bytes() + bytes(rng.randint(1, 30)),
    lambda rng, path: rng.choice(sorted(path.parent.parent.glob(f"t-*/*{path.suffix}"))).read_bytes(),
)


def hurt(rng: random.Random, log_dir: pathlib.Path) -> None:
    for _ in range(rng.choice((1, 2, 3))):
        path = rng.choice(sorted((log_dir / "t-0").glob(f"*.{rng.choice(SIDE_FILES)}")))
        path.write_bytes(rng.choice(HURTS)(rng, path))
    if rng.random() < 0.3:  # a start believes those of the segments below the recovery point
        (log_dir / ".kafka_cleanshutdown").unlink()
    if rng.random() < 0.3:
        rng.choice(sorted((log_dir / "t-0").glob("*.snapshot"))).unlink()
    if rng.random() < 0.3:
        for file in sorted((SOURCE / "t-0").glob(f"{rng.choice(BASES):020d}.*[gx]")):  # as a cleaner leaves them
            shutil.copy(file, log_dir / "t-0" / f"{file.name}.swap")


def claimed(log_dir: pathlib.Path) -> tuple[bool, int | None, int | None]:
    """Whether `doctor` says that the broker starts, and how many records it says are lost, and are hidden."""
    done = run_here(["doctor", "logs", "--json", "--now", str(NOW_MS)], log_dir.parent)
    rows = [json.loads(line) for line in done.out.splitlines()]
    broker = next(row for row in rows if row.get("about") == "broker")
    claim = next(row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    return broker["starts"], claim["lost"]["records"], claim["hidden"]["records"]


@pytest.mark.some(12)
@pytest.mark.parametrize("seed", range(200))
def test_what_is_refused_lost_or_hidden_is_an_error(seed: int, tmp_path: pathlib.Path) -> None:
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    hurt(rng, log_dir)
    claim, found = claimed(log_dir), verified(["logs"], tmp_path, NOW_MS)
    assert claim == (True, 0, 0) or any(told.severity == "error" for told in found)
    for _ in range(MOST_ROUNDS):
        cure = next((told.cure for told in found if told.is_command), None)
        if cure is None:
            break
        carry_out(cure, tmp_path)
        found = verified(["logs"], tmp_path, NOW_MS)
    assert claimed(log_dir) == (True, 0, 0)
    assert not [told for told in found if told.severity != "info"]
