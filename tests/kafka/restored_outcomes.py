"""What real brokers did with a set of restored disks, against `fleet check --restored`: every difference, in words."""

from __future__ import annotations

import json
import pathlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from running import run_here

from klogtool.errors import KlogError
from klogtool.log.logdir import LogDir
from klogtool.log.segment import Segment

from .clusters import Cluster
from .restored_sets import COMPACTED, DOOMED, FIRST, GROUP, LATE, MOVED, PLAIN, RETAINED, SECOND

Path = pathlib.Path
Key: TypeAlias = tuple[str, int]
Rows: TypeAlias = Mapping[str, list[dict[str, Any]]]  # of JSON, by type
OnDisks: TypeAlias = dict[Key, set[tuple[int, bytes | None]]]
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
WRITTEN_BY_CLIENTS = (PLAIN, LATE, MOVED, COMPACTED, RETAINED, DOOMED)  # nobody appends once the load has stopped
WITH_ALL_RECORDS = (PLAIN, LATE, MOVED, FIRST, SECOND, DOOMED)
SETTLED_S = 120


def rows_of(paths: Sequence[str], folder: Path) -> Rows:
    done = run_here(["fleet", "check", "--restored", "--json", *paths], folder)
    assert done.status == 1, done.err
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in done.out.splitlines():
        row = json.loads(line)
        rows.setdefault(row["type"], []).append(row)
    return rows


def records_on(disks: Sequence[Path]) -> OnDisks:
    """Offset and value of each record on a set of disks, up to the damage of each segment."""
    found: OnDisks = {}
    for disk in disks:
        for partition in LogDir(str(disk)).partitions:
            key = partition.topic_partition
            if key is None or key.topic not in WITH_ALL_RECORDS:
                continue
            for segment in partition.segments:
                try:
                    for batch in Segment(segment.path).batches():
                        if not batch.is_control and batch.crc_valid:
                            records = ((record.offset, record.value) for record in batch.records())
                            found.setdefault((key.topic, key.partition), set()).update(records)
                except KlogError:
                    continue
    return found


def start_as_told(cluster: Cluster, rows: Rows) -> Iterator[str]:
    """Start all at once, those that ended, as it was forecast, once more; yield who ended otherwise."""
    yield from start_all(cluster, nodes_that_may_end(rows))


def nodes_that_may_end(rows: Rows) -> set[int]:
    return {row["node_id"] for row in rows.get("problem", ()) if row["problem"] == "broker-may-end"}


def start_all(cluster: Cluster, may_end: Collection[int] = ()) -> Iterator[str]:
    """Start all at once, and once more those of these nodes that ended; yield which others ended."""
    with ThreadPoolExecutor(len(cluster.brokers)) as pool:
        started = [pool.submit(broker.start, timeout=150) for broker in cluster.brokers]
    for broker, start in zip(cluster.brokers, started, strict=True):
        if (problem := start.exception()) is not None:
            if broker.node_id not in may_end:
                yield f"{broker.node_id} ended: {str(problem)[-600:]}"
            broker.start(timeout=150)


def differences(cluster: Cluster, rows: Rows, on_disks: OnDisks) -> Iterator[str]:
    """Yield what the brokers did otherwise than it was forecast. cluster: those that run."""
    forecasts = {(row["topic"], row["partition"]): row for row in rows.get("forecast", ())}
    leaders, only = leaders_of(cluster), len(rows["verdict"][0]["metadata_from"]) == 1
    for key, row in sorted(forecasts.items()):
        yield from _of_strays(cluster, key, row, is_exact=only)
        leader = leaders.get(key)
        # A reassignment that goes on gives others the lead.
        if leader not in (None, *row["may_lead"]) and key[0] != MOVED:
            yield f"{key} is led by {leader}: {row}"
        if leader is not None and row["end_least"] is not None:
            yield from _of_log(cluster, key, row, on_disks.get(key, set()))
    yield from (f"{key} is led, and has no forecast" for key in leaders if key not in forecasts)
    yield from _of_transactions(cluster, rows, leaders)
    yield from _of_groups(cluster, rows)


