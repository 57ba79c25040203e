"""`klogtool export`: each record once, whatever kills it; what is left out is said."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from loading import make
from raw_batches import build_batch
from remote_stores import tiered_log_dir
from running import FIXTURES, run_here, tree_of

import klogtool
from klogtool.disk.export_folder import ExportFolder
from klogtool.format.batch import Record
from klogtool.spark import growing_export
from klogtool.spark.growing_export import MANIFEST

pa = pytest.importorskip("pyarrow")
LOG_DIR = FIXTURES / "transactions/logdir"


class Killed(BaseException):
    pass


def export(*words: object, expected: int = 0) -> list[dict[str, Any]]:
    done = run_here(["export", *map(str, words), "--json"], FIXTURES)
    assert (done.status, "Traceback" in done.err) == (expected, False), done.err
    return [json.loads(line) for line in done.out.splitlines()]


def rows_in(output: pathlib.Path) -> list[tuple[Any, ...]]:
    """All rows that a reader of Parquet sees; in each file, offsets ascend."""
    import pyarrow.parquet as pq

    rows = []
    for path in output.glob("topic=*/day=*/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())
        days = {str(time.date()) for time in table["timestamp"].to_pylist()}
        assert days == {path.parent.name.removeprefix("day=")}
        topic = path.parent.parent.name.removeprefix("topic=")
        columns = [table[name].to_pylist() for name in ("partition", "offset", "key", "value")]
        rows += [(topic, *row) for row in zip(*columns, strict=True)]
    assert len(rows) == len(set(rows))
    return sorted(rows, key=lambda row: row[:3])


def rows_of(path: pathlib.Path) -> list[tuple[Any, ...]]:
    table = pa.table(klogtool.scan(path, with_control=False))
    names = ("topic", "partition", "offset", "key", "value")
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True), key=lambda row: row[:3])


@pytest.mark.parametrize("cluster_id", ["_Ojwraoj", "-Ojwraoj", ".Ojwraoj"])
def test_readers_of_parquet_see_each_file(tmp_path: pathlib.Path, cluster_id: str) -> None:
    """Spark, Hive and pyarrow pass over what begins with _ or a dot, and one in 64 ids of clusters begins with _."""
    import pyarrow.parquet as pq

    logs, output = pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs")), tmp_path / "out"
    (logs / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster_id}\n")
    export(logs, "--output", output)
    hidden = [path.name for path in output.rglob("*") if path.name.startswith(("_", "."))]
    assert hidden == [MANIFEST]
    assert pq.read_table(output).num_rows == len(rows_of(logs))


def test_a_second_run_adds_only_what_is_new(tmp_path: pathlib.Path) -> None:
    logs, output = pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs")), tmp_path / "out"
    last = max((logs / "t-0").glob("*.log"))
    data = last.read_bytes()
    last.unlink()
    export(logs, "--output", output)
    assert rows_in(output) == rows_of(logs)
    before = tree_of(output)
    last.write_bytes(data)
    kept = tree_of(logs)
    rows = export(logs, "--output", output)
    assert [row["partition"] for row in rows if row.get("records") and row["type"] == "exported"] == [0]
    assert rows_in(output) == rows_of(logs)
    after = tree_of(output)
    assert {name for name in before if before[name] != after.get(name) and name.endswith(".parquet")} == set()
    assert export(logs / "t-0", "--output", output)[-1]["records"] == 0
    assert tree_of(logs) == kept
    assert {path.name for path in output.iterdir() if not path.name.startswith("topic=")} == {MANIFEST}


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_step_leaves_nothing_half(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, everything = ExportFolder.publish, rows_of(LOG_DIR)
    for most in range(14):
        output, left = tmp_path / str(most), [most]

        def publish(self: ExportFolder, name: str, part: str, left: list[int] = left) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            really(self, name, part)

        monkeypatch.setattr(ExportFolder, "publish", publish)
        monkeypatch.setattr(ExportFolder, "end", lambda self: None)
        words = [LOG_DIR, "--output", output, "--max-file-bytes", "2000"]
        try:
            export(*words)
        except Killed:
            assert set(rows_in(output)) <= set(everything)
        monkeypatch.undo()
        export(*words)
        assert rows_in(output) == everything
        manifest = json.loads((output / MANIFEST).read_bytes())
        named = {file["name"] for one in manifest["partitions"] for file in one["files"]}
        assert named == {str(path.relative_to(output)) for path in output.rglob("*.parquet")}


@pytest.mark.parametrize("data", [b'{"partitions":[{"topic":"\xff"}]}', b"{", b"[" * 100_000, b'{"schema":"1"}'])
def test_a_damaged_manifest_is_no_reason_for_a_traceback(tmp_path: pathlib.Path, data: bytes) -> None:
    export(LOG_DIR, "--output", tmp_path)
    (tmp_path / MANIFEST).write_bytes(data)
    assert export(LOG_DIR, "--output", tmp_path, expected=2) == []


def test_what_damage_leaves_out_is_told_and_in_the_manifest(tmp_path: pathlib.Path) -> None:
    damaged = FIXTURES / "killed-mid-append/logdir/flip-bit-0"
    rows = export(damaged, "--output", tmp_path / "out", expected=1)
    (unread,) = (row for row in rows if row["type"] == "left_out")
    assert (unread["start"], unread["end"], unread["first_offset"], unread["last_offset"]) == (182, 256, 47, 47)
    (known,) = json.loads((tmp_path / "out" / MANIFEST).read_bytes())["partitions"]
    assert [one["start"] for one in known["left_out"]] == [182]
    offsets = [row[2] for row in rows_in(tmp_path / "out")]
    assert 47 not in offsets
    assert {46, 48} <= set(offsets)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("bit", [0, 2, 4, 5, 6, 33])
def test_no_record_is_lost_in_silence_to_a_false_base_offset(tmp_path: pathlib.Path, number: int, bit: int) -> None:
    """No checksum covers it. Of the last batch of all it may be true, where it is higher."""
    log_dir, bases = tmp_path / "log dir", (38, 40, 45, 48, 51)
    shutil.copytree(FIXTURES / "every-codec/logdir/append-0", log_dir / "t-0")
    sound, log = rows_of(log_dir), log_dir / "t-0/00000000000000000038.log"
    data, wrong = log.read_bytes(), bases[number] ^ 1 << bit
    at = data.index(bases[number].to_bytes(8, "big") + bytes(2))  # the upper half of the length
    log.write_bytes(data[:at] + wrong.to_bytes(8, "big") + data[at + 8 :])
    is_told = number < 4 or wrong < 51
    lines = export(log_dir, "--output", tmp_path / "out", expected=int(is_told))
    assert any(row["type"] == "left_out" for row in lines) == is_told
    assert (len(rows_in(tmp_path / "out")) < len(sound)) == is_told


def cut_to_batches(segment: pathlib.Path) -> None:
    ends = [batch.position for batch in klogtool.open(segment).batches()]
    os.truncate(segment, ends[len(ends) // 2])


def cut_in_a_batch(segment: pathlib.Path) -> None:
    os.truncate(segment, segment.stat().st_size - 1)


def test_an_object_that_is_missing_in_a_store_is_no_change(tmp_path: pathlib.Path) -> None:
    """The same command would never have it. What the reason says, typed, brings the rest."""
    log_dir, store = tiered_log_dir(tmp_path)
    output, whole = tmp_path / "out", rows_of(log_dir / "t-0")
    next(store.rglob(f"{40:020d}-*.log")).unlink()
    (row,) = [row for row in export(store, "--output", output, expected=1) if row["type"] == "exported"]
    assert "run the same command again" not in row["reason"]
    command = row["reason"].partition("): ")[2].partition(" brings back")[0]
    words = [{"STORE": str(store)}.get(word, word).replace("DIR/", f"{tmp_path}/") for word in command.split()[1:]]
    assert run_here(words, tmp_path).status == 1  # offsets are missing
    export(tmp_path / "t-0", "--output", output)
    assert rows_in(output) == [row for row in whole if not 40 <= row[2] < 80 and row[2] < 160]


@pytest.mark.parametrize("change", [pathlib.Path.unlink, cut_to_batches, cut_in_a_batch])
@pytest.mark.parametrize("segment_number", [0, -1])
def test_a_partition_that_changes_does_not_stop_the_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, segment_number: int, change: Callable[[pathlib.Path], None]
) -> None:
    """A broker deletes or cuts segments after they were listed and before they are read: that is no damage, and nobody
    takes what is left for all. The next run has the rest."""
    logs, output = pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs")), tmp_path / "out"
    segment = sorted((logs / "t-0").glob("*.log"))[segment_number]
    data, really, everything = segment.read_bytes(), growing_export.split, rows_of(logs)

    def split(query: Any, wanted: Any, bounds: Any) -> Any:
        found = really(query, wanted, bounds)
        if (wanted[0].copy.topic, wanted[0].copy.partition) == ("t", 0):
            change(segment)
        return found

    monkeypatch.setattr(growing_export, "split", split)
    rows = export(logs, "--output", output, "--max-file-bytes", "2000", expected=1)
    exported = {row["partition"]: row for row in rows if row["type"] == "exported" and row["topic"] == "t"}
    assert "changed while it was read" in exported[0]["reason"]
    assert [row for row in rows if row["type"] == "left_out"] == []
    assert exported[1]["reason"] is None
    assert [row for row in rows_in(output) if row[1] == 1] == [row for row in everything if row[1] == 1]
    monkeypatch.undo()
    segment.write_bytes(data)
    export(logs, "--output", output, "--max-file-bytes", "2000")
    assert rows_in(output) == everything


def batch(offset: int, epoch: int) -> bytes:
    return build_batch([Record(offset, 1_700_000_000_000, b"k", b"%d" % epoch)], partition_leader_epoch=epoch)


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        ([batch(0, 1), batch(1, 1)], "the log ends at offset 2, but offset 2 was exported: it was truncated"),
        (
            [batch(0, 1), batch(1, 1), batch(2, 3), batch(3, 3)],
            "offset 2 is of leader epoch 3, but was exported with 2",
        ),
        ([batch(5, 3)], "offsets 3 to 4 were deleted before they were exported"),
    ],
)
def test_a_log_that_does_not_continue_what_is_exported(later: list[bytes], reason: str, tmp_path: pathlib.Path) -> None:
    folder, output = tmp_path / "t-0", tmp_path / "out"
    make(folder, {0: [batch(0, 1), batch(1, 1), batch(2, 2)]})
    export(folder, "--output", output)
    (known,) = json.loads((output / MANIFEST).read_bytes())["partitions"]
    assert known["epochs"] == [
        {"leader_epoch": 1, "first_offset": 0, "last_offset": 1},
        {"leader_epoch": 2, "first_offset": 2, "last_offset": 2},
    ]
    shutil.rmtree(folder)
    make(folder, {5 if len(later) == 1 else 0: later})
    rows = export(folder, "--output", output, expected=1)
    assert reason in rows[1]["reason"]
    assert [row[2] for row in rows_in(output)] == ([0, 1, 2, 5] if len(later) == 1 else [0, 1, 2])


def test_where_no_export_may_be(tmp_path: pathlib.Path) -> None:
    logs = pathlib.Path(shutil.copytree(LOG_DIR, tmp_path / "logs"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    before = tree_of(tmp_path)
    for place in (logs, logs / "out", logs / "t-0/out", logs / "t-0", tmp_path / "full"):
        export(logs, "--output", place, expected=3)
    export(logs, "--output", tmp_path / "no/such", expected=2)
    assert tree_of(tmp_path) == before
    export(logs, "--output", tmp_path / "out")
    next((tmp_path / "out").rglob("*.parquet")).unlink()
    export(logs, "--output", tmp_path / "out", expected=3)
