"""Jobs of people who work with data, over the log dir of a real broker: what they say is what the broker says.

A daily export that goes on beside the running broker, which preallocates a topic's files; SQL over offsets; skew;
batches that do not match their checksum; an offline compaction, checked.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest
from damage import flip_bit
from running import ROOT, run_here

from .brokers import VERSIONS, Served, a_broker, served
from .kafka import scratch_folder
from .test_brokers_committed_offsets import kafkas

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly, pytest.mark.slow]
JOBS = ROOT / "docs/examples/jobs"
TOPICS = ("orders", "state")
MANY, HEAVY = 10, 777  # topics of 1,000 partitions; the partition of the last one that has most
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


def export(log_dir: pathlib.Path, folder: pathlib.Path) -> dict[str, list[str]]:
    """What the job says of each topic: how many records are new, how many there are, the last offset."""
    rows = rows_of("daily_export.py", log_dir, folder)
    return {topic: numbers for topic, _, *numbers in rows if topic in TOPICS}


def killed_export(log_dir: pathlib.Path, folder: pathlib.Path) -> None:
    """The job, ended as soon as it has made something; or it was faster."""
    command = [sys.executable, str(JOBS / "daily_export.py"), str(log_dir), str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True) as job:
        while job.poll() is None and not (folder.exists() and any(folder.iterdir())):
            time.sleep(0.001)
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)


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
            for records, there in ((200, 200), (100, 300)):  # both days beside the running broker
                feed(broker, chance, records // 20)
                if there == records:
                    killed_export(log_dir, scratch / "killed")
                    export(log_dir, scratch / "killed")
                assert export(log_dir, daily) == {topic: [str(records), str(there), str(there - 1)] for topic in TOPICS}
                assert {topic: exported(daily, topic) for topic in TOPICS} == {
                    topic: served(broker, topic) for topic in TOPICS
                }
            killed_export(log_dir, scratch / "killed")
            export(log_dir, scratch / "killed")
            for folder in (daily, scratch / "killed"):
                assert export(log_dir, folder) == {topic: ["0", "300", "299"] for topic in TOPICS}
                assert all(exported(folder, topic) == served(broker, topic) for topic in TOPICS)
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


def test_skew_of_ten_thousand_partitions() -> None:
    """The sizes that the broker itself says (kafka-log-dirs)."""
    pytest.importorskip("duckdb")
    scratch = scratch_folder("klogtool-brokers-skew-")
    config = {"log.index.size.max.bytes": 1000, "num.partitions": 1}
    try:
        with a_broker(VERSIONS[0], scratch, heap="1g", config=config) as broker:
            record = sys.modules[type(broker).__module__].Record
            broker.start()
            for n in range(MANY):
                broker.create_topic(f"t{n}", 1000)
            last = f"t{MANY - 1}"
            broker.produce(last, 1, [record(value=bytes(1000))])
            broker.produce(last, HEAVY, [record(value=bytes(1000)) for _ in range(9)])
            said = broker.tool(
                "org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.bootstrap, "--describe"
            )
            sizes = log_sizes(said.stdout)
            assert len(sizes) == 1000 * MANY
            (first, *others) = rows_of("skew.py", broker.log_dirs[0])
            skew = round(sizes[f"{last}-{HEAVY}"] / (sum(sizes.values()) / 1000), 2)
            assert first == [last, "1000", str(sizes[f"{last}-{HEAVY}"]), str(skew)]
            assert others == [[f"t{n}", "1000", "0", "0.0"] for n in range(MANY - 1)]
            broker.kill()
    finally:
        shutil.rmtree(scratch)


def log_sizes(said: str) -> dict[str, int]:
    """Sizes of the partitions by their names, out of the JSON that kafka-log-dirs prints."""
    line = next(line for line in said.splitlines() if line.startswith("{"))
    return {
        found["partition"]: found["size"]
        for broker in json.loads(line)["brokers"]
        for log_dir in broker["logDirs"]
        for found in log_dir["partitions"]
    }
