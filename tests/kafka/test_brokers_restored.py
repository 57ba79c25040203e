"""Disks of real clusters, each copied at another second under load: real brokers do what was forecast.

Each log ends where the forecast says, nothing more is lost, what hangs is told, and what becomes -stray is told.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from running import run_here

from .clusters import Cluster, a_cluster
from .kafka import scratch_folder
from .restored_sets import (
    COMPACTED,
    FIRST,
    GROUP,
    LATE,
    MOVED,
    PLAIN,
    SECOND,
    Load,
    disks_of,
    make_set,
    restore,
    snapshot,
    tear,
)

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly, pytest.mark.timeout(900)]
Path = pathlib.Path
CONFIG = {
    "transaction.state.log.num.partitions": 4,
    "offsets.topic.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}
COMPACTION = {"cleanup_policy": "compact", "segment_ms": 700, "min_cleanable_dirty_ratio": 0.01}
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DOOMED = "doomed"
SETTLED_S = 120


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-restored-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def create_late(load: Load, copied: int) -> None:
    """A topic that only the disks that are copied later have."""
    if copied == 0:
        with load.client:
            load.cluster.create(LATE, "1:2:3,2:3:1,3:1:2")
            load.topics.append(LATE)


def delete_doomed(load: Load, copied: int) -> None:
    """A topic that the disks copied first still have."""
    if copied == 0:
        with load.client:
            load.cluster.one.delete_topic(DOOMED)


@pytest.mark.parametrize(
    ("order", "between", "waves"),
    [
        ((1, 2, 3), create_late, ((1, 2, 3),)),
        ((1, 2, 3), create_late, ((1, 2), (3,))),  # the oldest ones are there first, so one of them leads
        ((3, 2, 1), delete_doomed, ((1, 2, 3),)),
    ],
    ids=["together", "the oldest first", "deleted meanwhile"],
)
def test_a_start_does_what_was_forecast(
    order: Sequence[int], between: Any, waves: Sequence[Sequence[int]], folder: Path
) -> None:
    nodes = sorted(node for wave in waves for node in wave)
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        if between is delete_doomed:
            cluster.create(DOOMED, "1:2:3")
            feed_doomed(cluster)
        make_set(cluster, folder / "set", order, between)
        for broker in cluster.brokers:
            restore(broker, folder / "set")
        rows = forecast_of(cluster, nodes, folder)
        assert rows["verdict"][0]["starts"] == "loses-data"
        for wave in waves:
            Cluster([cluster.brokers[node - 1] for node in wave]).start()
            time.sleep(15)  # sessions of the others time out
        forecasts = {(row["topic"], row["partition"]): row for row in rows["forecast"]}
        compare(Cluster([cluster.brokers[node - 1] for node in nodes]), forecasts, rows)


@pytest.mark.parametrize("order", [(2, 3, 1)], ids=str)
def test_a_set_with_torn_ends(order: Sequence[int], folder: Path) -> None:
    """The machines crashed: what was not synced is cut short, or zeros, in logs and indexes of all nodes."""
    chance = random.Random(7)
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        make_set(cluster, folder / "set", order, create_late)
        for node in order:
            tear(folder / "set", node, chance)
        start_and_compare(cluster, folder)


def test_a_set_copied_while_partitions_move_and_are_compacted(folder: Path) -> None:
    with a_cluster("4.3.1", folder / "work", 3, CONFIG | {"log.cleaner.backoff.ms": 100}) as cluster:
        cluster.start()
        cluster.create(MOVED, "1:2,2:3,3:1")
        cluster.create(COMPACTED, "1:2:3,2:3:1,3:1:2", **COMPACTION)
        make_set(cluster, folder / "set", (1, 2, 3), move, topics=(MOVED, COMPACTED))
        start_and_compare(cluster, folder)


def test_the_best_mix_of_two_generations(folder: Path) -> None:
    """The disks of two nodes were copied twice. The mix that is said to lose least is started."""
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        older, newer = folder / "older", folder / "newer"

        def copy_again(load: Load, copied: int) -> None:
            if copied == 2:
                for node in (1, 2):
                    time.sleep(2)
                    snapshot(cluster.brokers[node - 1], newer)

        make_set(cluster, older, (1, 2, 3), copy_again)
        rows = rows_of([str(path) for place in (older, newer) for path in sorted(place.iterdir())], folder)
        best = rows["mix"][0]
        assert len(rows["mix"]) == 4
        assert [Path(each["paths"][0]).parent for each in best["disks"]] == [newer, newer, older]
        for broker, disks in zip(cluster.brokers, best["disks"], strict=True):
            restore(broker, Path(disks["paths"][0]).parent)
        cluster.start()
        time.sleep(15)
        compare(cluster, {(row["topic"], row["partition"]): row for row in rows["forecast"]}, rows)


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


def start_and_compare(cluster: Cluster, folder: Path) -> None:
    """Start the set, all nodes together, and hold the forecast against what happens."""
    for broker in cluster.brokers:
        restore(broker, folder / "set")
    rows = forecast_of(cluster, (1, 2, 3), folder)
    assert rows["verdict"][0]["starts"] == "loses-data"
    cluster.start()
    time.sleep(15)
    forecasts = {(row["topic"], row["partition"]): row for row in rows["forecast"]}
    compare(cluster, forecasts, rows)


def feed_doomed(cluster: Cluster) -> None:
    record = __import__(type(cluster.one).__module__).Record
    cluster.one.produce(DOOMED, 0, [record(value=b"doomed")], acks="all")


def forecast_of(cluster: Cluster, nodes: Sequence[int], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of the forecast by their type."""
    return rows_of([str(disk) for node in nodes for disk in disks_of(cluster.brokers[node - 1])], folder)


