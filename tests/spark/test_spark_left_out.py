"""The table `left_out`: with the rows of `records` it is everything; and failOnLeftOut."""

from __future__ import annotations

import pathlib
import random
from itertools import pairwise
from typing import Any

import pytest
from damage import append_bytes, flip_bit, overwrite, tear_at
from loading import data, make, name_of
from planned import offsets, read

from klogtool.errors import KlogError, Refused

SIZE = len(data(0, records=2))


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    """Partition t-0 with 160 records: segments from offset 0, 60 and 100 on, a batch every two records."""
    bases = (0, 60, 100, 160)
    return make(tmp_path / "t-0", {a: [data(n, records=2) for n in range(a, b, 2)] for a, b in pairwise(bases)})


def left_out(log: pathlib.Path, **options: Any) -> list[tuple[Any, ...]]:
    rows = read(log, table="left_out", **options).to_pylist()
    assert all((row["topic"], row["partition"]) == ("t", 0) for row in rows)
    return [
        (pathlib.Path(row["path"]).name, row["start"], row["end"], row["first_offset"], row["last_offset"])
        for row in rows
    ]


def test_a_sound_log_has_none(log: pathlib.Path) -> None:
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        assert left_out(log, mode=mode) == []


def test_bytes_that_are_no_batch(log: pathlib.Path) -> None:
    middle, first = name_of(60, "log"), name_of(0, "log")
    overwrite(log / middle, 4 * SIZE, b"\xff" * SIZE)
    assert left_out(log) == [(middle, 4 * SIZE, 5 * SIZE, 68, 69)]
    tear_at(log / middle, 20 * SIZE - 7)
    append_bytes(log / first, b"\xff" * 30)
    ends = [(first, 30 * SIZE, 30 * SIZE + 30, None, None), (middle, 19 * SIZE, 20 * SIZE - 7, 98, 99)]
    assert left_out(log) == [ends[0], (middle, 4 * SIZE, 5 * SIZE, 68, 69), ends[1]]


def test_a_batch_that_is_dropped_or_read_in_part(log: pathlib.Path) -> None:
    first = name_of(0, "log")
    flip_bit(log / first, 3 * SIZE - 3)  # a byte of a value
    assert left_out(log) == []
    assert left_out(log, mode="DROPMALFORMED") == [(first, 2 * SIZE, 3 * SIZE, 4, 5)]
    overwrite(log / first, 6 * SIZE - 1, b"\x77")  # the number of headers of the second record
    assert left_out(log) == [(first, 5 * SIZE, 6 * SIZE, 11, 11)]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_what_is_no_row_is_left_out(log: pathlib.Path, mode: str, seed: int) -> None:
    """But for records of a batch of which some are rows, with a wrong checksum: its header may say fewer."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        file = chance.choice(sorted(log.glob("*.log")))
        overwrite(file, chance.randrange(file.stat().st_size - 300), chance.randbytes(chance.choice((1, 9, 90, 300))))
    table = read(log, mode=mode, includeMetadata=True)
    missing = set(range(160)) - set(offsets(table))
    if max(offsets(table)) >= 160:
        return  # a base offset is in no checksum: its records are rows, with other offsets
    for offset, is_sound in zip(offsets(table), table.column("_crc_ok").to_pylist(), strict=True):
        if not is_sound:
            missing.discard(offset ^ 1)
    for row in read(log, table="left_out", mode=mode).to_pylist():
        last = 160 if row["last_offset"] is None else row["last_offset"]
        missing -= set(range(max(0, row["first_offset"] or 0), min(last, 160) + 1))
    assert missing == set()


def test_a_task_may_leave_out_so_many_places(log: pathlib.Path) -> None:
    middle = log / name_of(60, "log")
    for batch in (4, 9):
        overwrite(middle, batch * SIZE, b"\xff" * SIZE)
    flip_bit(middle, 13 * SIZE - 3)
    assert len(offsets(read(log, mode="PERMISSIVE", failOnLeftOut=2))) == 156
    with pytest.raises(KlogError):
        read(log, mode="PERMISSIVE", failOnLeftOut=1)
    assert len(offsets(read(log, mode="DROPMALFORMED", failOnLeftOut=3))) == 154
    with pytest.raises(KlogError, match="CRC"):
        read(log, mode="DROPMALFORMED", failOnLeftOut=2)


def fails(log: pathlib.Path, **options: Any) -> bool:
    try:
        read(log, **options)
    except KlogError:
        return True
    return False


@pytest.mark.parametrize("wound", ["another offset", "no record"])
def test_a_batch_with_two_faults_is_one_place(log: pathlib.Path, wound: str) -> None:
    middle = log / name_of(60, "log")
    if wound == "another offset":
        overwrite(middle, 4 * SIZE, (500).to_bytes(8, "big"))
        flip_bit(middle, 5 * SIZE - 3)
    else:
        overwrite(middle, 5 * SIZE - 1, b"\x77")  # the number of headers
    assert len(left_out(log, mode="DROPMALFORMED")) == 1
    assert not fails(log, mode="DROPMALFORMED", failOnLeftOut=1)
    assert fails(log, mode="DROPMALFORMED", failOnLeftOut=0)


def test_a_batch_with_a_false_length_is_a_place(log: pathlib.Path) -> None:
    """Of a log that may still grow: the length leads beyond its end, as that of a batch that is being written."""
    last = log / name_of(100, "log")
    overwrite(last, 10 * SIZE + 8, (1 << 20).to_bytes(4, "big"))
    flip_bit(last, 11 * SIZE - 3)
    assert len(left_out(log)) == 1
    assert fails(log, mode="PERMISSIVE", failOnLeftOut=0)


@pytest.mark.some(40)
@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_the_places_that_fail_a_query_are_those_of_the_table(log: pathlib.Path, mode: str, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        file = chance.choice(sorted(log.glob("*.log")))
        batch = chance.randrange(file.stat().st_size // SIZE) * SIZE
        match chance.randrange(4):
            case 0:
                flip_bit(file, batch + SIZE - 3)
            case 1:
                overwrite(file, batch, chance.randrange(300).to_bytes(8, "big"))
            case 2:
                overwrite(file, batch + SIZE - 1, b"\x77")
            case _:
                some_byte = chance.randrange(file.stat().st_size - 300)
                overwrite(file, some_byte, chance.randbytes(chance.choice((1, 9, 90))))
    places = len(left_out(log, mode=mode))
    assert not fails(log, mode=mode, failOnLeftOut=places)
    assert places == 0 or fails(log, mode=mode, failOnLeftOut=places - 1)


def test_what_makes_no_sense_is_refused(log: pathlib.Path) -> None:
    for options in ({"failOnLeftOut": 1}, {"failOnLeftOut": 1, "table": "batches"}, {"failOnLeftOut": -1}):
        with pytest.raises(Refused):
            read(log, **options)
    with pytest.raises(Refused, match="leaves nothing out"):
        read(log, table="left_out", mode="FAILFAST")


def test_many_damaged_batches_in_a_row_are_kept_up_to_a_limit(
    log: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = name_of(0, "log")
    for n in range(2, 9):
        flip_bit(log / first, (n + 1) * SIZE - 3)
    every = left_out(log, mode="DROPMALFORMED")
    assert [(row[1], row[2]) for row in every] == [(n * SIZE, (n + 1) * SIZE) for n in range(2, 9)]
    monkeypatch.setattr("klogtool.spark.left_out.MOST_REASONS", 3)
    assert left_out(log, mode="DROPMALFORMED") == [*every[:2], (first, 4 * SIZE, 9 * SIZE, 4, 17)]
