"""Records of batches that are whole but for a length or a magic: verify, salvage and columns go by one rule."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from damage import flip_bit, overwrite

import klogtool
from klogtool.log.file import LogFile
from klogtool.render.arrow import LogPart, RecordQuery, walk_record_batches
from klogtool.salvage.mended_entries import mended

Path = pathlib.Path
LENGTH_AT, MAGIC_AT = 8, 16
WRONG = {
    "beyond the file": lambda log, at: overwrite(log, at + LENGTH_AT, b"\x7f\xff\xff\xff"),
    "some megabytes": lambda log, at: overwrite(log, at + LENGTH_AT, b"\x00\x4f\xff\xff"),
    "below zero": lambda log, at: overwrite(log, at + LENGTH_AT, b"\x80\x00\x00\x31"),
    "nothing": lambda log, at: overwrite(log, at + LENGTH_AT, bytes(4)),
    "magic": lambda log, at: flip_bit(log, at + MAGIC_AT, 7),
}


@pytest.fixture
def partition(copy_of: Callable[[str], Path]) -> Path:
    return copy_of("leader-epochs/logdir/t-0")


def batches_of(log: Path) -> list[Any]:
    return list(klogtool.Segment(str(log)).batches())


def offsets_of(log: Path, jobs: int | None = None, **part: int) -> tuple[list[int], list[str]]:
    """All offsets that are read, and what is told of damage."""
    pytest.importorskip("pyarrow")
    told: list[str] = []
    query = RecordQuery(resync=True, on_damage=lambda error: told.append(str(error)), jobs=jobs)
    with LogFile(log) as file:
        rows = walk_record_batches(file, LogPart("t", 0, **part), query)
        return [offset for batch in rows for offset in batch.column("offset").to_pylist()], told


@pytest.mark.parametrize("wound", WRONG)
@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_batch_that_verify_calls_whole_is_read(partition: Path, number: int, wound: str) -> None:
    log = partition / f"{0:020d}.log"
    whole, batch = offsets_of(log)[0], batches_of(log)[number]
    WRONG[wound](log, batch.position)
    findings = klogtool.open(partition).verify()  # type: ignore[union-attr]
    named = [(f.id, f.field) for f in findings if f.start == batch.position]
    offsets, told = offsets_of(log)
    assert named in ([("batch-header", "length")], [("batch-header", "magic")])
    assert offsets == whole
    assert told, "it is told all the same"


def test_bytes_that_prove_nothing_are_passed_over_as_before(partition: Path) -> None:
    log = partition / f"{0:020d}.log"
    whole, batch = offsets_of(log)[0], batches_of(log)[3]
    WRONG["beyond the file"](log, batch.position)
    flip_bit(log, batch.position + batch.size - 1, 0)  # under the checksum
    with LogFile(log) as file:
        assert mended(file, end=file.size) is file
    offsets, told = offsets_of(log)
    assert [offset for offset in whole if not batch.base_offset <= offset <= batch.last_offset] == offsets
    assert any("are not a batch: skipped" in line for line in told)


def test_part_of_a_log_is_read_by_the_same_rule(partition: Path) -> None:
    log = partition / f"{0:020d}.log"
    batches = batches_of(log)
    start, wounded, end = batches[2], batches[3], batches[5]
    part = {"start": start.position, "end": end.position}
    whole = offsets_of(log, **part)[0]
    WRONG["beyond the file"](log, wounded.position)
    assert offsets_of(log, **part)[0] == whole
