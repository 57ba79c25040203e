"""The plugin of pytest, as somebody has it who installed klogtool: found by its entry point, and light."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from verifying import NOW_MS

from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.log.partition import Partition
from klogtool.testing import LogDirBuilder, assert_log_clean, assert_records, broker_would

Path = pathlib.Path


def test_a_log_dir_of_records(log_dir: LogDirBuilder) -> None:
    orders = log_dir.partition("orders-0")
    orders.append([("a", "1"), (b"b", None), {"key": "c", "headers": {"trace": b"\xff"}}], codec="gzip")
    orders.append([Record(7, 1_700_000_000_000, b"d", b"4")], leader_epoch=3)
    assert_log_clean(log_dir, now_ms=NOW_MS)
    assert_records(
        orders.path,
        [
            {"offset": 0, "key": "a", "value": "1", "timestamp": 1_704_067_200_000},
            {"offset": 1, "key": "b", "value": None, "headers": []},
            {"offset": 2, "key": "c", "headers": [("trace", b"\xff")]},
            {"offset": 7, "key": "d", "timestamp": 1_700_000_000_000},
        ],
    )
    batches = list(Partition(str(orders.path)).segments[0].batches())
    assert [(batch.codec, batch.partition_leader_epoch) for batch in batches] == [("gzip", 0), ("none", 3)]
    assert broker_would(log_dir).is_well


def test_transactions_and_segments_and_a_clock(log_dir: LogDirBuilder) -> None:
    log_dir.set(clock="2023-01-01T00:00:00Z", kafka="3.9.2", config={"retention.ms": 1000})
    orders = log_dir.partition("orders-0", config={"index.interval.bytes": 100})
    orders.transaction([("a", "1")], producer=7).transaction([("b", "2")], producer=7, end="abort")
    orders.roll().wait(60_000).append([("c", "3")]).gap(10).generate(records=100, seed=1, keys=5)
    orders.transaction([("d", "4")], producer=8, end=None)
    assert_log_clean(log_dir, now_ms=NOW_MS)
    assert [segment.base_offset for segment in Partition(str(orders.path)).segments] == [0, 4]
    start = 1_672_531_200_000
    assert_records(
        orders.path / f"{0:020d}.log", [{"offset": 0, "timestamp": start}, {"offset": 2, "key": "b"}], kafka="3.9.2"
    )
    with pytest.raises(AssertionError, match="2 expected, 102 records found"):
        assert_records(orders.path, [("a", "1"), ("c", "3")], isolation="read_committed")


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_magic(magic: int, log_dir: LogDirBuilder) -> None:
    orders = log_dir.partition("orders-0", magic=magic).append([("a", "1"), ("b", "2")], codec="lz4")
    assert_records(orders.path, [("a", "1"), ("b", "2")])
    assert_log_clean(log_dir)


def test_several_partitions_and_wounds(log_dir: LogDirBuilder) -> None:
    for name in ("orders-0", "orders-1"):
        log_dir.partition(name).append([("a", name)]).append([("b", name)])
    log_dir.set(log_dir={"stop": "unclean"}).wound("flip_bit", "orders-1", batch=0).wound(
        "forge_checkpoint", checkpoint="recovery-point-offset-checkpoint", partition="orders-1", offset=0
    )
    verdict = broker_would(log_dir)
    assert (verdict.lost_in("orders-0"), verdict.lost_in("orders-1")) == (0, 1)


def test_the_same_calls_make_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        log_dir = LogDirBuilder(folder)
        log_dir.partition("orders-0").generate(records=50).transaction([("a", "b")], producer=1)
        log_dir.build()
    names = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    assert len(names) > 5
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_a_spec_makes_a_log_dir(log_dir: LogDirBuilder, tmp_path: Path) -> None:
    path = log_dir.build_spec(b"partitions: [{topic: t, log: [{batch: {records: [{key: a}]}}]}]")
    assert_records(path / "t-0", [("a", None)])
    spec = tmp_path / "spec.yaml"
    spec.write_text("partitions: [{topic: t, partition: 5}]\n")
    assert_records(LogDirBuilder(tmp_path / "other").build_spec(spec) / "t-5", [])


def test_an_empty_log_dir(log_dir: LogDirBuilder) -> None:
    assert_log_clean(log_dir.build())
    assert broker_would(log_dir).is_well


def test_what_cannot_be_is_an_error(tmp_path: Path) -> None:
    def new() -> LogDirBuilder:
        return LogDirBuilder(tmp_path / "x")

    with pytest.raises(KlogError, match="'orders' is not the name of a partition"):
        new().partition("orders")
    with pytest.raises(KlogError, match="a transaction ends by commit, abort or None"):
        new().partition("orders-0").transaction([], producer=1, end="maybe")
    with pytest.raises(KlogError, match="record 0 has the field 'vlaue'"):
        new().partition("orders-0").append([{"vlaue": 1}])
    with pytest.raises(KlogError, match=r"partitions\[0\].log\[0\].batch.codec: invalid enum value 'zip'"):
        new().partition("orders-0").append([("a", "b")], codec="zip").path  # noqa: B018
    with pytest.raises(KlogError, match="there is no wound 'tear'"):
        new().wound("tear").build()
    assert list(tmp_path.iterdir()) == []
    log_dir = new()
    log_dir.partition("orders-0", magic=1)
    with pytest.raises(KlogError, match="orders-0 has its fields already"):
        log_dir.partition("orders-0", magic=2)
    log_dir.build()
    with pytest.raises(KlogError, match="this log dir is made already"):
        log_dir.partition("orders-0")


TESTS = """\
import sys

HEAVY = {"msgspec", "construct", "rich", "click", "yaml", "klogtool.errors"}


def test_nothing_was_imported_before():
    assert not HEAVY & set(sys.modules)


def test_the_fixture(log_dir):
    from klogtool.testing import assert_records
    path = log_dir.partition("orders-0").append([("a", "1")]).path
    assert_records(path, [("a", "2")])
"""


@pytest.mark.slow
def test_the_plugin_is_found_by_its_entry_point_and_is_light(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q", "."]
    command += ["--basetemp", str(tmp_path / "temp")]  # else it deletes what earlier runs have left: minutes
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert (
        "E       AssertionError: orders-0 has other records than expected: 1 expected, 1 record found." in done.stdout
    )
    assert "\nE         - key 'a'  value '2'\n" in done.stdout
    assert "klogtool/testing/records.py" not in done.stdout.replace("\\", "/")
