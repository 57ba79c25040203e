"""A time index that its batches contradict: whatever decides by it says so, with both dates, and never without need."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shlex
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from built import write_log_dir
from running import run_here

from klogtool.broker.config import DAY_MS
from klogtool.building.spec_text import read_spec
from klogtool.format.indexes import TIME_INDEX_ENTRY_SIZE

SPEC = """
clock: 2026-11-20T00:00:00Z
config: {segment.bytes: 20000, index.interval.bytes: 500}
partitions: [{topic: t, log: [{generate: {records: 400, seed: 3, keys: 9, value_bytes: 100, batch_bytes: 1000}}]}]
"""
WRITTEN_MS = 1_795_132_800_000  # the clock of SPEC, when its first record was written


def bases(log_dir: pathlib.Path) -> list[int]:
    return sorted(int(log.stem) for log in log_dir.glob("t-0/*.log"))


def timeindex(base: int) -> str:
    return f"t-0/{base:020d}.timeindex"


Wound = Callable[[pathlib.Path, int, random.Random], None]


def _padded(file: pathlib.Path, _: int, chance: random.Random) -> None:
    file.write_bytes(file.read_bytes() + bytes(TIME_INDEX_ENTRY_SIZE * chance.randint(1, 9)))


def _zeroed(file: pathlib.Path, size: int, chance: random.Random) -> None:
    file.write_bytes(bytes(size * chance.randint(1, 3)))


def _full_size(file: pathlib.Path, _: int, __: random.Random) -> None:
    file.write_bytes(bytes(10_485_756))


def _cut(file: pathlib.Path, size: int, chance: random.Random) -> None:
    entries = size // TIME_INDEX_ENTRY_SIZE
    file.write_bytes(file.read_bytes()[: TIME_INDEX_ENTRY_SIZE * chance.randrange(entries)])


def _flipped(file: pathlib.Path, size: int, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[chance.randrange(size - TIME_INDEX_ENTRY_SIZE, size)] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def _random(file: pathlib.Path, size: int, chance: random.Random) -> None:
    file.write_bytes(chance.randbytes(size))


def _gone(file: pathlib.Path, _: int, chance: random.Random) -> None:
    file.unlink()
    log = file.with_suffix(".log")
    at = (WRITTEN_MS - chance.randint(0, 40) * DAY_MS) * 1_000_000
    os.utime(log, ns=(at, at))


def _to_come(file: pathlib.Path, size: int, chance: random.Random) -> None:
    """The last entry has a date that is to come, in milliseconds or in a larger unit."""
    data = bytearray(file.read_bytes())
    ahead = chance.choice((3, 50, 4000, 10**7, 10**11)) * DAY_MS
    data[size - TIME_INDEX_ENTRY_SIZE : size - 4] = (WRITTEN_MS + ahead).to_bytes(8, "big")
    file.write_bytes(data)


WOUNDS: tuple[Wound, ...] = (_padded, _zeroed, _full_size, _cut, _flipped, _random, _to_come, _gone)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A log dir whose indexes are right. The files are as old as the records."""
    log_dir = write_log_dir(read_spec(SPEC.encode()), tmp_path_factory.mktemp("sound") / "d")
    for log in log_dir.glob("t-0/*.log"):
        os.utime(log, ns=(WRITTEN_MS * 1_000_000, WRITTEN_MS * 1_000_000))
    return log_dir


def newest(log_dir: pathlib.Path) -> dict[int, int]:
    """The largest timestamp of each segment, by its records."""
    found: dict[int, int] = {}
    for base in bases(log_dir):
        rows = asked(log_dir, "dump-log", f"t-0/{base:020d}.log")
        found[base] = max(row["timestamp"] for row in rows if row["type"] == "record")
    return found


def asked(log_dir: pathlib.Path, *words: str) -> list[dict[str, Any]]:
    done = run_here([*words, "--format", "json"], log_dir)
    assert done.status in (0, 1), done
    return [json.loads(line) for line in done.out.splitlines()]


