"""scrub, verify and doctor beside a broker that appends, rolls, cleans, deletes and moves as often as it can: no alarm.

Its disks are sound all the time, so each error that one of them names is false. `make nightly` looks for ten minutes;
KLOGTOOL_BESIDE_SECONDS for as long as one likes.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from running import Done, run_apart

from .beside import module_beside
from .brokers import VERSIONS, a_broker
from .test_brokers_start_on_it import a_scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow]
NIGHT_SECONDS = int(os.environ.get("KLOGTOOL_BESIDE_SECONDS", 600))
OFTEN: dict[str, Any] = {
    "log.retention.check.interval.ms": 200,
    "log.initial.task.delay.ms": 100,
    "log.cleaner.backoff.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 300,
    "log.flush.start.offset.checkpoint.interval.ms": 300,
    "replica.high.watermark.checkpoint.interval.ms": 300,
    "log.segment.delete.delay.ms": 300,
}
SMALL: dict[str, Any] = {"internal_segment_bytes": 20_000, "file_delete_delay_ms": 100}
TOPICS: dict[str, dict[str, Any]] = {
    "retained": {"retention_bytes": 90_000},
    "compacted": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": 1},
    "moving": {"retention_bytes": 200_000},
}


class Work(threading.Thread):
    """Keeps the broker busy until it is told to stop. done: how often it did what."""

    def __init__(self, broker: Any) -> None:
        super().__init__()
        self._broker, self.stop = broker, threading.Event()
        self.errors, self.done = list[BaseException](), Counter[str]()

    def run(self) -> None:
        """Append; now and then move a partition, make a topic and delete it."""
        try:
            for n in itertools.count():
                if self.stop.is_set():
                    return
                self._step(n)
        except BaseException as error:  # the test reports it
            self.errors.append(error)

    def _step(self, n: int) -> None:
        record = module_beside("brokers/broker.py").Record
        rows = [record(key=b"k%d" % (n % 7), value=b"x" * 100) for _ in range(30)]
        topics = [*TOPICS, f"doomed-{n // 10}"]
        if n % 10 == 0:
            self._broker.create_topic(topics[-1], 1, **SMALL)
        for topic in topics:
            self._broker.produce(topic, 0, rows)
            self.done["batches"] += 1
        if n % 10 == 9:
            self._broker.delete_topic(topics[-1])
            self.done["topics deleted"] += 1
        if self._is_moving():  # a move, or a deletion of records, would wait for it
            return
        if n % 25 == 20:
            self._broker.delete_records("retained", 0, self._broker.offsets("retained", 0)[0] + 1)
            self.done["records deleted"] += 1
        if n % 8 == 7:
            topic = list(TOPICS)[n // 8 % len(TOPICS)]
            here = self._broker.partition_dir(topic, 0).parent.resolve()
            self._broker.move(topic, 0, next(one for one in self._broker.log_dirs if one.resolve() != here))
            self.done["moves"] += 1

    def _is_moving(self) -> bool:
        return any(path.name.endswith("-future") for folder in self._broker.log_dirs for path in folder.iterdir())


def alarms(command: str, done: Done) -> list[str]:
    """The errors that a run names; if it ends with status 1, all that it says."""
    kind, rows = "ahead" if command == "doctor" else "finding", map(json.loads, done.out.splitlines())
    told = [row for row in rows if row["type"] == kind]
    return [str(row) for row in told if row["severity"] == "error" or (done.status == 1 and row["severity"] != "info")]


@pytest.mark.timeout(NIGHT_SECONDS + 300)
@pytest.mark.parametrize("seconds", [20, pytest.param(NIGHT_SECONDS, marks=pytest.mark.nightly)])
def test_no_alarm_beside_a_running_broker(seconds: int) -> None:
    statuses, found, checked, runs = Counter[str](), list[str](), 0, Counter[str]()
    with a_scratch_folder() as work:
        log_dirs = [work / "d1", work / "d2"]
        with a_broker(VERSIONS[0], work / "broker", log_dir=log_dirs, config=OFTEN) as broker:
            broker.start()
            for topic, config in TOPICS.items():
                broker.create_topic(topic, 1, **SMALL, **config)
            at_work, until = Work(broker), time.monotonic() + seconds
            at_work.start()
            try:
                while time.monotonic() < until and at_work.is_alive():
                    for words in commands(log_dirs, work / "state"):
                        done = run_apart(*words, "--format", "json", timeout_s=120)
                        assert "Traceback" not in done.err, (words, done.err)
                        statuses[f"{words[0]} {done.status}"] += 1
                        runs[words[0]] += 1
                        found += [f"{words[0]}: {alarm}" for alarm in alarms(words[0], done)]
                        if words[0] == "scrub" and done.out:
                            checked += json.loads(done.out.splitlines()[-1]).get("checked", 0)
            finally:
                at_work.stop.set()
                at_work.join()
            assert not at_work.errors
            broker.stop()
    print(f"{seconds} s: {dict(runs)}, {checked} segments checked, {dict(at_work.done)}, {dict(statuses)}")
    assert not found, f"{len(found)} alarms\n" + "\n".join(found[:20])
    assert at_work.done["topics deleted"]
    assert at_work.done["moves"]
    assert checked
    assert {status for status in statuses if status.endswith((" 1", " 2"))} == set()


def commands(log_dirs: list[Path], state: Path) -> list[list[str]]:
    paths = list(map(str, log_dirs))
    return [
        ["scrub", *paths, "--state", str(state), "--every", "1s"],
        ["verify", *paths],
        ["doctor", *paths],
    ]
