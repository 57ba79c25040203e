"""Coordinators of a broker load what the doctor says, where records are not theirs; its cures help."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
import time
from typing import Any

import pytest
from coordinator_wounds import OFFSETS, POISON, TRANSACTIONS, put_in_the_middle
from running import run_here

from .brokers import VERSIONS, a_broker
from .kafka import scratch_folder
from .test_brokers_committed_offsets import groups_tool, kafkas

Path = pathlib.Path
pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
PARTITIONS = len(POISON)
SETTINGS = {"offsets.topic.num.partitions": PARTITIONS, "transaction.state.log.num.partitions": PARTITIONS}
FAILED = re.compile(
    r"ERROR.*(?:Failed to load metadata from|Error loading offsets from|"
    r"Error loading transactions from transaction log) (__\w+-\d+)"
)


def name_for(partition: int) -> str:
    """A group, or a transactional id, whose coordinator leads this partition (String.hashCode)."""
    for number in range(10_000):
        value = 0
        for letter in f"g{number}":
            value = (31 * value + ord(letter)) & 0xFFFFFFFF
        if (value & 0x7FFFFFFF) % PARTITIONS == partition:
            return f"g{number}"
    raise AssertionError(partition)


def feed(broker: Any, record: Any) -> None:
    broker.create_topic("t", 1)
    broker.produce("t", 0, [record(key=b"k", value=b"v")] * 5)
    for partition in range(PARTITIONS):
        broker.join_group(name_for(partition), "t", 3)
        producer = broker.producer(f"p{partition}", transactional_id=name_for(partition))
        producer.begin()
        producer.send("t", 0, record(key=b"x", value=b"y"))
        producer.commit()
        producer.close()


def foreseen(log_dir: Path, version: str) -> set[str]:
    done = run_here(["doctor", str(log_dir), "--json", "--kafka", version], log_dir)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return {Path(row["path"]).name for row in rows if row.get("what") == "coordinator-fails"}


def failed(broker: Any) -> set[str]:
    time.sleep(3)  # coordinators load after the start
    return set(FAILED.findall(broker.log_text()))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_coordinators_load_what_the_doctor_says(version: str) -> None:
    scratch = scratch_folder("klogtool-brokers-coordinators-")
    try:
        with a_broker(version, scratch / "broker", config=SETTINGS) as broker:
            broker.start()
            feed(broker, sys.modules[type(broker).__module__].Record)
            broker.stop()
            (log_dir,) = broker.log_dirs
            at = {
                f"{poison.topic}-{n}": put_in_the_middle(
                    next((log_dir / f"{poison.topic}-{n}").glob("*.log")), poison.key, poison.value
                )
                for n, poison in enumerate(POISON.values())
            }
            said = foreseen(log_dir, version)
            assert said == {f"{poison.topic}-{n}" for n, poison in enumerate(POISON.values()) if poison.ends}
            kept = scratch / "kept"
            shutil.copytree(log_dir, kept)
            broker.start()
            assert failed(broker) == said
            broker.stop()

            shutil.rmtree(log_dir)
            shutil.copytree(kept, log_dir)
            csv = scratch / "commits.csv"
            groups = [n for n, poison in enumerate(POISON.values()) if poison.ends and poison.topic == OFFSETS][:2]
            csv.write_text("".join(cure_groups(log_dir / f"{OFFSETS}-{n}") for n in groups))
            for name in sorted(said):
                if name.startswith(TRANSACTIONS):
                    words = ["truncate", str(log_dir / name), "--to", str(at[name]), "--apply"]
                    assert run_here(words, scratch).status == 0
            broker.start()
            assert failed(broker) == {name for name in said if name.startswith(OFFSETS)} - {
                f"{OFFSETS}-{n}" for n in groups
            }
            names = [word for n in groups for word in ("--group", name_for(n))]
            groups_tool(broker, "--reset-offsets", "--from-file", str(csv), *names, "--execute")
            for n in groups:
                assert kafkas(broker, "--group", name_for(n))[name_for(n), "t", 0][0] == 3
            broker.stop()
    finally:
        shutil.rmtree(scratch)


def cure_groups(folder: Path) -> str:
    """Move a partition of `__consumer_offsets` away. Returns what its groups had committed, as CSV."""
    done = run_here(["offsets", str(folder), "--format", "csv"], folder)
    shutil.rmtree(folder)
    return done.out.decode()
