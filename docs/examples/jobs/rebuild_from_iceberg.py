"""A topic rebuilt from Apache Iceberg: a table's metadata file in, a new log dir out.

python rebuild_from_iceberg.py METADATA.json OUT
"""

import sys

from pyiceberg.table import StaticTable

from klogtool.spark import by_partition, session

spark = session()
files = list(StaticTable.from_metadata(sys.argv[1]).scan().plan_files())
if any(task.delete_files for task in files):
    sys.exit("the table has delete files: rewrite its data files first (rewrite_data_files)")
rows = spark.read.parquet(*(task.file.file_path for task in files))
by_partition(rows).write.format("klog").mode("append").save(sys.argv[2])
print(spark.read.format("klog").load(sys.argv[2]).count())
