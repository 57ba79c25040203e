"""A topic rebuilt from the Parquet files of `klogtool export`: the folder in, a new log dir out.

python rebuild_from_parquet.py DIR OUT
"""

import sys

from klogtool.spark import by_partition, session

# Without this setting, Spark takes the topic `007` for the number 7.
spark = session(settings={"spark.sql.sources.partitionColumnTypeInference.enabled": "false"})
rows = spark.read.parquet(sys.argv[1]).drop("day", "broker")
once = rows.dropDuplicates(["topic", "partition", "offset"])  # exports of several brokers have each replica
by_partition(once).write.format("klog").mode("append").save(sys.argv[2])
print(spark.read.format("klog").load(sys.argv[2]).count())
