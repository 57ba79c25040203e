"""Brokers over logs that klogtool compacted: they load them, serve them, and their own cleaner has nothing left to do.

A broker whose cleaner is off is fed keys that come again, tombstones, and transactions of all fates, and stops;
klogtool compacts the log dir in place; the broker starts with its cleaner on.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import time
from typing import Any

import pytest

from .brokers import CUTS, VERSIONS, a_broker, kept_files, records_of, served
from .kafka import scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from running import run_here  # noqa: E402

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
TOPIC = "compacted"
CLEANER_S = 6  # many rounds of a cleaner that looks each half second
CLEANED = "Beginning cleaning of log"


def feed(broker: Any) -> None:
    """Over many segments."""
    record = sys.modules[type(broker).__module__].Record
    producers = {name: broker.producer(name, transactional_id=name) for name in ("commit", "abort")}
    producers["plain"] = broker.producer("plain")
    for n in range(40):
        fate = ("plain", "commit", "plain", "abort")[n % 4]
        producer = producers[fate]
        if fate != "plain":
            producer.begin()
        for k in range(4):
            value = None if (n + k) % 7 == 0 else b"%s %d %d " % (fate.encode(), n, k) + b"v" * 300
            producer.send(TOPIC, 0, record(key=b"key %d" % ((5 * n + k) % 12), value=value))
        producer.flush()
        if fate != "plain":
            getattr(producer, fate)()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_serves_it_and_its_cleaner_has_nothing_to_do(version: str) -> None:
    scratch = scratch_folder("klogtool-compacted-")
    try:
        with a_broker(version, scratch / "broker", config={"log.cleaner.enable": "false"}) as broker:
            small = "internal_segment_bytes" if version == "4.3.1" else "segment_bytes"
            settings = {small: 5000, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
            broker.start()
            broker.create_topic(TOPIC, 1, **settings)
            feed(broker)
            broker.stop()
            partition = broker.partition_dir(TOPIC, 0)
            given = records_of(partition)
            config = [f"--config={name.replace('_', '.')}={value}" for name, value in settings.items()]
            done = run_here(["compact", str(partition), "--apply", "--purge", *config], HERE)
            assert done.status == 0, done.err
            assert b"records go" in done.out
            files, expected = kept_files(partition), records_of(partition)
            assert 0 < len(expected) < len(given) // 2
            assert set(expected) <= set(given)
            broker.config |= {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": 500}
            broker.start()
            assert served(broker, TOPIC) == expected
            time.sleep(CLEANER_S)
            said = broker.log_text()
            broker.stop()
            assert not [words for words in CUTS if words in said]
            told = said + cleaner_log(scratch)
            assert "Starting the log cleaner" in told
            assert f"{CLEANED} {TOPIC}-0" not in told
            assert kept_files(partition) == files
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def cleaner_log(folder: pathlib.Path) -> str:
    """What the cleaner wrote, where it has a file of its own."""
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*cleaner*.log*") if path.is_file())
