"""Disks of real clusters, each copied at another second under load: real brokers do what was forecast.

Each log ends where the forecast says, nothing more is lost, what hangs is told, and what becomes -stray is told.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from running import run_here

from .beside import module_beside
from .clusters import Cluster, a_cluster
from .kafka import scratch_folder
from .restored_outcomes import OnDisks, Rows, differences, leaders_of, records_on, rows_of, start_as_told
from .restored_plans import carry_out
from .restored_sets import (
    COMPACTED,
    COMPACTION,
    CONFIG,
    DOOMED,
    MOVED,
    PLAIN,
    Load,
    create_late,
    disks_of,
    make_set,
    move,
    restore,
    snapshot,
    tear,
)

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly, pytest.mark.timeout(900)]
Path = pathlib.Path


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-restored-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


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
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        if between is delete_doomed:
            cluster.create(DOOMED, "1:2:3")
            feed_doomed(cluster)
        make_set(cluster, folder / "set", order, between)
        for broker in cluster.brokers:
            restore(broker, folder / "set")
        rows, on_disks = forecast_of(cluster, folder), records_of(cluster)
        for wave in waves:
            Cluster([cluster.brokers[node - 1] for node in wave]).start()
            time.sleep(15)  # sessions of the others time out
        assert list(differences(cluster, rows, on_disks)) == []


def start_and_compare(cluster: Cluster, folder: Path) -> None:
    """Start the set, all nodes together, and hold the forecast against what happens."""
    for broker in cluster.brokers:
        restore(broker, folder / "set")
    rows, on_disks = forecast_of(cluster, folder), records_of(cluster)
    cluster.start()
    time.sleep(15)
    assert list(differences(cluster, rows, on_disks)) == []


def start_by_plan(cluster: Cluster, folder: Path) -> None:
    """Do what `fleet plan` says, and hold that against what happens."""
    for broker in cluster.brokers:
        restore(broker, folder / "set")
    assert list(carry_out(cluster, folder, "4.3.1")) == []


EITHER_WAY = pytest.mark.parametrize("start", [start_and_compare, start_by_plan], ids=["together", "by plan"])


@pytest.mark.parametrize(
    ("order", "between"), [((1, 2, 3), create_late), ((3, 2, 1), delete_doomed)], ids=["late", "deleted meanwhile"]
)
def test_a_set_is_started_by_plan(order: Sequence[int], between: Any, folder: Path) -> None:
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        if between is delete_doomed:
            cluster.create(DOOMED, "1:2:3")
            feed_doomed(cluster)
        make_set(cluster, folder / "set", order, between)
        start_by_plan(cluster, folder)


@EITHER_WAY
@pytest.mark.parametrize("order", [(2, 3, 1)], ids=str)
def test_a_set_with_torn_ends(order: Sequence[int], start: Callable[[Cluster, Path], None], folder: Path) -> None:
    """The machines crashed: what was not synced is cut short, or zeros, in logs and indexes of all nodes."""
    chance = random.Random(7)
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        make_set(cluster, folder / "set", order, create_late)
        for node in order:
            tear(folder / "set", node, chance)
        start(cluster, folder)


@EITHER_WAY
def test_a_set_copied_while_partitions_move_and_are_compacted(
    start: Callable[[Cluster, Path], None], folder: Path
) -> None:
    with a_cluster("4.3.1", folder / "work", 3, CONFIG | {"log.cleaner.backoff.ms": 100}) as cluster:
        cluster.start()
        cluster.create(MOVED, "1:2,2:3,3:1")
        cluster.create(COMPACTED, "1:2:3,2:3:1,3:1:2", **COMPACTION)
        make_set(cluster, folder / "set", (1, 2, 3), move, topics=(MOVED, COMPACTED))
        start(cluster, folder)


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
        on_disks = records_of(cluster)
        cluster.start()
        time.sleep(15)
        assert list(differences(cluster, rows, on_disks)) == []


def test_two_metadata_disks_are_new(folder: Path) -> None:
    """They have their old directory ids and no snapshot: they vote for the whole one. Who is told that it led before
    may end once, as it was said."""
    with a_cluster("4.3.1", folder / "work", 3, CONFIG, is_dynamic=True) as cluster:
        module = module_beside("brokers/broker.py")
        cluster.found(module.new_uuid)
        cluster.start()
        cluster.create(PLAIN, "1:2:3,2:3:1,3:1:2")
        sent = [module.Record(value=b"%d" % n) for n in range(10)]
        cluster.one.produce(PLAIN, 0, sent, acks="all")
        cluster.stop()
        for broker in cluster.brokers[1:]:
            shutil.rmtree(broker.metadata_dir / "__cluster_metadata-0")
        disks = [str(disk) for broker in cluster.brokers for disk in disks_of(broker)]
        done = run_here(["fleet", "check", "--restored", "--json", *disks], folder)
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in map(json.loads, done.out.splitlines()):
            rows.setdefault(row["type"], []).append(row)
        (verdict,) = rows["verdict"]
        assert (verdict["starts"] != "refuses", verdict["metadata_from"], verdict["lost_records"]) == (True, [1], 0)
        assert list(start_as_told(cluster, rows)) == []
        assert len(cluster.one.consume(PLAIN, 0)) == len(sent)


def test_a_producer_that_goes_on(folder: Path) -> None:
    """Its next batch is refused by a leader with an older copy, as it was said. (An idempotent producer then begins a
    new epoch by itself.)"""
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        cluster.create(PLAIN, "1:2:3,2:3:1,3:1:2")
        module = module_beside("brokers/broker.py")
        client = module.Client("4.3.1", cluster.bootstrap, folder)  # the cluster's own one ends with it
        patient = {"linger.ms": 3600000, "delivery.timeout.ms": 2147483647, "enable.idempotence": "true"}
        producer = module.Producer(client, "lasting", patient)

        def send(count: int) -> None:
            for _ in range(count):
                for partition in range(3):
                    producer.send(PLAIN, partition, module.Record(value=b"v"))
                producer.flush()

        for broker in cluster.brokers:
            send(5)
            snapshot(broker, folder / "set")
        cluster.kill()
        for broker in cluster.brokers:
            restore(broker, folder / "set")
        rows = forecast_of(cluster, folder)
        told = {(row["partition"], row["node_id"]) for row in rows["sequence-behind"]}
        assert told == {(partition, node) for partition in range(3) for node in (1, 2)}
        Cluster(cluster.brokers[:2]).start()  # so one of them leads, and has not yet all that the producer has sent
        time.sleep(15)
        leader = leaders_of(cluster)[PLAIN, 0]
        assert leader in (1, 2)
        before = len(cluster.brokers[leader - 1].log_text())
        send(1)
        client.close()
        log = cluster.brokers[leader - 1].log_text()[before:]
        assert f"partition {PLAIN}-0" in log, log[-3000:]
        assert "Out of order sequence number for producer" in log, log[-3000:]


def feed_doomed(cluster: Cluster) -> None:
    record = __import__(type(cluster.one).__module__).Record
    cluster.one.produce(DOOMED, 0, [record(value=b"doomed")], acks="all")


def forecast_of(cluster: Cluster, folder: Path) -> Rows:
    """The rows of the forecast by their type."""
    rows = rows_of([str(disk) for broker in cluster.brokers for disk in disks_of(broker)], folder)
    assert rows["verdict"][0]["starts"] == "loses-data"
    return rows


def records_of(cluster: Cluster) -> OnDisks:
    """What the disks have before the start."""
    return records_on([disk for broker in cluster.brokers for disk in disks_of(broker)])
