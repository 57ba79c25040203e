"""Whatever damage does to a log: FAILFAST has each record or fails, and what others lack is told."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
from typing import Any

import pytest
from damage import flip_bit
from false_indexes import BASE_OFFSET_BYTES, BASES, BATCH_BYTES, HEADER_BYTES, move_batch, wound_log, write_sound
from here import HERE
from loading import name_of
from planned import read
from played import Stream
from running import run_here

import klogtool
from klogtool.errors import Corrupt, KlogError
from klogtool.spark.exporting import HowToExport, begin_export, carry_out_export

SEEDS = 80
LAST_BATCH = name_of(BASES[-2], "log"), BASES[-1] - 2
Batch = tuple[str, int]  # segment and position


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_sound(tmp_path_factory.mktemp("sound") / "t-0")


def wounded(sound: pathlib.Path, at: pathlib.Path, chance: random.Random) -> pathlib.Path:
    """A copy with one to three flipped bits: of base offsets, of headers, of anything; or with an offset twice."""
    folder = pathlib.Path(shutil.copytree(sound, at))
    kind = chance.randrange(4)
    if kind == 3:
        move_batch(folder, chance)
        return folder
    wound_log(folder, chance, (BASE_OFFSET_BYTES, HEADER_BYTES, range(BATCH_BYTES))[kind])
    return folder


def batches_of(table: Any) -> dict[Batch, list[tuple[int, bytes]]]:
    """The records by their batch, each as offset and value."""
    found: dict[Batch, list[tuple[int, bytes]]] = {}
    names = ("_segment", "_position", "offset", "value")
    for row in table.select(list(names)).to_pylist():
        found.setdefault((row["_segment"], row["_position"]), []).append((row["offset"], row["value"]))
    return found


def is_the_end(batch: Batch) -> bool:
    """Whether it is the last batch: a raised offset looks like a gap, a raised length like a batch being written."""
    segment, position = batch
    return segment == name_of(BASES[-2], "log") and position == (BASES[-1] - BASES[-2] - 2) // 2 * BATCH_BYTES


def verified(folder: pathlib.Path, work: pathlib.Path) -> list[dict[str, Any]]:
    """The errors that `verify` finds in a log, but for its end."""
    lines = map(json.loads, run_here(["verify", str(folder), "--format", "json"], work).out.splitlines())
    errors = [one for one in lines if one.get("severity") == "error" and one["path"].endswith(".log")]
    return [one for one in errors if not is_the_end((os.path.basename(one["path"]), one["start"]))]


def all_of(log_dir: pathlib.Path, most: int | None) -> list[tuple[int, int]]:
    """Partition and offset of the records that a stream gives."""
    stream, rows = Stream(log_dir), list[tuple[int, int]]()
    while more := stream.batch(most=most)[0]:
        rows += more
    return rows


def is_told(batch: Batch, places: list[dict[str, Any]]) -> bool:
    segment, position = batch
    return any(
        one["path"].endswith(segment) and one["start"] < position + BATCH_BYTES and one["end"] > position
        for one in places
    )


@pytest.mark.some(40)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_failfast_has_all_or_fails(sound: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = batches_of(read(sound, includeMetadata=True))
    folder = wounded(sound, tmp_path / "t-0", chance)
    errors = verified(folder, tmp_path)
    for options in ({}, {"splitBytes": 300}, {"maxRecordsPerPartition": 7}):
        try:
            found = batches_of(read(folder, includeMetadata=True, **options))
        except KlogError:
            pass
        else:
            assert [one for one in whole if found.get(one) != whole[one] and not is_the_end(one)] == [], options
            assert errors == []
        try:
            rows = read(folder, table="batches", mode="FAILFAST", **options).to_pylist()
        except KlogError:
            continue
        places = {(row["file"].rsplit("/")[-1], row["position"]) for row in rows}
        assert [one for one in whole if one not in places and not is_the_end(one)] == [], options


@pytest.mark.some(40)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("most", [None, 7])
def test_a_stream_has_all_or_fails(sound: pathlib.Path, tmp_path: pathlib.Path, most: int | None, seed: int) -> None:
    wounded(sound, tmp_path / "logs" / "t-0", random.Random(seed))
    try:
        rows = all_of(tmp_path / "logs", most)
    except KlogError:
        return
    assert [offset for _, offset in rows[: BASES[-1] - 2]] == [*range(BASES[-1] - 2)]


@pytest.mark.some(40)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_what_is_missing_is_left_out(sound: pathlib.Path, tmp_path: pathlib.Path, mode: str, seed: int) -> None:
    chance = random.Random(seed)
    whole = batches_of(read(sound, includeMetadata=True))
    folder = wounded(sound, tmp_path / "t-0", chance)
    table = read(folder, mode=mode, includeMetadata=True)
    found, unsound = batches_of(table), batches_of(table.filter([not ok for ok in table["_crc_ok"].to_pylist()]))
    places = read(folder, mode=mode, table="left_out").to_pylist()
    for batch, records in whole.items():
        values = [value for _, value in found.get(batch, [])]
        if values != [value for _, value in records] and batch not in unsound and not is_the_end(batch):
            assert is_told(batch, places), (batch, places)
    for one in places:
        assert one["reason"]
        assert one["start"] < one["end"]
    if not places:
        read(folder, mode=mode, failOnLeftOut=0)
        return
    with pytest.raises(KlogError):
        read(folder, mode=mode, failOnLeftOut=0)


@pytest.mark.some(20)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_scan_has_each_batch_or_tells(sound: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = batches_of(read(sound, includeMetadata=True))
    folder = wounded(sound, tmp_path / "t-0", chance)
    told: list[KlogError] = []
    table = klogtool.scan(folder, on_damage=told.append, resync=True).to_reader().read_all()
    found = batches_of(table)
    for batch, records in whole.items():
        if [value for _, value in found.get(batch, [])] != [value for _, value in records]:
            assert told or not all(table["_crc_ok"].to_pylist())


@pytest.mark.some(20)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_exports_tell_it_too(sound: pathlib.Path, tmp_path: pathlib.Path, seed: int) -> None:
    """`klogtool export` with status 1, `spark export` with an error that names file and byte."""
    chance = random.Random(seed)
    folder = wounded(sound, tmp_path / "logdir/t-0", chance)
    (folder.parent / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=c\n")
    done = run_here(["export", str(folder.parent), "--output", "out", "--format", "json"], tmp_path)
    lines = [json.loads(line) for line in done.out.splitlines()]
    (records,) = [line["records"] for line in lines if line["type"] == "exported"]
    left_out = [line for line in lines if line["type"] == "left_out"]
    assert done.status == (1 if left_out else 0)
    assert left_out or records >= BASES[-1] - 2
    export = begin_export(str(tmp_path / "by-spark"), HowToExport({"path": str(folder.parent)}), [])
    if not left_out and verified(folder, tmp_path) == []:
        carry_out_export(HERE, export)
        return
    with pytest.raises(KlogError, match=r"\.log: at byte"):
        carry_out_export(HERE, export)


LENGTH_BYTES = range(8, 12)


@pytest.mark.some(12)
@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("table", ["records", "batches"])
def test_each_bit_of_a_length(sound: pathlib.Path, tmp_path: pathlib.Path, table: str, bit: int) -> None:
    """Of the first, a middle and the last batch of each segment: also one that reaches past the end of the log."""
    for segment in sorted(sound.glob("*.log")):
        last = segment.stat().st_size // BATCH_BYTES - 1
        for batch in (0, last // 2, last):
            folder = pathlib.Path(shutil.copytree(sound, tmp_path / f"{segment.stem}.{batch}" / "t-0"))
            flip_bit(folder / segment.name, batch * BATCH_BYTES + LENGTH_BYTES[bit // 8], bit % 8)
            for options in ({}, {"splitBytes": 300}):
                with pytest.raises(Corrupt):
                    read(folder, table=table, mode="FAILFAST", **options)


def test_each_bit_of_a_base_offset(sound: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Of the first, a middle and the last batch of each segment."""
    silent = []
    for segment in sorted(sound.glob("*.log")):
        last = segment.stat().st_size // BATCH_BYTES - 1
        for batch in (0, last // 2, last):
            for bit in range(64):
                folder = tmp_path / f"{segment.stem}.{batch}.{bit}" / "t-0"
                shutil.copytree(sound, folder)
                flip_bit(folder / segment.name, batch * BATCH_BYTES + bit // 8, bit % 8)
                try:
                    read(folder)
                    silent.append((segment.name, batch))
                except Corrupt:
                    pass
                shutil.rmtree(folder.parent)
    assert set(silent) == {(LAST_BATCH[0], (BASES[-1] - BASES[-2]) // 2 - 1)}
