"""A topic rebuilt from Delta Lake, with the package `deltalake`, which needs no jar: a table in, a new log dir out.

python rebuild_from_delta.py TABLE OUT
"""

import sys

from deltalake import DeltaTable

from klogtool.spark import by_partition, session

table = DeltaTable(sys.argv[1])
if table.protocol().min_reader_version > 1:  # deletion vectors, columns with other names: files do not say it all
    sys.exit("the table needs a newer reader: read it with delta-spark, spark.read.format('delta')")
spark = session(settings={"spark.sql.sources.partitionColumnTypeInference.enabled": "false"})
rows = spark.read.option("basePath", table.table_uri).parquet(*table.file_uris())
by_partition(rows).write.format("klog").mode("append").save(sys.argv[2])
print(spark.read.format("klog").load(sys.argv[2]).count())