def _of_strays(cluster: Cluster, key: Key, row: dict[str, Any], *, is_exact: bool) -> Iterator[str]:
    for broker in cluster.brokers:
        names = [path.name for folder in broker.log_dirs for path in Path(folder).iterdir()]
        stray = [name for name in names if re.fullmatch(rf"{key[0]}-{key[1]}\..*-stray", name)]
        if stray and broker.node_id not in row["strays"]:
            yield f"{broker.node_id} has {stray}, which was not forecast"
        if is_exact and not stray and broker.node_id in row["strays"]:
            yield f"{broker.node_id} has no stray of {key}: {row}"


def _of_log(cluster: Cluster, key: Key, row: dict[str, Any], on_disks: set[tuple[int, bytes | None]]) -> Iterator[str]:
    end = settled(lambda: cluster.one.offsets(*key)[1])
    # Coordinators append to their topics, and markers to others, as soon as they run.
    most = row["end_most"] if key[0] in WRITTEN_BY_CLIENTS else end
    if not row["end_least"] <= end <= most:
        yield f"{key} ends at {end}: {row}"
    if key[0] not in WITH_ALL_RECORDS:
        return
    if (start := cluster.one.offsets(*key)[0]) != 0:
        yield f"{key} begins at {start}"
    served = {(record.offset, record.value) for record in cluster.one.consume(*key)}
    lost = sorted(offset for offset, _ in on_disks - served if not _is_told(offset, row))
    if lost:
        yield f"{key} lost {lost}: {row}"


def _is_told(offset: int, row: dict[str, Any]) -> bool:
    return any(loss["first"] is None or loss["first"] <= offset <= loss["last"] for loss in row["losses"])


def _of_transactions(cluster: Cluster, rows: Rows, leaders: Mapping[Key, int]) -> Iterator[str]:
    """Yield what hangs, and which transactions are seen in one topic only."""
    told: dict[str, set[str]] = {}
    for row in rows.get("transaction-ahead", ()):
        told.setdefault(row["fate"], set()).add(row["topic"])
    if not {(FIRST, 0), (SECOND, 0)} <= leaders.keys():
        return
    for topic in (FIRST, SECOND):
        if topic not in told.get("hangs", ()) and hangs(cluster, topic):
            yield f"{topic} hangs, which was not forecast"
    if told.get("torn") or told.get("hangs"):
        return
    first, second = (
        {record.value for record in cluster.one.consume(topic, 0, isolation="read_committed")}
        for topic in (FIRST, SECOND)
    )
    lost = [row for row in rows.get("forecast", ()) if row["topic"] in (FIRST, SECOND) and row["losses"]]
    if first != second and not lost:
        yield f"of transactions are in one topic only: {sorted(first ^ second, key=str)}"


def _of_groups(cluster: Cluster, rows: Rows) -> Iterator[str]:
    told = {(row["topic"], row["partition"]): row for row in rows.get("reset", ()) if row["group"] == GROUP}
    for partition, committed, end in committed_offsets(cluster):
        row = told.get((PLAIN, partition))
        if committed > end and row is None:
            yield f"{PLAIN}-{partition}: {committed} is above {end}"
        if committed <= end and row is not None and row["is_certain"]:
            yield f"{PLAIN}-{partition}: {committed} is not above {end}: {row}"


def leaders_of(cluster: Cluster) -> dict[Key, int]:
    """The leader of each partition that has one."""
    words = ("--bootstrap-server", cluster.bootstrap, "--describe")
    lines = cluster.one.tool(TOPICS, *words).stdout
    found = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)", lines)
    return {(topic, int(partition)): int(leader) for topic, partition, leader in found}


def hangs(cluster: Cluster, topic: str) -> bool:
    """Whether a transaction stays open although its timeout is over."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        stable = cluster.one.offsets(topic, 0, "read_committed")[1]
        if stable == cluster.one.offsets(topic, 0)[1]:
            return False
        time.sleep(1)
    return True


def settled(ask: Callable[[], int]) -> int:
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
