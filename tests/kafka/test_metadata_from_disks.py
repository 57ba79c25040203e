"""All controllers are lost: a cluster whose metadata is deleted everywhere comes back from the brokers' disks.

Three real nodes, each a broker and a controller. They get topics, records, a transaction and committed offsets, and
stop. The metadata dir of each is deleted as a whole. `fleet collect` and `fleet metadata` build a snapshot, which is
put on each node, and they start again: every topic has its id, every record and every committed offset is there,
nothing is set aside, and producers go on. Other ways take longer: KLOGTOOL_LOST_METADATA=1 runs them, too.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from running import run_here

from .clusters import Cluster, a_cluster
from .kafka import scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
METADATA = "__cluster_metadata-0"
TOPICS = {"orders": "1:2:3,2:3:1,3:1:2", "pairs": "1:2,3:2", "single": ""}  # "": one replica, anywhere
GROUPS = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--all-groups", "--offsets")
OLD = 1_000_000_000_000  # ms: 2001, so retention by its default would delete the record
# Retention and the log cleaner look every second.
EAGER = {
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 500,
    "log.cleaner.backoff.ms": 500,
    "offsets.topic.num.partitions": 3,
}
EVERY = os.environ.get("KLOGTOOL_LOST_METADATA") == "1"


@dataclass(frozen=True)
class Way:
    """A way to lose the metadata and come back. words: of `fleet metadata`. is_killed: the nodes did not stop cleanly.
    keeps: nodes that keep their old metadata log. is_dynamic: a dynamic quorum. sets_aside: empty controllers are
    started first, by mistake."""

    words: tuple[str, ...] = ()
    version: str = "4.3.1"
    is_killed: bool = False
    keeps: tuple[int, ...] = ()
    is_dynamic: bool = False
    sets_aside: bool = False


WAYS = {
    "4.3.1": Way(),
    **(
        {
            "3.9.2": Way(("--kafka", "3.9.2"), "3.9.2"),
            "killed": Way(is_killed=True),
            "eligible leaders": Way(("--feature", "eligible.leader.replicas.version=1")),
            "eligible leaders, killed": Way(("--feature", "eligible.leader.replicas.version=1"), is_killed=True),
            "a dynamic quorum": Way(is_dynamic=True),
            "set aside by empty controllers": Way(("--adopt-stray",), sets_aside=True),
            "an old metadata log on one node": Way(("--rebuild-anyway",), keeps=(3,)),
        }
        if EVERY
        else {}
    ),
}


@dataclass(frozen=True)
class Known:
    """What a client sees of a cluster: ids of topics, values by partition, lines of committed offsets."""

    ids: dict[str, str]
    values: dict[tuple[str, int], list[bytes | None]]
    committed: list[list[str]]


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-cluster-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def partitions() -> list[tuple[str, int]]:
    return [(topic, n) for topic, assignment in TOPICS.items() for n in range(assignment.count(",") + 1)]


def feed(cluster: Cluster) -> None:
    """Records in each partition, a transaction that also commits offsets, and a group."""
    record = sys.modules[type(cluster.one).__module__].Record
    for topic, assignment in TOPICS.items():
        if assignment:
            cluster.create(topic, assignment, retention_ms=-1)
        else:
            cluster.one.create_topic(topic, 1, retention_ms=-1)
    for topic, n in partitions():
        records = [record(key=b"k%d" % i, value=b"%s-%d-%d" % (topic.encode(), n, i), timestamp=OLD) for i in range(20)]
        cluster.one.produce(topic, n, records, acks="all")
    transactional(cluster, b"in a transaction")
    cluster.one.join_group("readers", "orders", 30)


def transactional(cluster: Cluster, value: bytes) -> None:
    record = sys.modules[type(cluster.one).__module__].Record
    producer = cluster.one.producer("t", transactional_id="tx", acks="all")
    producer.begin()
    producer.send("orders", 0, record(value=value))
    producer.flush()
    producer.send_offset("movers", "single", 0, 5)
    producer.commit()
    producer.close()


def seen(cluster: Cluster) -> Known:
    main, *words = GROUPS
    told = cluster.one.tool(main, "--bootstrap-server", cluster.bootstrap, *words).stdout
    topics = (*TOPICS, "__consumer_offsets", "__transaction_state")
    return Known(
        {topic: cluster.one.topic_id(topic) for topic in topics},
        values(cluster),
        sorted(line.split()[:5] for line in told.splitlines() if line.startswith(("readers", "movers"))),
    )


def values(cluster: Cluster) -> dict[tuple[str, int], list[bytes | None]]:
    return {(topic, n): [record.value for record in cluster.one.consume(topic, n)] for topic, n in partitions()}


def lose(cluster: Cluster, keeps: Sequence[int]) -> None:
    """Delete the metadata of all nodes; format again, as a new controller is."""
    for broker in cluster.brokers:
        kept = broker.metadata_dir.with_name("kept")
        if broker.node_id in keeps:
            shutil.copytree(broker.metadata_dir / METADATA, kept)
        shutil.rmtree(broker.metadata_dir)
    assert not [path for broker in cluster.brokers for path in broker.work.rglob(f"{METADATA}/**")]
    cluster.format()
    for broker in cluster.brokers:
        if broker.node_id in keeps:
            broker.metadata_dir.with_name("kept").rename(broker.metadata_dir / METADATA)


def set_aside(cluster: Cluster) -> None:
    """Start with empty controllers: every partition dir is renamed. Then delete the metadata again."""
    cluster.start()
    cluster.stop()
    for broker in cluster.brokers:
        folders = [path.name for path in broker.log_dirs[0].iterdir() if path.is_dir()]
        assert folders
        assert all(name.endswith("-stray") for name in folders)
    lose(cluster, ())


def rebuild(cluster: Cluster, folder: Path, words: Sequence[str], keeps: Sequence[int]) -> None:
    """Collect on each node, build the snapshot, put it on each node that has no metadata."""
    for broker in cluster.brokers:
        done = run_here(["fleet", "collect", *map(str, broker.log_dirs)], folder)
        assert done.status == 0, done.err
        (folder / f"broker{broker.node_id}.klog").write_bytes(done.out)
    if cluster.is_dynamic:
        words = (*words, "--initial-controllers", cluster.voters(cluster.metadata_directory_ids()))
    files = [str(folder / f"broker{broker.node_id}.klog") for broker in cluster.brokers]
    built = run_here(["fleet", "metadata", *files, "--output", str(folder / "rebuilt"), *words], folder)
    assert built.status == 0, built.err
    for line in re.findall(r"^  broker \d: (mv -n .*)$", built.out.decode(), flags=re.MULTILINE):
        subprocess.run(["bash", "-c", line], check=True)
    for broker in cluster.brokers:
        if broker.node_id not in keeps:
            shutil.copytree(folder / "rebuilt", broker.metadata_dir / METADATA)


def described(cluster: Cluster) -> str:
    main = "org.apache.kafka.tools.TopicCommand"
    told: str = cluster.one.tool(main, "--bootstrap-server", cluster.bootstrap, "--describe").stdout
    return told


def wait_for_replicas(cluster: Cluster) -> None:
    """Until every replica is in sync."""
    end = time.monotonic() + 90
    while any(replicas != isr for replicas, isr in in_sync(described(cluster))):
        assert time.monotonic() < end, described(cluster)


def in_sync(told: str) -> list[tuple[str, str]]:
    """Replicas and in-sync replicas of each partition, as sets in text."""
    found = re.findall(r"Replicas: (\S+)\tIsr: (\S*)", told)
    return [(",".join(sorted(replicas.split(","))), ",".join(sorted(isr.split(",")))) for replicas, isr in found]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_cluster_without_metadata_comes_back(way: Way, folder: Path) -> None:
    with a_cluster(way.version, folder, 3, EAGER, is_dynamic=way.is_dynamic) as cluster:
        cluster.start()
        feed(cluster)
        before = seen(cluster)
        assert {line[0] for line in before.committed} == {"movers", "readers"}
        assert all(before.values.values())
        cluster.kill() if way.is_killed else cluster.stop()
        lose(cluster, way.keeps)
        if way.sets_aside:
            set_aside(cluster)
        rebuild(cluster, folder, way.words, way.keeps)
        cluster.start()
        assert seen(cluster) == before
        go_on(cluster)
        wait_for_replicas(cluster)
        for broker in cluster.brokers:
            assert "Found stray" not in broker.log_text()
            assert not [path.name for path in broker.log_dirs[0].iterdir() if path.name.endswith(("-stray", "-delete"))]
        # Retention has looked by now, and kept all.
        after = values(cluster)
        assert {at: found[: len(before.values[at])] for at, found in after.items()} == before.values


def go_on(cluster: Cluster) -> None:
    """Producers of all kinds go on, and new topics can be made."""
    record = sys.modules[type(cluster.one).__module__].Record
    for topic, n in partitions():
        cluster.one.produce(topic, n, [record(value=b"new")], acks="all", enable_idempotence="true")
    transactional(cluster, b"in the next transaction")
    cluster.one.create_topic("fresh", 1)
    cluster.one.produce("fresh", 0, [record(value=b"new")], acks="all")
    assert [r.value for r in cluster.one.consume("orders", 0)][-2:] == [b"new", b"in the next transaction"]