def answer(log_dir: pathlib.Path, *words: str) -> dict[str, Any]:
    return next(row["answer"] for row in asked(log_dir, *words) if row.get("answer"))


def settings(now_ms: int, days: int) -> tuple[str, ...]:
    return "--now", str(now_ms), "--config", f"retention.ms={days * DAY_MS}"


@pytest.mark.parametrize("seed", range(40))
def test_who_decides_by_a_false_time_index_says_so(sound: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    file = log_dir / timeindex(chance.choice(bases(sound)))
    chance.choice(WOUNDS)(file, file.stat().st_size, chance)
    days, now_ms = 7, WRITTEN_MS + chance.choice((1, 5, 6, 8, 30)) * DAY_MS
    truth, told = newest(sound), settings(now_ms, days)

    retained = answer(log_dir, "retain", "t-0", *told)
    doubts = {row["segment"]: row for row in retained.get("index_doubts", [])}
    deleted = [row["segment"] for row in retained["deletions"]]
    early = [base for base in deleted if now_ms - truth[base] <= days * DAY_MS]
    assert early == [base for base, row in doubts.items() if row["effect"] == "deleted-too-early"]
    assert all(row["log_timestamp"] == truth[base] != row["believed_timestamp"] for base, row in doubts.items())
    assert set(doubts) <= {int(file.stem)}

    freed = answer(log_dir, "free", ".", "--no-undo", *told)
    going = {int(pathlib.Path(item["path"]).stem) for item in freed["items"] if item["kind"] == "retention"}
    assert not going & set(early)
    late = [row for row in doubts.values() if row["effect"] == "kept-too-long"]
    if early or late:
        assert "rebuild-index" in freed["left_out"][0]["cure"]
    if early:
        assert run_here(["retain", "t-0", *told, "--purge", "--no-undo", "--apply"], log_dir).status == 3

    rows = asked(log_dir, "doctor", ".", *told)
    points = [row for row in rows if row.get("what") == "expires-early"]
    assert bool(points) == bool(early)
    to_come = [row for row in doubts.values() if row["believed_timestamp"] > max(now_ms, row["log_timestamp"])]
    assert len([row for row in rows if row.get("what") == "expires-late"]) == len({*map(str, (*late, *to_come))})
    if early:
        assert points[0]["first_offset"] == early[0]
        assert points[0]["lost_records"] > 0
    if doubts:
        assert run_here(["rebuild-index", "t-0", "--only", "timeindex", "--apply"], log_dir).status == 0
        mended = answer(log_dir, "retain", "t-0", *told)
        assert "index_doubts" not in mended
        assert not any(now_ms - truth[row["segment"]] <= days * DAY_MS for row in mended["deletions"])


@pytest.mark.parametrize("seed", range(20))
def test_a_lookup_by_time_that_a_false_index_misleads_says_so(
    sound: pathlib.Path, tmp_path: pathlib.Path, seed: int
) -> None:
    chance = random.Random(seed)
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    file = log_dir / timeindex(chance.choice(bases(sound)))
    chance.choice(WOUNDS[:-1])(file, file.stat().st_size, chance)
    times = [str(WRITTEN_MS + chance.randrange(3000)) for _ in range(6)] + ["max"]
    words = [word for time in times for word in ("--timestamp", time)]
    right = asked(sound, "lookup", "t-0", *words)[1:]
    for found, true in zip(asked(log_dir, "lookup", "t-0", *words)[1:], right, strict=True):
        assert found["timestamp"] == true["timestamp"]
        assert ("index_doubts" in found) == (found["found"] != true["found"]), (found, true)


def test_sound_indexes_raise_no_doubt(sound: pathlib.Path) -> None:
    for days in (1, 6, 8, 30):
        told = settings(WRITTEN_MS + days * DAY_MS, 7)
        assert "index_doubts" not in answer(sound, "retain", "t-0", *told)
        ahead = [row["what"] for row in asked(sound, "doctor", ".", *told) if row["type"] == "ahead"]
        assert ahead == []


def test_full_indexes_of_zeros_under_a_clean_marker(sound: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    for ending, size in (("index", 10_485_760), ("timeindex", 10_485_756)):
        (log_dir / f"t-0/{bases(sound)[-1]:020d}.{ending}").write_bytes(bytes(size))
    told = settings(WRITTEN_MS + DAY_MS, 7)
    rows = asked(log_dir, "doctor", ".", *told)
    assert [row["what"] for row in rows if row["type"] == "ahead"] == ["rolls-early"]
    assert answer(log_dir, "roll", "t-0", *told)["zero_index_entries"] == 10_485_760 // 8
    (option,) = [row for row in rows if row["type"] == "option"]
    assert run_here(shlex.split(option["command"])[1:], log_dir).status == 0
    assert [row for row in asked(log_dir, "doctor", ".", *told) if row["type"] == "ahead"] == []


@pytest.mark.parametrize("bytes_told", [None, 1024, 2048])
@pytest.mark.parametrize("sizes", [(0, 12), (8, 0), (80, 120), (512, 504), (1024, 0), (0, 1020), (1024, 1020)])
def test_zeros_roll_a_segment_only_where_they_leave_no_room(
    sound: pathlib.Path, tmp_path: pathlib.Path, sizes: tuple[int, int], bytes_told: int | None
) -> None:
    """What the doctor foresees is what an append does. Where nobody knows the setting, the files were made for it."""
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    for kind, size in zip(("index", "timeindex"), sizes, strict=True):
        (log_dir / f"t-0/{bases(sound)[-1]:020d}.{kind}").write_bytes(bytes(size))
    dated = settings(WRITTEN_MS + DAY_MS, 7)
    told = () if bytes_told is None else ("--config", f"segment.index.bytes={bytes_told}")
    is_full_size = sizes in ((512, 504), (1024, 1020))
    known = told or (("--config", f"segment.index.bytes={max(sizes)}") if is_full_size else ())
    ahead = {row["what"] for row in asked(log_dir, "doctor", ".", *dated, *told) if row["type"] == "ahead"}
    (log_dir / "next.json").write_text(f'{{"key": "k", "value": "v", "timestamp": {WRITTEN_MS + DAY_MS}}}\n')
    words = ("append", "t-0", "--records", "next.json", "--config", f"segment.ms={30 * DAY_MS}")
    (append,) = answer(log_dir, *words, *dated, *known)["appends"]
    assert ("rolls-early" in ahead) == append["rolled"]


def test_records_of_1970_give_an_index_that_is_zeros_and_sound(tmp_path: pathlib.Path) -> None:
    """Timestamp 0 at the base offset: the entry is zeros. Building it anew gives the same."""
    log = "[{batch: {records: [{key: a, value: b, timestamp: 0}]}}, roll, {batch: {records: [{key: a, timestamp: 0}]}}]"
    write_log_dir(read_spec(f"partitions: [{{topic: t, log: {log}}}]".encode()), tmp_path / "d")
    assert [row for row in asked(tmp_path / "d", "doctor", ".") if row["type"] == "ahead"] == []


@pytest.mark.parametrize("state", ["delete", "stray", "future"])
def test_nothing_is_appended_to_a_folder_that_serves_nobody(
    sound: pathlib.Path, tmp_path: pathlib.Path, state: str
) -> None:
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    (log_dir / f"t-0/{bases(sound)[-1]:020d}.index").write_bytes(bytes(10_485_760))
    (log_dir / "t-0").rename(log_dir / f"t-0.{'0' * 32}-{state}")
    rows = asked(log_dir, "doctor", ".", *settings(WRITTEN_MS + 30 * DAY_MS, 7))
    assert {row["what"] for row in rows if row["type"] == "ahead"} & {"rolls-early", "expires-early"} == set()


@pytest.mark.parametrize("stop", ["clean", "unclean"])
def test_an_entry_beyond_the_log_makes_writes_fail(sound: pathlib.Path, tmp_path: pathlib.Path, stop: str) -> None:
    """A start after an unclean stop builds the index of the active segment anew."""
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    for base in bases(sound):  # only the last one is appended to
        file = log_dir / timeindex(base)
        file.write_bytes(file.read_bytes()[:-4] + (90_000).to_bytes(4, "big"))
    told = (".", "--last-stop", stop, *settings(WRITTEN_MS + DAY_MS, 7))
    ahead = [row for row in asked(log_dir, "doctor", *told) if row["type"] == "ahead"]
    assert [row["what"] for row in ahead] == (["writes-fail"] if stop == "clean" else [])
    assert run_here(["rebuild-index", "t-0", "--only", "timeindex", "--apply"], log_dir).status == 0
    assert [row for row in asked(log_dir, "doctor", *told) if row["type"] == "ahead"] == []


@pytest.mark.parametrize("kept", ["index", "timeindex", "both"])
def test_an_empty_active_log_whose_indexes_stayed(sound: pathlib.Path, tmp_path: pathlib.Path, kept: str) -> None:
    """Either index refuses the appends (put to Kafka's own classes), so the option builds both anew."""
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    log = (log_dir / timeindex(bases(sound)[-1])).with_suffix(".log")
    log.write_bytes(b"")
    for kind in ("index", "timeindex"):
        if kept not in (kind, "both"):
            log.with_suffix(f".{kind}").write_bytes(b"")
    told = (".", "--last-stop", "clean", *settings(WRITTEN_MS + DAY_MS, 7))
    rows = asked(log_dir, "doctor", *told)
    assert "writes-fail" in [row["what"] for row in rows if row["type"] == "ahead"]
    (command,) = [row["command"] for row in rows if row["type"] == "option" and "rebuild-index" in row["command"]]
    assert run_here(shlex.split(command)[1:], log_dir).status == 0
    assert "writes-fail" not in [row["what"] for row in asked(log_dir, "doctor", *told) if row["type"] == "ahead"]
    assert (log.with_suffix(".index").stat().st_size, log.with_suffix(".timeindex").stat().st_size) == (0, 0)


def test_both_dates_are_shown_and_the_cure(sound: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    _zeroed(log_dir / timeindex(0), 48, random.Random(1))
    text = " ".join(run_here(["retain", "t-0", *settings(WRITTEN_MS + DAY_MS, 7)], log_dir).out.decode().split())
    assert re.search(r"says 1970-01-01T00:00:00Z, its newest record is of 2026-11-20T00:00:00Z", text)
    assert "klogtool rebuild-index" in text


@pytest.mark.parametrize("days", [3, 40])
def test_the_lag_of_the_cleaner(sound: pathlib.Path, tmp_path: pathlib.Path, days: int) -> None:
    """A segment that a zeroed index makes old is cleaned too early; one with a date in the future never is."""
    log_dir = pathlib.Path(shutil.copytree(sound, tmp_path / "d"))
    file = log_dir / timeindex(0)
    is_young = days < 7
    entry = bytes(12) if is_young else (WRITTEN_MS + 900 * DAY_MS).to_bytes(8, "big") + bytes(4)
    file.write_bytes(entry)
    words = ["--now", str(WRITTEN_MS + days * DAY_MS), "--config", f"min.compaction.lag.ms={7 * DAY_MS}"]
    words += ["--config", "cleanup.policy=compact"]
    (doubt,) = answer(log_dir, "compact", "t-0", *words)["index_doubts"]
    assert doubt["effect"] == ("cleaned-too-early" if is_young else "kept-too-long")
    if not is_young:
        why = [row for row in asked(log_dir, "compact", "t-0", "--why", *words) if row["type"] == "answer"]
        assert "rebuild-index" in why[0]["reasons"][0]["cure"]
