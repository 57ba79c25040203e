"""Remote storage as a path of `format("klog")`: the rows that `klogtool read` and a fetched partition have."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pyarrow.compute as pc
import pytest
from planned import offsets, read, splits_of
from remote_stores import LOGS, SEALED, STORE, ZSTD, tiered_log_dir
from running import run_here
from test_spark_options import make_filter
from unreliable_storage import Unreliable, unreliable

from klogtool.errors import Corrupt, Refused, Unsupported
from klogtool.log.file import Unreadable
from klogtool.log.storage import StoredFile
from klogtool.spark.findings import plan_parts
from klogtool.spark.options import parse_query

__all__ = ["unreliable"]

Path = pathlib.Path
FOLDER = {name: next(STORE.glob(f"{name}-*")) for name in ("old-0", "orders-0", "orders-1", "pay-0")}
CHUNKED = next(ZSTD.glob("*/0"))
COMMITTED = {"kafka_isolation_level": "read_committed"}
SAME = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "_position")


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log dir, and a store with its closed segments."""
    return tiered_log_dir(tmp_path_factory.mktemp("tiered"), segments=8, partitions=2)


def by_read(path: Path, *words: str) -> list[int]:
    """Offsets of the records that `klogtool read` gives, fetch by fetch."""
    found: list[int] = []
    at, end = 0, 1
    while at < end:
        done = run_here(["read", str(path), "--offset", str(at), "--records", *words, "--json", "-q"], LOGS)
        at += 1  # of a batch whose records are not shown
        for row in map(json.loads, done.out.splitlines()):
            end = row.get("end_offset", end)
            if row["type"] == "record":
                found += [] if row.get("is_control") else [row["offset"]]
                at = row["offset"] + 1
    return found


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("name", ["old-0", "pay-0", "zstd"])
def test_the_rows_of_a_fetched_partition(unreliable: Unreliable, tmp_path: Path, name: str, elsewhere: bool) -> None:
    store, folder = (ZSTD, CHUNKED) if name == "zstd" else (STORE, FOLDER[name])
    partition = "pay-0" if name == "zstd" else name
    here = tmp_path / partition
    assert run_here(["remote", "fetch", str(store), partition, "--output", str(here)], tmp_path).status == 0
    place = f"far://{folder}" if elsewhere else folder
    options: list[dict[str, Any]] = [{}, {"splitBytes": 300}, {"maxRecordsPerPartition": 5}, COMMITTED]
    for more in options:
        more = more | {"includeHeaders": True, "includeMetadata": True}
        assert read(place, **more).select(SAME).equals(read(here, **more).select(SAME)), more
    end = max(offsets(read(here))) + 1
    for first in range(0, end, 3):
        bounds = {f"{which}Offsets": json.dumps({partition[:-2]: {"0": n}}) for which, n in (("starting", first),)}
        assert offsets(read(place, **bounds)) == offsets(read(here, **bounds))
    for table in ("batches", "left_out"):
        names = ["partition", "topic", *(["base_offset", "crc"] if table == "batches" else [])]
        assert read(place, table=table).select(names).equals(read(here, table=table).select(names))


def test_the_rows_that_read_gives() -> None:
    words = ("--isolation", "read_committed", "--committed-only")
    assert offsets(read(FOLDER["old-0"])) == by_read(FOLDER["old-0"])
    assert offsets(read(CHUNKED, **COMMITTED)) == by_read(CHUNKED, *words)


def test_a_store_is_partitioned_and_filters_leave_segments_out(
    unreliable: Unreliable, tiered: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir, store = tiered
    whole = read(f"far://{store}", splitBytes=3000)
    active = sorted((log_dir / "t-0").glob("*.log"))[-1]
    local = read(log_dir, subscribe="t")
    assert whole.equals(local.filter(pc.less(local["offset"], int(active.stem))))
    assert len(splits_of(store, splitBytes=3000)) > 4
    assert set(whole["partition"].to_pylist()) == {0, 1}
    seen: set[str] = set()
    read_range = StoredFile.read

    def read_seen(file: StoredFile, position: int, size: int) -> bytes:
        seen.add(Path(file.path).name)
        return read_range(file, position, size)

    monkeypatch.setattr(StoredFile, "read", read_seen)
    row = whole.slice(whole.num_rows // 3, 1).to_pylist()[0]
    for filters in (
        [make_filter("EqualTo", "offset", row["offset"])],
        [make_filter("GreaterThanOrEqual", "timestamp", row["timestamp"]), make_filter("EqualTo", "topic", "t")],
        [make_filter("EqualTo", "partition", row["partition"]), make_filter("EqualTo", "key", row["key"])],
    ):
        seen.clear()
        found = read(f"far://{store}", filters=filters).to_pylist()
        assert row in found
        if filters[0].attribute == ("offset",):
            assert len({name for name in seen if name.endswith(".log")}) <= 2 * 2


def test_one_log_is_a_path_too(tmp_path: Path) -> None:
    for folder in (FOLDER["old-0"], CHUNKED):
        logs = sorted(folder.glob("*.log"))
        assert [n for log in logs for n in offsets(read(log))] == offsets(read(folder))


def test_what_is_lost_is_an_error_or_told(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="not a whole batch"):
        read(FOLDER["orders-0"])
    calm = read(FOLDER["orders-0"], mode="PERMISSIVE")
    assert offsets(calm) == [*range(55), *range(60, 120)]
    lost = read(FOLDER["orders-0"], table="left_out").to_pylist()
    assert [(row["first_offset"], row["last_offset"]) for row in lost] == [(55, 59)]
    for mode in ("FAILFAST", "PERMISSIVE"):
        with pytest.raises(Unreadable, match="no such file"):
            read(FOLDER["orders-1"], mode=mode)
    behind = json.dumps({"orders": {"1": 30}})
    assert offsets(read(FOLDER["orders-1"], startingOffsets=behind)) == list(range(30, 60))
    shutil.copytree(CHUNKED.parent, tmp_path / CHUNKED.parent.name)
    next((tmp_path / CHUNKED.parent.name / "0").glob("*6-*.rsm-manifest")).unlink()
    with pytest.raises(Unreadable, match="rsm-manifest"):
        read(tmp_path)


def test_what_tasks_cannot_do_is_refused_with_the_way() -> None:
    with pytest.raises(Unsupported, match="encrypted with the key key1") as refused:
        read(SEALED)
    assert "klogtool remote fetch" in str(refused.value.cure)
    with pytest.raises(Refused, match="of log dirs") as without:
        plan_parts(parse_query({"path": str(ZSTD), "table": "findings"}, []))
    assert "klogtool remote verify" in str(without.value.cure)


def test_of_a_store_and_a_log_dir_one_copy_is_read() -> None:
    notes: list[str] = []
    splits_of(STORE, paths=json.dumps([str(STORE), str(LOGS)]), subscribe="pay", notes=notes)
    assert [note for note in notes if note.startswith("pay-0 was found 2 times")]
    every = splits_of(STORE, paths=json.dumps([str(STORE), str(LOGS)]), subscribe="pay", copies="all")
    assert len({Path(piece.log.path).parent for split in every for piece in split.parts}) == 2


def test_a_chunk_is_opened_once_for_its_headers(unreliable: Unreliable) -> None:
    before = unreliable.requests
    assert read(f"far://{CHUNKED}", table="batches", splitBytes=1 << 20).num_rows > 10
    assert unreliable.requests - before < 40
