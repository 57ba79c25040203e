"""A broker started on a log dir says of its groups what klogtool offsets says of a copy, and its tool takes the CSV.

Groups commit by themselves and in transactions: committed, aborted, left open. Then one group is put back to a past
time by klogtool's CSV.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import time
from typing import Any

import pytest
from running import run_here

from .brokers import VERSIONS, a_broker
from .kafka import scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
CLASSES = {
    "4.3.1": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "3.9.2": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
Told = dict[tuple[str, str, int], tuple[int, int, int]]


def kafkas(broker: Any, *words: str) -> Told:
    """(group, topic, partition) -> offset, log end, lag."""
    done = groups_tool(broker, "--describe", *words)
    found: Told = {}
    for line in done.stdout.splitlines():
        cells = line.split()
        if len(cells) >= 6 and cells[2].isdecimal() and cells[3].isdecimal():
            group, topic, partition, offset, end, lag = cells[:6]
            found[group, topic, int(partition)] = int(offset), int(end), int(lag)
    return found


def groups_tool(broker: Any, *words: str) -> Any:
    return broker.tool(CLASSES[broker.version], "--bootstrap-server", broker.bootstrap, *words)


def asked(log_dir: pathlib.Path, *words: str) -> str:
    done = run_here(["offsets", str(log_dir), *words], HERE)
    assert done.status == 0, done.err
    return done.out.decode()


def ours(log_dir: pathlib.Path, *words: str) -> Told:
    rows = [json.loads(line) for line in asked(log_dir, "--format", "json", *words).splitlines()]
    return {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["log_end_offset"], row["lag"])
        for row in rows
        if row["type"] == "committed"
    }


def feed(broker: Any, record: Any) -> int:
    """Returns a time at which half of it was committed, in ms."""
    for topic, partitions in (("t", 2), ("u", 1)):
        broker.create_topic(topic, partitions)
        for partition in range(partitions):
            broker.produce(topic, partition, [record(key=b"k", value=b"v")] * (10 + partition))
    broker.join_group("first", "t", 8)
    broker.join_group("second", "u", 3)
    transactional = broker.producer("tx", transactional_id="tx")
    for offset, group, ends in ((2, "in-txn", True), (5, "in-txn", False), (4, "first", True)):
        transactional.begin()
        transactional.send("u", 0, record(key=b"x", value=b"y"))
        transactional.send_offset(group, "u", 0, offset)
        transactional.flush()
        transactional.commit() if ends else transactional.abort()
    time.sleep(1.5)  # markers are written after the answer
    middle = int(time.time() * 1000)
    time.sleep(0.2)
    broker.join_group("second", "u", 6)
    broker.join_group("late", "t", 4)
    transactional.begin()
    transactional.send("u", 0, record(key=b"x", value=b"y"))
    transactional.send_offset("in-txn", "u", 0, 7)
    transactional.flush()
    return middle


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_says_the_same_and_its_tool_takes_the_csv(version: str) -> None:
    scratch = scratch_folder("klogtool-brokers-offsets-")
    try:
        with a_broker(version, scratch / "broker") as broker:
            record = sys.modules[type(broker).__module__].Record
            broker.start()
            middle = feed(broker, record)
            broker.client.kill()  # the transaction stays open
            broker._client = None
            broker.stop()

            (log_dir,) = broker.log_dirs
            copy = scratch / "copy"
            shutil.copytree(log_dir, copy)
            found = ours(copy)
            assert '"type":"pending","group":"in-txn"' in asked(copy, "--format", "json")
            csv = scratch / "offsets.csv"
            csv.write_text(asked(copy, "--format", "csv", "--at", str(middle), "--group", "second"))
            several = scratch / "several.csv"
            several.write_text(asked(copy, "--format", "csv", "--group", "first", "--group", "late"))
            before = ours(copy, "--at", str(middle))

            broker.start()
            assert kafkas(broker, "--all-groups") == found
            assert {name[0] for name in found} == {"first", "second", "late", "in-txn"}
            assert found["in-txn", "u", 0][0] == 2
            assert found["second", "u", 0][0] > before["second", "u", 0][0] > 0

            groups_tool(broker, "--reset-offsets", "--from-file", str(csv), "--group", "second", "--execute")
            assert {name: told[0] for name, told in kafkas(broker, "--group", "second").items()} == {
                name: told[0] for name, told in before.items() if name[0] == "second"
            }
            both = ("--group", "first", "--group", "late", "--dry-run")
            done = groups_tool(broker, "--reset-offsets", "--from-file", str(several), *both)
            cells = done.stdout.partition("NEW-OFFSET")[2].split()  # 3.9 has all of it in one line
            planned = {tuple(cells[n : n + 4]) for n in range(0, len(cells), 4)}
            expected = {(*map(str, name), str(told[0])) for name, told in found.items() if name[0] in ("first", "late")}
            assert planned == expected, done.stdout + done.stderr
            broker.stop()
            assert ours(log_dir)["second", "u", 0][0] == before["second", "u", 0][0]
    finally:
        shutil.rmtree(scratch)
