"""What doctor, recover and verify say of a partition with left-overs of a cleaning never contradicts."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
from typing import Any

import pytest
from running import FIXTURES, run_here
from working import NOW_MS

SOURCE = FIXTURES / "transactions" / "logdir"
BASES = (0, 7, 36, 38)
POLICIES = ((), ("--config", "cleanup.policy=compact"), ("--config", "cleanup.policy=delete"))
SUFFIXES = (".swap", ".swap", ".cleaned", ".deleted")


def name_of(base: int) -> str:
    return f"{base:020d}.log"


def batches_of(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 12:
        size = 12 + int.from_bytes(data[8:12], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def content(rng: random.Random, base: int) -> bytes:
    data = (SOURCE / "t-0" / name_of(base)).read_bytes()
    batches = batches_of(data)
    return rng.choice(
        [
            lambda: data,
            lambda: b"".join(batches[: rng.randint(0, len(batches))]),
            lambda: b"".join(batches[rng.randrange(len(batches)) :]),
            lambda: b"".join(batch for batch in batches if rng.random() < 0.6),
            lambda: data[: rng.randint(0, len(data))],
            lambda: bytes(rng.randint(0, 300)),
            lambda: rng.randbytes(rng.randint(1, 300)),
            lambda: (SOURCE / "t-0" / name_of(rng.choice(BASES))).read_bytes(),
        ]
    )()


def leave(rng: random.Random, partition: pathlib.Path) -> None:
    """Leave one file of an interrupted cleaning, split or deletion; the segment may be gone."""
    base, suffix = rng.choice(BASES), rng.choice(SUFFIXES)
    name = name_of(base) if rng.random() < 0.95 else f"-{rng.randint(1, 40):0{rng.choice([19, 20])}}.log"
    (partition / (name + suffix)).write_bytes(content(rng, base))
    if suffix == ".swap" and rng.random() < 0.6:
        (partition / f"{base:020d}.index.swap").write_bytes(b"")
    if base != BASES[-1] and rng.random() < 0.3:
        for path in partition.glob(f"{base:020d}.*"):
            if not path.name.endswith(SUFFIXES):
                path.unlink()


def damage(rng: random.Random, log_dir: pathlib.Path) -> None:
    for base in rng.choice([(), BASES[-1:], BASES[-1:], rng.sample(BASES, 1), rng.sample(BASES, 2)]):
        path = log_dir / "t-0" / name_of(base)
        if path.exists():
            hurt(rng, path)
    if rng.random() < 0.5:
        (log_dir / ".kafka_cleanshutdown").unlink()


def hurt(rng: random.Random, path: pathlib.Path) -> None:
    """Damage a segment anywhere: torn, bytes behind it, a bit, bytes overwritten, a batch gone or put elsewhere."""
    data = path.read_bytes()
    batches, at, n = batches_of(data), rng.randint(0, max(0, len(data) - 1)), rng.randint(1, 99)
    other = rng.randrange(len(batches)) if batches else 0
    path.write_bytes(
        rng.choice(
            [
                lambda: data[:at],
                lambda: data + bytes(n),
                lambda: data + rng.randbytes(n),
                lambda: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if data else data,
                lambda: data[:at] + rng.randbytes(n) + data[at + n :],
                lambda: data[:at] + bytes(n) + data[at + n :],
                lambda: b"".join(batches[:other] + batches[other + 1 :]),
                lambda: b"".join([*batches[:other], *batches[other + 1 :], *batches[other : other + 1]]),
            ]
        )()
    )


def rows_of(log_dir: pathlib.Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = run_here([*words, "--format", "json", "--now", str(NOW_MS)], log_dir.parent)
    assert done.status in (0, 1, 3), done.err
    return done.status, [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.some(6)
@pytest.mark.parametrize("seed", range(300))
def test_they_agree(seed: int, tmp_path: pathlib.Path) -> None:
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    for _ in range(rng.choice([1, 1, 2, 3])):
        leave(rng, log_dir / "t-0")
    damage(rng, log_dir)
    policy = rng.choice(POLICIES)
    _, told = rows_of(log_dir, "doctor", "logs", *policy)
    broker = next(row for row in told if row.get("about") == "broker")
    claim = next(row for row in told if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    status, plans = rows_of(log_dir, "recover", "logs/t-0", *policy)
    # The clean marker is judged with the whole log dir.
    verified, findings = rows_of(log_dir, "verify", "logs", "--deep", *policy)
    assert (status == 3) is (broker["starts"] is False)
    if status == 3:
        assert verified == 1
        return
    (answer,) = (row["answer"] for row in plans if row["type"] == "plan" and row["path"].endswith("/t-0"))
    lost, by_swap = claim["lost"], answer.get("lost_by_swap")
    if status == 0:
        assert lost["records"] == 0
        # Recover does not read epochs, nor segments that the start does not read; verify does.
        assert set(claim["gone_already"]["witness"]) <= {"damaged-bytes"}
        assert "damaged-bytes" not in claim["gone_already"]["witness"] or verified == 1
        assert set(claim["hidden"]["why"]) <= {"order", "damage"}  # of what a consumer gets, verify tells
        assert not claim["hidden"]["records"] or verified == 1
    if by_swap is not None:
        assert (lost["records"] is None) or not by_swap.get("unless_compacted")
        assert lost["records"] != 0
    if answer["lost"] is None and lost["reason"] != "compacted":
        assert any("would be lost" in row.get("detail", "") for row in findings) is (by_swap is not None)
    if answer["missing"] and not lost["ranges"]:
        assert claim["gone_already"]["ranges"]


@pytest.mark.some(6)
@pytest.mark.parametrize("seed", range(300))
def test_what_free_takes_for_nothing_is_nothing_that_a_start_loses(seed: int, tmp_path: pathlib.Path) -> None:
    """What the doctor says is lost by the start is as much afterwards: no only copy of records is gone."""
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    for _ in range(rng.choice([1, 1, 2, 3])):
        leave(rng, log_dir / "t-0")
    damage(rng, log_dir)
    policy = rng.choice(POLICIES)

    def lost() -> object:
        _, rows = rows_of(log_dir, "doctor", "logs", *policy)
        claim = next(row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
        return claim["lost"]

    before = lost()
    kinds = ("--only", "deleted", "--only", "cleaned")
    rows_of(log_dir, "free", "logs", *policy, *kinds, "--bytes", "1GiB", "--no-undo", "--apply")
    assert lost() == before
