"""The commands over log dirs on an S3 endpoint of this machine; the tasks run here, one after the other."""

from __future__ import annotations

import os
import pathlib
import shutil

import pyarrow.parquet as pq
import pytest
from here import HERE
from live.test_spark_s3 import S3, s3
from running import FIXTURES
from test_spark_export import carried_out, how

from klogtool.broker.circumstances import CLEAN, Circumstances
from klogtool.causes import Reason, words
from klogtool.disk.dataset import Dataset
from klogtool.format.java_numbers import MAX_LONG
from klogtool.spark.exporting import begin_export
from klogtool.spark.inventory import find_fleet, take_inventory
from klogtool.spark.verifying import verify_with_spark, write_findings
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary, VerifyOptions, verify

__all__ = ["s3"]
NOW = Circumstances(now_ms=MAX_LONG)


def told(found: Finding | Summary, root: str) -> object:
    if isinstance(found, Summary):
        return {name: getattr(found, name) for name in found.__struct_fields__ if name != "seconds"}
    names = ["detail" if name == "reason" else name for name in found.__struct_fields__]  # its sentence may have paths
    values = [words(value) if isinstance(value := getattr(found, name), Reason) else value for name in names]
    return tuple(value.replace(root, "ROOT") if isinstance(value, str) else value for value in values)


@pytest.mark.parametrize("fixture", ["killed-mid-append", "metadata", "retention", "three-magics"])
def test_findings_are_those_of_a_copy_here(s3: S3, fixture: str, tmp_path: pathlib.Path) -> None:
    path = FIXTURES / fixture / "logdir"
    uri = s3.put(path, f"found/{fixture}")
    before = set(os.listdir(os.environ.get("TMPDIR", "/tmp")))
    found = list(verify_with_spark(HERE, [uri], NOW))
    alone = list(verify([str(path)], VerifyOptions(NOW)))
    assert [told(one, f"s3://logs/found/{fixture}") for one in found] == [told(one, str(path)) for one in alone]
    left = set(os.listdir(os.environ.get("TMPDIR", "/tmp"))) - before
    assert not [name for name in left if name.startswith(("klogtool-mirror", "klogtool-partition"))]
    findings = [one for one in found if isinstance(one, Finding)]
    write_findings(Dataset.begin(str(tmp_path / "out"), [], {}), findings)
    table = pq.read_table(tmp_path / "out").to_pylist()
    assert {row["topic"] for row in table if row["id"] == "batch-crc"} <= {"flip-bit"}


def test_a_disk_here_and_one_there_are_those_of_one_broker(s3: S3, tmp_path: pathlib.Path) -> None:
    shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "one")
    uri = s3.put(tmp_path / "one", "two/other")
    found = list(verify_with_spark(HERE, [str(tmp_path / "one"), uri], NOW))
    doubled = [one for one in found if isinstance(one, Finding) and one.id == "duplicate-partition"]
    assert doubled
    assert all(one.path.startswith("s3://logs/two/other/") for one in doubled)


def test_an_inventory_reads_headers_only(s3: S3) -> None:
    path = FIXTURES / "transactions/logdir"
    uri = s3.put(path, "inventory/transactions")
    given = Circumstances(now_ms=MAX_LONG, last_stop=CLEAN)
    there, here = (
        [row.columns() for row in take_inventory(HERE, find_fleet([where]), given)] for where in (uri, str(path))
    )
    names = ("topic", "partition", "segments", "bytes", "batches", "records", "codecs", "topic_id", "log_end_offset")
    assert [[row[name] for name in names] for row in there] == [[row[name] for name in names] for row in here]
    assert {row["why_unknown"] for row in there} == {"not on this machine"}


def test_an_export_from_there_is_that_from_here(s3: S3, tmp_path: pathlib.Path) -> None:
    path = FIXTURES / "every-codec/logdir"
    uri = s3.put(path, "export/every-codec")
    for name, source in (("there", uri), ("here", path)):
        carried_out(begin_export(str(tmp_path / name), how(source), []))
    tables = [pq.read_table(tmp_path / name, partitioning=None).to_pylist() for name in ("there", "here")]
    assert tables[0] == tables[1] != []
