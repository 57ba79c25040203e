"""What a start forgets of remote storage, because __remote_log_metadata has no record of it.

tests/kafka/test_brokers_remote.py puts the new log start to a broker.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from raw_batches import build_batch
from remote_stores import tiered_log_dir
from running import run_here

from klogtool.format.batch import Record
from klogtool.format.internal.records import REMOTE_LOG, build_metadata_record, parse_metadata_record
from klogtool.format.tiered.segments import key_of
from klogtool.log.segment import Segment
from klogtool.remote.metadata import read_metadata

Path = pathlib.Path
METADATA = "__remote_log_metadata"
METADATA_ID, FIRST = "AQIDBAUGBwgJCgsMDQ4PEA", 40


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log dir of t-0, which is local from FIRST on, and the store of the rest."""
    log_dir, store = tiered_log_dir(tmp_path_factory.mktemp("forgotten"))
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    return log_dir, store


def empty(log_dir: Path) -> None:
    for path in (log_dir / f"{METADATA}-0").iterdir():
        path.write_bytes(b"") if path.suffix == ".log" else path.unlink()


def remove(log_dir: Path) -> None:
    shutil.rmtree(log_dir / f"{METADATA}-0")


def with_cluster(log_dir: Path, brokers: tuple[int, ...], epoch: int = 9) -> None:
    """Write metadata of a cluster whose brokers have the metadata topic; nobody: it has no such topic."""
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    topic_id = (log_dir / "t-0/partition.metadata").read_text().split("topic_id: ")[1].strip()
    topics = [("t", topic_id, (1,)), *([(METADATA, METADATA_ID, brokers)] if brokers else [])]
    records = []
    for name, own_id, replicas in topics:
        records += [
            build_metadata_record("TopicRecord", 0, {"name": name, "topicId": own_id}),
            build_metadata_record(
                "PartitionRecord",
                0,
                {
                    "topicId": own_id,
                    "partitionId": 0,
                    "replicas": replicas,
                    "isr": replicas,
                    "leader": replicas[0],
                    "leaderEpoch": epoch,
                },
            ),
        ]
    setting = {"resourceType": 2, "resourceName": "t", "name": "remote.storage.enable", "value": "true"}
    records.append(build_metadata_record("ConfigRecord", 0, setting))
    folder = log_dir / "__cluster_metadata-0"
    folder.mkdir()
    batches = [build_batch([Record(n, 0, None, value)], partition_leader_epoch=1) for n, value in enumerate(records)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    home = log_dir / f"{METADATA}-0"
    if home.exists():
        (home / "partition.metadata").write_text(f"version: 0\ntopic_id: {METADATA_ID}\n")


def asked(log_dir: Path, *words: str) -> tuple[list[tuple[int, int]], int | None, list[dict[str, Any]]]:
    """Return what is forgotten of t-0, where it is said to start, and all rows."""
    done = run_here(["doctor", str(log_dir), *words, "--now", "2026-11-26", "--json"], log_dir.parent)
    rows = list(map(json.loads, done.out.splitlines()))
    points = [row for row in rows if row.get("what") == "remote-forgotten"]
    assert all(row["path"] == str(log_dir / "t-0") for row in points)
    (claim,) = [row for row in rows if row.get("about") == "partition" and row["path"].endswith("t-0")]
    assert not points or done.status == 1
    return [(row["first_offset"], row["last_offset"]) for row in points], claim["log_start_offset"], rows


ALL = [(0, FIRST - 1)]


def test_a_metadata_topic_that_is_older_than_the_log(tiered: tuple[Path, Path], tmp_path: Path) -> None:
    """As of a snapshot that was taken earlier: the newest segments are in no record, and on no disk."""
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    with_cluster(log_dir, (1,))
    for path in (log_dir / "t-0").iterdir():
        if path.name[:20].isdigit() and int(path.name[:20]) < 160:
            path.unlink()
    home = log_dir / f"{METADATA}-0"
    known = sorted(read_metadata([str(log_dir)]).segments(), key=lambda one: one.start_offset)
    older = {one.key.segment_id for one in known[:2]}
    (log,) = home.glob("*.log")
    values = [record.value or b"" for batch in Segment(str(log)).batches() for record in batch.records()]
    kept = [one for one in values if key_of(parse_metadata_record(REMOTE_LOG, one).values).segment_id in older]
    for path in home.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    log.write_bytes(build_batch([Record(n, 0, None, value) for n, value in enumerate(kept)], partition_leader_epoch=0))
    gap = [(80, 159)]
    found, start, rows = asked(log_dir, "--remote", str(tiered[1]))
    assert (found, start) == (gap, None)
    assert any(row["type"] == "option" and "remote metadata" in row["command"] for row in rows)
    assert asked(log_dir)[0] == []  # the records of the topic are read with --remote only
    done = run_here(["fleet", "check", "--restored", str(log_dir), "--json"], tmp_path)
    problems = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "problem"]
    values = [row["value"] for row in problems if row["problem"] == "remote-offsets-unknown"]
    assert (done.status, values) == (1, ["80..159"])


