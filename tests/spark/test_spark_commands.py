"""The commands on Spark say what those on one machine say; the tasks run here, one after the other."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from deciding import compact_question
from here import HERE, Context, Rows
from loading import data
from page_structure import Structure
from planned import read
from running import ROOT, run_here

from klogtool.broker.circumstances import CLEAN, Circumstances
from klogtool.disk.assembling import Assembly
from klogtool.disk.dataset import Dataset
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.java_numbers import MAX_LONG
from klogtool.log.opened import open_path
from klogtool.plans.compact import CompactQuestion
from klogtool.render.inventory import InventoryRow, inventory_page, inventory_text, totals_of
from klogtool.render.spark_text import findings_text
from klogtool.spark.compacting import compact_with_spark, find_folders, of_topics
from klogtool.spark.inventory import find_fleet, inventory_schema, take_inventory, write_inventory
from klogtool.spark.spreading import packed, spread
from klogtool.spark.verifying import verify_with_spark, write_findings
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary, VerifyOptions, verify

FIXTURES = ROOT / "fixtures"
NOW = Circumstances(now_ms=MAX_LONG)


def log_dirs() -> Iterator[str]:
    for path in sorted(FIXTURES.glob("*/**/")):
        try:
            open_path(path)
        except KlogError:
            continue
        if any((path / name).exists() for name in ("meta.properties", "recovery-point-offset-checkpoint")):
            yield str(path)


def test_there_are_log_dirs_to_try() -> None:
    assert len(list(log_dirs())) >= 11


# spread


def half(number: int) -> int:
    if number % 2:
        raise Corrupt("odd", path=str(number), position=number)
    return number // 2


def test_what_comes_back_is_in_order_whatever_is_begun_first() -> None:
    assert spread(HERE, half, [2, 8, 4], sizes=[1, 3, 2]) == [1, 4, 2]
    assert spread(HERE, half, []) == []


def test_the_first_error_of_ours_is_raised_with_its_place() -> None:
    with pytest.raises(Corrupt) as told:
        spread(HERE, half, [2, 5, 3], sizes=[1, 2, 3])
    assert str(told.value) == "5: at byte 5: odd"


def test_packed_keeps_order_and_never_splits_one() -> None:
    assert list(packed([1, 2, 9, 1], lambda n: n, 3)) == [([1, 2], 3), ([9], 9), ([1], 1)]
    assert list(packed([], lambda n: n, 3)) == []


# verify


def without_seconds(found: list[Finding | Summary]) -> list[Any]:
    *findings, summary = found
    assert isinstance(summary, Summary)
    summary.seconds = 0.0
    return [*findings, {name: getattr(summary, name) for name in summary.__struct_fields__}]


@pytest.mark.parametrize("path", list(log_dirs()))
@pytest.mark.parametrize("deep", [False, True])
def test_findings_are_those_of_one_machine(path: str, deep: bool) -> None:
    alone = list(verify([path], VerifyOptions(NOW, deep=deep)))
    assert without_seconds(list(verify_with_spark(HERE, [path], NOW, deep=deep))) == without_seconds(alone)


def test_several_log_dirs_are_those_of_one_broker(tmp_path: pathlib.Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(FIXTURES / "killed-mid-append/logdir", tmp_path / name)
    paths = [str(tmp_path / "one"), str(tmp_path / "other")]
    found = list(verify_with_spark(HERE, paths, NOW))
    assert {f.id for f in found if isinstance(f, Finding)} >= {"duplicate-partition", "meta-properties-conflict"}
    assert without_seconds(found) == without_seconds(list(verify(paths, VerifyOptions(NOW))))


def test_findings_as_a_table(tmp_path: pathlib.Path) -> None:
    path = str(FIXTURES / "killed-mid-append/logdir")
    found = [f for f in verify([path], VerifyOptions(NOW)) if isinstance(f, Finding)]
    rows = write_findings(Dataset.begin(str(tmp_path / "out"), [path], {}), found)
    table = pq.read_table(tmp_path / "out").to_pylist()
    assert rows == len(table) == len(found) > 10
    assert [(row["id"], row["severity"], row["path"], row["start"]) for row in table] == [
        (f.id, f.severity.value, f.path, f.start) for f in found
    ]
    assert {(row["topic"], row["partition"]) for row in table if row["id"] == "batch-crc"} == {("flip-bit", 0)}


def test_the_terminal_shows_how_many_there_are_of_each_kind() -> None:
    *findings, summary = verify([str(FIXTURES / "killed-mid-append/logdir")], VerifyOptions(NOW))
    lines = list(findings_text([f for f in findings if isinstance(f, Finding)], summary, 1))  # type: ignore[arg-type]
    assert lines[0].split()[:3] == ["error", "batch-crc", "1"]
    assert lines[-1].endswith("Exit status 1.")
    assert any(line.split()[:3] == ["warning", "timeindex-missing", "5"] for line in lines)


# inventory


def inventory(*paths: str | pathlib.Path) -> list[InventoryRow]:
    return take_inventory(
        HERE, find_fleet([os.fspath(path) for path in paths]), Circumstances(now_ms=MAX_LONG, last_stop=CLEAN)
    )


@pytest.mark.parametrize("fixture", ["transactions", "three-magics", "every-codec", "retention", "two-disks"])
def test_an_inventory_counts_what_the_headers_tell(fixture: str) -> None:
    path = FIXTURES / fixture / "logdir"
    rows, segments = inventory(path), read(path, table="segments").to_pylist()
    assert sum(row.batches for row in rows) == sum(segment["batches"] for segment in segments) > 0
    assert sum(row.records for row in rows) == sum(segment["records"] for segment in segments)
    assert sum(row.bytes for row in rows) == sum(segment["size"] for segment in segments)
    assert totals_of(rows)["segments"] == len(segments)
    assert sum(n for row in rows for n in row.batch_sizes.values()) == sum(row.batches for row in rows)
    assert all(list(row.columns()) == inventory_schema().names for row in rows)


def test_copies_and_topic_ids_that_do_not_fit(tmp_path: pathlib.Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / name)
    metadata = tmp_path / "other/t-0/partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    rows = [row for row in inventory(tmp_path) if row.topic == "t"]
    assert {row.copies for row in rows} == {2}
    assert all(row.other_topic_id for row in rows)
    assert len({row.topic_id for row in rows}) == 2


def test_headroom_is_what_retain_would_delete(tmp_path: pathlib.Path) -> None:
    path = FIXTURES / "retention/logdir"
    rows = {str(row): row for row in inventory(path)}
    told = run_here(["retain", str(path), "--now", str(MAX_LONG), "--last-stop", "clean", "--format", "json"], ROOT)
    plans = [row for line in told.out.splitlines() if (row := json.loads(line))["type"] == "plan"]
    due = {
        os.path.basename(plan["path"]): sum(
            (pathlib.Path(plan["path"]) / f"{d['segment']:020d}.log").stat().st_size
            for d in plan["answer"]["deletions"]
        )
        for plan in plans
        if "deletions" in plan["answer"]
    }
    sizes = {name: rows[name].due_bytes for name in due}
    assert sizes == due
    assert any(due.values())


def test_a_damaged_log_is_counted_up_to_there(tmp_path: pathlib.Path) -> None:
    """Zeros are what a preallocated log ends with; other bytes that are no batch are damage."""
    log_dir = tmp_path / "logs"
    shutil.copytree(FIXTURES / "killed-mid-append/logdir/zero-tail-0", log_dir / "zero-tail-0")
    (sound,) = inventory(log_dir)
    assert sound.damage is None
    with open(max((log_dir / "zero-tail-0").glob("*.log")), "ab") as log:
        log.write(b"no batch" * 20)
    (row,) = inventory(log_dir)
    assert "zero-tail-0" in row.damage
    assert row.batches == sound.batches > 0


@pytest.mark.slow
def test_an_inventory_in_all_its_forms(tmp_path: pathlib.Path) -> None:
    rows = inventory(*FIXTURES.glob("*/logdir"))
    with open(tmp_path / "i.parquet", "wb") as sink:
        write_inventory(rows, sink)
    table = pq.read_table(tmp_path / "i.parquet").to_pylist()
    assert [dict(row["codecs"]) for row in table] == [row.codecs for row in rows]
    assert [row["folder"] for row in table] == [row.folder for row in rows]
    text = list(inventory_text(rows))
    assert len(text) > 20
    page = inventory_page(rows, ["/disks/<1>"], 0)
    assert page.count("<svg") == page.count("</svg>") >= 5
    assert Structure(page).wrong == []
    assert "/disks/&lt;1&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page


# compact

SETTINGS = compact_question(
    {"config": {"cleanup.policy": "compact"}, "now_ms": 1_790_000_000_000, "force": True, "jobs": 1}
)


def files_of(folder: pathlib.Path) -> dict[str, Any]:
    return {
        str(p.relative_to(folder)): (p.read_bytes() if p.is_file() else None, oct(p.stat().st_mode))
        for p in sorted(folder.rglob("*"))
    }


def compacted(paths: list[str], output: pathlib.Path, settings: CompactQuestion) -> Any:
    assembly = Assembly.begin(str(output), paths)
    try:
        folders = [folder for path in paths for folder in find_folders(path, settings)]
        return compact_with_spark(HERE, assembly, settings, folders)
    finally:
        assembly.abandon()


@pytest.mark.parametrize("path", [p for p in log_dirs() if "metadata" not in p and "killed" not in p])
def test_a_compacted_log_dir_is_that_of_one_machine(path: str, tmp_path: pathlib.Path) -> None:
    words = ["--force", "--now", "1790000000000", "--config", "cleanup.policy=compact", "--output", "alone"]
    assert run_here(["compact", path, *words], tmp_path).status in (0, 1)  # 1: the cleaner breaks off at partitions
    compacted([path], tmp_path / "spread", SETTINGS)
    assert files_of(tmp_path / "spread") == files_of(tmp_path / "alone")
    assert sorted(os.listdir(tmp_path)) == ["alone", "spread"]


def test_only_one_topic_is_cleaned(tmp_path: pathlib.Path) -> None:
    path = str(FIXTURES / "retention/logdir")
    folders = of_topics(find_folders(path, SETTINGS), ["size"])
    assembly = Assembly.begin(str(tmp_path / "out"), [path])
    done = {folder.name: plan for folder, plan in compact_with_spark(HERE, assembly, SETTINGS, folders)}
    compacted([path], tmp_path / "all", SETTINGS)
    before, every, one = (files_of(pathlib.Path(p)) for p in (path, tmp_path / "all", tmp_path / "out"))
    logs = [name for name in one if name.endswith(".log")]
    assert {name: one[name][0] for name in logs if name.startswith("size-0/")} == {
        name: every[name][0] for name in every if name.startswith("size-0/") and name.endswith(".log")
    }
    assert all(one[name][0] == before[name][0] for name in logs if not name.startswith("size-0/"))
    assert done["time-0"].answer["skipped"] == "its topic was not chosen"
    with pytest.raises(Refused, match="no such topic: sizes"):
        of_topics(find_folders(path, SETTINGS), ["sizes"])


@pytest.mark.slow
def test_thousands_of_small_partitions_are_few_tasks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every command that works on partitions; two cores get at most a dozen tasks for 150 partitions."""
    for n in range(150):
        folder = tmp_path / "logdir" / f"t-{n}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").write_bytes(data(0))
    path, tasks = str(tmp_path / "logdir"), list[int]()
    monkeypatch.setattr(Context, "parallelize", lambda _, items, slices: tasks.append(slices) or Rows(items))
    list(verify_with_spark(HERE, [path], NOW))
    assert len(take_inventory(HERE, find_fleet([path]), NOW)) == 150
    compacted([path], tmp_path / "out", SETTINGS)
    assert len(tasks) == 4
    assert max(tasks) <= 12


