"""A restored set of disks is started as its plan has it: what real brokers then serve, against what the plan said."""

from __future__ import annotations

import pathlib
import shutil
import time
from collections.abc import Callable, Iterator

from running import run_here

from klogtool.fleet.choosing import Choice
from klogtool.fleet.planning import FleetPlan, read_fleet_plan

from .clusters import Cluster
from .restored_outcomes import Key, OnDisks, Rows, leaders_of, nodes_that_may_end, records_on, rows_of
from .restored_sets import MOVED, disks_of
from .test_fleet_on_brokers import start_as_planned

Path = pathlib.Path
PLAN = "plan.klog"
MOST_ROUNDS = 4  # a copy that was brought may change which one is the best


def carry_out(cluster: Cluster, folder: Path, version: str) -> Iterator[str]:
    """Plan, do what is marked BY HAND, plan again, apply, start as planned; yield what is not as it was said."""
    disks = [disk for broker in cluster.brokers for disk in disks_of(broker)]
    on_disks, rows = records_on(disks), rows_of(list(map(str, disks)), folder)
    plan = plan_once_brought(cluster, folder, version)
    for broker in cluster.brokers:
        done = run_here(["fleet", "apply", PLAN, *map(str, disks_of(broker)), "--apply", "--kafka", version], folder)
        if done.status != 0:
            yield f"fleet apply on {broker.node_id}: {done.err}"
    yield from unlike_plan(cluster, folder)
    start_as_planned(cluster, plan, folder, nodes_that_may_end(rows))
    time.sleep(15)  # followers come into the ISR
    yield from _lost_beside(cluster, plan, rows, on_disks)
    cluster.kill()
    # A reassignment goes on, and removes replicas; a topic that the metadata does not know is set aside.
    yield from unlike_plan(cluster, folder, MOVED, *(topic for topic, _ in filter(is_stray_in(rows), on_disks)))


def plan_once_brought(cluster: Cluster, folder: Path, version: str) -> FleetPlan:
    """The plan with nothing left BY HAND: each best copy was brought to the broker that the plan names."""
    disks = [str(disk) for broker in cluster.brokers for disk in disks_of(broker)]
    for _ in range(MOST_ROUNDS):
        (folder / PLAN).unlink(missing_ok=True)
        done = run_here(["fleet", "check", "--restored", *disks, "--plan-out", PLAN, "--kafka", version], folder)
        assert done.status == 1, done.err
        plan = read_fleet_plan(str(folder / PLAN))
        brought = list(map(bring, plan.choices))
        if not any(brought):
            return plan
    raise AssertionError(f"there is more BY HAND after {MOST_ROUNDS} rounds")


def bring(choice: Choice) -> int:
    """Put the best copy in the place of each that the plan marks BY HAND. Returns how many."""
    marked = [share.placed for share in choice.shares if share.action == "replace"]
    for placed in marked:
        assert choice.best is not None
        best, own = choice.best.copy, placed.copy
        target = Path(own.log_dir) / own.folder
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(best.log_dir) / best.folder, target)
    return len(marked)


def unlike_plan(cluster: Cluster, folder: Path, *but_of: str) -> Iterator[str]:
    """Yield what `fleet check` says of the disks, collected again, of copies that are not as planned. but_of: topics
    whose copies need not be."""
    files = []
    for broker in cluster.brokers:
        files.append(f"{broker.node_id}.klog")
        with (folder / files[-1]).open("wb") as file:
            file.write(run_here(["fleet", "collect", "-q", *map(str, disks_of(broker))], folder).out)
    done = run_here(["fleet", "check", *files, PLAN], folder)
    told = [line for line in done.out.decode().splitlines()[:-1] if line.split("-")[0] not in but_of]
    if told or done.status not in (0, 1):
        yield f"{told}{done.err}"


def _lost_beside(cluster: Cluster, plan: FleetPlan, rows: Rows, on_disks: OnDisks) -> Iterator[str]:
    """Yield what is lost in each partition beside what the plan, or the forecast of a topic that becomes stray, has
    told; and that more is lost than was said."""
    choices = {(choice.topic, choice.partition): choice for choice in plan.choices}
    said = [row["lost_records"] for row in rows.get("option", ()) if row["step"] == "fleet-plan"]
    most = said[0] if said else rows["verdict"][0]["lost_records"]
    leaders, count = leaders_of(cluster), 0
    for key, records in on_disks.items():
        if key not in leaders:
            if not is_stray_in(rows)(key):
                yield f"{key} has no leader"
            continue
        served = {(record.offset, record.value) for record in cluster.one.consume(*key)}
        lost = sorted(offset for offset, _ in records - served)
        count += len(lost)
        told = [(span.first, span.last) for span in (*choices[key].only_elsewhere, *choices[key].older)]
        if silent := [offset for offset in lost if not any(first <= offset <= last for first, last in told)]:
            yield f"{key} lost {silent}, told was {told}"
    if most is not None and count > most:
        yield f"{count} records are lost, said was {most}"


def is_stray_in(rows: Rows) -> Callable[[Key], bool]:
    """Whether the metadata does not know a topic, as it was told."""
    strays = {
        (row["topic"], row["partition"])
        for row in rows["forecast"]
        if any(loss["reason"] == "stray" for loss in row["losses"])
    }
    return strays.__contains__