@pytest.mark.parametrize("kept", [(0, 2, 3, 4), (0,)])
def test_segments_of_which_another_epoch_is_known(
    tiered: tuple[Path, Path], tmp_path: Path, kept: tuple[int, ...]
) -> None:
    """A broker 4.3.1 found nothing for a consumer that began there; one that began before them got all of a segment,
    as long as one fetch had it. The metadata is as it was."""
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    with_cluster(log_dir, (1,))
    checkpoint = log_dir / "t-0/leader-epoch-checkpoint"
    lines = [line for line in checkpoint.read_text().splitlines()[2:] if int(line.split()[0]) in kept]
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    found, start, rows = asked(log_dir, "--remote", str(tiered[1]))
    assert (found, start) == ([(20, FIRST - 1)], 0)
    (detail,) = (row["detail"] for row in rows if row.get("what") == "remote-forgotten")
    assert "has no epoch for them, or another one than __remote_log_metadata" in detail
    (cure,) = (row["command"] for row in rows if row["type"] == "option")
    assert "put leader-epoch-checkpoint back" in cure
    words = ["remote", "verify", str(tiered[1]), "--metadata", str(log_dir), "--local", str(log_dir), "--json"]
    gaps = [row for row in map(json.loads, run_here(words, tmp_path).out.splitlines()) if row.get("id") == "remote-gap"]
    assert [(row["first_offset"], row["last_offset"]) for row in gaps] == [(20, FIRST - 1)]
    assert all("Put leader-epoch-checkpoint back" in row["cure"] for row in gaps)
    for beside in ([], ["--metadata", str(log_dir)]):
        words = ["remote", "fetch", str(tiered[1]), "t-0", *beside, "--local", str(log_dir)]
        fetched = run_here([*words, "--output", str(tmp_path / f"t-{len(beside)}"), "--json"], tmp_path)
        (answer,) = [row for row in map(json.loads, fetched.out.splitlines()) if row["type"] == "answer"]
        assert (fetched.status, answer["missing"], answer["log_start_offset"]) == (0, [], 0)
    verified = run_here(["remote", "verify", str(tiered[1]), "--local", str(log_dir), "--json"], tmp_path)
    assert (verified.status, b"remote-gap" in verified.out) == (0, False)


@pytest.mark.parametrize(
    ("kept", "brokers", "forgotten", "new_start"),
    [
        (None, (1,), [(0, FIRST - 1)], FIRST),  # None: the file is gone
        ((), None, [(0, FIRST - 1)], None),
        ((2,), (1,), [(0, FIRST - 1)], FIRST),
        ((1, 2, 3, 4), (1,), [(0, 19)], 0),  # the first segment has some of epoch 1
        ((0, 1, 2, 3, 4), (1,), [], 0),
    ],
)
def test_remote_segments_of_which_no_epoch_is_known_are_forgotten(
    tiered: tuple[Path, Path],
    tmp_path: Path,
    kept: tuple[int, ...] | None,
    brokers: tuple[int, ...] | None,
    forgotten: list[tuple[int, int]],
    new_start: int | None,
) -> None:
    """RemoteLogManager.findLogStartOffset goes by the first epoch of leader-epoch-checkpoint."""
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    if brokers is not None:
        with_cluster(log_dir, brokers)
    checkpoint = log_dir / "t-0/leader-epoch-checkpoint"
    lines = [line for line in checkpoint.read_text().splitlines()[2:] if kept and int(line.split()[0]) in kept]
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    if kept is None:
        checkpoint.unlink()
    found, start, rows = asked(log_dir, "--remote", str(tiered[1]))
    assert (found, start) == (forgotten, new_start)
    said = " ".join(row["detail"] for row in rows if row.get("what") == "remote-forgotten")
    assert ("deletes these segments from remote storage" in said) == (new_start != 0)
    cures = [row["command"] for row in rows if row["type"] == "option"]
    assert any("leader-epoch-checkpoint back" in cure for cure in cures) == bool(forgotten)
    verified = run_here(
        ["remote", "verify", str(tiered[1]), "--metadata", str(log_dir), "--local", str(log_dir), "--json"], tmp_path
    )
    gaps = [row for row in map(json.loads, verified.out.splitlines()) if row.get("id") == "remote-gap"]
    assert [(row["first_offset"], row["last_offset"]) for row in gaps] == forgotten
    assert all("leader-epoch-checkpoint back" in row["cure"] for row in gaps)
    words = ["remote", "fetch", str(tiered[1]), "t-0", "--metadata", str(log_dir), "--local", str(log_dir)]
    fetched = run_here([*words, "--output", str(tmp_path / "t-0")], tmp_path)
    assert (fetched.status, b"MISSING" in fetched.out, b"offsets 0 to 200" in fetched.out) == (0, False, True)


