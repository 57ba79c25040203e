"""A quorum that has lost its majority gets a new set of voters, and real controllers elect a leader: nothing is lost.

Three nodes, each a broker and a controller of a dynamic quorum, with topics, settings, a SCRAM user, an access rule,
records, a transaction and committed offsets. What is lost: the metadata disks of two, or the addresses of all three.
After the rescue every topic has its id, every record and setting is there, producers go on, and the quorum has three
voters again, of which one can be down. Other losses: test_quorum_dedicated.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from running import run_here

from .beside import module_beside
from .brokers import fetched
from .clusters import Cluster, a_cluster
from .kafka import scratch_folder
from .test_metadata_from_disks import EAGER, Known, described, feed, go_on, seen, wait_for_replicas

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
GUARDED = EAGER | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-quorum-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def with_tools_of(version: str, broker: Any) -> Callable[..., Any]:
    """Run tools of another release: those of 4.4.0 are not fetched. Disks are formatted by the broker's own."""
    own, others = broker.tool, fetched(version).Broker(version, broker.work / "tools")

    def tool(main: str, *words: object, **options: Any) -> Any:
        return (own if main == "kafka.tools.StorageTool" else others.tool)(main, *words, **options)

    return tool


class Rescue:
    """A cluster and what it has. Nodes are by their ids."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        for broker in cluster.brokers if cluster.one.version == "4.4.0" else ():
            broker.tool = with_tools_of("4.3.1", broker)

    def node(self, node_id: int) -> Any:
        return self.cluster.brokers[node_id - 1]

    def settings(self) -> list[str]:
        """What no record shows: the user's credentials, the topics' settings, access rules."""
        lines: list[str] = []
        for kind in ("topics", "users"):
            words = ("--bootstrap-server", self.cluster.bootstrap, "--describe", "--entity-type", kind)
            lines += self.cluster.one.tool(CONFIGS, *words).stdout.splitlines()
        lines += self.acls("--list").splitlines()
        return sorted(line.strip() for line in lines if "=" in line)

    def acls(self, *words: str) -> str:
        main = "kafka.admin.AclCommand" if self.cluster.one.version == "3.9.2" else "org.apache.kafka.tools.AclCommand"
        told: str = self.cluster.one.tool(main, "--bootstrap-server", self.cluster.bootstrap, *words).stdout
        return told

    def known(self) -> tuple[Known, list[str]]:
        return seen(self.cluster), self.settings()

    def begin(self) -> tuple[Known, list[str]]:
        """Start and fill it."""
        self.cluster.start()
        feed(self.cluster)
        scram = "SCRAM-SHA-256=[iterations=4096,password=secret]"
        words = ("--alter", "--add-config", scram, "--entity-type", "users", "--entity-name", "alice")
        self.cluster.one.tool(CONFIGS, "--bootstrap-server", self.cluster.bootstrap, *words)
        self.acls("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        known = self.known()
        assert {"SCRAM", "operation=READ"} <= {word for word in ("SCRAM", "operation=READ") if word in str(known[1])}
        return known

    def stop(self) -> None:
        """Stop all at once. The last one may find no leader to say good-bye to; then it is killed."""
        with suppress(sys.modules[type(self.cluster.one).__module__].BrokerError):
            self.cluster.stop()

    def topics(self, node_id: int) -> list[str]:
        node = self.node(node_id)
        words = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap, "--list")
        return str(node.tool(*words).stdout).split()

    def klogtool(self, *words: object) -> str:
        done = run_here(["quorum", *map(str, words), "--kafka", self.cluster.one.version], self.folder)
        assert done.status == 0, done.err
        return done.out.decode()

    def start(self, node_id: int) -> None:
        """Start a node. A new disk ends now and then at its first contact with a leader, and starts the second time."""
        module = sys.modules[type(self.cluster.one).__module__]
        try:
            self.node(node_id).start(timeout=150)
        except module.BrokerError:
            assert "Unknown leader endpoints" in self.node(node_id).output
            self.node(node_id).start(timeout=150)

    def new_disk(self, node_id: int) -> None:
        """Give a node an empty metadata disk; the old one gets another name."""
        node = self.node(node_id)
        node.metadata_dir.rename(node.metadata_dir.with_name("gone"))
        self.cluster._format(node, "--no-initial-controllers")

    def quorum(self, node_id: int, *words: object) -> str:
        node = self.node(node_id)
        config = node.work / "broker.properties"
        server = f"127.0.0.1:{node._controller_port}"
        told: str = node.tool(QUORUM, "--bootstrap-controller", server, "--command-config", config, *words).stdout
        return told

    def add_controller(self, node_id: int, leader: int) -> None:
        config = self.node(node_id).work / "broker.properties"
        server = f"127.0.0.1:{self.node(leader)._controller_port}"
        words = ("--bootstrap-controller", server, "--command-config", config, "add-controller")
        self.node(node_id).tool(QUORUM, *words)

    def voters(self, node_id: int) -> set[int]:
        told = self.quorum(node_id, "describe", "--status")
        (line,) = re.findall(r"^CurrentVoters: *(.*)$", told, flags=re.MULTILINE)
        return {int(number) for number in re.findall(r'"id": *(\d+)', line)}

    def check(self, before: tuple[Known, list[str]]) -> None:
        """Nothing is lost, all goes on, and one of three may be down."""
        wait_for_replicas(self.cluster)
        assert self.known() == before
        go_on(self.cluster)
        self.check_after_a_restart()
        for broker in self.cluster.brokers:
            assert "Found stray" not in broker.log_text()

    def check_after_a_restart(self) -> None:
        """All nodes stop and start once more: what they had, with what is new since the rescue, is still there."""
        known, voters = self.known(), self.voters(1)
        self.stop()
        self.cluster.start()
        wait_for_replicas(self.cluster)
        assert self.known() == known
        assert self.voters(1) == voters
        self.cluster.create("after-a-restart", "1:2:3")


def test_one_of_three_controllers_is_left(version: str, folder: Path) -> None:
    with a_cluster(version, folder, 3, GUARDED, is_dynamic=True) as cluster:
        rescue = Rescue(cluster, folder)
        before = rescue.begin()
        rescue.stop()
        for node_id in (2, 3):
            rescue.new_disk(node_id)
        lost = ("--destroyed", 2, "--destroyed", 3, "--accept-loss")
        told = rescue.klogtool(rescue.node(1).metadata_dir, "--standalone", *lost, "--apply")
        assert "node 1 is the only voter" in told
        rescue.start(1)
        for node_id in (2, 3):
            rescue.start(node_id)
            rescue.add_controller(node_id, 1)
        assert rescue.voters(1) == {1, 2, 3}
        rescue.check(before)
        cluster.one.stop()
        end = time.monotonic() + 60
        while rescue.voters(2) != {1, 2, 3}:  # raises while there is no leader
            assert time.monotonic() < end


def test_two_new_disks_get_the_old_ids(version: str, folder: Path) -> None:
    """No log is changed, and the set of voters stays."""
    with a_cluster(version, folder, 3, GUARDED, is_dynamic=True) as cluster:
        rescue = Rescue(cluster, folder)
        before = rescue.begin()
        rescue.stop()
        for node_id in (2, 3):
            rescue.new_disk(node_id)
        disks = [str(broker.metadata_dir) for broker in cluster.brokers]
        done = run_here(["quorum", *disks, "--kafka", version], folder)
        assert done.status == 1, done.err
        lines = re.findall(r"^  (sed .*)$", done.out.decode(), flags=re.MULTILINE)
        assert len(lines) in (2, 3)  # node 1 may take a new disk for the leader of its epoch
        for line in lines:
            subprocess.run(["bash", "-c", line], check=True, cwd=folder)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(rescue.start, (1, 2, 3)))
        assert rescue.voters(1) == {1, 2, 3}
        rescue.check(before)


def test_old_controllers_come_back(folder: Path) -> None:
    """What must not happen, and what docs/quorum.md says of it."""
    with a_cluster("4.3.1", folder, 3, GUARDED, is_dynamic=True) as cluster:
        rescue = Rescue(cluster, folder)
        cluster.start()
        cluster.create("orders", "1:2:3")
        rescue.stop()
        for node_id in (2, 3):
            metadata = rescue.node(node_id).metadata_dir
            shutil.copytree(metadata, metadata.with_name("old"))
        lost = ("--destroyed", 2, "--destroyed", 3, "--accept-loss")
        rescue.klogtool(rescue.node(1).metadata_dir, "--standalone", *lost, "--apply")
        rescue.start(1)
        ours = cluster.create("ours", "1")
        for node_id in (2, 3):  # while the new leader is up: they follow it
            rescue.start(node_id)
        assert rescue.voters(1) == {1}
        assert "ours" in rescue.topics(2)
        rescue.stop()
        for node_id in (2, 3):  # while it is down: they elect one of them
            metadata = rescue.node(node_id).metadata_dir
            shutil.rmtree(metadata)
            metadata.with_name("old").rename(metadata)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(rescue.start, (2, 3)))
        assert rescue.voters(2) == {1, 2, 3}
        assert "ours" not in rescue.topics(2)
        rescue.start(1)
        assert rescue.voters(1) == {1}
        assert rescue.node(1).topic_id("ours") == ours


@pytest.fixture(params=["4.3.1", "3.9.2", "4.4.0"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_three_controllers_come_back_under_other_addresses(folder: Path) -> None:
    with a_cluster("4.3.1", folder, 3, GUARDED, is_dynamic=True) as cluster:
        rescue = Rescue(cluster, folder)
        before = rescue.begin()
        rescue.stop()
        module = module_beside("brokers/broker.py")
        for broker in cluster.brokers:
            broker._controller_port = module.free_port()
        servers = ",".join(f"127.0.0.1:{broker._controller_port}" for broker in cluster.brokers)
        for broker in cluster.brokers:
            broker.config["controller.quorum.bootstrap.servers"] = servers
        voters = ",".join(f"{broker.node_id}@127.0.0.1:{broker._controller_port}" for broker in cluster.brokers)
        told = rescue.klogtool(*(broker.metadata_dir for broker in cluster.brokers), "--voters", voters, "--apply")
        assert "loses nothing" in told
        cluster.start()
        assert rescue.voters(1) == {1, 2, 3}
        rescue.check(before)
        assert described(cluster)
