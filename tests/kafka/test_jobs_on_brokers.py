"""Jobs of people who work with data, over the log dir of a real broker: what they say is what the broker says.

A daily export that goes on beside the running broker, which preallocates a topic's files; SQL over offsets; skew;
batches that do not match their checksum; an offline compaction, checked.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import subprocess
import sys
from typing import Any

import pytest
from damage import flip_bit
from running import ROOT, run_apart, run_here

from .brokers import VERSIONS, Served, a_broker, served
from .kafka import scratch_folder
from .test_brokers_committed_offsets import kafkas

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly, pytest.mark.slow]
JOBS = ROOT / "docs/examples/jobs"
TOPICS = ("orders", "state")
COMPACTED: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "1.0"}


def rows_of(job: str, *paths: object) -> list[list[str]]:
    command = [sys.executable, str(JOBS / job), *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t") for line in done.stdout.splitlines()]


def feed(broker: Any, chance: random.Random, count: int) -> None:
    record = sys.modules[type(broker).__module__].Record
    for _ in range(count):
        rows = [record(key=b"k%d" % chance.randrange(9), value=chance.randbytes(90)) for _ in range(20)]
        for topic in TOPICS:
            broker.produce(topic, 0, rows)


def exported(folder: pathlib.Path, topic: str) -> Served:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / f"topic={topic}", columns=["offset", "key", "value"])
    return sorted((row["offset"], row["key"], row["value"]) for row in table.to_pylist())


def export(log_dir: pathlib.Path, folder: pathlib.Path) -> str:
    words = ["export", str(log_dir), "--output", str(folder), "--topic", "orders", "--topic", "state"]
    done = run_apart(*words)
    assert done.status == 0, done.err
    return done.out.decode().splitlines()[-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_say_what_the_broker_says(version: str) -> None:
    pytest.importorskip("duckdb")
    scratch, chance = scratch_folder("klogtool-brokers-jobs-"), random.Random(version)
    try:
        with a_broker(version, scratch / "broker") as broker:
            broker.start()
            small = "internal_segment_bytes" if version == "4.3.1" else "segment_bytes"
            broker.create_topic("orders", 1, preallocate="true", **{small: 4_000_000})
            broker.create_topic("state", 1, **COMPACTED, **{small: 4000})
            (log_dir,), daily = broker.log_dirs, scratch / "daily"
            for records in (200, 100):  # both days beside the running broker
                feed(broker, chance, records // 20)
                assert export(log_dir, daily).startswith(f"{2 * records} new records")
                assert {topic: exported(daily, topic) for topic in TOPICS} == {
                    topic: served(broker, topic) for topic in TOPICS
                }
            assert export(log_dir, daily).startswith("nothing is new")
            assert (log_dir / "orders-0" / f"{0:020d}.log").stat().st_size == 4_000_000  # zeros behind the records
            broker.join_group("readers", "orders", 70)
            (lag,) = {
                lag for (group, topic, _), (*_, lag) in kafkas(broker, "--all-groups").items() if group == "readers"
            }
            broker.stop()

            assert rows_of("committed_offsets.py", log_dir) == [["readers", "orders", "1", str(lag)]]
            skew = {topic: (partitions, ratio) for topic, partitions, _, ratio in rows_of("skew.py", log_dir)}
            assert (skew["orders"], skew["state"]) == (("1", "1.0"), ("1", "1.0"))
            compacted = scratch / "compacted"
            words = ["--config", "cleanup.policy=compact", "--force", "--output", str(compacted)]
            done = run_here(["compact", str(log_dir), *words], scratch)
            assert done.status == 0, done.err
            (state,) = [row for row in rows_of("compaction_checked.py", log_dir, compacted) if row[0] == "state"]
            assert (state[1], state[3]) == ("300", "0")
            assert int(state[2]) < 100

            assert rows_of("corrupt_batches.py", log_dir) == []
            flip_bit(log_dir / "orders-0" / f"{0:020d}.log", 1500)
            (wounded,) = rows_of("corrupt_batches.py", log_dir)
            assert wounded[:3] == [str(log_dir), "orders-0", "1"]
            broker.start()
            with pytest.raises(Exception, match="when fetching the next record from orders-0"):
                served(broker, "orders")
    finally:
        shutil.rmtree(scratch)
