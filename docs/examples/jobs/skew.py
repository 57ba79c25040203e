"""Partitions that have much more than others of their topic: a log dir in, the topics with the largest skew out.

python skew.py LOGDIR
"""

import sys

import duckdb
import pyarrow

import klogtool

partitions = pyarrow.Table.from_pylist(
    [
        {"topic": partition.topic, "bytes": sum(segment.size for segment in partition.segments)}
        for partition in klogtool.open_log_dir(sys.argv[1])
    ],
    pyarrow.schema([("topic", "string"), ("bytes", "int64")]),
)
query = """
    SELECT topic, count(*), max(bytes), round(max(bytes) / greatest(avg(bytes), 1), 2) AS skew
    FROM partitions GROUP BY topic ORDER BY skew DESC, topic LIMIT 10
"""
for row in duckdb.sql(query).fetchall():
    print(*row, sep="\t")
