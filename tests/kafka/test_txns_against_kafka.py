"""`klogtool txns` and `kafka-transactions.sh` agree, and a broker starts on a partition that lost one producer.

A broker has an ongoing transaction. While it is stopped, klogtool appends three transactions of producers that no
coordinator knows: they hang. The broker starts, and the log start of one moves over its data. The tools are asked. Then
one of the hanging producers is dropped, and one is aborted by the line that klogtool prints.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
import time
from typing import Any

import pytest
from raw_batches import build_batch

from klogtool.format.batch import Record

from .brokers import VERSIONS, a_broker
from .test_brokers_start_on_it import a_scratch_folder, klogtool

pytestmark = [pytest.mark.kafka, pytest.mark.shared]
Path = pathlib.Path
TOOL = "org.apache.kafka.tools.TransactionsCommand"
DROPPED, ABORTED, GONE = 4711, 4712, 4713
HOUR_MS = 3_600_000
TOPICS = ("t", "gone")


def ask_tool(broker: Any, *words: object) -> list[list[str]]:
    """The rows of a table that Kafka's tool prints, without the heading."""
    done = broker.tool(TOOL, "--bootstrap-server", broker.bootstrap, *words)
    return [line.split() for line in done.stdout.splitlines()[1:] if line.strip()]


def describe(broker: Any, topic: str) -> list[list[str]]:
    """Producer id, epoch, coordinator epoch, last sequence, last timestamp, start of the open transaction."""
    return sorted(ask_tool(broker, "describe-producers", "--topic", topic, "--partition", 0))


def txns(log_dir: Path, topic: str, metadata: Path) -> list[dict[str, Any]]:
    done = klogtool("txns", log_dir / f"{topic}-0", "--transaction-state", metadata, "--format", "json")
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def described(answer: dict[str, Any]) -> list[list[str]]:
    """The same as `describe`, of klogtool's answer."""
    return sorted(
        [
            str(known["producer_id"]),
            str(known["epoch"]),
            str(known["coordinator_epoch"]),
            str(known["batches"][-1][1] if known["batches"] else -1),
            str(known["last_timestamp"]),
            "None" if known["txn_first_offset"] is None else str(known["txn_first_offset"]),
        ]
        for known in answer["producers"]
    )


