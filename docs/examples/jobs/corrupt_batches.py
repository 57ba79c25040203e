"""Batches of a fleet that do not match their checksum: log dirs of all brokers in, a row for each partition out.

python corrupt_batches.py BROKER1/logdir BROKER2/logdir ...
"""

import sys

import duckdb
import pyarrow

import klogtool

rows = [
    {"log_dir": path, "partition": finding.path.rsplit("/", 2)[-2], "offset": finding.first_offset}
    for path in sys.argv[1:]
    for finding in klogtool.open_log_dir(path).verify()
    if finding.id.value == "batch-crc"
]
columns = pyarrow.schema([("log_dir", "string"), ("partition", "string"), ("offset", "int64")])
corrupt = pyarrow.Table.from_pylist(rows, columns)
query = 'SELECT log_dir, partition, count(*), min("offset") FROM corrupt GROUP BY ALL ORDER BY ALL'
for row in duckdb.sql(query).fetchall():
    print(*row, sep="\t")
