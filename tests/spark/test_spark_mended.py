"""What can be read of a damaged log: verify, salvage, columns and both of Spark's tables go by one rule."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from damage import flip_bit, overwrite
from planned import by_klogtool, offsets, read
from running import FIXTURES, ROOT, run_here

import klogtool

Path = pathlib.Path
LENGTH_AT, MAGIC_AT = 8, 16
LOGS = ["leader-epochs/logdir/t-0", "magic-1/logdir/append-2", "magic-0/logdir/create-0", "transactions/logdir/t-0"]
KILLED = sorted(
    path
    for folder in (FIXTURES / "killed-mid-append/logdir", *(ROOT.parent / "shared/corpus").glob("*-crash/logdir"))
    for path in folder.glob("*-[0-9]")
)
LENGTHS = {
    "beyond the file": lambda size, _: 0x7FFFFFFF,
    "some megabytes": lambda size, _: 5 << 20,
    "below zero": lambda size, _: -5,
    "nothing": lambda size, _: 0,
    "a few more": lambda size, _: size + 3,
    "amid the next": lambda size, _: size + 40,
    "past the next": lambda size, after: size + after,
    "a few less": lambda size, _: size - 3,
    "half of it": lambda size, _: size // 2,
}
MAGICS = {"magic 0": 0, "magic 1": 1, "magic 3": 3, "magic 77": 77}


def entries_of(partition: Path) -> list[Any]:
    return [batch for log in sorted(partition.glob("*.log")) for batch in klogtool.Segment(str(log)).batches()]


def wounded(name: str, number: int, wound: str, folder: Path) -> tuple[Path, Any]:
    """A copy of a partition with one wrong field, and the entry that has it."""
    copy = shutil.copytree(FIXTURES / name, folder / "logdir" / Path(name).name)
    (folder / "logdir/meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=c\n")
    log = min(copy.glob("*.log"))
    entries = list(klogtool.Segment(str(log)).batches())
    entry, after = entries[number], entries[(number + 1) % len(entries)]
    if wound in MAGICS:
        overwrite(log, entry.position + MAGIC_AT, bytes([MAGICS[wound]]))
    else:
        length = LENGTHS[wound](entry.size - 12, after.size)
        overwrite(log, entry.position + LENGTH_AT, length.to_bytes(4, "big", signed=True))
    return copy, entry


def salvaged(partition: Path, work: Path) -> Path:
    assert run_here(["salvage", str(partition), "--output", "salvaged"], work).status in (0, 1)
    return work / "salvaged"


def batch_rows(partition: Path, **options: Any) -> list[tuple[Any, ...]]:
    names = ("base_offset", "last_offset", "position", "size")
    rows = read(partition, table="batches", **options).to_pylist()
    return [tuple(row[name] for name in names) for row in rows]


def cases() -> Iterator[Any]:
    for name in LOGS:
        for number in (0, 2, -2, -1):
            for wound in (*LENGTHS, *(() if "magic" in name else MAGICS)):
                yield pytest.param(name, number, wound, id=f"{name}, {number}, {wound}")


@pytest.mark.some(60)
@pytest.mark.parametrize(("name", "number", "wound"), list(cases()))
def test_all_read_what_verify_calls_whole(name: str, number: int, wound: str, tmp_path: Path) -> None:
    whole = FIXTURES / name
    copy, entry = wounded(name, number, wound, tmp_path)
    findings = klogtool.open(copy).verify()  # type: ignore[union-attr]
    [found] = [finding for finding in findings if finding.start == entry.position and finding.field is not None]
    assert (found.id, found.field, found.end) == (
        "batch-header",
        "magic" if wound in MAGICS else "length",
        entry.position + entry.size,
    )
    expected = [(e.base_offset, e.last_offset, e.position, e.size) for e in entries_of(whole)]
    sound = [(e.base_offset, e.last_offset) for e in entries_of(salvaged(copy, tmp_path))]
    assert sound == [entry[:2] for entry in expected]
    assert batch_rows(copy, mode="PERMISSIVE") == expected
    segments = read(copy, table="segments", mode="PERMISSIVE").to_pylist()
    assert [row["size"] - row["valid_bytes"] for row in segments] == [0] * len(segments)
    assert sum(row["batches"] for row in segments) == len(expected)
    records = offsets(by_klogtool(whole))
    assert offsets(by_klogtool(copy, resync=True, on_damage=lambda _: None)) == records
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        for split_bytes in ("128m", "300"):
            assert offsets(read(copy, mode=mode, splitBytes=split_bytes)) == records
            assert batch_rows(copy, mode=mode, splitBytes=split_bytes) == expected


@pytest.mark.parametrize("partition", KILLED, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_what_salvage_keeps_is_what_is_read(partition: Path, tmp_path: Path) -> None:
    """Of logs that killed brokers left, wrong checksums left out."""
    sound = salvaged(partition, tmp_path) if list(partition.glob("*.log")) else partition
    kept = offsets(by_klogtool(sound))
    assert offsets(read(partition, mode="DROPMALFORMED")) == kept
    assert offsets(read(partition, mode="DROPMALFORMED", splitBytes=500)) == kept
    rows = [row[:2] for row in batch_rows(partition, mode="PERMISSIVE")]
    assert [entry for entry in rows if entry in {(e.base_offset, e.last_offset) for e in entries_of(sound)}] == [
        (e.base_offset, e.last_offset) for e in entries_of(sound)
    ]


def harm(partition: Path, rng: random.Random) -> None:
    """One wound in each segment; some lose their index."""
    for log in sorted(partition.glob("*.log")):
        wound_somewhere(log, rng.choice([*klogtool.Segment(str(log)).batches()]), rng)
        if rng.random() < 0.5:
            log.with_suffix(".index").unlink(missing_ok=True)


def wound_somewhere(log: Path, entry: Any, rng: random.Random) -> None:
    """A length, a magic, a bit, or some bytes more."""
    size = entry.size - 12
    match rng.randrange(4):
        case 0:
            length = rng.choice([size + rng.randrange(-40, 400), rng.randrange(-5, 3000), rng.randrange(2**31)])
            overwrite(log, entry.position + LENGTH_AT, length.to_bytes(4, "big", signed=True))
        case 1:
            overwrite(log, entry.position + MAGIC_AT, rng.randbytes(1))
        case 2:
            flip_bit(log, entry.position + rng.randrange(entry.size), rng.randrange(8))
        case _:
            put_before(log, entry.position, rng.randbytes(rng.randrange(1, 100)))


def put_before(log: Path, position: int, more: bytes) -> None:
    raw = log.read_bytes()
    log.write_bytes(raw[:position] + more + raw[position:])


@pytest.mark.some(20)
@pytest.mark.parametrize("seed", range(60))
def test_how_a_damaged_log_is_split_changes_no_row(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    name = rng.choice(LOGS)
    copy = shutil.copytree(FIXTURES / name, tmp_path / "t-0")
    harm(copy, rng)
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        records, batches = offsets(read(copy, mode=mode)), batch_rows(copy, mode=mode)
        for split_bytes in (100, 300, 1000):
            assert offsets(read(copy, mode=mode, splitBytes=split_bytes)) == records
            if "magic" not in name:  # a message that calls itself a batch has a header of bytes that are not its own
                assert batch_rows(copy, mode=mode, splitBytes=split_bytes) == batches
