"""A broker goes on after `free --remote` has deleted local segments: a consumer from the start gets every record."""

from __future__ import annotations

import pathlib
import time

import pytest

from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition

from .beside import module_beside
from .local_tier import tiered
from .test_brokers_remote import METADATA, RECORDS, TOPIC, VERSIONS, run, seen, settings_of
from .test_brokers_start_on_it import a_scratch_folder
from .test_brokers_start_on_it import klogtool as plain_run

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly]
FREE = ["--config", "remote.storage.enable=true", "--only", "remote"]


def bases(partition: pathlib.Path) -> list[int]:
    return [segment.base_offset for segment in Partition(str(partition)).segments]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_every_record_is_served_after_it(stop: str, version: str) -> None:
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        record = module_beside("brokers/broker.py").Record
        keeping = {**settings_of(version), "local.retention.bytes": -1, "local.retention.ms": -1}  # all stays local
        broker.create_topic(TOPIC, 1, **keeping, **{"retention.ms": -1})
        for n in range(RECORDS):
            broker.produce(TOPIC, 0, [record(key=b"%d" % n, value=b"x" * 60)])
        partition, store = broker.log_dirs[0] / f"{TOPIC}-0", work / "remote/kafka-tiered-storage"
        before, until = bases(partition), time.monotonic() + 60
        while len(list(store.rglob("*.log"))) < len(before) - 1:
            assert time.monotonic() < until, "nothing was copied to remote storage"
            time.sleep(0.3)
        time.sleep(2)
        records = seen(broker)
        broker.stop() if stop == "clean" else broker.kill()
        assert (len(records), before[0]) == (RECORDS, 0)

        words = ["free", broker.log_dirs[0], "--remote", store, *FREE, "--bytes", 1 << 20, "--apply", "--no-undo"]
        done = plain_run(*map(str, words))
        assert done.status == 1, done.err  # so much is not there: all that can go is gone
        left = bases(partition)
        # After a kill the checkpoint of the high watermark is old: nothing above it goes.
        assert left == before[-1:] if stop == "clean" else left == before[-len(left) :] != before
        broker.start()
        assert seen(broker) == records
        assert broker.offsets(TOPIC, 0) == (0, RECORDS)
        broker.produce(TOPIC, 0, [record(key=b"more", value=b"x")])
        assert [one[0] for one in seen(broker)] == list(range(RECORDS + 1))
        broker.stop()
        log_dir = LogDir(str(broker.log_dirs[0]))
        assert {key.topic: line for key, line in (log_dir.log_start_offsets or {}).items()}[TOPIC] == 0
        assert run("verify", store, "--metadata", log_dir.path, "--local", log_dir.path).status == 0
        assert (broker.log_dirs[0] / f"{METADATA}-0").exists()
