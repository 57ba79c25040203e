"""Work that is cut in pieces, and done by several threads, comes to what one thread makes of it in pieces of their real
size: text, JSON, Arrow, verify, recover, salvage, read. On sound logs and on damaged ones."""

from __future__ import annotations

import json
import pathlib
import random
import re
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_batches import build_batch
from readers import NAME, log_file
from running import Done, run_here
from small_pieces import Sizes, small_pieces

from klogtool import kernels, scan
from klogtool.format.batch import Record

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")

TIME = 1_700_000_000_000
SIZES = (
    Sizes(span=80),
    Sizes(span=150, window=64, behind=64, piece=128),
    Sizes(span=700, behind=1),
    Sizes(span=4000, window=1 << 12),
    Sizes(span=300, mapped=1 << 40),
)


def batch(offset: int, size: int, count: int = 1) -> bytes:
    return build_batch([Record(offset + n, TIME, b"k%d" % n, bytes(size)) for n in range(count)])


def claiming(size: int, filling: bytes) -> bytes:
    """Garbage that looks like an entry of so many bytes by its first 17, and by nothing else."""
    head = (7).to_bytes(8, "big") + (size - 12).to_bytes(4, "big") + bytes(4) + b"\2"
    return head + (filling * size)[: size - 17]


def inside(offset: int) -> bytes:
    """A batch whose value is a log: batches in it prove themselves, and are none."""
    return build_batch([Record(offset, TIME, None, b"".join(batch(offset + n, 30) for n in range(9)))])


def random_log(rng: random.Random) -> bytes:
    """Batches of sizes from 70 bytes to many spans, some of them damage."""
    made, offset = [], 0
    for _ in range(rng.randrange(3, 25)):
        kind = rng.choice(("small", "small", "small", "large", "records", "inside", "again", "garbage", "claim"))
        size, count = {"small": rng.randrange(60), "large": rng.randrange(300, 9000)}.get(kind, 10), 1
        if kind == "records":
            count = rng.randrange(2, 40)
        entry = {
            "inside": lambda at=offset: inside(at),
            "again": lambda: rng.choice(made or [b""]),
            "garbage": lambda: rng.randbytes(rng.randrange(1, 600)),
            "claim": lambda: claiming(rng.randrange(61, 6000), rng.choice((b"\0", b"\xff", b"\0\0\0\1", b"\x02"))),
        }.get(kind, lambda at=offset, size=size, count=count: batch(at, size, count))()
        made.append(entry)
        offset += count
    return wounded(rng, b"".join(made))


