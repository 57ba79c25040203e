"""Run by a test as a process of its own: read a log dir on a cluster, print what came as JSON, or write it anew.

cluster_job.py MASTER LOGDIR RECORDS_A_TASK [OUT]
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.executor.cores": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.cores.max": "4",
}
FOREVER_SECONDS = 3600


def session_of(master: str, more: dict[str, str]) -> Any:
    from conftest import CONF  # type: ignore[attr-defined]
    from pyspark.sql import SparkSession

    import klogtool.spark

    builder = SparkSession.builder.master(master)
    for name, value in (CONF | {"spark.executor.memory": "512m", "spark.executor.cores": "1"} | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    klogtool.spark.register(spark)
    return spark


def main(master: str, log_dir: str, records: str, out: str = "") -> None:
    spark = session_of(master, SPECULATING if out else {})
    frame = spark.read.format("klog").option("maxRecordsPerPartition", records).load(log_dir)
    print("planned", frame.rdd.getNumPartitions(), file=sys.stderr, flush=True)
    if out:
        from klogtool.spark import by_partition

        slow = by_partition(frame).mapInArrow(two_never_end, frame.schema)
        slow.write.format("klog").mode("append").save(out)
        rows = []
    else:
        rows = frame.select("topic", "partition", "offset").rdd.mapPartitions(with_process).collect()
    spark.stop()
    print(json.dumps(sorted(rows)))


def two_never_end(batches: Any) -> Any:
    """Rows as they are. The first attempts of two tasks never end: only a second one beside them helps."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    yield from batches
    if task.partitionId() < 2 and task.attemptNumber() == 0:
        time.sleep(FOREVER_SECONDS)


def with_process(rows: Any) -> Any:
    """Who read them: the executor, whose process started the daemon that started this one."""
    with open(f"/proc/{os.getppid()}/stat") as file:
        executor = int(file.read().rpartition(")")[2].split()[1])
    return ([row.topic, row.partition, row.offset, executor] for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
