"""SQL over committed offsets: a log dir in, the lag of each group and topic out.

python committed_offsets.py LOGDIR
"""

import json
import subprocess
import sys

import duckdb
import pyarrow

command = [sys.executable, "-m", "klogtool", "offsets", sys.argv[1], "--format", "json", "--quiet"]
done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
if done.returncode not in (0, 1):  # 1: there is damage, and some commits may be missing
    sys.exit(done.returncode)
lines = map(json.loads, done.stdout.splitlines())
columns = pyarrow.schema([("group", "string"), ("topic", "string"), ("partition", "int32"), ("lag", "int64")])
committed = pyarrow.Table.from_pylist([line for line in lines if line["type"] == "committed"], columns)
query = 'SELECT "group", topic, count(*), sum(lag) FROM committed GROUP BY ALL ORDER BY ALL'
for row in duckdb.sql(query).fetchall():
    print(*row, sep="\t")
