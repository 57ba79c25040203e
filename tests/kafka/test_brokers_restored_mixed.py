"""Disks of real clusters under load, each of another second and some of another generation, torn or missing: real
brokers do what was forecast.

The load is idempotent and transactional, commits offsets of a group, and meanwhile logs are compacted and cut by
retention, partitions move, and a topic is created. Each disk is copied twice, some seconds apart.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from msgspec import Struct

from klogtool.fleet.planning import read_fleet_plan

from .clusters import Cluster, a_cluster
from .kafka import scratch_folder
from .restored_outcomes import differences, records_on, rows_of, start_as_told
from .restored_plans import PLAN, carry_out
from .restored_sets import (
    COMPACTED,
    COMPACTION,
    CONFIG,
    FIRST,
    MOVED,
    PLAIN,
    RETAINED,
    SECOND,
    Load,
    create_late,
    disks_of,
    move,
    restore,
    snapshot,
    tear,
)

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly, pytest.mark.timeout(900)]
Path = pathlib.Path
SHORT = {"segment_ms": 700, "retention_ms": 3000, "file_delete_delay_ms": 100}
BUSY = CONFIG | {
    "log.cleaner.backoff.ms": 100,
    "log.retention.check.interval.ms": 500,
    "log.initial.task.delay.ms": 500,
}
ASSIGNMENTS = {
    PLAIN: ("1:2:3,2:3:1,3:1:2", {}),
    FIRST: ("1:2:3", {}),
    SECOND: ("2:3:1", {}),
    MOVED: ("1:2,2:3,3:1", {}),
    COMPACTED: ("1:2:3,2:3:1,3:1:2", COMPACTION),
    RETAINED: ("1:2:3,2:3:1,3:1:2", SHORT),
}


class Drawn(Struct, frozen=True):
    """A set. order: of the copies. older: disks of the earlier generation. torn: nodes whose ends are torn. empty:
    disks that are new. gone: nodes that are not there. log_dirs: of each node."""

    version: str = "4.3.1"
    order: tuple[int, ...] = (1, 2, 3)
    older: tuple[str, ...] = ()
    torn: tuple[int, ...] = ()
    empty: tuple[str, ...] = ()
    gone: tuple[int, ...] = ()
    log_dirs: int = 1
    is_dynamic: bool = False


SETS = {
    "a data disk is older": Drawn(older=("1-logs",)),
    "metadata is older": Drawn(order=(3, 1, 2), older=("2-metadata", "3-metadata"), torn=(1, 3)),
    "a node is gone": Drawn(order=(2, 1, 3), older=("1-logs", "1-metadata"), torn=(2,), gone=(3,)),
    "a data disk is new": Drawn(order=(2, 3, 1), empty=("2-logs",), torn=(1,)),
    "a metadata disk is new": Drawn(order=(3, 2, 1), empty=("1-metadata",), older=("3-logs",)),
    "a log dir of two is older": Drawn(order=(1, 3, 2), log_dirs=2, older=("1-logs-2", "3-logs"), torn=(2,)),
    "a dynamic quorum": Drawn(
        order=(1, 3, 2), is_dynamic=True, older=("2-logs", "2-metadata", "3-logs"), torn=(1, 2, 3)
    ),
    "a dynamic quorum, a metadata disk is new": Drawn(
        order=(3, 2, 1), is_dynamic=True, empty=("1-metadata",), torn=(2,)
    ),
    "a log dir of two is new": Drawn(order=(3, 1, 2), log_dirs=2, empty=("1-logs-2",), older=("2-logs",)),
    "a whole node is new": Drawn(order=(2, 1, 3), empty=("3-logs", "3-metadata"), torn=(1,)),
    "3.9.2, a metadata disk is new": Drawn("3.9.2", order=(3, 2, 1), empty=("2-metadata",), torn=(1, 2)),
    "3.9.2, torn": Drawn("3.9.2", order=(2, 3, 1), torn=(1, 2, 3)),
    "3.9.2, mixed": Drawn("3.9.2", order=(3, 1, 2), older=("1-logs", "2-metadata"), torn=(3,)),
    "3.9.2, a node is gone": Drawn("3.9.2", older=("2-logs",), torn=(2,), gone=(1,)),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-mixed-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


@pytest.mark.parametrize("name", SETS)
def test_a_start_does_what_was_forecast(name: str, folder: Path) -> None:
    assert list(run(SETS[name], folder)) == []


@pytest.mark.parametrize("name", SETS)
def test_each_set_is_started_as_planned(name: str, folder: Path) -> None:
    with restored(SETS[name], folder) as cluster:
        assert list(carry_out(cluster, folder, SETS[name].version)) == []


@contextmanager
def restored(drawn: Drawn, folder: Path) -> Iterator[Cluster]:
    """A cluster with the disks of a set, before its start. A node that is gone is not in it."""
    with a_cluster(
        drawn.version, folder / "work", 3, BUSY, is_dynamic=drawn.is_dynamic, log_dirs=drawn.log_dirs
    ) as whole:
        whole.start()
        copy_twice(whole, folder, drawn.order)
        assemble(drawn, folder)
        here = [broker for broker in whole.brokers if broker.node_id not in drawn.gone]
        cluster = Cluster(here, is_dynamic=drawn.is_dynamic)
        for broker in here:
            restore(broker, folder / "set")
        cluster.format()
        yield cluster


def run(drawn: Drawn, folder: Path) -> Iterator[str]:
    """Make a set, ask for the forecast, start it, and yield the differences."""
    with restored(drawn, folder) as cluster:
        disks = [disk for broker in cluster.brokers for disk in disks_of(broker)]
        rows, on_disks = rows_of(list(map(str, disks)), folder), records_on(disks)
        yield from start_as_told(cluster, rows)
        time.sleep(15)  # sessions time out, followers come into the ISR
        yield from differences(cluster, rows, on_disks)


def copy_twice(cluster: Cluster, folder: Path, order: Sequence[int]) -> None:
    """Copy the disks of all nodes in this order, and once more; then kill all nodes."""
    for topic, (assignment, settings) in ASSIGNMENTS.items():
        cluster.create(topic, assignment, **settings)
    with Load(cluster, (MOVED, COMPACTED, RETAINED)) as load:
        time.sleep(3)
        for generation in ("older", "newer"):
            for n, node in enumerate(order):
                snapshot(cluster.brokers[node - 1], folder / generation)
                if generation == "newer":
                    (move, create_late, lambda *_: None)[n](load, 0)
                time.sleep(1.5)
    cluster.kill()


def assemble(drawn: Drawn, folder: Path) -> None:
    """Put the set together, out of both generations."""
    for disk in sorted(path.name for path in (folder / "newer").iterdir()):
        if disk not in drawn.empty:
            shutil.copytree(folder / ("older" if disk in drawn.older else "newer") / disk, folder / "set" / disk)
    for node in drawn.torn:
        tear(folder / "set", node, random.Random(node))


@pytest.mark.parametrize(("older", "wave"), [((1,), (2, 3)), ((1, 2), (3,))], ids=str)
def test_the_plan_of_a_set_is_carried_out(older: Sequence[int], wave: Sequence[int], folder: Path) -> None:
    """The disks of some nodes are older, and torn. As the plan has it nothing is lost, whatever a start of all might.
    Where less than a majority begins, others start as controllers until their turn, as the cookbook says."""
    with a_cluster("4.3.1", folder / "work", 3, CONFIG) as cluster:
        cluster.start()
        copy_some_under_load(cluster, older, folder / "set")
        for node in older:
            tear(folder / "set", node, random.Random(node))
        for broker in cluster.brokers:
            restore(broker, folder / "set")
        assert list(carry_out(cluster, folder, "4.3.1")) == []
        plan = read_fleet_plan(str(folder / PLAN))
        assert (plan.fleet.waves[0], [one for one in plan.choices if one.only_elsewhere or one.older]) == (wave, [])


def copy_some_under_load(cluster: Cluster, older: Sequence[int], place: Path) -> None:
    """Copy the disks of these nodes under load, those of the others some seconds later when the load and all nodes have
    ended: so these have the best copies."""
    for topic in (PLAIN, FIRST, SECOND):
        cluster.create(topic, *ASSIGNMENTS[topic][:1])
    with Load(cluster):
        for node in older:
            time.sleep(3)
            snapshot(cluster.brokers[node - 1], place)
        time.sleep(3)
    time.sleep(3)  # the followers have all of it
    cluster.kill()
    for broker in cluster.brokers:
        if broker.node_id not in older:
            snapshot(broker, place)
