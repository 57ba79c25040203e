"""Commands that read, beside a broker that rolls, compacts, deletes and truncates its log dir as fast as it can.

What such a command says is about a disk that has moved on; but it is never wrong usage, never a traceback, and never a
file that "cannot be read".
"""

from __future__ import annotations

import pathlib
import threading
import time
from collections import Counter
from typing import Any

import pytest
from running import run_apart

from .beside import module_beside
from .brokers import VERSIONS, a_broker
from .test_brokers_start_on_it import a_scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared]
SECONDS = 25
FAST: dict[str, Any] = {
    "log.retention.check.interval.ms": 200,
    "log.initial.task.delay.ms": 100,
    "log.cleaner.backoff.ms": 100,
}
SMALL: dict[str, Any] = {"internal_segment_bytes": 4000, "file_delete_delay_ms": 50}
TOPICS: dict[str, dict[str, Any]] = {
    "retained": {"retention_bytes": 9000},
    "compacted": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": 1},
}
COMMANDS = (
    "verify LOGDIR",
    "verify LOGDIR --deep",
    "recover LOGDIR --last-stop clean",
    "doctor LOGDIR",
    "dump-log LOGDIR",
    "dump-log LOGDIR --format json",
    "hash LOGDIR",
    "txns LOGDIR",
    "offsets LOGDIR",
    "free LOGDIR",
    "retain LOGDIR",
    "compact LOGDIR --why",
    "image LOGDIR --output IMAGE",
    "salvage LOGDIR/retained-0",
    "read LOGDIR/retained-0 --offset 0 --max-bytes 1000",
    "lookup LOGDIR/retained-0 --timestamp latest",
)


def keep_busy(broker: Any, until: threading.Event, errors: list[BaseException]) -> None:
    record = module_beside("brokers/broker.py").Record
    n = 0
    try:
        while not until.is_set():
            rows = [record(key=b"k%d" % (n % 7), value=b"x" * 100) for _ in range(30)]
            for topic in TOPICS:
                broker.produce(topic, 0, rows)
            n += 1
    except BaseException as error:  # the thread's own; the test reports it
        errors.append(error)


def test_no_command_stumbles_over_a_running_broker() -> None:
    statuses: dict[str, Counter[int]] = {command: Counter() for command in COMMANDS}
    with a_scratch_folder() as work, a_broker(VERSIONS[0], work / "broker", config=FAST) as broker:
        broker.start()
        for topic, config in TOPICS.items():
            broker.create_topic(topic, 1, **SMALL, **config)
            broker.produce(topic, 0, [module_beside("brokers/broker.py").Record(key=b"k", value=b"v")])
        while not all((broker.log_dirs[0] / f"{topic}-0").is_dir() for topic in TOPICS):
            time.sleep(0.1)
        stop, errors = threading.Event(), list[BaseException]()
        feeder = threading.Thread(target=keep_busy, args=(broker, stop, errors))
        feeder.start()
        try:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until or not all(statuses.values()):
                for command in COMMANDS:
                    look(command, broker.log_dirs[0], work / f"image-{time.monotonic_ns()}", statuses[command])
        finally:
            stop.set()
            feeder.join()
        assert not errors
        first = min(path.name for path in broker.partition_dir("retained", 0).glob("*.log"))
        assert int(first[:20]) > 0, "nothing was deleted meanwhile"
        broker.stop()


def look(command: str, log_dir: pathlib.Path, image: pathlib.Path, statuses: Counter[int]) -> None:
    words = [word.replace("LOGDIR", str(log_dir)).replace("IMAGE", str(image)) for word in command.split()]
    done = run_apart(*words)
    statuses[done.status] += 1
    said = done.err + done.out.decode(errors="replace")
    assert "Traceback" not in said, (command, said)
    assert done.status in (0, 1, 3, 4), (command, said)
    if command.startswith(("verify LOGDIR", "doctor")):
        assert "No such file" not in said, (command, said)
        assert "offline" not in said, "\n".join([command, *(line for line in said.splitlines() if "offline" in line)])
