"""Three real nodes after a disaster: klogtool chooses the best copies, and brokers cut the others where the plan says.

Node 1 falls behind and has records that it never replicated. All nodes are killed. One copy is damaged in the middle,
one has lost its end although its broker led. After `fleet apply` the nodes start in the order of the plan, and every
record that all in-sync replicas had is served; the copies are the same.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import pytest
from damage import flip_bit
from running import run_here

from klogtool.fleet.planning import FleetPlan, needs_election, read_fleet_plan

from .clusters import Cluster, a_cluster
from .kafka import scratch_folder
from .restored_outcomes import start_all

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path = pathlib.Path
TOPIC, ASSIGNMENT = "t", "1:2:3,2:3:1,3:2:1"
PARTED, HURT, SHORT = PARTITIONS = (0, 1, 2)
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
FIRST, MORE = 10, 10


@pytest.fixture
def folder() -> Iterator[Path]:
    scratch = scratch_folder("klogtool-fleet-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def klog(folder: Path, *words: object) -> bytes:
    """stdout of klogtool; it does what it is asked, or says that something is lost."""
    done = run_here([str(word) for word in words], folder)
    assert done.status in (0, 1), done.err
    return done.out


def feed(cluster: Cluster, first: int, count: int) -> None:
    """One batch for each record, acknowledged by all that are in sync."""
    record = sys.modules[type(cluster.one).__module__].Record
    client = cluster.brokers[1]
    for partition in PARTITIONS:
        for n in range(first, first + count):
            client.produce(TOPIC, partition, [record(value=b"%d-%d" % (partition, n))], acks="all")


def log_dirs_of(broker: Any) -> list[Path]:
    return [*broker.log_dirs, broker.metadata_dir]


def collect(cluster: Cluster, folder: Path) -> list[str]:
    files = []
    for n, broker in enumerate(cluster.brokers, 1):
        file = folder / f"broker{n}.klog"
        file.write_bytes(klog(folder, "fleet", "collect", "-q", *log_dirs_of(broker)))
        files.append(str(file))
    return files


def copy_of(cluster: Cluster, node: int, partition: int) -> Path:
    return Path(cluster.brokers[node - 1].log_dirs[0]) / f"{TOPIC}-{partition}"


def hurt_disks(cluster: Cluster, folder: Path) -> None:
    """What the disaster did."""
    alone = folder / "alone.jsonl"
    alone.write_text("".join(f'{{"value":"never replicated {n}"}}\n' for n in range(5)))
    words = ("--leader-epoch", 0, "--last-stop", "clean", "--apply", "-q")
    klog(folder, "append", copy_of(cluster, 1, PARTED), "--records", alone, *words)
    log = copy_of(cluster, 3, HURT) / f"{0:020d}.log"
    flip_bit(log, log.stat().st_size // 2)
    klog(folder, "truncate", copy_of(cluster, 3, SHORT), "--to", 8, "--apply", "-q")


def start_as_planned(cluster: Cluster, plan: FleetPlan, folder: Path, may_end: Collection[int] = ()) -> None:
    """Wave by wave; before the next one the elections of the plan, until only brokers that run lead and are in sync.
    Where the first wave is no majority, others are controllers, and nothing else, until their turn. may_end: nodes that
    are started once more if they end, and that may end until others have elected a leader."""
    running: set[int] = set()
    by_id = {broker.node_id: broker for broker in cluster.brokers}
    first = plan.fleet.waves[0]
    is_majority = len(set(first).difference(may_end)) > len(by_id) // 2
    voting = [] if is_majority else [one for one in cluster.brokers if one.node_id not in first]
    for n, wave in enumerate(plan.fleet.waves, 1):
        turn = [by_id[node] for node in wave]
        for broker in (one for one in turn if one in voting):
            broker.stop()
            del broker.properties
        voting_now = voting if n == 1 else []
        for broker in voting_now:
            broker.properties = partial(controller_only, broker.properties)
        assert list(start_all(Cluster([*turn, *voting_now]), may_end)) == []
        running |= set(wave)
        if n < len(plan.fleet.waves) or (n == 1 and plan.elections()["partitions"]):
            elect_as_planned(by_id[wave[0]], plan, running, folder)


def controller_only(properties: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The settings of a node that is no broker for now."""
    values = properties()
    (listener,) = (one for one in str(values["listeners"]).split(",") if one.startswith("CONTROLLER:"))
    del values["advertised.listeners"]
    return values | {"process.roles": "controller", "listeners": listener}


