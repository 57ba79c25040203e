"""Another cluster serves a transplanted partition, appends to it, and does not mix up its producers with the old ones.

One cluster writes a partition over several lives: records of several leader epochs, an idempotent producer, committed
and aborted transactions. klogtool makes a copy ready for the topic of a second cluster, once to another folder, and
once in place.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
from typing import Any

import pytest
from running import run_here

from klogtool.log.partition import Partition

from .brokers import VERSIONS, a_broker, served
from .clusters import a_cluster
from .kafka import scratch_folder

CLONE = "AAAAAAAAAAAAAAAAAAAAAw"
CONFIGS, TOPICS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
HERE = pathlib.Path(__file__).resolve().parent
pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]


def done(*words: object) -> None:
    told = run_here([str(word) for word in words], HERE)
    assert told.status == 0, told.err + told.out.decode()


def small_segments(version: str) -> dict[str, int]:
    return {"retention_ms": -1, **({"internal_segment_bytes": 2000} if version == "4.3.1" else {"segment_bytes": 2000})}


def write_the_old_one(broker: Any, record: Any) -> tuple[Any, Any]:
    """Three lives; what is served uncommitted and committed."""
    rows = [record(key=b"k%d" % n, value=b"value " * 9) for n in range(5)]
    broker.start()
    broker.create_topic("old", 1, **small_segments(broker.version))
    for life in range(3):
        broker.produce("old", 0, rows, enable_idempotence="true")
        producer = broker.producer("tx", transactional_id="tx")
        for ends in (True, False):
            producer.begin()
            for row in rows:
                producer.send("old", 0, row)
            producer.flush()
            producer.commit() if ends else producer.abort()
        producer.close()
        if life < 2:
            broker.stop()
            broker.start()
    found = served(broker, "old"), served(broker, "old", isolation="read_committed")
    broker.stop()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_another_cluster_adopts_it(version: str) -> None:
    scratch = scratch_folder("klogtool-brokers-transplant-")
    try:
        with a_broker(version, scratch / "old") as broker:
            record = sys.modules[type(broker).__module__].Record
            everything, committed = write_the_old_one(broker, record)
            copy = scratch / "copy" / "old-0"
            shutil.copytree(broker.partition_dir("old", 0), copy)
        assert len(everything) > len(committed) > 0
        assert len(Partition(str(copy)).leader_epochs or ()) > 1

        with a_broker(version, scratch / "new") as broker:
            broker.start()
            ids = {topic: broker.create_topic(topic, 1, **small_segments(version)) for topic in ("adopted", "old")}
            broker.stop()
            (log_dir,) = broker.log_dirs
            # As docs/transplant.md says: to another folder, by the id; and in place, where the log dir knows the id.
            moved_out = scratch / "moved-out"
            moved_out.mkdir()
            result = scratch / "result"
            done("transplant", copy, "--output", result, "--topic", "adopted", "--topic-id", ids["adopted"])
            (log_dir / "adopted-0").rename(moved_out / "adopted-0")
            result.rename(log_dir / "adopted-0")
            (log_dir / "old-0").rename(moved_out / "old-0")
            shutil.copytree(copy, log_dir / "old-0")
            metadata = ("--topic-id", ids["old"])
            done("transplant", log_dir / "old-0", "--apply", *metadata)

            broker.start()
            more = [record(key=b"new", value=b"of the new cluster")] * 4
            for topic in ids:
                assert "stray" not in broker.log_text()
                assert served(broker, topic) == everything, topic
                assert served(broker, topic, isolation="read_committed") == committed, topic
                # The ids of the new cluster's producers begin where the old cluster's did.
                end = broker.offsets(topic, 0)[1]
                for n in range(3):
                    offsets = broker.produce(topic, 0, more, enable_idempotence="true")
                    assert offsets == [end + 4 * n + m for m in range(4)], topic
                producer = broker.producer(f"tx-{topic}", transactional_id=f"tx-{topic}")
                producer.begin()
                producer.send(topic, 0, more[0])
                producer.flush()
                producer.commit()
                producer.close()
            broker.kill()  # the next life recovers what was appended
            broker.start()
            for topic in ids:
                assert served(broker, topic)[: len(everything)] == everything
                assert len(served(broker, topic, isolation="read_committed")) == len(committed) + 13, topic
            broker.stop()
            for topic in ids:
                done("verify", "--deep", log_dir / f"{topic}-0")
    finally:
        shutil.rmtree(scratch)


@pytest.mark.slow
def test_a_clone_of_all_log_dirs_starts_as_another_cluster() -> None:
    """With another cluster id in all log dirs a broker serves what the original does; with it in one of two, none
    starts."""
    scratch = scratch_folder("klogtool-brokers-clone-")
    try:
        with a_broker("4.3.1", scratch / "old") as broker:
            record = sys.modules[type(broker).__module__].Record
            broker.start()
            broker.create_topic("orders", 1)
            broker.produce("orders", 0, [record(key=b"k%d" % n, value=b"value") for n in range(20)])
            broker.stop()
            dirs = [*broker.log_dirs, broker.metadata_dir]
            done("transplant", dirs[0], "--cluster-id", CLONE, "--apply")
            with pytest.raises(Exception, match=r"(?i)cluster.?id"):
                broker.start()
            done("transplant", dirs[1], "--cluster-id", CLONE, "--apply")
            broker.start()
            assert [row[0] for row in served(broker, "orders")] == list(range(20))
            broker.produce("orders", 0, [record(value=b"of the clone")])
            assert len(served(broker, "orders")) == 21
    finally:
        shutil.rmtree(scratch)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_clone_of_a_dynamic_quorum_listens_elsewhere() -> None:
    """One run gives all disks of three nodes another cluster id, and the voters other ports: they elect a leader, and
    serve what the original has."""
    scratch = scratch_folder("klogtool-brokers-clone-")
    try:
        with a_cluster("4.3.1", scratch / "work", 3, is_dynamic=True) as cluster:
            module = sys.modules[type(cluster.one).__module__]
            cluster.start()
            cluster.create("orders", "1:2:3")
            cluster.one.produce("orders", 0, [module.Record(value=b"%d" % n) for n in range(20)], acks="all")
            cluster.stop()
            for broker in cluster.brokers:
                broker._controller_port = module.free_port()
            places = [f"{broker.node_id}@127.0.0.1:{broker._controller_port}" for broker in cluster.brokers]
            bootstrap = ",".join(place.partition("@")[2] for place in places)
            disks = [disk for broker in cluster.brokers for disk in (*broker.log_dirs, broker.metadata_dir)]
            done("transplant", *disks, "--cluster-id", CLONE, "--voters", ",".join(places), "--apply")
            for broker in cluster.brokers:
                broker.cluster_id = CLONE
                broker.config["controller.quorum.bootstrap.servers"] = bootstrap
            cluster.start()
            assert len(served(cluster.one, "orders")) == 20
            assert CLONE in cluster.one.log_text()
            cluster.stop()
    finally:
        shutil.rmtree(scratch)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("version", "is_dynamic"), [("4.3.1", True), ("4.3.1", False), ("3.9.2", False)])
def test_a_clone_with_other_node_ids(version: str, is_dynamic: bool) -> None:
    """Replicas, leaders, settings of brokers and committed offsets are there under the new ids; nothing is stray."""
    scratch = scratch_folder("klogtool-brokers-clone-")
    try:
        with a_cluster(version, scratch / "work", 3, is_dynamic=is_dynamic) as cluster:
            module = sys.modules[type(cluster.one).__module__]
            cluster.start()
            cluster.create("orders", "1:2:3,2:3:1", retention_ms=123456)
            change = ("--bootstrap-server", cluster.bootstrap, "--alter", "--add-config", "log.cleaner.threads=2")
            cluster.one.tool(CONFIGS, *change, "--entity-type", "brokers", "--entity-name", "2")
            records = [module.Record(value=b"%d" % n) for n in range(20)]
            cluster.one.produce("orders", 0, records, acks="all", enable_idempotence="true")
            cluster.one.join_group("readers", "orders", 7)
            cluster.kill()
            disks = [disk for broker in cluster.brokers for disk in (*broker.log_dirs, broker.metadata_dir)]
            places = ",".join(
                f"{broker.node_id + 10}@127.0.0.1:{broker._controller_port}" for broker in cluster.brokers
            )
            release = ("--kafka", version, "--cluster-id", CLONE, "--node-ids", "1=11,2=12,3=13")
            done("transplant", *disks, *release, *(("--voters", places) if is_dynamic else ()), "--apply")
            for broker in cluster.brokers:
                broker.node_id += 10
                broker.cluster_id = CLONE
                if not is_dynamic:
                    broker.config["controller.quorum.voters"] = places
            cluster.start()
            told = cluster.one.tool(
                TOPICS, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", "orders"
            ).stdout
            assert [re.findall(r"Replicas: (\S+)", told), "retention.ms=123456" in told] == [
                ["11,12,13", "12,13,11"],
                True,
            ]
            assert len(served(cluster.one, "orders")) == 20
            cluster.one.produce("orders", 1, records, acks="all")
            of_broker = (
                "--bootstrap-server",
                cluster.bootstrap,
                "--describe",
                "--entity-type",
                "brokers",
                "--entity-name",
            )
            assert "log.cleaner.threads=2" in cluster.one.tool(CONFIGS, *of_broker, "12").stdout
            groups = cluster.one.tool(
                GROUPS, "--bootstrap-server", cluster.bootstrap, "--describe", "--group", "readers"
            )
            assert re.search(r"readers\s+orders\s+0\s+7\s+20", groups.stdout), groups.stdout
            assert not [path for disk in disks for path in pathlib.Path(disk).glob("*-stray")]
            cluster.kill()
    finally:
        shutil.rmtree(scratch)
