"""The table of findings, of log dirs on an S3 endpoint of this machine and on what fsspec opens."""

from __future__ import annotations

import os
import pathlib
import pickle
import tempfile
from collections import Counter
from typing import Any

import pytest
from live.test_spark_s3 import S3, s3
from running import FIXTURES
from test_spark_findings import verified

from klogtool.log.storage import open_place
from klogtool.spark.source import KlogDataSource
from klogtool.spark.tables import FINDINGS, arrow_schema

__all__ = ["s3"]
WOUNDED = FIXTURES / "killed-mid-append/logdir"


def rows(path: str, **options: str) -> list[str]:
    """As Spark would get them: planned and read by the source's reader, each split in a task of its own."""
    from pyspark.sql.pandas.types import from_arrow_schema

    source = KlogDataSource({"path": path, "table": "findings", **options})
    reader = source.reader(from_arrow_schema(arrow_schema("findings", tuple(FINDINGS))))
    splits = [pickle.loads(pickle.dumps(split)) for split in reader.partitions()]
    batches = [batch for split in splits for batch in reader.read(split)]
    return sorted(str(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("fixture", ["killed-mid-append", "metadata", "retention", "three-magics"])
def test_rows_are_those_of_a_copy_here(
    s3: S3, fixture: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = FIXTURES / fixture / "logdir"
    uri = s3.put(path, f"table/{fixture}")
    assert rows(uri, minPartitions="3") == verified(path, named=f"s3://logs/table/{fixture}")
    assert os.listdir(tmp_path) == []


def test_no_log_is_asked_for_twice(s3: S3) -> None:
    uri = s3.put(WOUNDED, "once")
    rows(uri, minPartitions="4")
    asked = Counter(name for _, name, _, _ in s3.server.gets())
    assert set(asked.values()) == {1}
    with_bytes = [log for log in WOUNDED.glob("*/*.log") if log.stat().st_size]
    assert len(asked) == len(with_bytes)
    assert sum(sent for *_, sent in s3.server.gets()) == sum(log.stat().st_size for log in with_bytes)


def test_spark_finds_what_is_there(s3: S3, spark: Any) -> None:
    uri = s3.put(WOUNDED, "session")
    found = spark.read.format("klog").option("table", "findings").load(uri).select(*FINDINGS).collect()
    assert sorted(str(row.asDict()) for row in found) == verified(WOUNDED, named="s3://logs/session")


def test_options_of_fsspec() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(WOUNDED), "/wounded", recursive=True)
    open_place.cache_clear()
    assert rows("memory://wounded", storageOptions="{}") == verified(WOUNDED, named="memory://wounded")
