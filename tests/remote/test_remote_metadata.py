"""`klogtool remote metadata`: the topic rebuilt from objects alone says what the broker's own said."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from msgspec.structs import replace
from quorums import Disk
from remote_stores import LOGS, SEALED, SHARED, STORE, ZSTD, pem, tiered_log_dir
from running import ROOT, run_here, tree_of

from klogtool.format.names import REMOTE_TOPIC
from klogtool.format.partitioner import metadata_partition
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState
from klogtool.log.partition import Partition
from klogtool.remote.metadata import read_metadata

Path = pathlib.Path
TOPIC_ID = "kAhN5UfKTXmouKliDVLmuw"


def rebuild(*words: str) -> tuple[int, dict[str, Any]]:
    done = run_here(["remote", "metadata", *words, "--json"], ROOT)
    assert "Traceback" not in done.told
    return done.status, json.loads(done.out.splitlines()[-1]) if done.out else {}


def segments_of(log_dir: Path) -> dict[SegmentKey, RemoteSegment]:
    """What a broker would know, but for the times of events."""
    metadata = read_metadata([str(log_dir)])
    assert not metadata.problems
    assert not metadata.dropped
    found = (replace(one, event_ms=0) for one in metadata.segments() if one.state is SegmentState.COPY_FINISHED)
    return {one.key: one for one in found}


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "aiven-plain", "aiven-zstd", "aiven-enc"])
def test_it_says_what_the_brokers_own_said(name: str, tmp_path: Path) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    words = [str(sample / "remote"), "--metadata", str(sample / "logdir"), "--output", str(tmp_path / "new")]
    if (sample / "key1.private.der.b64").exists():
        pytest.importorskip("cryptography")
        (tmp_path / "key.pem").write_bytes(pem(sample / "key1.private.der.b64"))
        words += ["--key", f"key1={tmp_path}/key.pem"]
    before = tree_of(sample)
    status, answer = rebuild(*words)
    assert (status, answer["partitions"], answer["left_out"]) == (0, 3, [])
    assert segments_of(tmp_path / "new") == segments_of(sample / "logdir")
    own = read_metadata([str(sample / "logdir")]).homes
    assert own.items() >= read_metadata([str(tmp_path / "new")]).homes.items()
    assert run_here(["verify", str(tmp_path / "new"), "--deep", "--fail-on", "warning"], ROOT).status == 0
    assert tree_of(sample) == before


def test_an_adopted_topic_has_one_leader_epoch(tmp_path: Path) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    new_id = "AAAAAAAAAAAAAAAAAAAA_w"
    (old,) = (tmp_path / "store").glob("orders-0-*")
    old.rename(old.with_name(f"orders-0-{new_id}"))
    words = [str(tmp_path / "store"), "--adopt", new_id, "--output", str(tmp_path / "new")]
    assert rebuild(*words)[0] == 1
    segments = segments_of(tmp_path / "new")
    assert {one.epochs for one in segments.values() if one.key.topic_id == new_id} == {
        ((0, start),) for start in (0, 30, 60, 90)
    }
    assert rebuild(*words[:1], "--adopt", "BBBBBBBBBBBBBBBBBBBBBw")[0] == 2
    assert rebuild(*words[:1], "--adopt", "short")[0] == 2


def test_what_does_not_say_what_it_is_is_left_out_and_said(tmp_path: Path) -> None:
    status, answer = rebuild(str(STORE), "--output", str(tmp_path / "new"))
    assert (status, [one["why"] for one in answer["left_out"]]) == (1, ["the object does not exist"])
    assert answer["partitions"] == 50
    status, answer = rebuild(str(STORE), "--local", str(LOGS), "--partitions", "3")
    assert (status, answer["output"]) == (1, None)
    shutil.copytree(ZSTD, tmp_path / "store")
    for manifest in (tmp_path / "store").rglob("*.rsm-manifest"):
        manifest.write_bytes(b"{}")
    status, answer = rebuild(str(tmp_path / "store"))
    assert (status, len(answer["left_out"]), answer["segments"]) == (1, 3, 0)


def test_manifests_are_enough_without_a_key(tmp_path: Path) -> None:
    status, answer = rebuild(str(SEALED), "--output", str(tmp_path / "new"))
    assert (status, answer["segments"]) == (0, 10)


def test_the_topic_itself_is_known_by_the_clusters_metadata(tmp_path: Path) -> None:
    """Its id, without which a broker sets the dirs aside, and its number of partitions: without any of its dirs."""
    topic = ("TopicRecord", 0, {"name": REMOTE_TOPIC, "topicId": TOPIC_ID})
    placed = [
        ("PartitionRecord", 0, {"partitionId": n, "topicId": TOPIC_ID, "replicas": [1], "isr": [1]}) for n in range(7)
    ]
    disk = Disk(tmp_path, 1).records(1, 1, topic)
    for one in placed:
        disk.records(1, 1, one)
    status, answer = rebuild(str(ZSTD), "--local", str(disk.path), "--output", str(tmp_path / "new"))
    assert (status, answer["partitions"]) == (0, 7)
    for folder in (tmp_path / "new").iterdir():
        assert Partition(str(folder)).topic_id == TOPIC_ID
    # An empty partition of the topic: how many there are decides whether it is the one that should have records.
    (disk.path / f"{REMOTE_TOPIC}-0").mkdir()
    (disk.path / f"{REMOTE_TOPIC}-0/00000000000000000000.log").touch()
    metadata = read_metadata([str(disk.path)])
    assert (metadata.numbers, metadata.count) == ({0}, 7)
    (key,) = {(one.key.topic_id, one.key.partition) for one in read_metadata([str(tmp_path / "new")]).segments()}
    assert metadata.missing_home(*key) == metadata_partition(*key, 7) != 0


def test_a_doctor_goes_on_without_the_topic(tmp_path: Path) -> None:
    log_dir, store = tiered_log_dir(tmp_path)
    shutil.rmtree(log_dir / f"{REMOTE_TOPIC}-0")
    done = run_here(["doctor", str(log_dir), "--remote", str(store)], ROOT)
    assert (done.status, done.err) == (0, "")
    assert run_here(["doctor", str(log_dir), "--remote", str(store), "--metadata", str(log_dir)], ROOT).status == 2