@pytest.mark.parametrize(
    ("wound", "brokers", "forgotten", "start"),
    [
        (None, None, [], 0),
        (None, (1,), [], 0),
        (empty, None, ALL, None),  # another broker may have more
        (empty, (1,), ALL, FIRST),
        (empty, (1, 2), [], 0),
        (remove, None, [], 0),  # a note says what is not known
        (remove, (1,), ALL, FIRST),
        (remove, (2,), [], 0),
        (remove, (), ALL, FIRST),
    ],
)
def test_remote_segments_that_no_record_names_are_forgotten(
    tiered: tuple[Path, Path],
    tmp_path: Path,
    wound: Any,
    brokers: tuple[int, ...] | None,
    forgotten: list[tuple[int, int]],
    start: int | None,
) -> None:
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    if wound is not None:
        wound(log_dir)
    if brokers is not None:
        with_cluster(log_dir, brokers)
    found, said, rows = asked(log_dir)
    assert (found, said) == (forgotten, start)
    (notes,) = [row["notes"] for row in rows if row["type"] == "verdict"]
    assert any("if no broker has its records" in note for note in notes) is (wound is remove and brokers is None)
    if wound is not remove:
        assert asked(log_dir, "--remote", str(tiered[1]))[0] == forgotten


@pytest.mark.parametrize(("epoch", "unfound"), [(0, [(20, FIRST - 1)]), (1, []), (4, [])])
@pytest.mark.parametrize("has_store", [True, False])
def test_older_metadata_gives_leader_epochs_again(
    tiered: tuple[Path, Path], tmp_path: Path, epoch: int, unfound: list[tuple[int, int]], has_store: bool
) -> None:
    """A broker 4.3.1 over metadata of three starts before dropped the later lines, and served 21 of 60 records."""
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    with_cluster(log_dir, (1,), epoch)
    found, start, rows = asked(log_dir, *(["--remote", str(tiered[1])] if has_store else []))
    assert (found, start) == (unfound, 0)
    cures = [row["command"] for row in rows if row["type"] == "option"]
    assert any("Once the leader epoch of the partition is above" in cure for cure in cures) is bool(unfound)


def test_with_a_store_the_records_are_read(tiered: tuple[Path, Path], tmp_path: Path) -> None:
    """The topic has records, and none of them of this partition."""
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    with_cluster(log_dir, (1,))
    own = log_dir / "t-0/partition.metadata"
    topic_id = own.read_text().split("topic_id: ")[1].strip()
    other = "AAECAwQFBgcICQoLDA0ODw"
    own.write_text(own.read_text().replace(topic_id, other))
    folder = log_dir / "__cluster_metadata-0" / f"{0:020d}.log"
    shutil.rmtree(folder.parent)
    with_cluster(log_dir, (1,))
    assert asked(log_dir)[0] == []
    assert asked(log_dir, "--remote", str(tiered[1]))[:2] == (ALL, FIRST)


@pytest.mark.parametrize(
    ("setting", "forgotten"),
    [
        ("remote.log.storage.system.enable=false", []),
        ("remote.log.storage.system.enable=true\nremote.log.metadata.manager.class.name=com.example.Other", []),
        ("remote.log.storage.system.enable=true", ALL),
    ],
)
def test_a_broker_that_keeps_it_elsewhere_forgets_nothing(
    tiered: tuple[Path, Path], tmp_path: Path, setting: str, forgotten: list[tuple[int, int]]
) -> None:
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    empty(log_dir)
    (tmp_path / "server.properties").write_text(f"log.dirs={log_dir}\n{setting}\n")
    assert asked(log_dir, "--config-file", str(tmp_path / "server.properties"))[0] == forgotten


def test_the_way_out_leads_back(tiered: tuple[Path, Path], tmp_path: Path) -> None:
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    empty(log_dir)
    with_cluster(log_dir, (1,))
    _, _, rows = asked(log_dir, "--remote", str(tiered[1]))
    (option,) = [row for row in rows if row["type"] == "option" and row["for"].endswith("/t-0")]
    rebuilt = tmp_path / "rebuilt"
    words = option["command"].partition("  #")[0].split()[1:]
    done = run_here([str(rebuilt) if word == "DIR" else word for word in words], tmp_path)
    assert done.status == 0, done.err
    shutil.rmtree(log_dir / f"{METADATA}-0")
    (rebuilt / f"{METADATA}-0").rename(log_dir / f"{METADATA}-0")
    assert asked(log_dir, "--remote", str(tiered[1]))[:2] == ([], 0)


@pytest.mark.parametrize("is_told", [True, False])
def test_what_retention_deleted_is_not_forgotten(tiered: tuple[Path, Path], tmp_path: Path, is_told: bool) -> None:
    """Retention raises the epochs, and a broker writes the log start a minute later: what is between them may be gone
    on purpose, in a topic that is tiered or in one that never was."""
    log_dir = shutil.copytree(tiered[0], tmp_path / "logs")
    checkpoint = log_dir / "t-0/leader-epoch-checkpoint"
    epoch = checkpoint.read_text().splitlines()[-1].split()[0]
    checkpoint.write_text(f"0\n1\n{epoch} {FIRST}\n")
    for path in log_dir.glob(f"{METADATA}-*"):
        shutil.rmtree(path)
    assert asked(log_dir)[0] == []
    if is_told:
        with_cluster(log_dir, (1,))
        assert all("no epoch for them" not in json.dumps(row) for row in asked(log_dir)[2])
