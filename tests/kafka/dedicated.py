"""A quorum of dedicated controllers and one broker, started and stopped one by one; and what a client sees of it."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from judge.nodes import ALONE, CLUSTER, LEADS, Kind, Nodes

from .brokers import a_broker, fetched, share_classes

Path = pathlib.Path
BROKER = 9
QUORUM, CONFIGS = "org.apache.kafka.tools.MetadataQuorumCommand", "kafka.admin.ConfigCommand"
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FENCED = "All brokers are currently fenced"
UNKNOWN_LEADER = "Unknown leader endpoints"  # a new disk may end so at its first contact with a leader


class Dedicated:
    """Controllers 1 to `size`, and a broker that is none. Each has its disk. founders: how many of them vote from the
    beginning; the disks of the others come with `new_disk`."""

    def __init__(self, version: str, size: int, work: Path, stack: ExitStack, founders: int, is_dynamic: bool) -> None:
        self.module, self.work = fetched(version), work
        self.nodes = Nodes(Kind(version, size, ALONE, is_dynamic), work, [self.module.free_port() for _ in range(size)])
        for settings in self.nodes.settings.values():
            settings |= GUARDED
        self.founders = list(self.nodes.ports)[:founders]
        if is_dynamic and founders == 1:
            self._format(1, "--standalone")
        else:
            self.nodes.format({n: self.module.new_uuid() for n in self.nodes.ports} if is_dynamic else None)
        self.running: dict[int, Any] = {}
        config = {"process.roles": "broker", "controller.quorum.voters": "", **GUARDED}
        options = {"node_id": BROKER, "cluster_id": CLUSTER, "config": config, "heap": "320m"}
        self.broker = stack.enter_context(a_broker(version, work / "broker", **options))
        self.tools = self.broker
        if version == "4.4.0":  # its tools are not fetched
            self.tools = share_classes(fetched("4.3.1").Broker("4.3.1", work / "tools"))
        self.broker.config["listeners"] = f"PLAINTEXT://127.0.0.1:{self.broker.port}"
        self.addresses = {n: f"127.0.0.1:{port}" for n, port in self.nodes.ports.items()}
        self.name_voters(*(() if is_dynamic else self.nodes.ports))

    def move_to(self, addresses: dict[int, str]) -> None:
        """The controllers listen there from now on, and the settings of all nodes say so."""
        self.addresses = addresses
        for n, address in addresses.items():
            self.nodes.settings[n]["listeners"] = f"CONTROLLER://{address}"
        self.name_voters()

    def name_voters(self, *voters: int) -> None:
        """The settings of all nodes name these; without any, where controllers listen: the quorum is dynamic then."""
        named = {
            "controller.quorum.voters": ",".join(f"{n}@{self.addresses[n]}" for n in voters),
            "controller.quorum.bootstrap.servers": "" if voters else ",".join(self.addresses.values()),
        }
        self.broker.config |= named
        for settings in self.nodes.settings.values():
            for key, value in named.items():
                settings.pop(key, None)
                settings |= {key: value} if value else {}

    @property
    def broker_copy(self) -> Path:
        """The log dir in which the broker has its copy of the metadata."""
        return Path(self.broker.metadata_dir)

    def start(self, *nodes: int) -> None:
        """Start controllers together, and wait until all are up. One that ends at its first contact starts again."""
        for node in nodes:
            self._launch(node)
        end = time.monotonic() + 90
        while waiting := [node for node in nodes if "Kafka Server started" not in self.said(node)]:
            assert time.monotonic() < end, self.said(waiting[0])[-2000:]
            time.sleep(0.3)

    def settle(self, leader: int) -> None:
        """Wait until this controller leads."""
        assert self.leaders() == [leader]

    def leaders(self) -> list[int]:
        """Return who leads, as soon as somebody does."""
        end = time.monotonic() + 90
        while not (found := [n for n in self.running if LEADS.findall(self.said(n))[-1:] == ["Leader"]]):
            assert time.monotonic() < end, {n: self.said(n)[-2000:] for n in self.running}
            time.sleep(0.3)
        return found

    def again(self) -> None:
        """Start those again that ended at their first contact."""
        for node, process in self.running.items():
            if process.poll() is not None:
                assert UNKNOWN_LEADER in self.said(node), self.said(node)[-2000:]
                self._launch(node)

    def _launch(self, node: int) -> None:
        with self._log(node).open("wb") as out:
            command = self.nodes.java("kafka.Kafka", str(self.nodes.file(node)))
            self.running[node] = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def stop(self, *nodes: int) -> None:
        """Stop controllers, all at once."""
        ending = [self.running.pop(node) for node in nodes]
        for process in ending:
            process.send_signal(signal.SIGTERM)
        for process in ending:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:  # it finds no leader to say good-bye to
                process.kill()
                process.wait()

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        if self.tools is not self.broker:
            self.tools.close()

    def said(self, node: int) -> str:
        return self._log(node).read_text(errors="replace")

    def _log(self, node: int) -> Path:
        return self.work / f"n{node}.out"

    def lose(self, node: int) -> None:
        """Its disk gets another name."""
        self.nodes.disk(node).rename(self.work / f"gone-{node}")

    def new_disk(self, node: int) -> None:
        """Give a controller an empty disk."""
        if self.nodes.disk(node).exists():
            self.lose(node)
        is_static = "controller.quorum.voters" in self.nodes.settings[node]
        self._format(node, *([] if is_static else ["--no-initial-controllers"]))

    def _format(self, node: int, *words: str) -> None:
        main = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", str(self.nodes.file(node))]
        subprocess.run(self.nodes.java(*main, *words), check=True, capture_output=True)

    def quorum(self, leader: int, *words: object, config: int | None = None) -> str:
        file = self.nodes.file(config or leader)
        server = ("--bootstrap-controller", self.addresses[leader])
        return str(self.tools.tool(QUORUM, *server, "--command-config", file, *words).stdout)

    def voters(self, leader: int) -> set[int]:
        told = self.quorum(leader, "describe", "--status")
        (line,) = re.findall(r"^CurrentVoters: *(.*)$", told, flags=re.MULTILINE)
        return {int(number) for number in re.findall(r'"id": *(\d+)', line)}

    def join(self, leader: int, *nodes: int) -> None:
        """New controllers become voters, one after the other."""
        for node in nodes:
            self.start(node)
            time.sleep(2)
            self.again()
            self.quorum(leader, "add-controller", config=node)

    def join_as_printed(self, told: str, *nodes: int) -> None:
        """The same by the commands in the answer of `quorum --standalone`, as a person types them."""
        folder = self.work / "typed"
        self._tools_in(folder)
        for node in nodes:
            (folder / f"server-{node}.properties").write_bytes(self.nodes.file(node).read_bytes())
            lines = rf"^ *Node {node}, on an empty disk.*:\n *(kafka-storage .*)\n.*\n *(kafka-metadata-quorum .*)$"
            ((formats, adds),) = re.findall(lines, told, flags=re.MULTILINE)
            self._type(formats, folder)
            self.start(node)
            time.sleep(2)
            self.again()
            self._type(adds, folder)

    def _tools_in(self, folder: Path) -> None:
        """Kafka's scripts in a folder."""
        folder.mkdir()
        own, release = self.nodes.java, self.tools.version
        of_release = Nodes(Kind(release, 1, ALONE, True), self.work / "tools-of", [1]).java
        (self.work / "tools-of").mkdir()
        for name, command in (
            ("kafka-storage", own("kafka.tools.StorageTool")),
            ("kafka-metadata-quorum", of_release(QUORUM)),
        ):
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            script.chmod(0o755)

    @staticmethod
    def _type(line: str, folder: Path) -> None:
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    # What a client sees.

    def fill(self) -> None:
        record = self.module.Record
        self._create("orders", 3, "--config", "retention.ms=-1", "--config", "max.message.bytes=700000")
        for n in range(3):
            self.broker.produce("orders", n, [record(value=b"%d-%d" % (n, i)) for i in range(20)], acks="all")
        alice = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
        self._ask(CONFIGS, *alice, "--entity-type", "users", "--entity-name", "alice")
        self._ask(*self._acls, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        self.broker.join_group("readers", "orders", 30)

    def _create(self, topic: str, count: int, *words: str) -> None:
        """A new leader may have fenced the broker, whose sessions are short here, until it hears of it."""
        told, end = ("--create", "--topic", topic, "--partitions", count, *words), time.monotonic() + 60
        while True:
            try:
                self._ask("org.apache.kafka.tools.TopicCommand", *told)
                return
            except self.module.BrokerError as error:
                if FENCED not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(1)

    @property
    def _acls(self) -> tuple[str, ...]:
        old = self.nodes.kind.version == "3.9.2"
        return ("kafka.admin.AclCommand" if old else "org.apache.kafka.tools.AclCommand",)

    def _ask(self, main: str, *words: object) -> list[str]:
        told = self.tools.tool(main, "--bootstrap-server", self.broker.bootstrap, *words).stdout
        return sorted(line.strip() for line in told.splitlines())

    def known(self) -> dict[str, Any]:
        """Ids, settings, credentials, access rules, committed offsets and records."""
        configs = [
            line for kind in ("topics", "users") for line in self._ask(CONFIGS, "--describe", "--entity-type", kind)
        ]
        groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        lines = self._ask(groups, "--describe", "--group", "readers", "--offsets")
        return {
            "ids": {topic: self.broker.topic_id(topic) for topic in ("orders", "__consumer_offsets")},
            "settings": [line for line in configs if "=" in line],
            "rules": [line for line in self._ask(*self._acls, "--list") if "operation=" in line],
            "committed": [line.split()[:4] for line in lines if line.startswith("readers")],
            "values": self.values(),
        }

    def values(self) -> list[list[bytes | None]]:
        """What was produced."""
        return [[one.value for one in self.broker.consume("orders", n)] for n in range(3)]

    def go_on(self, topic: str = "fresh") -> None:
        """A producer goes on, and a new topic can be made."""
        record = self.module.Record
        self.broker.produce("orders", 0, [record(value=b"new")], acks="all", enable_idempotence="true")
        assert self.broker.consume("orders", 0)[-1].value == b"new"
        self._create(topic, 1)
        self.broker.produce(topic, 0, [record(value=b"new")], acks="all")
        assert "Found stray" not in self.broker.log_text()


@contextmanager
def dedicated(
    version: str, size: int, work: Path, *, founders: int | None = None, is_dynamic: bool = True
) -> Iterator[Dedicated]:
    """Controllers and a broker that are not started yet; nothing of them is left running."""
    with ExitStack() as stack:
        cluster = Dedicated(version, size, work, stack, founders or size, is_dynamic)
        stack.callback(cluster.close)
        yield cluster


def can_listen(host: str) -> bool:
    """Whether this machine has that address."""
    try:
        with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return True
    except OSError:
        return False


def run_lines(text: str, pattern: str, folder: str | os.PathLike[str]) -> Sequence[str]:
    """Run each command of a text that the pattern finds, as a person pastes it."""
    lines = re.findall(pattern, text, flags=re.MULTILINE)
    for line in lines:
        subprocess.run(["bash", "-c", line], check=True, cwd=folder)
    return lines
