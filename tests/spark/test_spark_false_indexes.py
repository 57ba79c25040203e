"""A filter never changes an answer: whatever is wrong with the files beside a log, filters pushed down or not."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from loading import NOW_MS, data, make
from planned import offsets, read
from running import run_here

BASES = (0, 60, 100, 160)
SECONDS = 40  # timestamps are so many different seconds, out of order, so that many are equal
SEEDS = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Partition t-0: three segments, batches of two records, timestamps out of order."""
    chance = random.Random(5)
    logs = {
        first: [data(n, records=2, time_ms=NOW_MS + 1000 * _second(n, chance)) for n in range(first, end, 2)]
        for first, end in pairwise(BASES)
    }
    return make(tmp_path_factory.mktemp("sound") / "t-0", logs)


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


def damaged(sound: pathlib.Path, at: pathlib.Path, chance: random.Random) -> pathlib.Path:
    folder = pathlib.Path(shutil.copytree(sound, at))
    for _ in range(chance.randint(1, 3)):
        files = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
        file = chance.choice(files)
        chance.choice(DAMAGES)(file, 12 if file.suffix == ".timeindex" else 8, chance)
    return folder


def filter_on(column: str, kind: str, number: int) -> Any:
    """A filter of pyspark.sql.datasource, which is known by its name."""
    value = datetime.fromtimestamp(NOW_MS / 1000 + number, UTC) if column == "timestamp" else number
    return type(kind, (), {"attribute": (column,), "value": value})()


def kept(rows: list[tuple[int, int]], column: str, kind: str, number: int) -> list[int]:
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
