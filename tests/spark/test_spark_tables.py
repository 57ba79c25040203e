"""The tables of headers, segments and findings say what klogtool's commands say."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from damage import flip_bit, overwrite
from loading import data, make, name_of
from planned import given, read
from running import FIXTURES, Done

from klogtool.errors import Refused
from klogtool.spark.findings import plan_parts, read_findings
from klogtool.spark.options import parse_query
from klogtool.spark.tables import FINDINGS, arrow_schema, ddl

Klogtool = Callable[..., Done]
LOG_DIRS = [p for p in sorted(FIXTURES.glob("*/logdir")) if p.parent.name != "two-disks"]


def lines(done: Done, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, done.out.splitlines()) if line["type"] == kind]


@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda path: path.parent.name)
def test_batches_are_those_of_dump_log(log_dir: pathlib.Path, klogtool: Klogtool) -> None:
    rows = read(log_dir, table="batches").to_pylist()
    files = dict.fromkeys(row["file"] for row in rows)
    told = lines(klogtool("dump-log", *files, "--format", "json"), "batch")
    assert len(rows) == len(told)
    for row, line in zip(rows, told, strict=True):
        same = {name: line[name] for name in row if name in line}
        assert {name: row[name] for name in same} == same


def test_headers_behind_damage(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {0: [data(n) for n in range(30)]})
    overwrite(log / name_of(0, "log"), 7 * len(data(0)) + 8, bytes(4))
    assert [row["base_offset"] for row in read(log, table="batches").to_pylist()] == list(range(30))
    overwrite(log / name_of(0, "log"), 7 * len(data(0)) + 17, bytes(4))  # its checksum, too
    assert [row["base_offset"] for row in read(log, table="batches").to_pylist()] == [n for n in range(30) if n != 7]


def test_segments(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {0: [data(n, records=2) for n in range(0, 10, 2)], 10: data(10)})
    first, last = read(log, table="segments").to_pylist()
    size = len(data(0, records=2))
    assert (first["base_offset"], first["last_offset"], first["is_active"]) == (0, 9, False)
    assert (first["size"], first["valid_bytes"], first["largest_batch"]) == (5 * size, 5 * size, size)
    assert (first["batches"], first["records"], first["magics"], first["codecs"]) == (5, 10, [2], ["none"])
    assert first["index_size"] == 32  # of four batches, as the first one never has an entry
    assert (last["base_offset"], last["is_active"]) == (10, True)
    listed = read(log, table="segments", columns="file,size").to_pylist()
    assert listed == [{"file": row["file"], "size": row["size"]} for row in (first, last)]


def findings_of(path: pathlib.Path, **options: Any) -> list[dict[str, Any]]:
    query = parse_query(given(path, {"table": "findings", **options}), [])
    batches = [b for part in plan_parts(query) for b in read_findings(part, tuple(FINDINGS), deep=query.deep)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda path: path.parent.name)
def test_findings_are_those_of_verify(log_dir: pathlib.Path, klogtool: Klogtool) -> None:
    told = lines(klogtool("verify", log_dir, "--notes", "--format", "json"), "finding")
    found = findings_of(log_dir)
    for row in found:
        del row["topic"], row["partition"]
    assert sorted(map(key_of, found)) == sorted(map(key_of, told))


def key_of(row: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in row.items() if v is not None and k != "type"}, sort_keys=True)


def test_findings_say_which_partition(tmp_path: pathlib.Path) -> None:
    for n in range(3):
        make(tmp_path / f"t-{n}", {0: [data(n) for n in range(9)]})
    flip_bit(tmp_path / "t-1" / name_of(0, "log"), 70)
    assert [(row["topic"], row["partition"]) for row in findings_of(tmp_path) if row["id"] == "batch-crc"] == [("t", 1)]
    assert [row["id"] for row in findings_of(tmp_path / "t-1") if row["severity"] == "error"] == ["batch-crc"]


def test_columns_are_those_that_were_asked_for(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {0: data(0)})
    table = read(log, columns="offset, _segment,key")
    assert table.column_names == ["offset", "_segment", "key"]
    assert table.to_pylist() == [{"offset": 0, "_segment": name_of(0, "log"), "key": b"k"}]
    for columns in ("nope", "offset,offset"):
        with pytest.raises(Refused, match="no such column, or it was named twice"):
            read(log, columns=columns)


def test_types_are_those_that_klogtool_makes() -> None:
    from klogtool.render.arrow import schema

    for field in schema():
        if field.name in ("topic", "headers"):
            continue
        assert arrow_schema("records", (field.name,)).field(0).type == field.type, field.name
    assert ddl(arrow_schema("records", ("key", "offset"))) == "`key` binary, `offset` bigint"
