"""Run by a test as a process of its own: read a log dir on a cluster, print what came as JSON.

cluster_job.py MASTER LOGDIR RECORDS_A_TASK
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(master: str, log_dir: str, records: str) -> None:
    from conftest import CONF  # type: ignore[attr-defined]
    from pyspark.sql import SparkSession

    import klogtool.spark

    builder = SparkSession.builder.master(master)
    for name, value in (CONF | {"spark.executor.memory": "512m", "spark.executor.cores": "1"}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    klogtool.spark.register(spark)
    frame = spark.read.format("klog").option("maxRecordsPerPartition", records).load(log_dir)
    print("planned", frame.rdd.getNumPartitions(), file=sys.stderr, flush=True)
    rows = frame.select("topic", "partition", "offset").rdd.mapPartitions(with_process).collect()
    spark.stop()
    print(json.dumps(sorted(rows)))


def with_process(rows: Any) -> Any:
    """Who read them: the executor, whose process started the daemon that started this one."""
    with open(f"/proc/{os.getppid()}/stat") as file:
        executor = int(file.read().rpartition(")")[2].split()[1])
    return ([row.topic, row.partition, row.offset, executor] for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