def rows_of(paths: Sequence[str], folder: Path) -> dict[str, list[dict[str, Any]]]:
    done = run_here(["fleet", "check", "--restored", "--json", *paths], folder)
    assert done.status == 1, done.err
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in done.out.splitlines():
        row = json.loads(line)
        rows.setdefault(row["type"], []).append(row)
    return rows


def compare(cluster: Cluster, forecasts: dict[tuple[str, int], dict[str, Any]], rows: dict[str, list[Any]]) -> None:
    """What the brokers have, against what was forecast."""
    for (topic, partition), row in forecasts.items():
        for broker in cluster.brokers:
            names = [path.name for path in Path(broker.log_dirs[0]).iterdir()]
            stray = [name for name in names if name.startswith(f"{topic}-{partition}.") and name.endswith("-stray")]
            assert not stray or broker.node_id in row["strays"], f"{broker.node_id}: {stray} was not forecast"
        if row["end_least"] is not None and row["may_lead"]:
            end = settled_end(cluster, topic, partition)
            # Coordinators append to their topics, and markers to others, as soon as they run.
            most = row["end_most"] if topic in (PLAIN, LATE, DOOMED, MOVED, COMPACTED) else end
            assert row["end_least"] <= end <= most, f"{topic}-{partition} ends at {end}: {row}"
    hanging = {(row["topic"], row["partition"]) for row in rows.get("transaction-ahead", ()) if row["fate"] == "hangs"}
    for topic in (FIRST, SECOND):
        assert (topic, 0) in hanging or not hangs(cluster, topic), f"{topic} hangs, which was not forecast"
    told = {(row["group"], row["topic"], row["partition"]) for row in rows.get("reset", ())}
    for partition, committed, end in committed_offsets(cluster):
        assert committed <= end or (GROUP, PLAIN, partition) in told, f"{PLAIN}-{partition}: {committed} above {end}"


def settled_end(cluster: Cluster, topic: str, partition: int) -> int:
    """The high watermark, once it has come to the log end."""
    return _settled(lambda: cluster.one.offsets(topic, partition)[1])


def hangs(cluster: Cluster, topic: str) -> bool:
    """Whether a transaction stays open although its timeout is over."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        stable = cluster.one.offsets(topic, 0, "read_committed")[1]
        if stable == cluster.one.offsets(topic, 0)[1]:
            return False
        time.sleep(1)
    return True


def _settled(ask: Any) -> int:
    """The answer that comes three times in a row."""
    answers: list[int] = []
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        try:
            answers.append(ask())
        except Exception:  # no leader yet
            answers.clear()
        if len(answers) >= 3 and len(set(answers[-3:])) == 1:
            return answers[-1]
        time.sleep(0.5)
    raise AssertionError(f"not settled: {answers[-5:]}")


def committed_offsets(cluster: Cluster) -> Iterator[tuple[int, int, int]]:
    """Partition, committed offset and log end of the group, as Kafka's tool tells them."""
    words = ("--bootstrap-server", cluster.bootstrap, "--describe", "--group", GROUP)
    for line in cluster.one.tool(GROUPS, *words, check=False).stdout.splitlines():
        fields = line.split()
        if fields[:2] == [GROUP, PLAIN] and fields[4] != "-":
            yield int(fields[2]), int(fields[3]), int(fields[4])
