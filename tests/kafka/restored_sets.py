"""Disks of a real cluster of three nodes under load, each copied at another second, as snapshots of volumes are.

The copies are made while the nodes run and write: they are consistent as after a crash at best.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from .clusters import Cluster

Path = pathlib.Path
PLAIN, FIRST, SECOND, LATE, GROUP = "plain", "first", "second", "late", "readers"
COMPACTED, MOVED, RETAINED = "compacted", "moved", "retained"
DOOMED = "doomed"
ASSIGNMENT = "1:2:3,2:3:1,3:1:2"
CONFIG = {
    "transaction.state.log.num.partitions": 4,
    "offsets.topic.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}
COMPACTION = {"cleanup_policy": "compact", "segment_ms": 700, "min_cleanable_dirty_ratio": 0.01}
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


class Sent(Struct):
    """What the load has sent, by the acknowledgements of the leaders: records by topic and partition; transactions."""

    records: dict[tuple[str, int], int]
    transactions: int = 0


class Load:
    """Plain records with acks=all, and transactions over two topics that commit an offset of a group as well."""

    def __init__(self, cluster: Cluster, topics: Sequence[str] = ()) -> None:
        self.cluster, self.sent, self._stop = cluster, Sent({}), threading.Event()
        self._record = sys.modules[type(cluster.one).__module__].Record
        self._thread = threading.Thread(target=self._run)
        self.problem: Exception | None = None
        self.topics = [PLAIN, *topics]
        self.client = threading.Lock()  # one client for the load and for whoever creates topics meanwhile

    def __enter__(self) -> Load:
        self._txn = self.cluster.one.producer("txn", transactional_id="mover", transaction_timeout_ms=5000)
        self._plain = self.cluster.one.producer("plain", enable_idempotence="true")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        n = 0
        try:
            while not self._stop.is_set():
                with self.client:
                    self.step(n)
                n += 1
                time.sleep(0.05)
        except Exception as problem:
            self.problem = problem

    def step(self, n: int) -> None:
        """One plain record for each partition, and one transaction."""
        record = self._record
        for topic in tuple(self.topics):
            for partition in range(3):
                value = b"%s-%d" % (topic.encode(), n)
                self._plain.send(topic, partition, record(key=b"%d" % (n % 7), value=value))
                self.sent.records[topic, partition] = self.sent.records.get((topic, partition), 0) + 1
        self._plain.flush()
        self._txn.begin()
        for topic in (FIRST, SECOND):
            self._txn.send(topic, 0, record(value=b"txn-%d" % n))
        self._txn.flush()
        self._txn.send_offset(GROUP, PLAIN, n % 3, self.sent.records[PLAIN, n % 3])
        self._txn.commit()
        self.sent.transactions += 1


def disks_of(broker: Any) -> list[Path]:
    """The log dirs of a node, then its metadata dir."""
    return [*map(Path, broker.log_dirs), Path(broker.metadata_dir)]


def snapshot(broker: Any, place: Path) -> None:
    """Copy the disks of a node that runs; files that go away meanwhile are not in the copy."""
    for disk in disks_of(broker):
        copy_running(disk, place / f"{broker.node_id}-{disk.name}")


def copy_running(source: Path, target: Path) -> None:
    """Copy a folder that changes."""
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        try:
            if path.is_dir():
                copy_running(path, target / path.name)
            elif path.name != ".lock":
                shutil.copy2(path, target / path.name)
        except FileNotFoundError:
            continue


def restore(broker: Any, place: Path) -> None:
    """Put the copies in the place of the disks of a node that does not run. A disk without a copy is empty, and is
    formatted."""
    for disk in disks_of(broker):
        shutil.rmtree(disk)
        copy = place / f"{broker.node_id}-{disk.name}"
        shutil.copytree(copy, disk) if copy.exists() else disk.mkdir()


def tear(place: Path, node: int, chance: random.Random) -> None:
    """Do to the last bytes of a node's logs and indexes what a crash of the machine does: they are cut short, or zeros,
    or zeros follow."""
    for path in sorted(place.glob(f"{node}-*/*-[0-9]*/*.*")):
        is_last = path == max(path.parent.glob(f"*{path.suffix}"))
        size = path.stat().st_size
        if path.suffix not in (".log", ".index", ".timeindex") or "__cluster" in path.parent.name or not is_last:
            continue
        torn = min(size, chance.choice((1, 30, 61, 200)))
        with path.open("r+b") as file:
            match chance.choice(("cut", "zeros", "longer", "whole")):
                case "cut":
                    file.truncate(size - torn)
                case "zeros":
                    file.seek(size - torn)
                    file.write(bytes(torn))
                case "longer":
                    file.seek(size)
                    file.write(bytes(4096 - size % 4096))


def make_set(
    cluster: Cluster,
    place: Path,
    order: Sequence[int],
    between: Callable[[Load, int], None],
    seconds: float = 3,
    topics: Sequence[str] = (),
) -> Sent:
    """Copy the disks of the nodes in this order, with some seconds under load between them; then kill all nodes.
    topics: further ones that the load writes to."""
    for topic in (PLAIN, FIRST, SECOND):
        cluster.create(topic, ASSIGNMENT if topic == PLAIN else "1:2:3" if topic == FIRST else "2:3:1")
    with Load(cluster, topics) as load:
        time.sleep(seconds)
        for n, node in enumerate(order):
            snapshot(cluster.brokers[node - 1], place)
            between(load, n)
            time.sleep(seconds)
    cluster.kill()
    return load.sent


def create_late(load: Load, copied: int) -> None:
    """A topic that only the disks that are copied later have."""
    if copied == 0:
        with load.client:
            load.cluster.create(LATE, "1:2:3,2:3:1,3:1:2")
            load.topics.append(LATE)


def move(load: Load, copied: int) -> None:
    """Give each partition of a topic other replicas, slowly."""
    if copied == 0:
        moves = [
            {"topic": MOVED, "partition": n, "replicas": replicas}
            for n, replicas in enumerate(([3, 2], [1, 3], [2, 1]))
        ]
        path = load.cluster.one.work / "moves.json"
        path.write_text(json.dumps({"version": 1, "partitions": moves}))
        words = ("--bootstrap-server", load.cluster.bootstrap, "--reassignment-json-file", path, "--throttle", 300)
        load.cluster.one.tool(REASSIGN, "--execute", *words)
