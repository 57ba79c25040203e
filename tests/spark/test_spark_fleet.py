"""Several clusters and all their copies in one load: every row says whose it is, and none is missing."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pytest
from damage import flip_bit
from loading import data, make, name_of
from planned import given, read

from klogtool.errors import Refused
from klogtool.log.storage import Place
from klogtool.spark.findings import plan_parts, read_findings
from klogtool.spark.options import parse_query
from klogtool.spark.owners import OWNER
from klogtool.spark.tables import TABLES

SIZE = len(data(0))


@pytest.mark.parametrize("table", ["records", "batches", "segments", "left_out", "findings"])
@pytest.mark.parametrize("options", [{}, {"splitBytes": 1000}, {"minPartitions": 7}])
def test_all_copies_are_the_rows_of_each_and_say_whose_they_are(
    tmp_path: pathlib.Path, table: str, options: dict[str, Any]
) -> None:
    """Two clusters of two brokers, each with two log dirs; a copy of each is damaged, others are short."""
    alone, owners = [], set()
    for cluster, node, disk in itertools.product("XY", (1, 2), "ab"):
        log_dir = tmp_path / cluster / str(node) / disk
        log_dir.mkdir(parents=True)
        (log_dir / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id={node}\n")
        for topic in ("t", "u"):
            batches = {0: [data(n) for n in range(9)], 9: [data(n) for n in range(9, 9 + node)]}
            log = make(log_dir / f"{topic}-0", batches)
        flip_bit(log / name_of(0, "log"), 3 * SIZE + 70)
        owners.add((cluster, node, str(log_dir)))
        alone += rows_with_owner(log_dir, table, options)
    rows = rows_with_owner(tmp_path, table, options | {"copies": "all"})
    assert sorted(map(str, rows)) == sorted(map(str, alone))
    names = [f"_{name}" if table == "records" else name for name in OWNER]
    assert {tuple(row[name] for name in names) for row in rows} == owners


def rows_with_owner(path: pathlib.Path, table: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    if table == "findings":
        query = parse_query(given(path, {"table": table, **options}), [])
        batches = (b for part in plan_parts(query) for b in read_findings(part, tuple(TABLES[table]), deep=False))
        return [row for batch in batches for row in batch.to_pylist()]
    rows = read(path, table=table, mode="DROPMALFORMED", includeMetadata=True, **options)
    if table == "left_out":
        rows = rows.drop_columns(["first_offset", "last_offset"])  # known or not by what else a task reads
    return rows.to_pylist()


def test_whose_a_partition_dir_is_that_was_given_by_itself(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {0: data(0)})
    columns = "_cluster_id,_node_id,_log_dir"
    assert list(read(log, columns=columns).to_pylist()[0].values()) == [None, None, str(tmp_path)]
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=X\nnode.id=7\n")
    for path in (log, log / name_of(0, "log"), tmp_path):
        assert list(read(path, columns=columns).to_pylist()[0].values()) == ["X", 7, str(tmp_path)]
    (tmp_path / "meta.properties").write_text("version=99\n")
    assert read(log, columns=columns).to_pylist()[0]["_node_id"] is None


def test_a_stream_reads_one_copy() -> None:
    with pytest.raises(Refused, match="a stream reads one copy of each partition"):
        parse_query({"path": "/dev/null", "copies": "all"}, [], stream=True)


def test_the_same_path_of_two_hosts_is_two_files() -> None:
    one, other = Place("hdfs://a/logs"), Place("hdfs://b/logs")
    assert one.home != other.home
    assert one.home == Place("hdfs://a/logs/t-0").home
    assert Place("s3a://b/logs").home == Place("s3://b/logs/t-0").home
    assert Place("s3://b/logs?endpoint_override=x").home != Place("s3://b/logs?endpoint_override=y").home
    assert Place("/a/logs").home == Place("file:///b").home
