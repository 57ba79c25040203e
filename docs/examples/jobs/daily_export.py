"""A daily export that goes on where the last one ended: a log dir, also beside its running broker, in; Parquet files,
and for each partition how many records are new and how many there are out.

python daily_export.py LOGDIR DIR
"""

import json
import pathlib
import subprocess
import sys

import duckdb

log_dir, output = sys.argv[1:3]
command = [sys.executable, "-m", "klogtool", "export", log_dir, "--output", output, "--json", "--quiet"]
done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
lines = [json.loads(line) for line in done.stdout.splitlines()]
if done.returncode not in (0, 1):  # killed, or it could not go on: run it again
    sys.exit(done.returncode)
for line in lines:
    if line["type"] == "left_out":
        print("left out", line["path"], line["first_offset"], line["last_offset"], line["reason"], file=sys.stderr)
new = {(line["topic"], line["partition"]): line["records"] for line in lines if line["type"] == "exported"}
files = [str(path) for path in pathlib.Path(output).glob("*/*/*.parquet")]
query = """
    SELECT topic, partition, count(DISTINCT "offset"), max("offset")
    FROM read_parquet($files, hive_partitioning = true, hive_types_autocast = false) GROUP BY ALL ORDER BY ALL
"""
rows = duckdb.execute(query, {"files": files}).fetchall() if files else []
for topic, partition, *whole in rows:
    print(topic, partition, new.get((topic, partition), 0), *whole, sep="\t")
