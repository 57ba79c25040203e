"""What a task of an export writes, without Spark: every record once, in its folder, as asked."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planned import by_klogtool, read
from running import ROOT

from klogtool.errors import Corrupt, StalePlan
from klogtool.spark.converting import Form, converted, days_of, target_schema
from klogtool.spark.exporting import (
    Export,
    HowToExport,
    begin_export,
    export_split,
    resume_export,
    totals_of,
)

FIXTURES = ROOT / "fixtures"
TRANSACTIONS = FIXTURES / "transactions/logdir"


def how(path: Any, options: dict[str, str] | None = None, **more: Any) -> HowToExport:
    return HowToExport({"paths": json.dumps([os.fspath(path)]), **(options or {})}, **more)


def carried_out(export: Export) -> list[dict[str, Any]]:
    """As carry_out_export does it, each split in its turn."""
    done = export.dataset.done()
    for n, split in enumerate(export.splits):
        if n not in done:
            done[n] = export_split(export.dataset.path, export.how, (n, split))
    messages = [done[n] for n in sorted(done)]
    export.dataset.commit(messages)
    return messages


def rows_of(folder: pathlib.Path) -> list[dict[str, Any]]:
    """All rows, with what the folders say, in order of topic, partition and offset."""
    found = []
    for path in folder.rglob("*.parquet"):
        names = dict(part.split("=") for part in path.relative_to(folder).parts[:-1])
        found += [row | names for row in pq.read_table(path, partitioning=None).to_pylist()]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize("fixture", ["transactions", "every-codec", "three-magics", "compacted", "retention"])
@pytest.mark.parametrize("split_bytes", [1 << 27, 3000])
def test_every_record_is_there_once(fixture: str, split_bytes: int, tmp_path: pathlib.Path) -> None:
    path = next(p for p in (FIXTURES / fixture / "logdir", FIXTURES / fixture / "result-2") if p.exists())
    asked = how(path, {"splitBytes": str(split_bytes)}, headers=True, metadata=True)
    messages = carried_out(begin_export(str(tmp_path / "out"), asked, []))
    expected = sorted(
        read(path, includeHeaders="true", includeMetadata="true").to_pylist(),
        key=lambda row: (row["topic"], row["partition"], row["offset"]),
    )
    found = rows_of(tmp_path / "out")
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert sum(total.rows for total in totals_of(messages)) == len(expected) > 0
    assert sum(total.bytes for total in totals_of(messages)) == sum(
        p.stat().st_size for p in (tmp_path / "out").rglob("*.parquet")
    )


def test_by_day_each_record_is_in_the_folder_of_its_day(tmp_path: pathlib.Path) -> None:
    carried_out(begin_export(str(tmp_path / "out"), how(FIXTURES / "retention/logdir", by_day=True), []))
    found = rows_of(tmp_path / "out")
    assert len({row["day"] for row in found}) > 1
    assert all(row["timestamp"].date().isoformat() == row["day"] for row in found)


def test_committed_only(tmp_path: pathlib.Path) -> None:
    asked = how(TRANSACTIONS, {"kafka.isolation.level": "read_committed", "subscribe": "t"})
    carried_out(begin_export(str(tmp_path / "out"), asked, []))
    assert len(rows_of(tmp_path / "out")) == 56 < by_klogtool(TRANSACTIONS / "t-0", TRANSACTIONS / "t-1").num_rows


def test_what_is_resumed_is_what_was_begun(tmp_path: pathlib.Path) -> None:
    """Done splits are not read again, and records that came meanwhile are not among the rows."""
    source = tmp_path / "logdir"
    shutil.copytree(TRANSACTIONS, source)
    begun = begin_export(str(tmp_path / "out"), how(source, {"minPartitions": "6"}), [])
    expected = read(source).num_rows
    assert len(begun.splits) > 2
    export_split(begun.dataset.path, begun.how, (0, begun.splits[0]))
    first = begun.splits[0].parts[0].log.path
    last = max((source / "t-0").glob("*.log"))
    with open(last, "ab") as log:
        log.write(last.read_bytes())
    again = resume_export(str(tmp_path / "out"))
    assert (again.how, again.splits) == (begun.how, begun.splits)
    os.truncate(first, 0)  # it is done: nobody looks at it
    carried_out(again)
    assert len(rows_of(tmp_path / "out")) == expected


def test_a_file_that_became_shorter_is_another_one(tmp_path: pathlib.Path) -> None:
    shutil.copytree(TRANSACTIONS, tmp_path / "logdir")
    export = begin_export(str(tmp_path / "out"), how(tmp_path / "logdir"), [])
    os.truncate(export.splits[0].parts[0].log.path, 10)
    with pytest.raises(StalePlan):
        export_split(export.dataset.path, export.how, (0, export.splits[0]))


def test_damage_ends_it_and_leaves_nothing_of_the_attempt(tmp_path: pathlib.Path) -> None:
    export = begin_export(str(tmp_path / "out"), how(FIXTURES / "killed-mid-append/logdir"), [])
    with pytest.raises(Corrupt):
        carried_out(export)
    assert [name for name in os.listdir(tmp_path / "out/_klogtool") if name != "plan.json"] == []
    assert os.listdir(tmp_path / "out") == ["_klogtool"]


# Keys and values.


def batch(values: list[bytes | None]) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "value": pa.array(values, pa.binary()),
            "offset": list(range(count)),
        }
    )


def values_as(form: str, values: list[bytes | None], *, is_strict: bool = False) -> tuple[list[Any], int]:
    wanted = Form(value=form)
    rows = batch(values)
    found, invalid = converted(rows, target_schema(rows.schema, wanted), wanted, is_strict=is_strict)
    column = found.column("value")
    return (column.storage if hasattr(column, "storage") else column).to_pylist(), invalid


def test_values_as_they_are() -> None:
    assert values_as("binary", [b"\xff", None, b""]) == ([b"\xff", None, b""], 0)


def test_text_has_a_sign_for_what_is_none() -> None:
    assert values_as("string", [b"a\xffb", None, b"", "ä".encode()]) == (["a\ufffdb", None, "", "ä"], 0)


def test_what_is_no_json_is_null_and_counted() -> None:
    values = [b'{"a": 1}', b"nonsense", None, b"", b"NaN", b"\xff", b"[" * 100_000]
    assert values_as("json", values) == (['{"a": 1}', None, None, None, None, None, None], 5)


def test_what_is_no_json_is_damage_where_damage_is_the_end() -> None:
    with pytest.raises(Corrupt, match="the value of t-0 at offset 1 is not valid JSON"):
        values_as("json", [b"1", b"x"], is_strict=True)


def test_json_is_marked_as_such_in_the_file(tmp_path: pathlib.Path) -> None:
    asked = how(FIXTURES / "every-codec/logdir", {"mode": "PERMISSIVE"}, form=Form("string", "json"))
    carried_out(begin_export(str(tmp_path / "out"), asked, []))
    schema = pq.ParquetFile(next((tmp_path / "out").rglob("*.parquet"))).schema
    kinds = {schema.column(n).name: str(schema.column(n).logical_type) for n in range(len(schema))}
    assert (kinds["key"], kinds["value"]) == ("String", "JSON")


def test_days_before_the_epoch_and_without_a_time() -> None:
    times = pa.array([-1000, 0, 86_400_000_000, 5], pa.timestamp("us", "UTC"))
    found = {day: part.num_rows for day, part in days_of(pa.RecordBatch.from_pydict({"timestamp": times}))}
    assert found == {"1969-12-31": 1, "1970-01-01": 2, "1970-01-02": 1}
