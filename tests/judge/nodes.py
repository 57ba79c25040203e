"""Real nodes of one quorum: each over a disk of its own, started together; who leads them, and how each ends."""

from __future__ import annotations

import fcntl
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from kafka.brokers import classes_of, fetched
from kafka.kafka import cache_folder

CLUSTER = "NmugKK5HRqOZ6ob2pMJQaw"
METADATA = "__cluster_metadata-0"
BOTH, ALONE = "broker,controller", "controller"
REGISTRATION_S = 9  # in place of a minute: how long a broker waits for a leader before it ends
START_S, STABLE_S, LATER_S = 60, 2.0, 30.0
WATCHED_S = {BOTH: 60, ALONE: 18}  # a broker without a leader ends, and takes its time to stop
LEADS = re.compile(r"Completed transition to (\w+)\(")
# Who has won the election replays its log first, and may end at a record of it (QuorumController).
ACTIVE = re.compile(r"Becoming the active controller|are still the leader in the new epoch")

Settings: TypeAlias = dict[str, str]


@dataclass(frozen=True)
class Kind:
    """What a quorum is. roles: of each node."""

    version: str
    size: int
    roles: str
    is_dynamic: bool

    @property
    def name(self) -> str:
        return f"{self.version}-{self.size}-{self.roles.replace(',', '-')}-{'dynamic' if self.is_dynamic else 'static'}"


@dataclass
class Ended:
    """The end of a process, and when, in seconds after its start."""

    status: int
    after_s: float


@dataclass
class Truth:
    """leader: the last node that was the active controller for a while, and did not end; None: none was. ended: of the
    processes that ended, by node. said: what each logged."""

    leader: int | None
    ended: dict[int, Ended] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)