def elect_as_planned(broker: Any, plan: FleetPlan, running: set[int], folder: Path) -> None:
    """What the plan says: run the elections, look who leads, and run them again while sessions have not timed out."""
    elections = folder / "elections.json"
    elections.write_text(json.dumps(plan.elections()))
    unclean = [choice for choice in plan.choices if needs_election(choice) and choice.leader in running]
    awaited = {(choice.topic, choice.partition) for choice in unclean}
    for _ in range(30):
        words = ("--election-type", "UNCLEAN", "--path-to-json-file", elections)
        if plan.elections()["partitions"]:
            broker.tool(ELECTION, "--bootstrap-server", broker.bootstrap, *words, check=False)
        told = broker.tool(TOPICS, "--bootstrap-server", broker.bootstrap, "--describe").stdout
        active = active_replicas(told)
        if all(active.get(key, {-1}) <= running for key in awaited):
            return
        time.sleep(1)
    raise AssertionError(f"{sorted(running)} run, but:\n{told}")


def active_replicas(described: str) -> dict[tuple[str, int], set[int]]:
    """The leader and the ISR of each partition that has a leader, as kafka-topics tells them."""
    lines = re.findall(r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\t.*\tIsr: ([\d,]+)", described)
    return {(topic, int(n)): {int(leader), *map(int, isr.split(","))} for topic, n, leader, isr in lines}


def wait_until_same(cluster: Cluster, partition: int) -> None:
    """Until the logs of all three nodes have the same size."""
    sizes: set[int] = set()
    for _ in range(300):
        sizes = {sum(f.stat().st_size for f in copy_of(cluster, n, partition).glob("*.log")) for n in (1, 2, 3)}
        if len(sizes) == 1:
            return
        time.sleep(0.1)
    raise AssertionError(f"{partition}: {sizes}")


def test_a_cluster_comes_back_from_its_best_copies(folder: Path) -> None:
    with a_cluster("4.3.1", folder, 3) as cluster:
        cluster.start()
        cluster.create(TOPIC, ASSIGNMENT, min_insync_replicas=1)
        feed(cluster, 0, FIRST)
        cluster.brokers[0].stop()
        feed(cluster, FIRST, MORE)
        cluster.kill()
        hurt_disks(cluster, folder)

        klog(folder, "fleet", "plan", *collect(cluster, folder), "--plan-out", "plan.klog", "-q")
        plan = read_fleet_plan(str(folder / "plan.klog"))
        choices = {choice.partition: choice for choice in plan.choices if choice.topic == TOPIC}
        parted = {share.placed.node_id: share for share in choices[PARTED].shares}
        assert (parted[1].action, parted[1].to) == ("follow", FIRST)
        assert [(o.node_id, o.first, o.last) for o in choices[PARTED].only_elsewhere] == [(1, FIRST, FIRST + 4)]
        assert {s.placed.node_id: s.action for s in choices[HURT].shares}[3] == "truncate"
        assert choices[SHORT].leader == 2
        rivals = {partition: choices[partition].rivals for partition in (HURT, SHORT)}
        assert rivals == {HURT: (3,), SHORT: (3,)}, "3 may stay in the ISR"
        assert all(needs_election(choices[partition]) for partition in rivals)

        for n, broker in enumerate(cluster.brokers, 1):
            out = klog(folder, "fleet", "apply", "plan.klog", *log_dirs_of(broker), "--apply")
            assert (b"to do: cut t-1" in out) == (n == 3)
        assert b" 0 not." in klog(folder, "fleet", "check", *collect(cluster, folder), "plan.klog")

        start_as_planned(cluster, plan, folder)
        for partition in PARTITIONS:
            # up to the end that must be there: the high watermark comes to it only with the followers
            values = [record.value for record in cluster.brokers[1].consume(TOPIC, partition, until=FIRST + MORE)]
            assert values == [b"%d-%d" % (partition, n) for n in range(FIRST + MORE)]
            wait_until_same(cluster, partition)
            assert cluster.brokers[1].offsets(TOPIC, partition) == (0, FIRST + MORE)
        assert f"Truncating to offset {FIRST}" in cluster.brokers[0].log_text()
        cluster.kill()
        assert b" 0 not." in klog(folder, "fleet", "check", *collect(cluster, folder), "plan.klog")