def test_several_log_dirs_lie_side_by_side(tmp_path: pathlib.Path) -> None:
    disks = [str(FIXTURES / "two-disks/logdir" / name) for name in ("d1", "d2")]
    compacted(disks, tmp_path / "out", SETTINGS)
    assert sorted(os.listdir(tmp_path / "out")) == ["d1", "d2"]
    with pytest.raises(Refused, match="same name"):
        Assembly.begin(str(tmp_path / "more"), [disks[0], str(FIXTURES / "groups/d1")])


def test_one_that_breaks_off_stays_and_the_others_are_done(tmp_path: pathlib.Path) -> None:
    shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "logdir")
    log = max((tmp_path / "logdir/t-0").glob("*.log"), key=lambda p: p.stat().st_size)
    log.write_bytes(log.read_bytes()[:-5] + b"\0" * 500)
    first = min((tmp_path / "logdir/t-0").glob("*.log"))
    first.write_bytes(b"\xff" * 100 + first.read_bytes())
    done = {
        folder.name: plan.answer for folder, plan in compacted([str(tmp_path / "logdir")], tmp_path / "out", SETTINGS)
    }
    assert [name for name, answer in done.items() if "error" in answer] == ["t-0"]
    assert files_of(tmp_path / "out/t-0") == files_of(tmp_path / "logdir/t-0")
    assert files_of(tmp_path / "out/t-1") != files_of(tmp_path / "logdir/t-1")


def test_a_checkpoint_that_ends_the_cleaner_refuses_all(tmp_path: pathlib.Path) -> None:
    shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "logdir")
    (tmp_path / "logdir/cleaner-offset-checkpoint").write_text("0\n1\nt 0 many\n")
    with pytest.raises(Corrupt, match="cannot be read"):
        compacted([str(tmp_path / "logdir")], tmp_path / "out", SETTINGS)
    assert os.listdir(tmp_path) == ["logdir"]