class Nodes:
    """Nodes of one quorum in a folder: `n1` is the disk of node 1. settings: of each, to be changed by a case."""

    def __init__(self, kind: Kind, work: Path, ports: Iterable[int]) -> None:
        self.kind, self.work = kind, work
        self.ports = dict(enumerate(ports, 1))
        self.settings = {n: self._settings(n) for n in self.ports}

    def disk(self, node: int) -> Path:
        return self.work / f"n{node}"

    def metadata(self, node: int) -> Path:
        return self.disk(node) / METADATA

    def file(self, node: int) -> Path:
        """The settings of a node, written out."""
        path = self.work / f"n{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.settings[node].items()))
        return path

    def _settings(self, node: int) -> Settings:
        port, addresses = self.ports[node], {n: f"127.0.0.1:{port}" for n, port in self.ports.items()}
        listeners = f"CONTROLLER://127.0.0.1:{port}"
        listeners += f",PLAINTEXT://127.0.0.1:{port + 1}" if self.kind.roles == BOTH else ""
        quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
            if self.kind.is_dynamic
            else {"controller.quorum.voters": ",".join(f"{n}@{address}" for n, address in addresses.items())}
        )
        return {
            "process.roles": self.kind.roles,
            "node.id": str(node),
            "log.dirs": str(self.disk(node)),
            "listeners": listeners,
            **({"advertised.listeners": listeners} if self.kind.roles == BOTH else {}),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "initial.broker.registration.timeout.ms": str(1000 * REGISTRATION_S),
            "broker.session.timeout.ms": "2000",  # so long a broker that was killed is still registered
            "broker.heartbeat.interval.ms": "500",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **quorum,
        }

    def java(self, *words: str) -> list[str]:
        module = fetched(self.kind.version)
        jvm = ["java", "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        if (archive := classes_of(self.kind.version)).exists():
            jvm += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
        logging = module._logging(self.kind.version, self.work, "INFO")
        return [*jvm, *logging, "-cp", module.classpath(self.kind.version), *words]

    def format(self, directory_ids: Mapping[int, str] | None = None) -> None:
        """Format every disk. directory_ids: of the first voters of a dynamic quorum of several."""
        for node in self.ports:
            if directory_ids is None:
                words = ["--standalone"] if self.kind.is_dynamic else []
            else:
                voters = (f"{n}@127.0.0.1:{port}:{directory_ids[n]}" for n, port in self.ports.items())
                words = ["--initial-controllers", ",".join(voters)]
            main = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", str(self.file(node))]
            subprocess.run(self.java(*main, *words), check=True, capture_output=True)

    def run(self, nodes: Iterable[int] | None = None, *, ending: Iterable[int] = (), late: Iterable[int] = ()) -> Truth:
        """Start nodes together, until one leads and stays so, or all have ended, or for some seconds after the last of
        them has come to its first election. They are killed then, and their disks have changed. ending: nodes that are
        to end, perhaps some seconds after another one leads. late: those of them that start once there is a leader."""
        with home_of(self.kind).joinpath("lock").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)  # another process may have a copy of this quorum, with the same ports
            return self._run(list(nodes or self.ports), WATCHED_S[self.kind.roles], {*ending}, [*late])

    def _run(self, nodes: Sequence[int], watched_s: float, ending: set[int], late: list[int]) -> Truth:
        running: dict[int, Any] = {}
        started = time.monotonic()
        truth, leading, since, all_up = Truth(None), None, 0.0, None
        try:
            running |= {node: self._started(node) for node in nodes if node not in late}
            while True:
                time.sleep(0.3)
                now = time.monotonic()
                for node, process in running.items():
                    if process.poll() is not None and node not in truth.ended:
                        truth.ended[node] = Ended(process.returncode, now - started)
                alive = running.keys() - truth.ended.keys()
                truth.said = {node: self._log(node).read_text(errors="replace") for node in running}
                truth.leader = None if truth.leader in truth.ended else truth.leader
                leader = next((n for n in sorted(alive) if _is_active(truth.said[n])), None)
                since = now if leader is None or leader != leading else since
                leading = leader
                if leader is not None and late:
                    running |= {node: self._started(node) for node in late}
                    since = now
                    late.clear()
                if leader is not None and now - since > STABLE_S:
                    truth.leader = leader
                    is_up = self.kind.roles == ALONE or "Kafka Server started" in truth.said[leader]
                    if is_up and (not ending & alive or now - since > LATER_S):
                        return truth
                if all_up is None and all(LEADS.search(truth.said[node]) for node in alive):
                    all_up = now
                is_over = all_up is not None and now - all_up > watched_s and leader is None
                if not alive or is_over or now - started > START_S + watched_s:
                    return truth
        finally:
            for process in running.values():
                if process.poll() is None:
                    process.kill()
                process.wait()

    def _started(self, node: int) -> subprocess.Popen[bytes]:
        with self._log(node).open("wb") as out:
            command = self.java("kafka.Kafka", str(self.file(node)))
            return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def _log(self, node: int) -> Path:
        return self.work / f"n{node}.out"


def _is_active(text: str) -> bool:
    states = list(LEADS.finditer(text))
    return bool(states) and states[-1][1] == "Leader" and ACTIVE.search(text, states[-1].end()) is not None


def home_of(kind: Kind) -> Path:
    return cache_folder() / "judge" / f"quorum-{kind.name}-3"


def a_life_before(kind: Kind) -> Path:
    """The disks of a quorum that has lived, in the cache of the tests: `ports` beside them says where they listened."""
    home = home_of(kind)
    if (home / "ports").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    ports = _free_ports(kind.size)
    nodes = Nodes(kind, home, ports)
    new_id = fetched(kind.version).new_uuid
    nodes.format({n: new_id() for n in nodes.ports} if kind.is_dynamic and kind.size > 1 else None)
    for _ in range(2):  # the second leader has a log already
        truth = nodes.run()
        if truth.leader is None:
            raise RuntimeError(f"a sound quorum elects nobody: {truth.said}")
    (home / "ports").write_text(" ".join(map(str, ports)))
    return home


def _free_ports(count: int) -> list[int]:
    rng, found = random.Random(), list[int]()
    while len(found) < count:
        port = rng.randrange(21000, 29000, 2)
        with socket.socket() as one:
            if port not in found and one.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


def lived(kind: Kind, work: Path) -> Nodes:
    """A copy of such a quorum."""
    home = a_life_before(kind)
    nodes = Nodes(kind, work, map(int, (home / "ports").read_text().split()))
    for node in nodes.ports:
        shutil.copytree(home / f"n{node}", nodes.disk(node))
    return nodes