def wounded(rng: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(0 if not data else rng.choice((0, 0, 1, 3))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged[: rng.randrange(len(damaged) + 1)] if rng.random() < 0.2 else damaged)


WAYS: dict[str, list[str]] = {
    "text": ["dump-log", NAME],
    "deep": ["dump-log", NAME, "--deep-iteration", "--print-data-log"],
    "json": ["dump-log", NAME, "--format", "json"],
    "csv": ["dump-log", NAME, "--format", "csv"],
    "resync": ["dump-log", NAME, "--resync"],
    "resync-json": ["dump-log", NAME, "--resync", "--format", "json"],
    "verify": ["verify", ".", "--deep", "--format", "json"],
    "recover": ["verify", ".", "--recover", "--format", "json"],
    "salvage": ["salvage", ".", "--format", "json"],
    "read": ["read", ".", "--offset", "0", "--max-bytes", "1000000", "--format", "json"],
    "compact": ["compact", ".", "--force", "--config", "cleanup.policy=compact", "--format", "json"],
}


def asked(way: str, folder: pathlib.Path, jobs: int, sizes: Sizes | None = None) -> tuple[int, list[object], str]:
    """Exit status, what was printed without what differs from run to run, and what was complained of."""
    words = [*WAYS[way], "--jobs", str(jobs), "--no-progress"]
    if way not in ("text", "deep", "json", "resync", "resync-json"):
        words += ["--now", str(TIME)]
    if sizes is None:
        done = run_here(words, folder)
    else:
        with small_pieces(sizes):
            done = run_here(words, folder)
    assert "Traceback" not in done.err
    return done.status, shown(done), done.err


def shown(done: Done) -> list[object]:
    lines: list[object] = []
    for line in done.out.splitlines():
        row = json.loads(line) if line.startswith(b"{") else line
        if isinstance(row, dict):
            row = {name: value for name, value in row.items() if name not in ("arguments", "id", "seconds")}
        lines.append(row)
    return lines


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "t-0"
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_pieces_of_every_size(way: str, partition: pathlib.Path) -> None:
    for seed in range(12):
        rng = random.Random(f"small pieces {seed}")
        (partition / NAME).write_bytes(random_log(rng))
        alone = asked(way, partition, 1)
        for sizes in SIZES:
            for jobs in (1, 3):
                assert asked(way, partition, jobs, sizes) == alone, f"seed {seed}, {jobs} jobs, {sizes}"


@pytest.mark.parametrize("way", WAYS)
def test_batches_of_megabytes(way: str, partition: pathlib.Path) -> None:
    """The same in pieces of their real size: a batch over two spans, and what claims to be one."""
    large = batch(0, 17 << 20)
    (partition / NAME).write_bytes(
        large + batch(1, 10) + batch(2, 9 << 20) + claiming(17 << 20, b"\xff") + batch(3, 10)
    )
    done = [asked(way, partition, jobs) for jobs in (1, 3)]
    assert done[1] == done[0]


# ---------------------------------------------------------------- what is behind damage


def batches_in_text(out: bytes) -> list[tuple[int, int]]:
    """Position and size of each batch whose line is whole."""
    found = re.findall(rb" position: (\d+) \S+: -?\d+ size: (\d+) magic: ", out)
    return [(int(position), int(size)) for position, size in found]


def batches_in_json(out: bytes) -> list[tuple[int, int]]:
    rows = map(json.loads, out.splitlines())
    return [(row["position"], row["size"]) for row in rows if row["type"] == "batch"]


def batches_with_records(out: bytes) -> list[int]:
    rows = map(json.loads, out.splitlines())
    return list(dict.fromkeys(row["batch_position"] for row in rows if row["type"] == "record"))


def batches_in_arrow(path: pathlib.Path, jobs: int) -> list[int]:
    found = scan(path, columns=["_position"], resync=True, on_damage=lambda _: None, jobs=jobs).to_reader()
    return list(dict.fromkeys(position for rows in found for position in rows.column(0).to_pylist()))


def damaged_log(rng: random.Random) -> bytes:
    """A random log with wounds, and with more of the same batches behind garbage."""
    log = wounded(rng, random_log(rng))
    start, stop = sorted((rng.randrange(len(log) + 1), rng.randrange(len(log) + 1)))
    again = rng.choice((b"", log, log[start:stop]))
    return log + rng.choice((b"", bytes(30), rng.randbytes(50), claiming(70, b"\0")[:-1] + b"\1" * 4)) + again


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from((None, *SIZES)))
def test_text_json_and_arrow_show_the_same_batches(seed: int, sizes: Sizes | None) -> None:
    """Whatever the damage is, and whoever reads: one thread or several, only headers or records as well."""
    pytest.importorskip("pyarrow")
    with (
        log_file(damaged_log(random.Random(f"behind {seed}"))) as path,
        small_pieces(sizes) if sizes else nullcontext(),
    ):
        for jobs in (1, 3):
            how = ["--resync", "--jobs", str(jobs), "--no-progress"]
            dumps = [
                run_here(["dump-log", str(path), *how, *more], path.parent)
                for more in ([], ["--deep-iteration"], ["--format", "json"])
            ]
            shallow, deep = (batches_in_text(dump.out) for dump in dumps[:2])
            assert deep == shallow
            rows = batches_in_json(dumps[2].out)
            assert rows == shallow
            assert batches_in_arrow(path, jobs) == batches_with_records(dumps[2].out)


def test_the_same_batches_again_behind_garbage(partition: pathlib.Path) -> None:
    first, second = batch(0, 100), batch(1, 200)
    log = first + second
    (partition / NAME).write_bytes(log + b"\xff" * 40 + log)
    expected = batches_in_text(run_here([*WAYS["resync"]], partition).out)
    assert [position for position, _ in expected] == [
        0,
        len(batch(0, 100)),
        len(log) + 40,
        len(log) + 40 + len(batch(0, 100)),
    ]
    assert batches_in_json(run_here([*WAYS["resync-json"]], partition).out) == expected
