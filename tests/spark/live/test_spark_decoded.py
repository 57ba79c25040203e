"""Decoded columns in a stream, as Spark calls its reader, and by Spark itself."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import pytest
from live.test_spark_session import needs_limits
from planned import read
from running import FIXTURES, ROOT

from klogtool.spark.options import parse_shape
from klogtool.spark.tables import default_columns, table_schema

EXAMPLE = ROOT / "docs/examples/values"
QUERIES = {
    EXAMPLE / "logdir": {"valueFormat": "avro", "schemas": str(EXAMPLE / "schemas"), "subscribe": "orders"},
    FIXTURES / "groups/logdir": {"decode": "internal", "subscribe": "__consumer_offsets"},
    FIXTURES / "metadata/logdir": {"decode": "internal", "subscribe": "__cluster_metadata"},
    FIXTURES / "tiered/logdir": {"decode": "internal", "subscribe": "__remote_log_metadata"},
}


@needs_limits
@pytest.mark.parametrize("log_dir", QUERIES, ids=lambda path: path.parts[-2])
def test_a_stream_has_the_rows_of_a_batch(log_dir: object) -> None:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from klogtool.spark.streaming import KlogStreamReader, ReadAllAvailable

    query = QUERIES[log_dir]  # type: ignore[index]
    options = {**query, "path": str(log_dir), "startingOffsets": "earliest"}
    shape = parse_shape(options)
    reader = KlogStreamReader(options, from_arrow_schema(table_schema(shape, default_columns(shape))))
    start = reader.initialOffset()
    sent = pickle.dumps((reader, reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))))
    task, partitions = pickle.loads(sent)
    rows = pa.Table.from_batches([batch for partition in partitions for batch in task.read(partition)])
    assert rows.equals(read(str(log_dir), **query))
    assert rows.num_rows


@needs_limits
@pytest.mark.parametrize("log_dir", list(QUERIES)[:2], ids=lambda path: path.parts[-2])
def test_spark_streams_the_rows_of_a_batch(spark: Any, tmp_path: pathlib.Path, log_dir: pathlib.Path) -> None:
    options, name = QUERIES[log_dir], f"decoded_{log_dir.parts[-2]}"
    stream = spark.readStream.format("klog").options(**options, startingOffsets="earliest").load(str(log_dir))
    writer = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    assert writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(600)
    found, batch = spark.table(name), spark.read.format("klog").options(**options).load(str(log_dir))
    assert found.schema == batch.schema
    assert found.exceptAll(batch).count() == batch.exceptAll(found).count() == 0
    assert found.count() == batch.count() > 0
