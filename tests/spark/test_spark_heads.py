"""Headers in columns are the headers one by one, for logs of every kind; tables made of either are the same."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest
from damage import flip_bit
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import data, name_of
from planned import read
from raw_batches import build_batch
from running import FIXTURES

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format.batch import HEAD_COLUMNS, Record
from klogtool.log.file import LogFile
from klogtool.spark import head_columns
from klogtool.spark.head_columns import HeadRows, walk_head_rows
from klogtool.spark.heads import walk_heads
from klogtool.spark.inventory import find_fleet, walk_part
from klogtool.spark.planning import whole_segment

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built")
LOGS = sorted(path for path in FIXTURES.glob("**/*.log") if path.stat().st_size)


def fields_of(file: LogFile, end: int) -> tuple[list[tuple[Any, ...]], str]:
    """All fields of all headers, and how the walk ended."""
    found = []
    try:
        for head in walk_heads(file, 0, end):
            found.append((head.position, head.size, *(getattr(head.entry, name, None) for name in HEAD_COLUMNS[2:])))
    except KlogError as error:
        return found, str(error)
    return found, ""


def by_columns(file: LogFile, end: int) -> tuple[list[tuple[Any, ...]], str, int]:
    """The same, and how many came in columns."""
    found, count = [], 0
    try:
        for some in walk_head_rows(file, 0, end):
            if isinstance(some, HeadRows):
                found += list(zip(*(some.column(name).to_pylist() for name in HEAD_COLUMNS), strict=True))
                count += some.count
                assert some.end == found[-1][0] + found[-1][1]
            else:
                found.append(
                    (some.position, some.size, *(getattr(some.entry, name, None) for name in HEAD_COLUMNS[2:]))
                )
    except KlogError as error:
        return found, str(error), count
    return found, "", count


def plain_dir(above: pathlib.Path, logs: dict[int, list[bytes]]) -> pathlib.Path:
    """Partition dir t-0 without side files."""
    (above / "t-0").mkdir()
    for base, batches in logs.items():
        (above / "t-0" / name_of(base, "log")).write_bytes(b"".join(batches))
    return above / "t-0"


@pytest.fixture(params=["read", "mapped"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_columns, "should_map", lambda _: request.param == "mapped")
    monkeypatch.setattr(head_columns, "ROOM", 7)


def test_headers_of_every_fixture(way: None) -> None:
    in_columns = 0
    for path in LOGS:
        with LogFile(path) as file:
            for end in (file.size, file.size - 1, file.size // 2):
                *found, count = by_columns(file, end)
                assert tuple(found) == fields_of(file, end), path
                in_columns += count
    assert in_columns > 1000


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_headers_of_damaged_logs(tmp_path_factory: pytest.TempPathFactory, seed: int, flips: int) -> None:
    rng, path = random.Random(seed), tmp_path_factory.mktemp("heads") / name_of(0, "log")
    batches = b"".join(data(n, base_sequence=rng.choice((-1, 0, 2**31 - 1)), producer_id=5) for n in range(20))
    log = bytearray(batches)
    for _ in range(flips):
        log[rng.randrange(len(log))] ^= 1 << rng.randrange(8)
    path.write_bytes(log)
    with LogFile(path) as file:
        *found, _ = by_columns(file, file.size)
        assert tuple(found) == fields_of(file, file.size)


@pytest.mark.parametrize("value_bytes", [10, 50_000])
def test_tables_and_inventory_are_those_without_columns(
    tmp_path: pathlib.Path, value_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(value_bytes)
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    batches = [
        build_batch(
            [Record(n, 1000 + n, b"k", rng.randbytes(rng.randrange(value_bytes)))],
            partition_leader_epoch=n % 3,
            codec=rng.choice(codecs),
            timestamp_type=rng.choice(("CreateTime", "LogAppendTime")),
            is_transactional=n % 2 == 0,
            producer_id=n % 4,
            producer_epoch=1,
            base_sequence=n,
            delete_horizon_ms=None if n % 5 else 77,
        )
        for n in range(120)
    ]
    folder = plain_dir(tmp_path, {0: batches[:70], 70: batches[70:]})
    flip_bit(folder / name_of(70, "log"), 8)

    def told() -> list[Any]:
        tables = [read(folder, table="batches"), read(folder, table="segments")]
        tables.append(read(folder, table="batches", startingOffsets='{"t":{"0":33}}', endingOffsets='{"t":{"0":64}}'))
        (copy,) = find_fleet([str(folder)])
        pieces = [whole_segment(copy, segment) for segment in copy.segments]
        return [table.to_pylist() for table in tables] + [walk_part(piece) for piece in pieces]

    in_columns = told()
    assert len(in_columns[0]) >= 70
    monkeypatch.setattr(kernels, "native", kernels.absent)
    assert told() == in_columns


@pytest.mark.slow
def test_a_file_that_is_cut_under_a_mapping_gives_no_zeros(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    """What was mapped and is gone is read again, and is not there."""
    path = tmp_path / name_of(0, "log")
    path.write_bytes(b"".join(data(n) for n in range(30_000)))
    with LogFile(path) as file:
        real = head_columns._rows_of

        def cut_first(view: memoryview, at: int, end: int) -> HeadRows:
            path.write_bytes(path.read_bytes()[:100_000])
            return real(view, at, end)

        monkeypatch.setattr(head_columns, "_rows_of", cut_first)
        found, _, _ = by_columns(file, file.size)
        assert found == fields_of(file, file.size)[0]
    assert 99_000 < found[-1][0] < 100_000


def test_no_object_is_made_of_a_header(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    """Of 5,000 plain batches at most one is walked by itself: that is what headers take."""
    folder = plain_dir(tmp_path, {0: [data(n) for n in range(5000)]})
    walked: list[Any] = []
    real = head_columns.walk_heads
    monkeypatch.setattr(
        head_columns, "walk_heads", lambda *words, **named: (walked.append(h) or h for h in real(*words, **named))
    )
    assert read(folder, table="batches").num_rows == 5000
    assert read(folder, table="segments").column("batches").to_pylist() == [5000]
    assert len(walked) <= 4
