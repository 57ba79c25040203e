"""The scripts of docs/examples/jobs that need Spark, run as somebody runs them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from live.test_spark_writes import in_order, rows_of
from loading import data, make
from running import FIXTURES, ROOT

pytestmark = pytest.mark.timeout(900)  # each job starts a Spark of its own: minutes on a busy machine
JOBS = ROOT / "docs/examples/jobs"
LOG_DIR = FIXTURES / "transactions" / "logdir"


def printed(job: str, *paths: object) -> list[list[str]]:
    """The rows that a job prints."""
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, JOBS / job, *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_two_clusters_compared(tmp_path: pathlib.Path) -> None:
    """A record with another time, and one that is missing: each is told of its side."""
    one, other = tmp_path / "one", tmp_path / "other"
    for log_dir in (one, other):
        shutil.copytree(LOG_DIR, log_dir)
        make(log_dir / "same-0", {0: [data(n) for n in range(5)]})
    make(one / "orders-0", {0: [data(n) for n in range(6)]})
    make(other / "orders-0", {0: [data(n, time_ms=1 if n == 2 else None) for n in range(5)]})
    found = printed("compare_clusters.py", one, other)
    assert found == [[str(one), "orders", "0", "2", "2", "5"], [str(other), "orders", "0", "1", "2", "2"]]
    assert printed("compare_clusters.py", one, one) == []


def test_a_topic_rebuilt_from_iceberg(spark: Any, tmp_path: pathlib.Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    rows = rows_of(spark, LOG_DIR)
    (tmp_path / "lake").mkdir()
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalog = SqlCatalog("lake", **where)
    catalog.create_namespace("kafka")
    table = catalog.create_table("kafka.topics", schema=rows.toArrow().schema)
    for half in ("offset % 2 = 0", "offset % 2 = 1"):
        table.append(rows.where(half).toArrow())
    out = tmp_path / "out"
    assert printed("rebuild_from_iceberg.py", table.metadata_location, out) == [[str(rows.count())]]
    assert in_order(rows_of(spark, out)) == in_order(rows)
