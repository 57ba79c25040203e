"""A whole log dir gets another cluster id: only meta.properties changes, and undo brings it back."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil

import pytest
from running import FIXTURES, ROOT, run_here, tree_of

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.format.internal.records import METADATA, build_metadata_record, parse_metadata_record
from klogtool.format.internal.schema import api_keys, schema_of
from klogtool.log.logdir import LogDir
from klogtool.plans.node_ids import NODE_FIELDS, with_new_ids

ID = "AAAAAAAAAAAAAAAAAAAAAw"
DIRECTORIES = ("XcCOFT_2QDO29v9qZIRHPA", "5AtikM9nTF6UPDe_71BnxQ", "KFy2fanDT86wWzBxT94o2g")


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    place = tmp_path / "a log dir"
    shutil.copytree(FIXTURES / "metadata/logdir", place)
    return place


def contents_of(folder: pathlib.Path) -> dict[str, tuple[bytes, int]]:
    """Contents and mtimes of all files."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_only_the_cluster_id_changes_and_undo_brings_it_back(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before, kept, identity = tree_of(log_dir), contents_of(log_dir), LogDir(str(log_dir)).meta_properties
    assert identity is not None
    done = run_here(["transplant", str(log_dir), "--cluster-id", ID, "--json"], tmp_path)
    (plan,) = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    assert (done.status, plan["answer"]["source_cluster_id"]) == (0, identity.cluster_id)
    assert tree_of(log_dir) == before
    assert run_here(["transplant", str(log_dir), "--cluster-id", ID, "--apply"], tmp_path).status == 0
    changed = LogDir(str(log_dir)).meta_properties
    assert changed is not None
    assert (changed.cluster_id, changed.node_id, changed.directory_id) == (ID, identity.node_id, identity.directory_id)
    contents = contents_of(log_dir)
    assert {name for name in kept if kept[name] != contents.get(name)} == {"meta.properties"}
    again = run_here(["transplant", str(log_dir), "--cluster-id", ID], tmp_path)
    assert (again.status, b"already" in again.out) == (0, True)
    assert run_here(["undo", str(log_dir)], tmp_path).status == 0
    assert contents_of(log_dir) == kept


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--cluster-id", "x"], 2),
        (["--cluster-id", ID, "--topic", "t"], 2),
        (["--cluster-id", ID, "--output", "out"], 2),
    ],
)
def test_what_does_not_fit(words: list[str], status: int, log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = tree_of(log_dir)
    assert run_here(["transplant", str(log_dir), *words], tmp_path).status == status
    assert tree_of(log_dir) == before


def test_a_partition_dir_and_a_log_dir_without_identity(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    partition = next(path for path in sorted(log_dir.iterdir()) if path.is_dir())
    assert run_here(["transplant", str(partition), "--cluster-id", ID], tmp_path).status == 2
    (log_dir / "meta.properties").unlink()
    assert run_here(["transplant", str(log_dir), "--cluster-id", ID, "--apply"], tmp_path).status == 3


NEW = "1@c1.staging:9093,2@c2.staging:9093,3@c3.staging:9093"


def controllers_in(folder: pathlib.Path) -> list[str]:
    """The disks of three controllers with the same metadata."""
    for node, directory in enumerate(DIRECTORIES, 1):
        place = folder / f"controller-{node}"
        shutil.copytree(ROOT / "docs/examples/quorum/n1", place)
        text = (place / "meta.properties").read_text()
        text = re.sub("(?m)^node.id=.*", f"node.id={node}", text)
        (place / "meta.properties").write_text(re.sub("(?m)^directory.id=.*", f"directory.id={directory}", text))
    return sorted(map(str, folder.glob("controller-?")))


def test_one_run_gives_all_disks_the_id_and_their_voters_other_places(tmp_path: pathlib.Path) -> None:
    """One saved plan has it all; it is carried out as it was saved, and undo takes back each disk."""
    disks = controllers_in(tmp_path)
    before = [contents_of(pathlib.Path(disk)) for disk in disks]
    words = ["transplant", *disks, "--cluster-id", ID, "--voters", NEW]
    done = run_here([*words, "--json", "--plan-out", str(tmp_path / "plan.json")], tmp_path)
    plans = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    assert (done.status, [plan["command"] for plan in plans]) == (0, ["quorum", *["transplant"] * 3]), done.err
    assert [contents_of(pathlib.Path(disk)) for disk in disks] == before
    applied = run_here(["apply", str(tmp_path / "plan.json")], tmp_path)
    assert applied.status == 0, applied.err
    found = [LogDir(disk).meta_properties for disk in disks]
    assert [None if each is None else (each.cluster_id, each.node_id) for each in found] == [(ID, n) for n in (1, 2, 3)]
    metadata = read_cluster_metadata(os.path.join(disks[0], "__cluster_metadata-0"))
    assert [f"{voter.id}@{voter.addresses[0]}" for voter in metadata.quorum.voters or ()] == NEW.split(",")
    again = run_here(["transplant", disks[0], "--cluster-id", ID], tmp_path)
    assert b"1@c1.staging:9093, 2@c2.staging:9093, 3@c3.staging:9093: --voters" in again.out
    assert run_here(["undo", disks[0]], tmp_path).status == 0
    assert [contents_of(pathlib.Path(disk)) for disk in disks] == before


def test_voters_need_a_cluster_id_and_metadata(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert run_here(["transplant", str(log_dir), "--voters", NEW], tmp_path).status == 2
    assert run_here(["transplant", str(log_dir), "--cluster-id", ID, "--voters", "x"], tmp_path).status == 2
    (log_dir / "__cluster_metadata-0").rename(tmp_path / "elsewhere")
    before = tree_of(log_dir)
    refused = run_here(["transplant", str(log_dir), "--cluster-id", ID, "--voters", NEW, "--apply"], tmp_path)
    assert (refused.status, tree_of(log_dir)) == (3, before)


def text_of(log_dir: pathlib.Path, folder: pathlib.Path) -> str:
    done = run_here(["transplant", str(log_dir), "--cluster-id", ID], folder)
    assert done.status == 0, done.err
    return done.out.decode()


def test_it_says_where_controllers_are_known_to_be(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The voters of a dynamic quorum stand in the metadata, those of a static one in settings."""
    assert "The metadata names no voters: where controllers listen is in controller.quorum.voters" in text_of(
        log_dir, tmp_path
    )
    dynamic = text_of(ROOT / "docs/examples/quorum/n1", tmp_path)
    assert "The metadata has the controllers at 1@127.0.0.1:43001, 2@127.0.0.1:43002, 3@127.0.0.1:43003:" in dynamic


def test_topics_with_remote_storage_are_named(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A clone shares their objects with the original, and nobody copies these here."""
    assert "remote storage" not in text_of(log_dir, tmp_path)
    pages = sorted(map(str, (ROOT / "docs/examples/restored").glob("*.klog")))
    setting = ("--topic-config", "plain:remote.storage.enable=true", "--rebuild-anyway")
    built = run_here(["fleet", "metadata", *pages, *setting, "--output", str(tmp_path / "built")], tmp_path)
    assert built.status in (0, 1), built.err
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    shutil.copytree(next((tmp_path / "built").rglob("*.checkpoint")).parent, log_dir / "__cluster_metadata-0")
    assert "NOT DONE: 1 topic with remote storage, such as plain." in text_of(log_dir, tmp_path)


NODE_IDS = "1=11,2=12,3=13"


def test_nodes_get_other_ids_in_all_of_the_metadata(tmp_path: pathlib.Path) -> None:
    """What a snapshot has afterwards is what a replay had before, with the new ids; undo brings the old ones back."""
    disks = controllers_in(tmp_path)
    before = [contents_of(pathlib.Path(disk)) for disk in disks]
    was = read_cluster_metadata(os.path.join(disks[0], "__cluster_metadata-0"))
    words = ["transplant", *disks, "--cluster-id", ID, "--node-ids", NODE_IDS]
    applied = run_here([*words, "--apply"], tmp_path)
    assert applied.status == 0, applied.err
    found = [LogDir(disk).meta_properties for disk in disks]
    assert [None if each is None else (each.cluster_id, each.node_id) for each in found] == [
        (ID, n) for n in (11, 12, 13)
    ]
    now = read_cluster_metadata(os.path.join(disks[0], "__cluster_metadata-0"))
    old, new = (
        [(voter.id, voter.directory_id, voter.addresses) for voter in metadata.quorum.voters or ()]
        for metadata in (was, now)
    )
    assert new == [(node + 10, *rest) for node, *rest in old] != []
    assert (now.topics, now.topic_ids, now.features) == (was.topics, was.topic_ids, was.features)
    again = run_here([*words, "--apply"], tmp_path)
    assert (again.status, "may be the new ones already" in again.err) == (3, True)
    assert run_here(["undo", disks[0]], tmp_path).status == 0
    assert [contents_of(pathlib.Path(disk)) for disk in disks] == before


def test_each_field_that_has_a_node_id_gets_the_new_one() -> None:
    """Every int32 of Kafka's metadata records is a node id, but for those named here."""
    others = {"partitionId", "leaderEpoch", "partitionEpoch", "iterations"}
    known = {
        (name, field.name)
        for of_4_4 in (False, True)
        for name in api_keys(METADATA, "metadata", of_4_4=of_4_4).values()
        for field in schema_of(name, of_4_4=of_4_4).struct.fields
        if field.type == "int32" and field.name not in others
    }
    assert {(name, field) for name, fields in NODE_FIELDS.items() for field in fields} == known


@pytest.mark.parametrize(
    ("name", "version", "values", "changed"),
    [
        (
            "PartitionRecord",
            1,
            {"replicas": [1, 2, 9], "isr": [2], "leader": 2},
            {"replicas": [11, 12, 9], "isr": [12], "leader": 12},
        ),
        (
            "PartitionChangeRecord",
            0,
            {"isr": [1], "leader": -2, "replicas": None},
            {"isr": [11], "leader": -2, "replicas": None},
        ),
        ("RegisterBrokerRecord", 1, {"brokerId": 1}, {"brokerId": 11}),
        ("ProducerIdsRecord", 0, {"brokerId": -1, "nextProducerId": 5}, {"brokerId": -1}),
        (
            "ConfigRecord",
            0,
            {"resourceType": 4, "resourceName": "2", "name": "x", "value": "1"},
            {"resourceName": "12"},
        ),
        ("ConfigRecord", 0, {"resourceType": 4, "resourceName": "", "name": "x", "value": "1"}, {"resourceName": ""}),
        (
            "ConfigRecord",
            0,
            {"resourceType": 2, "resourceName": "2", "name": "x", "value": "2"},
            {"resourceName": "2", "value": "2"},
        ),
        (
            "ConfigRecord",
            0,
            {
                "resourceType": 2,
                "resourceName": "t",
                "name": "leader.replication.throttled.replicas",
                "value": "0:1,1:9,*",
            },
            {"value": "0:11,1:9,*"},
        ),
    ],
)
def test_a_record_with_new_ids(name: str, version: int, values: dict[str, object], changed: dict[str, object]) -> None:
    value = build_metadata_record(name, version, values)
    told = parse_metadata_record(METADATA, with_new_ids(value, {1: 11, 2: 12}, set(), of_4_4=False))
    assert (told.name, told.version, {key: told.values[key] for key in changed}) == (name, version, changed)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--node-ids", "1=11"], 2, "for --cluster-id"),
        (["--cluster-id", ID, "--node-ids", "1"], 2, "OLD=NEW"),
        (["--cluster-id", ID, "--node-ids", "1=11,2=11"], 2, "twice"),
        (["--cluster-id", ID, "--node-ids", "1=2"], 3, "another node has the id 2"),
        (["--cluster-id", ID, "--node-ids", NODE_IDS, "--voters", NEW], 3, "by their new ids: 11, 12, 13"),
    ],
)
def test_node_ids_that_do_not_fit(words: list[str], status: int, said: str, tmp_path: pathlib.Path) -> None:
    disks = controllers_in(tmp_path)
    before = [contents_of(pathlib.Path(disk)) for disk in disks]
    done = run_here(["transplant", *disks, *words], tmp_path)
    assert (done.status, said in done.err) == (status, True), done.err
    assert [contents_of(pathlib.Path(disk)) for disk in disks] == before
