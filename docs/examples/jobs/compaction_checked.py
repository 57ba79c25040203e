"""Offline compaction checked: a log dir, and what `klogtool compact LOGDIR --output DIR` made of it, in; for each topic
how many records it had and has, and how many are wrong out: latest values of a key that are gone, and records that
were not there before.

python compaction_checked.py LOGDIR DIR
"""

import sys

import duckdb

import klogtool

names = ["topic", "partition", "offset", "key", "value"]
before, after = (klogtool.scan(path, columns=names, with_control=False) for path in sys.argv[1:3])
query = """
    WITH old AS MATERIALIZED (FROM before), new AS MATERIALIZED (FROM after), latest AS (
        SELECT topic, partition, key, max("offset") AS "offset", arg_max_null(value, "offset") AS value FROM old
        WHERE key IS NOT NULL GROUP BY ALL HAVING value IS NOT NULL
    ), wrong AS (
        SELECT topic, partition, "offset", key, value FROM latest EXCEPT FROM new
        UNION ALL (FROM new EXCEPT FROM old)
    )
    SELECT topic, count(*), (SELECT count(*) FROM new WHERE topic = old.topic),
        (SELECT count(*) FROM wrong WHERE topic = old.topic)
    FROM old WHERE topic IN (SELECT topic FROM new) GROUP BY topic ORDER BY topic
"""
for row in duckdb.sql(query).fetchall():
    print(*row, sep="\t")
