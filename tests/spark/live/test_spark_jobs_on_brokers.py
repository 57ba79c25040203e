"""The jobs of docs/examples/jobs that need Spark, over log dirs that real brokers wrote, and what brokers say of it.

Two clusters of two releases compared; a topic rebuilt from Parquet, Delta Lake and Iceberg, which a broker then serves;
a log dir written anew while tasks hang and an executor is killed.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kafka.brokers import CUTS, a_broker
from kafka.kafka import scratch_folder
from live.test_spark_cluster import SECONDS, busy_executors, cluster, environment, processes, wait_for
from live.test_spark_jobs import JOBS, printed
from msgspec import Struct
from running import run_here

__all__ = ["cluster", "environment"]

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly, pytest.mark.slow),
    pytest.mark.timeout(1800),  # brokers and several sessions of Spark
]
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
PARTITIONS = 2
TOPIC = "007"  # Spark takes it for a number, if it may
CODECS = ("none", "zstd", "lz4")
MADE_BY, REBUILT_BY = "4.3.1", "3.9.2"


class Cluster(Struct):
    """What a broker wrote, after it was stopped, and what it served before: by partition, all records."""

    log_dir: pathlib.Path
    served: list[list[Any]]


def records(chance: random.Random, record: Any) -> list[Any]:
    """100 records of three days, with null keys and values, and headers."""
    return [
        record(
            key=chance.choice([None, b"", b"k%d" % n]),
            value=chance.choice([None, chance.randbytes(60)]),
            timestamp=START_MS + chance.randrange(3 * DAY_MS),
            headers=chance.choice([(), (("a", b"x"), ("", None))]),
        )
        for n in range(100)
    ]


def feed(broker: Any, *, change: bool) -> list[list[Any]]:
    """The same records each time, or changed: one is another, and the last ten of partition 1 are missing."""
    record, chance = sys.modules[type(broker).__module__].Record, random.Random(1)
    small = "internal_segment_bytes" if broker.version == "4.3.1" else "segment_bytes"
    broker.create_topic(TOPIC, PARTITIONS, retention_ms=-1, **{small: 4000})
    for partition in range(PARTITIONS):
        for codec in CODECS:
            rows = records(chance, record)
            if change and codec == CODECS[-1]:
                rows = rows[:-10] if partition else [*rows[:5], record(value=b"another"), *rows[6:]]
            broker.produce(TOPIC, partition, rows, compression_type=codec, batch_size=2000)
    return [broker.consume(TOPIC, partition) for partition in range(PARTITIONS)]


@pytest.fixture(scope="module")
def scratch() -> Iterator[pathlib.Path]:
    folder = scratch_folder("klogtool-brokers-spark-jobs-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def clusters(scratch: pathlib.Path) -> list[Cluster]:
    """Of a broker of each release; the second one has other records."""
    written = []
    for version, change in ((MADE_BY, False), (REBUILT_BY, True)):
        with a_broker(version, scratch / version) as broker:
            broker.start()
            served = feed(broker, change=change)
            broker.stop()
            written.append(Cluster(broker.log_dirs[0], served))
    return written


def test_two_clusters_compared(clusters: list[Cluster], tmp_path: pathlib.Path) -> None:
    """The records that only one of the brokers serves: how many, the first and the last, for each partition."""
    copies = []
    for number, each in enumerate(clusters):
        for partition in range(PARTITIONS):
            name = f"{TOPIC}-{partition}"
            shutil.copytree(each.log_dir / name, tmp_path / str(number) / name)
        copies.append(tmp_path / str(number))
    expected = []
    for path, mine, others in zip(copies, clusters, reversed(clusters), strict=True):
        for partition in range(PARTITIONS):
            alone = [each.offset for each in mine.served[partition] if each not in others.served[partition]]
            if alone:
                row = [str(path), TOPIC, partition, len(alone), min(alone), max(alone)]
                expected.append(list(map(str, row)))
    assert [row[2:4] for row in expected] == [["0", "1"], ["1", "10"], ["0", "1"]]
    assert printed("compare_clusters.py", *copies) == expected


def to_parquet(log_dir: pathlib.Path, folder: pathlib.Path, rows: Any) -> str:
    """As two brokers export their replicas."""
    for broker in (1, 2):
        words = ["export", str(log_dir), "--topic", TOPIC, "--output", str(folder / f"broker={broker}")]
        assert run_here(words, folder).status == 0
    return str(folder)


def to_delta(log_dir: pathlib.Path, folder: pathlib.Path, rows: Any) -> str:
    """In files by topic, of which some are no longer in the table."""
    from deltalake import DeltaTable, write_deltalake

    for half in ("offset % 2 = 0", "offset % 2 = 1", "offset % 2 = 0"):
        write_deltalake(folder / "table", rows.where(half).toArrow(), mode="append", partition_by=["topic"])
    table = DeltaTable(folder / "table")
    table.restore(1)
    return str(folder / "table")


def to_iceberg(log_dir: pathlib.Path, folder: pathlib.Path, rows: Any) -> str:
    from pyiceberg.catalog.sql import SqlCatalog

    (folder / "lake").mkdir()
    where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    catalog = SqlCatalog("lake", **where)
    catalog.create_namespace("kafka")
    table = catalog.create_table("kafka.topics", schema=rows.toArrow().schema)
    for half in ("offset % 2 = 0", "offset % 2 = 1"):
        table.append(rows.where(half).toArrow())
    return str(table.metadata_location)


@pytest.mark.parametrize("kept_as", [to_parquet, to_delta, to_iceberg])
def test_a_broker_serves_the_rebuilt_topic(
    spark: Any,
    clusters: list[Cluster],
    tmp_path: pathlib.Path,
    kept_as: Callable[[pathlib.Path, pathlib.Path, Any], str],
) -> None:
    """On a broker of another release: each record with its offset, time and headers."""
    source, out = clusters[0], tmp_path / "out"
    rows = spark.read.format("klog").options(subscribe=TOPIC, includeHeaders=True).load(str(source.log_dir))
    kept = tmp_path / "kept"
    kept.mkdir()
    job = f"rebuild_from_{kept_as.__name__.removeprefix('to_')}.py"
    count = sum(map(len, source.served))
    assert printed(job, kept_as(source.log_dir, kept, rows), out) == [[str(count)]]
    scratch = scratch_folder("klogtool-brokers-rebuilt-")
    try:
        with a_broker(REBUILT_BY, scratch) as broker:
            broker.start()
            broker.create_topic(TOPIC, PARTITIONS, retention_ms=-1)
            broker.stop()
            for partition in range(PARTITIONS):
                broker.plant(out / f"{TOPIC}-{partition}", TOPIC, partition)
            broker.start()
            assert [broker.consume(TOPIC, partition) for partition in range(PARTITIONS)] == source.served
            assert not [line for line in broker.log_text().splitlines() if any(cut in line for cut in CUTS)]
    finally:
        shutil.rmtree(scratch)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the loopback addresses of Linux")
def test_slow_tasks_and_a_killed_executor(cluster: Any, clusters: list[Cluster], tmp_path: pathlib.Path) -> None:
    """The Python of one executor stops: Spark starts its tasks a second time on the other host. Then it is killed."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shutil.copytree(clusters[0].log_dir, shared / "logs")
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.buffer.kb": "1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    words = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    cluster.environment["PYSPARK_SUBMIT_ARGS"] = f"{words} pyspark-shell"
    worker, said = cluster.start_worker("127.0.0.2")
    cluster.start_worker("127.0.0.3")
    arguments = [cluster.master, str(shared / "logs"), str(shared / "out")]
    query, log = cluster.start("job", sys.executable, str(JOBS / "copy_on_cluster.py"), *arguments)
    victim = wait_for(lambda: busy_executors(worker.pid), log)[0]
    stopped = stop_below(victim)
    try:
        wait_for(lambda: happened(events, "SparkListenerTaskStart", Speculative=True), log)
        os.kill(victim, signal.SIGKILL)
        assert query.wait(SECONDS) == 0, log.read_text(errors="replace")[-3000:]
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert "exitStatus 137" in said.read_text(errors="replace"), "it was not killed"
    rows = [line.split("\t") for line in log.read_text().splitlines() if line.startswith(f"{TOPIC}\t")]
    assert rows == [[TOPIC, str(sum(map(len, clusters[0].served)))]]
    assert sorted(os.listdir(shared)) == ["logs", "out"]
    compare = printed("compare_clusters.py", shared / "logs", shared / "out")
    assert compare == []


def stop_below(pid: int) -> list[int]:
    """Stop everything that a process has started, and what that has; return it."""
    stopped: list[int] = []
    while True:
        parents = dict(processes())
        more = [child for child, parent in parents.items() if parent in (pid, *stopped) and child not in stopped]
        if not more:
            return stopped
        for child in more:
            os.kill(child, signal.SIGSTOP)
        stopped += more


def happened(folder: pathlib.Path, name: str, **info: Any) -> bool:
    """Whether Spark's log of events has one, with these values of its task."""
    for path in folder.iterdir():
        for line in path.read_text(errors="replace").splitlines():
            with suppress(ValueError):  # the last line is being written
                event = json.loads(line)
                if event["Event"] == name and info.items() <= event["Task Info"].items():
                    return True
    return False
