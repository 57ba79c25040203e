"""On every log dir of the corpora, what is spread over tasks is what one machine does."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from planned import by_klogtool, read, splits_of
from running import ROOT, Done
from test_spark_export import carried_out, how
from test_spark_export import rows_of as rows_of_files
from test_spark_findings import rows as findings_of
from test_spark_findings import verified
from test_spark_planning import ALL, checkpointed_starts, rows_of
from test_spark_sharing import check_alike
from test_spark_tables import lines

from klogtool.errors import Corrupt
from klogtool.spark.exporting import begin_export
from klogtool.spark.reading import PLACE_COLUMNS

CORPORA = ROOT.parent / "shared" / "corpus"
LOG_DIRS = sorted({path.parent for path in CORPORA.glob("*/**/meta.properties")})
DAMAGED = {"2.8.2-crash/logdir", "4.3.1-crash/logdir"}
pytestmark = pytest.mark.shared


def named(path: pathlib.Path) -> str:
    return str(path.relative_to(CORPORA))


@pytest.fixture(params=LOG_DIRS or [None], ids=lambda path: named(path) if path else "none")
def log_dir(request: pytest.FixtureRequest) -> pathlib.Path:
    if request.param is None:
        pytest.skip("no ../shared/corpus beside the project")
    found: pathlib.Path = request.param
    return found


def test_records(log_dir: pathlib.Path) -> None:
    """Those of damaged batches are for who asks for them."""
    splits = splits_of(log_dir, splitBytes=5000)
    folders = dict.fromkeys(os.path.dirname(piece.log.path) for split in splits for piece in split.parts)
    going_on: dict[str, Any] = {}
    if named(log_dir) in DAMAGED:
        going_on = {"resync": True, "on_damage": lambda *_: None}
    mode = "PERMISSIVE" if going_on else "FAILFAST"
    table, same = read(log_dir, **ALL, mode=mode, splitBytes=5000), by_klogtool(*folders, **going_on)
    starts = checkpointed_starts(log_dir)
    same = same.filter(pa.array([starts.get(tp, 0) <= offset for tp, offset in rows_of(same)], pa.bool_()))
    names = [name for name in table.column_names if name not in PLACE_COLUMNS]  # where a source read it
    assert table.select(names).equals(same.select(names))


def test_batches(log_dir: pathlib.Path, klogtool: Callable[..., Done]) -> None:
    rows = read(log_dir, table="batches").to_pylist()
    files = dict.fromkeys(row["file"] for row in rows)
    told = lines(klogtool("dump-log", *files, "--format", "json", "--resync"), "batch") if files else []
    assert len(rows) == len(told)
    for row, line in zip(rows, told, strict=True):
        same = {name: line[name] for name in row if name in line}
        assert {name: row[name] for name in same} == same


@pytest.mark.parametrize("deep", [False, True])
def test_findings(log_dir: pathlib.Path, deep: bool) -> None:
    assert findings_of(log_dir, minPartitions=20, deep=deep) == verified(log_dir, deep=deep)


def test_export(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    asked = how(log_dir, {"splitBytes": "5000"}, headers=True, metadata=True)
    if named(log_dir) in DAMAGED:
        with pytest.raises(Corrupt):
            carried_out(begin_export(str(tmp_path / "out"), asked, []))
        return
    carried_out(begin_export(str(tmp_path / "out"), asked, []))
    rows: list[dict[str, Any]] = read(log_dir, includeHeaders="true", includeMetadata="true").to_pylist()
    expected = sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    found = rows_of_files(tmp_path / "out")
    assert [{name: row[name] for name in expected[0]} for row in found] == expected if expected else not found


def test_compaction(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Partitions that are refused included: both leave them as they are."""
    check_alike(str(log_dir), tmp_path)
