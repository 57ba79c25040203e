"""Zeros behind the end of a log are what a broker has preallocated: no table takes them for damage."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from arrow_tables import pa
from damage import tear_at
from loading import data, make, name_of
from running import run_here

import klogtool
from klogtool.errors import Corrupt

SIZES = (1, 5, 11, 12, 17, 18, 40, 4096, (1 << 20) + 3)


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    bases = (0, 60, 100, 160)
    return make(tmp_path / "t-0", {a: [data(n, records=2) for n in range(a, b, 2)] for a, b in pairwise(bases)})


def by_scan(log: pathlib.Path) -> list[int]:
    return [offset for batch in klogtool.scan(log).to_reader() for offset in batch["offset"].to_pylist()]


def by_columns(log: pathlib.Path) -> list[int]:
    return [offset for batch in klogtool.columns(log, jobs=1) for offset in batch["offset"].to_pylist()]


def by_dump_log(form: str) -> Callable[[pathlib.Path], list[int]]:
    def offsets(log: pathlib.Path) -> list[int]:
        target = log.parent / "rows"
        target.unlink(missing_ok=True)
        words = ["--output", str(target)] if form in ("arrow", "parquet") else []
        done = run_here(["dump-log", str(log), "--format", form, *words], log.parent)
        if done.status:
            raise Corrupt(done.err)
        assert "klogtool" not in done.err
        if words:
            found = pa.ipc.open_file(target) if form == "arrow" else None
            table = found.read_all() if found is not None else pytest.importorskip("pyarrow.parquet").read_table(target)
            listed: list[int] = table["offset"].to_pylist()
            return listed
        if form == "csv":
            lines = [line.split(",") for line in done.out.decode().splitlines()]
            return [int(line[lines[0].index("offset")]) for line in lines[1:]]
        assert b"trailing-bytes" not in done.out
        rows = [json.loads(line) for line in done.out.splitlines()]
        return [row["offset"] for row in rows if row["type"] == "record"]

    return offsets


TABLES = {"scan": by_scan, "columns": by_columns} | {f: by_dump_log(f) for f in ("arrow", "parquet", "csv", "json")}


@pytest.mark.parametrize("table", TABLES)
def test_zeros_behind_the_last_segment_are_the_end_in_any_other_they_are_damage(log: pathlib.Path, table: str) -> None:
    last, inner = log / name_of(100, "log"), log / name_of(60, "log")
    size = last.stat().st_size
    for zeros in SIZES:
        os.truncate(last, size + zeros)
        assert TABLES[table](log) == list(range(160)), zeros
    with last.open("ab") as file:  # a batch that was begun, and then zeros: more than a preallocated file has
        file.truncate(size)
        file.write(data(160)[:8] + bytes(100))
    with pytest.raises(Corrupt, match="record size 0"):
        TABLES[table](log)
    tear_at(last, size)
    size = inner.stat().st_size
    for zeros in SIZES if table != "csv" else SIZES[5:]:
        os.truncate(inner, size + zeros)
        with pytest.raises(Corrupt):
            TABLES[table](log)
    tear_at(inner, size)
    os.truncate(last, 1 << 20)  # a segment that nothing was written to yet
    last.write_bytes(bytes(1 << 20))
    assert TABLES[table](log) == list(range(100))
