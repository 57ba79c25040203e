"""A filter never changes an answer: whatever is wrong with the files beside a log, filters pushed down or not."""

from __future__ import annotations

import math
import pathlib
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from false_indexes import BASE_OFFSET_BYTES, BASES, SECONDS, damaged, move_batch, wound_log, write_sound
from loading import NOW_MS
from planned import offsets, read
from running import run_here

from klogtool.errors import Corrupt
from klogtool.spark.causes import LogCause

SEEDS = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_sound(tmp_path_factory.mktemp("sound") / "t-0")


def filter_on(column: str, kind: str, number: int) -> Any:
    """A filter of pyspark.sql.datasource, which is known by its name."""
    value = datetime.fromtimestamp(NOW_MS / 1000 + number, UTC) if column == "timestamp" else number
    return type(kind, (), {"attribute": (column,), "value": value})()


def kept(rows: Sequence[tuple[int, float]], column: str, kind: str, number: int) -> list[int]:
    """Offsets of the rows that the filter lets through, out of (offset, second)."""
    lets = {
        "GreaterThan": lambda found: found > number,
        "GreaterThanOrEqual": lambda found: found >= number,
        "LessThan": lambda found: found < number,
        "LessThanOrEqual": lambda found: found <= number,
        "EqualTo": lambda found: found == number,
    }[kind]
    return [offset for offset, second in rows if lets(offset if column == "offset" else second)]


KINDS = ("GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "EqualTo")


@pytest.mark.some(30)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_filter_never_changes_an_answer(sound: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    folder = damaged(sound, tmp_path / "t-0", chance)
    table = read(folder)
    seconds = [(moment.timestamp() * 1000 - NOW_MS) // 1000 for moment in table.column("timestamp").to_pylist()]
    rows = list(zip(offsets(table), map(int, seconds), strict=True))
    assert [offset for offset, _ in rows] == list(range(BASES[-1]))
    for _ in range(25):
        column = chance.choice(("offset", "timestamp"))
        asked = column, chance.choice(KINDS), chance.randrange(BASES[-1] if column == "offset" else SECONDS)
        found = read(folder, filters=[filter_on(*asked)], splitBytes=chance.choice((300, 1000, 1 << 20)))
        assert set(kept(rows, *asked)) <= set(offsets(found)), asked


@pytest.mark.some(40)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_nor_does_it_where_batches_are_damaged(
    sound: pathlib.Path, tmp_path: pathlib.Path, mode: str, seed: int
) -> None:
    """Nor how a query is cut into tasks. A header that does not match its checksum proves nothing of its records."""
    chance = random.Random(seed)
    folder = damaged(sound, tmp_path / "t-0", chance)
    wound_log(folder, chance)
    table = read(folder, mode=mode)
    times = table.column("timestamp").cast(pa.int64()).to_pylist()  # of damaged records they may be anything
    seconds = [math.nan if time is None else (time - 1000 * NOW_MS) / 1e6 for time in times]
    rows = list(zip(offsets(table), seconds, strict=True))
    for cut in ({"splitBytes": 300}, *({"maxRecordsPerPartition": most} for most in (1, 7))):
        assert Counter(offsets(read(folder, mode=mode, **cut))) == Counter(offsets(table)), cut
    for _ in range(8):
        column = chance.choice(("offset", "timestamp"))
        asked = column, chance.choice(KINDS), chance.randrange(BASES[-1] if column == "offset" else SECONDS)
        found = read(folder, filters=[filter_on(*asked)], mode=mode, splitBytes=chance.choice((300, 1 << 20)))
        assert not Counter(kept(rows, *asked)) - Counter(offsets(found)), asked


@pytest.mark.some(30)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_nor_does_it_where_a_batch_has_a_wrong_base_offset(
    sound: pathlib.Path, tmp_path: pathlib.Path, mode: str, seed: int
) -> None:
    """Its checksum does not cover it, so an index must not hide the records, either. FAILFAST fails, or has all."""
    chance = random.Random(seed)
    folder = pathlib.Path(shutil.copytree(sound, tmp_path / "t-0"))
    if seed % 2:
        move_batch(folder, chance)
    else:
        wound_log(folder, chance, BASE_OFFSET_BYTES)
    rows = offsets(read(folder, mode="PERMISSIVE" if mode == "FAILFAST" else mode))
    for _ in range(25):
        kind, number = chance.choice(KINDS), chance.randrange(BASES[-1])
        split_by = chance.choice(({"splitBytes": 300}, {"splitBytes": 1 << 20}, {"maxRecordsPerPartition": 7}))
        try:
            found = offsets(read(folder, filters=[filter_on("offset", kind, number)], mode=mode, **split_by))
        except Corrupt as error:
            if mode != "FAILFAST" or error.reason not in (str(LogCause.ASTRAY()), str(LogCause.BACKWARD())):
                raise
            continue
        whole = kept([(offset, math.nan) for offset in rows], "offset", kind, number)
        told = kept([(offset, math.nan) for offset in found], "offset", kind, number)
        assert sorted(told) == sorted(whole), (kind, number)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_start_by_time_is_the_first_record_that_is_not_older(
    sound: pathlib.Path, tmp_path: pathlib.Path, seed: int
) -> None:
    chance = random.Random(seed)
    folder = damaged(sound, tmp_path / "t-0", chance)
    for second in chance.sample(range(SECONDS), 12):
        asked = {"startingTimestamp": NOW_MS + 1000 * second, "startingOffsetsByTimestampStrategy": "latest"}
        assert offsets(read(folder, **asked)) == offsets(read(sound, **asked)), second


@pytest.mark.parametrize("seed", range(10))
def test_records_selected_by_time_do_not_depend_on_indexes(
    sound: pathlib.Path, tmp_path: pathlib.Path, seed: int
) -> None:
    chance = random.Random(seed)
    folder = damaged(sound, tmp_path / "t-0", chance)
    first, last = sorted(NOW_MS + 1000 * chance.randrange(SECONDS) for _ in range(2))
    for words in (["dump-log"], ["dump-log", "--offsets", "20..130"]):
        asked = [*words, "--timestamps", f"{first}..{last}", "--format", "json"]
        logs = [sorted(one.name for one in sound.glob("*.log"))] * 2
        told = [run_here([*asked, *names], where).out for names, where in zip(logs, (folder, sound), strict=True)]
        assert told[0] == told[1]
