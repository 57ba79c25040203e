"""A real broker with tiered storage goes on with logs that klogtool worked at: none of them forgets where it starts.

The broker makes one tiered topic for each command, moves their older segments to its remote storage (Kafka's own
LocalTieredStorage), and stops. klogtool works at each, without being told that it is tiered. After its next start the
broker has the same log starts as before, and a consumer gets every record, those in remote storage too.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from klogtool.log.logdir import LogDir

from .beside import module_beside
from .brokers import a_broker
from .test_brokers_start_on_it import a_scratch_folder
from .test_brokers_start_on_it import klogtool as run

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]

RECORDS, START = 60, 7
REMOTE = ("remote.log", "rlmm.", "rsm.")
FOR_EVER = {"retention.ms": -1}
LATER = "2099-01-01"  # every record is past its time

# topic: what klogtool does to its partition; the log start afterwards
WORK: dict[str, tuple[tuple[str, ...], int]] = {
    "untouched": ((), START),
    "rolled": (("roll", "--force"), START),
    "retained": (("retain", "--now", LATER, "--config", "retention.ms=-1"), START),
    "cut": (("truncate", "--to", str(RECORDS - 2)), START),
    "recovered": (("recover", "--last-stop", "unclean"), START),
    "moved": (("delete-records", "--before", "12"), 12),
    "anew": (("truncate", "--start-at", "80"), 80),
}


def tiered_config(remote: pathlib.Path) -> dict[str, Any]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": remote,
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 500,
        "log.retention.check.interval.ms": 700,
        "log.initial.task.delay.ms": 500,
    }


@contextmanager
def a_tiered_broker(version: str, **options: Any) -> Iterator[Any]:
    with a_scratch_folder() as work:
        jar = f"org.apache.kafka:kafka-storage:{version}:jar:test"
        config = tiered_config(work / "remote")
        with a_broker(version, work / "broker", jars=[jar], config=config, **options) as broker:
            yield broker


def fill(broker: Any, version: str, **kept: int) -> None:
    """Make the topics, and wait until their first segments are in remote storage only. kept: their retention."""
    record = module_beside("brokers/broker.py").Record
    size = "internal.segment.bytes" if version.startswith("4") else "segment.bytes"
    settings = {"remote.storage.enable": "true", "local.retention.bytes": 500, size: 1000}
    for topic in WORK:
        broker.create_topic(topic, 1, **{**settings, "file.delete.delay.ms": 1, **kept})
        for n in range(RECORDS):
            broker.produce(topic, 0, [record(key=b"%d" % n, value=b"x" * 60)])
    until = time.monotonic() + 60
    folders = [broker.log_dirs[0] / f"{topic}-0" for topic in WORK]
    while any(min(int(path.stem) for path in folder.glob("*.log")) <= START for folder in folders):
        assert time.monotonic() < until, "nothing was moved to remote storage"
        time.sleep(0.3)
    for topic in WORK:
        broker.delete_records(topic, 0, START)


@pytest.mark.parametrize(("version", "is_known"), [("4.3.1", False), ("3.9.2", True)])
def test_no_command_forgets_where_a_tiered_log_starts(version: str, is_known: bool) -> None:
    """is_known: the log dir has the cluster's metadata, and so the topic's settings."""
    with a_tiered_broker(version, metadata_in_log_dir=is_known) as broker:
        broker.start()
        fill(broker, version, **FOR_EVER)
        broker.stop()
        log_dir = broker.log_dirs[0]
        before = LogDir(str(log_dir)).log_start_offsets or {}
        assert {before[key] for key in before if key.topic in WORK} == {START}
        for topic, (words, start) in WORK.items():
            if words:
                done = run(words[0], log_dir / f"{topic}-0", *words[1:], "--apply")
                assert done.status in (0, 1), (topic, done.err)
            after = LogDir(str(log_dir)).log_start_offsets or {}
            assert {key.topic: line for key, line in after.items()}[topic] == start, topic
        broker.start()
        for topic, (_, start) in WORK.items():
            first, end = broker.offsets(topic, 0)
            assert first == start, topic
            assert [record.offset for record in broker.consume(topic, 0)] == list(range(start, end)), topic
        broker.stop()


def test_without_remote_storage_a_tiered_log_starts_where_the_doctor_says() -> None:
    with a_tiered_broker("4.3.1", metadata_in_log_dir=True) as broker:
        broker.start()
        fill(broker, "4.3.1", **FOR_EVER)
        broker.stop()
        log_dir, config = broker.log_dirs[0], dict(broker.config)
        for off, is_later in ((False, False), (True, False), (False, True)):
            done = run("doctor", log_dir, "--config", f"remote.log.storage.system.enable={not off}", "--json")
            claims = [row for row in map(json.loads, done.out.splitlines()) if row.get("about") == "partition"]
            claimed = {pathlib.Path(row["path"]).name: row["log_start_offset"] for row in claims}
            broker.config = {name: value for name, value in config.items() if not (off and name.startswith(REMOTE))}
            broker.start()
            for topic in WORK:
                if off:
                    assert broker.offsets(topic, 0)[0] == claimed[f"{topic}-0"] > START, topic
                    continue
                # The broker without remote storage removed the lines. It depends on the remote segments then, and on
                # when they are looked at.
                assert claimed[f"{topic}-0"] == (None if is_later else START), topic
                assert broker.offsets(topic, 0)[0] in ((0, START) if is_later else (START,)), topic
            broker.stop()


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_a_broker_without_remote_storage_retains_as_the_plan_says(version: str) -> None:
    """What klogtool does by a file without the setting loses nothing if remote storage comes back. What retention
    deletes is deleted there as well: for that, the setting has to be given."""
    with a_tiered_broker(version, metadata_in_log_dir=True) as broker:
        broker.start()
        fill(broker, version)
        broker.stop()
        log_dir, config = broker.log_dirs[0], dict(broker.config)
        file = log_dir.parent / "its.properties"
        file.write_text(f"log.dirs={log_dir}\nlog.retention.ms=1000\n")
        given = ("--config-file", file, "--now", LATER)
        assert run("retain", log_dir / "untouched-0", *given).status == 3
        assert run("roll", log_dir / "rolled-0", "--force", "--apply", *given).status == 0
        broker.start()
        assert [one.offset for one in broker.consume("rolled", 0)] == list(range(START, RECORDS))
        broker.stop()
        off = (*given, "--config", "remote.log.storage.system.enable=false", "--json")
        plans = [json.loads(line) for line in run("retain", log_dir / "untouched-0", *off).out.splitlines()]
        (answer,) = [row["answer"] for row in plans if "deletions" in row.get("answer", {})]
        there = {int(path.stem) for path in (log_dir / "untouched-0").glob("*.log")}
        assert {row["segment"] for row in answer["deletions"]} == there
        assert answer["state"] == {
            "log_start_offset": RECORDS,
            "log_end_offset": RECORDS,
            "log_start_checkpoint": RECORDS,
        }
        broker.config = {name: value for name, value in config.items() if not name.startswith(REMOTE)}
        broker.config["log.retention.ms"] = 1000
        broker.start()
        time.sleep(3)
        assert broker.offsets("untouched", 0) == (RECORDS, RECORDS)
        broker.stop()
        assert [int(path.stem) for path in (log_dir / "untouched-0").glob("*.log")] == [RECORDS]
        broker.config = config
        broker.start()
        assert broker.offsets("untouched", 0) == (RECORDS, RECORDS)
        broker.stop()