def hang(partition: Path, offset: int, *producer_ids: int) -> None:
    """Append a transactional batch of each producer, an hour old."""
    then = time.time_ns() // 10**6 - HOUR_MS
    batches = partition.parent.parent / "hanging"
    batches.write_bytes(
        b"".join(
            build_batch(
                [Record(offset + n, then, b"k", b"hangs")],
                partition_leader_epoch=0,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            for n, producer_id in enumerate(producer_ids)
        )
    )
    done = klogtool("append", partition, "--batches", batches, "--leader-epoch", "0", "--apply")
    assert done.status == 0, done.err


def first_life(broker: Any) -> None:
    """A committed and an ongoing transaction, both with sequences."""
    record = sys.modules[type(broker).__module__].Record
    broker.start()
    for topic in TOPICS:
        broker.create_topic(topic, 1, retention_ms=-1)
    committed = broker.producer("committed", transactional_id="committed")
    committed.begin()
    for topic in TOPICS:
        committed.send(topic, 0, record(key=b"k", value=b"v"))
    committed.commit()
    broker.stop()


def second_life(broker: Any) -> None:
    """After the hanging ones: an ongoing one; and a log start above data that hang."""
    record = sys.modules[type(broker).__module__].Record
    broker.start()
    ongoing = broker.producer("ongoing", transactional_id="ongoing", transaction_timeout_ms=900_000)
    ongoing.begin()
    ongoing.send("t", 0, record(key=b"k", value=b"open"))
    ongoing.flush()
    broker.produce("gone", 0, [record(key=b"k", value=b"behind")])
    broker.delete_records("gone", 0, 3)


@pytest.mark.nightly
def test_both_say_the_same_and_a_producer_can_be_dropped() -> None:
    with a_scratch_folder() as scratch, a_broker("4.3.1", scratch / "broker") as broker:
        log_dir, metadata = broker.log_dirs[0], broker.metadata_dir
        first_life(broker)
        hang(log_dir / "t-0", 2, DROPPED, ABORTED)
        hang(log_dir / "gone-0", 2, GONE)
        second_life(broker)
        producers = {topic: describe(broker, topic) for topic in TOPICS}
        hanging = {(row[0], int(row[2]), int(row[5])) for topic in TOPICS for row in find_hanging(broker, topic)}
        listed = {row[0]: (row[2], row[3]) for row in ask_tool(broker, "list")}
        broker.client.kill()
        broker.stop()

        rows = {topic: txns(log_dir, topic, metadata) for topic in TOPICS}
        assert {topic: described(found[-1]) for topic, found in rows.items()} == producers
        judged = {(t, row["producer_id"]): row for t, found in rows.items() for row in found if "verdict" in row}
        assert {key: row["verdict"] for key, row in judged.items()} == {
            ("t", DROPPED): "hanging",
            ("t", ABORTED): "hanging",
            ("t", int(listed["ongoing"][0])): "ongoing",
            ("gone", GONE): "hanging",
        }
        told = {(t, n, row["held_from"]) for (t, n), row in judged.items() if row["verdict"] == "hanging"}
        assert told == hanging
        assert judged["gone", GONE]["data"] == "gone"
        (ongoing,) = (row for row in judged.values() if row["verdict"] == "ongoing")
        assert (str(ongoing["producer_id"]), ongoing["state"]) == listed[ongoing["transactional_id"]]

        drop(log_dir / "t-0", DROPPED, exposes=[2, 2])
        drop(log_dir / "gone-0", GONE, exposes=None)
        broker.start()
        recovered = [line for line in broker.log_text().splitlines() if "Recovering unflushed" in line]
        assert not [line for line in recovered if "__cluster_metadata" not in line]
        others = [row for row in producers["t"] if row[0] != str(DROPPED)]
        assert describe(broker, "t") == others
        assert broker.offsets("t", 0, "read_committed") == (0, 3)
        end = broker.offsets("gone", 0)[1]
        assert broker.offsets("gone", 0, "read_committed") == (3, end)
        assert b"hangs" in [record.value for record in broker.consume("t", 0, isolation="read_committed")]

        words = judged["t", ABORTED]["abort"].split()
        broker.tool(TOOL, "--bootstrap-server", broker.bootstrap, *words[words.index("abort") :])
        assert broker.offsets("t", 0, "read_committed") == (0, ongoing["held_from"])


def find_hanging(broker: Any, topic: str) -> list[list[str]]:
    """Topic, partition, producer id, epoch, coordinator epoch, start offset, and more."""
    return ask_tool(broker, "find-hanging", "--topic", topic)


def drop(partition: Path, producer_id: int, *, exposes: list[int] | None) -> None:
    done = klogtool("drop-producer", partition, "--producer-id", str(producer_id), "--apply", "--format", "json")
    assert done.status == 0, done.err
    (plan,) = (row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")
    assert plan["answer"]["visible"] == exposes
    assert plan["answer"]["open_since"] == 2


def test_the_audit_finds_a_marker_that_no_coordinator_decided() -> None:
    """An abort marker on one of two partitions, while the transaction is open: what a late marker does. Then the
    transaction is committed, and consumers get one half of it."""
    with a_scratch_folder() as scratch, a_broker("4.3.1", scratch / "broker") as broker:
        record = sys.modules[type(broker).__module__].Record
        broker.start()
        broker.create_topic("a", 2, retention_ms=-1)
        producer = broker.producer("app", transactional_id="app")
        for n in range(2):
            producer.begin()
            for partition in range(2):
                producer.send("a", partition, record(key=b"k", value=b"%d" % n))
            producer.flush()
            if n:
                time.sleep(3)  # brokers' clocks may differ by a second
                where = ("--topic", "a", "--partition", 0)
                broker.tool(TOOL, "--bootstrap-server", broker.bootstrap, "abort", *where, "--start-offset", 2)
                time.sleep(3)
            producer.commit()
        values = [[one.value for one in broker.consume("a", n, isolation="read_committed")] for n in range(2)]
        assert values == [[b"0"], [b"0", b"1"]]
        broker.stop()
        done = klogtool("txns", "--audit", broker.log_dirs[0], "--format", "json")
        _, row, answer = map(json.loads, done.out.splitlines())
        assert (done.status, answer["findings"], row["id"], row["transactional_id"]) == (1, 1, "late-marker", "app")
        part = row["parts"][0]
        assert [part[name] for name in ("topic", "partition", "first_offset", "marker_offset", "status")] == [
            *("a", 0, 2, 3, "aborted")
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_audit_accuses_nothing_that_a_broker_decided(version: str) -> None:
    """Committed, aborted, fenced and timed out transactions over three partitions, and one that stays open."""
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    with a_scratch_folder() as scratch, a_broker(version, scratch / "broker", config=config) as broker:
        record, chance = sys.modules[type(broker).__module__].Record, random.Random(24)
        broker.start()
        broker.create_topic("a", 3, retention_ms=-1)

        def send(producer: Any) -> None:
            for partition in chance.sample(range(3), chance.randint(1, 3)):
                producer.send("a", partition, record(key=b"k", value=b"v"))
            producer.flush()

        for n in range(2):
            producers = [broker.producer(f"{name}{n}", transactional_id=name) for name in ("one", "two")]
            for _ in range(10):
                for producer in producers:
                    producer.begin()
                    send(producer)
                for producer in producers:
                    chance.choice((producer.commit, producer.abort))()
            producers[0].begin()  # the next of its name fences it
            send(producers[0])
        late = broker.producer("late", transactional_id="late", transaction_timeout_ms=500)
        late.begin()
        send(late)
        time.sleep(3)
        broker.client.kill()
        broker.stop()
        done = klogtool("txns", "--audit", broker.log_dirs[0])
        assert (done.status, done.out.decode().splitlines()[-1].startswith("nothing wrong was found; ")) == (0, True)
        told = klogtool("txns", broker.log_dirs[0], "--format", "json").out.decode()
        verdicts = {row["verdict"] for row in map(json.loads, told.splitlines()) if row.get("status") == "open"}
        assert verdicts == {"ongoing"}
