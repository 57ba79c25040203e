"""A copied partition as another cluster adopts it: what changes, what stays, what is refused."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from bad_input import FILES_OF_A_PARTITION, MEMORY_BYTES, garbage_for, writable_copy
from running import FIXTURES, Done, run_apart, run_here, tree_of, with_memory

from klogtool.format.checkpoints import EpochEntry
from klogtool.format.names import FileKind
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.log.partition import Partition

ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAw", "AAAAAAAAAAAAAAAAAAAABA"
EPOCHS = FIXTURES / "leader-epochs/logdir/t-0"
TRANSACTIONS = FIXTURES / "transactions/logdir/t-0"
DAMAGED = FIXTURES / "killed-mid-append/logdir/flip-bit-0"


def asked(*words: object) -> Done:
    return run_here(["transplant", *map(str, words)], FIXTURES)


def answer(done: Done) -> dict[str, Any]:
    (plan,) = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan" and row["answer"]]
    found: dict[str, Any] = plan["answer"]
    return found


def records(folder: pathlib.Path) -> list[Any]:
    return [record for segment in Partition(str(folder)).segments for record in segment.records()]


def epochs(folder: pathlib.Path) -> set[int]:
    batches = [batch for segment in Partition(str(folder)).segments for batch in segment.batches()]
    return {batch.partition_leader_epoch for batch in batches}


@pytest.mark.parametrize(
    "name",
    ["leader-epochs/logdir/t-0", "transactions/logdir/t-0", "every-codec/logdir/append-4", "three-magics/logdir/t-0"],
)
def test_records_stay_and_what_the_old_cluster_counted_goes(tmp_path: pathlib.Path, name: str) -> None:
    source, output = FIXTURES / name, tmp_path / "new-7"
    if not source.exists():
        source = next(path for path in sorted(source.parent.iterdir()) if path.is_dir())
    done = asked(
        source, "--forget-open-transactions", "--output", output, "--topic-id", ID, "--topic", "new", "--partition", 7
    )
    assert done.status == 0, done.err
    assert records(output) == records(source)
    assert epochs(output) <= {0, -1}
    adopted = Partition(str(output))
    assert adopted.topic_id == ID
    assert adopted.leader_epochs == [EpochEntry(0, Partition(str(source)).segments[0].base_offset)]
    (snapshot,) = adopted.producer_snapshots
    assert parse_producer_snapshot(pathlib.Path(snapshot.path).read_bytes()) == []
    assert adopted.segments[-1].size == 0
    assert run_here(["verify", "--deep", str(output)], FIXTURES).status == 0


def test_open_transactions_are_not_committed_by_accident(tmp_path: pathlib.Path) -> None:
    done = asked(TRANSACTIONS, "--output", tmp_path / "t-0", "--topic-id", ID)
    assert done.status == 3
    assert "their records would count as committed" in done.err
    assert not (tmp_path / "t-0").exists()


def test_the_answer_says_what_becomes_of_it() -> None:
    told = answer(asked(TRANSACTIONS, "--check", "--format", "json", "--now", "2026-11-21T18:10:00Z"))
    assert (told["topic"], told["partition"], told["topic_id"]) == ("t", 0, None)
    assert (told["log_start_offset"], told["log_end_offset"], told["open_transactions"]) == (0, 62, 1)
    assert told["producers"] >= 4
    assert not told["producers_kept"]
    assert told["checkpoints"]["recovery-point-offset-checkpoint"] == 62
    assert told["checkpoints"]["log-start-offset-checkpoint"] is None


def test_producers_are_kept_if_asked(tmp_path: pathlib.Path) -> None:
    now = ("--now", "2026-11-21T18:10:00Z")
    assert asked(TRANSACTIONS, "--output", tmp_path / "t-0", "--topic-id", ID, "--keep-producers", *now).status == 0
    snapshots = Partition(str(tmp_path / "t-0")).producer_snapshots
    assert len(parse_producer_snapshot(pathlib.Path(snapshots[-1].path).read_bytes())) >= 4


def test_a_log_start_inside_a_segment_needs_a_line(tmp_path: pathlib.Path) -> None:
    done = asked(EPOCHS, "--output", tmp_path / "t-0", "--topic-id", ID, "--log-start-offset", 10)
    assert "t 0 10" in done.out.decode()
    assert Partition(str(tmp_path / "t-0")).leader_epochs == [EpochEntry(0, 10)]


def test_damage_is_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
    done = asked(DAMAGED, "--check")
    assert done.status == 3
    assert "damaged, so it is not transplanted" in done.err
    assert "klogtool salvage" in done.err


@pytest.mark.parametrize("wrong", [41, 44])
def test_offsets_that_go_back_are_damage(tmp_path: pathlib.Path, wrong: int) -> None:
    """No checksum covers a base offset: a recovery loses nothing of such a log."""
    copy = shutil.copytree(FIXTURES / "every-codec/logdir/append-0", tmp_path / "t-0")
    log = copy / "00000000000000000038.log"
    data = log.read_bytes()
    at = data.index((40).to_bytes(8, "big") + bytes(2))
    log.write_bytes(data[:at] + wrong.to_bytes(8, "big") + data[at + 8 :])
    done = asked(copy, "--check")
    assert (done.status, "offset 45 does not lie behind offset" in done.err) == (3, True)


def test_the_id_comes_from_the_adopting_log_dir(tmp_path: pathlib.Path) -> None:
    log_dir = tmp_path / "logs"
    other = log_dir / "t-1"
    other.mkdir(parents=True)
    (other / FileKind.PARTITION_METADATA.value).write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    assert answer(asked(EPOCHS, "--check", "--log-dir", log_dir, "--format", "json"))["topic_id"] == OTHER_ID
    contradiction = asked(EPOCHS, "--topic-id", ID, "--log-dir", log_dir)
    assert contradiction.status == 3
    assert "has another id" in contradiction.err
    unknown = asked(EPOCHS, "--log-dir", log_dir, "--topic", "x")
    assert unknown.status == 3
    assert "knows the topic x" in unknown.err


def test_in_place_it_is_taken_back_whole(tmp_path: pathlib.Path) -> None:
    log_dir = writable_copy("leader-epochs/logdir", tmp_path / "logs")
    (log_dir / FileKind.CLEAN_SHUTDOWN.value).unlink(missing_ok=True)
    points = log_dir / FileKind.RECOVERY_POINT_CHECKPOINT.value
    points.write_text("0\n1\nt 0 3\n")
    before = {name: row[4] for name, row in tree_of(log_dir).items()}
    done = asked(log_dir / "t-0", "--topic-id", ID, "--apply", "--format", "json")
    assert done.status == 0, done.err
    assert records(log_dir / "t-0") == records(EPOCHS)
    assert epochs(log_dir / "t-0") == {0}
    assert points.read_text() == "0\n1\nt 0 78\n"
    (applied,) = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "applied"]
    undone = run_here(["undo", applied["id"], "--journal", applied["journal"]], FIXTURES)
    assert undone.status == 0, undone.err
    assert {name: row[4] for name, row in tree_of(log_dir).items()} == before


def test_in_place_the_name_must_fit_and_the_old_id_is_none(tmp_path: pathlib.Path) -> None:
    log_dir = writable_copy("leader-epochs/logdir", tmp_path / "logs")
    shutil.rmtree(log_dir / "__cluster_metadata-0", ignore_errors=True)
    renamed = asked(log_dir / "t-0", "--topic-id", ID, "--topic", "new", "--apply")
    assert renamed.status == 3
    assert "is to be called new-0 first" in renamed.err
    unknown = asked(log_dir / "t-0", "--apply")
    assert unknown.status == 3
    assert "the topic id is not known" in unknown.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Give --topic-id"),
        (("--topic-id", "x"), "x"),
        (("--check", "--output", "out"), "--check writes nothing"),
        (("--topic-id", ID, "--apply", "--output", "out"), "not both"),
        (("--topic-id", ID, "--log-dir", "nowhere"), "no such folder"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], told: str) -> None:
    done = asked(EPOCHS, *words)
    assert done.status == 2
    assert told in done.err


@pytest.mark.parametrize("name", ["a/b", "..", "", "x" * 250, "__cluster_metadata"])
def test_names_that_cannot_be(name: str) -> None:
    assert asked(EPOCHS, "--topic-id", ID, "--topic", name).status == 3


def test_a_folder_whose_name_says_nothing_needs_one(tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(EPOCHS, copy)
    done = asked(copy, "--topic-id", ID)
    assert done.status == 2
    assert "give --topic and --partition" in done.err
    assert asked(copy, "--topic-id", ID, "--topic", "t", "--partition", 3).status == 0


def test_a_file_and_a_log_dir_are_refused() -> None:
    for path in (FIXTURES / "leader-epochs/logdir", EPOCHS / f"{0:020}.log"):
        done = asked(path, "--topic-id", ID)
        assert done.status in (2, 4)
        assert "Traceback" not in done.err


def test_the_source_stays(tmp_path: pathlib.Path) -> None:
    copy = writable_copy("leader-epochs/logdir", tmp_path / "logs") / "t-0"
    before = tree_of(copy)
    assert asked(copy, "--topic-id", ID, "--output", tmp_path / "t-0").status == 0
    assert asked(copy, "--check").status == 0
    assert tree_of(copy) == before


def test_an_empty_log_and_a_saved_plan(tmp_path: pathlib.Path) -> None:
    empty = tmp_path / "e-0"
    empty.mkdir()
    (empty / f"{5:020}.log").touch()
    assert asked(empty, "--topic-id", ID, "--output", tmp_path / "out").status == 0
    assert not Partition(str(tmp_path / "out")).producer_snapshots
    plan = tmp_path / "plan"
    assert asked(empty, "--topic-id", ID, "--plan-out", plan).status == 0
    assert run_here(["apply", str(plan)], FIXTURES).status == 0
    assert Partition(str(empty)).topic_id == ID


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES_OF_A_PARTITION)
def test_garbage_in_a_file(tmp_path: pathlib.Path, name: str) -> None:
    partition = writable_copy("transactions/logdir/t-0", tmp_path / "t-0")
    for n, data in enumerate(garbage_for(partition / name)):
        (partition / name).write_bytes(data)
        output = tmp_path / f"out-{n}"
        words = ("--topic-id", ID, "--forget-open-transactions", "--output", output)
        done = run_apart("transplant", partition, *words, before=with_memory(MEMORY_BYTES))
        assert "Traceback" not in done.err
        assert done.status in (0, 1, 3)
        assert (done.status < 3) == output.exists()


@pytest.mark.parametrize("same_id", [True, False])
@pytest.mark.parametrize("settings", [(), ("--config", "remote.storage.enable=true")])
@pytest.mark.parametrize(
    ("line", "remote"), [(None, None), (10, "10 to 41"), (41, "41 to 41"), (42, None), (50, None), ("u", None)]
)
def test_what_only_remote_storage_has_is_told_and_the_result_starts_where_its_files_do(
    tmp_path: pathlib.Path, line: int | str | None, remote: str | None, settings: tuple[str, ...], same_id: bool
) -> None:
    """The copy begins at offset 42, as one whose first segment is in remote storage."""
    log_dir = tmp_path / "disk"
    shutil.copytree(EPOCHS, log_dir / "t-0")
    for file in (log_dir / "t-0").glob(f"{0:020d}.*"):
        file.unlink()
    (log_dir / FileKind.META_PROPERTIES.value).write_text("version=1\n")
    if line is not None:  # one of another topic says nothing
        text = f"0\n1\nt 0 {line}\n" if line != "u" else "0\n1\nu 0 7\n"
        (log_dir / FileKind.LOG_START_CHECKPOINT.value).write_text(text)
    topic_id = Partition(str(log_dir / "t-0")).topic_id if same_id else ID
    words = (log_dir / "t-0", "--check", "--topic-id", topic_id, "--last-stop", "clean", *settings)
    told, start = answer(asked(*words, "--json")), 50 if line == 50 else 42
    text = " ".join(asked(*words).out.decode().split())
    assert told["log_start_offset"] == start
    assert told["checkpoints"]["log-start-offset-checkpoint"] in ((start,) if settings or remote else (None, start))
    assert (f"offsets {remote} are not in the copy" in text) is (remote is not None)
    if remote is not None:
        assert "are gone" not in text
