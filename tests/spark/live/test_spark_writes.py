"""Spark writes log dirs: what comes back, what fails in one line, and what is left after that."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from live.test_spark_session import needs_limits
from running import FIXTURES

from klogtool.spark import by_partition

LOG_DIRS = ("transactions", "every-codec", "magic-0")


def rows_of(spark: Any, path: object) -> Any:
    return spark.read.format("klog").option("includeHeaders", "true").load(str(path))


def write(rows: Any, out: pathlib.Path, **options: str) -> None:
    rows.write.format("klog").options(**options).mode("append").save(str(out))


def in_order(rows: Any) -> list[Any]:
    return [tuple(row) for row in rows.orderBy("topic", "partition", "offset").collect()]


@pytest.mark.parametrize("name", LOG_DIRS)
def test_a_log_dir_comes_back(spark: Any, tmp_path: pathlib.Path, name: str) -> None:
    rows = rows_of(spark, FIXTURES / name / "logdir")
    write(by_partition(rows), tmp_path / "out", **{"compression.type": "zstd", "batch.size": "900"})
    wanted = [(*row[:6], max(row[6], 0), *row[7:]) for row in in_order(rows)]  # magic 0 has no type of timestamp
    assert in_order(rows_of(spark, tmp_path / "out")) == wanted
    assert os.listdir(tmp_path) == ["out"]


def test_from_parquet_and_delta(spark: Any, tmp_path: pathlib.Path) -> None:
    from deltalake import write_deltalake

    rows = rows_of(spark, FIXTURES / "transactions" / "logdir")
    rows.write.parquet(str(tmp_path / "parquet"))
    write_deltalake(str(tmp_path / "delta"), rows.toArrow())
    files = [str(path) for path in (tmp_path / "delta").glob("*.parquet")]
    for n, table in enumerate((spark.read.parquet(str(tmp_path / "parquet")), spark.read.parquet(*files))):
        write(by_partition(table), tmp_path / f"out-{n}")
        assert in_order(rows_of(spark, tmp_path / f"out-{n}")) == in_order(rows)


def test_keys_are_dealt_as_kafkas_producer_deals_them(spark: Any, tmp_path: pathlib.Path) -> None:
    """The hashes of UtilsTest.testMurmur2, made positive, modulo the number of partitions."""
    keys = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    rows = spark.createDataFrame([(key, "v") for key in keys], "key string, value string")
    write(by_partition(rows, 5), tmp_path / "out", topic="t")
    found = {bytes(row.key).decode(): row.partition for row in rows_of(spark, tmp_path / "out").collect()}
    assert found == {key: (hashed & 0x7FFFFFFF) % 5 for key, hashed in keys.items()}


def test_a_failed_job_leaves_nothing(spark: Any, tmp_path: pathlib.Path) -> None:
    rows = rows_of(spark, FIXTURES / "transactions" / "logdir")
    for bad, told in (
        (rows.repartition(4).sortWithinPartitions("topic", "partition", "offset"), "one has to write it"),
        (rows.coalesce(1).sortWithinPartitions("topic", "partition", rows["offset"].desc()), "sort first"),
        (by_partition(rows).selectExpr("topic", "partition", "offset", "raise_error('lost') AS value"), "lost"),
        (rows.withColumn("valve", rows.value), "column valve is unknown .did you mean value"),
        (rows.where("false"), "there are no rows"),
    ):
        with pytest.raises(Exception, match=told):
            write(bad, tmp_path / "out")
        assert os.listdir(tmp_path) == []


def test_modes_that_would_replace_something(spark: Any, tmp_path: pathlib.Path) -> None:
    rows = spark.createDataFrame([("v",)], "value string")
    options = {"topic": "t", "numPartitions": "1"}
    for mode in ("errorifexists", "ignore"):  # Spark's own answer for every Python source, before a job starts
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            rows.write.format("klog").options(**options).mode(mode).save(str(tmp_path / "out"))
    with pytest.raises(Exception, match="replaces none"):
        rows.write.format("klog").options(**options).mode("overwrite").save(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(Exception, match="is not empty"):
        write(rows, tmp_path / "out", **options)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.fixture
def catalog(spark: Any) -> Iterator[Any]:
    """The session; tables of its catalog are dropped afterwards."""
    yield spark
    for table in spark.catalog.listTables():
        spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} IF EXISTS {table.name}")


@pytest.mark.parametrize("mode", ["append", "errorifexists", "overwrite"])
def test_save_as_table_is_refused_and_leaves_neither_table_nor_files(
    catalog: Any, tmp_path: pathlib.Path, mode: str
) -> None:
    rows = catalog.createDataFrame([("v",)], "value string").write.format("klog").mode(mode)
    told = r"replaces none: use mode\(.append.\)" if mode == "overwrite" else r"use save\(PATH\)"
    with pytest.raises(Exception, match=told):
        rows.options(topic="t", numPartitions="1", path=str(tmp_path / "out")).saveAsTable("from_rows")
    assert not catalog.catalog.tableExists("from_rows")
    assert os.listdir(tmp_path) == []


def test_a_table_made_of_a_query_is_refused(catalog: Any, tmp_path: pathlib.Path) -> None:
    options = f"OPTIONS (topic 't', numPartitions 1) LOCATION '{tmp_path / 'out'}'"
    with pytest.raises(Exception, match=r"use save\(PATH\)"):
        catalog.sql(f"CREATE TABLE of_query USING klog {options} AS SELECT 'v' AS value")
    assert not catalog.catalog.tableExists("of_query")
    assert os.listdir(tmp_path) == []


def test_a_table_that_is_in_the_catalog_all_the_same_says_what_to_do(catalog: Any) -> None:
    """With columns of its own, Spark makes it without asking the source."""
    catalog.sql("CREATE TABLE of_columns (value BINARY) USING klog")
    with pytest.raises(Exception, match=r"use load\(PATH\).*(\n.*)*CREATE TEMPORARY VIEW name USING klog"):
        catalog.table("of_columns").collect()
    with pytest.raises(Exception, match=r"use save\(PATH\)"):
        catalog.sql("INSERT INTO of_columns VALUES (x'00')")


@pytest.mark.parametrize("way", ["saveAsTable", "writeTo"])
def test_rows_for_such_a_table_are_at_the_path_that_they_were_given(
    catalog: Any, tmp_path: pathlib.Path, way: str
) -> None:
    catalog.sql("CREATE TABLE of_columns (value BINARY) USING klog")
    rows = catalog.createDataFrame([(b"v",)], "value binary")
    options = {"topic": "t", "numPartitions": "1", "path": str(tmp_path / "out")}
    if way == "writeTo":
        rows.writeTo("of_columns").options(**options).append()
    else:
        rows.write.format("klog").mode("append").options(**options).saveAsTable("of_columns")
    assert [bytes(row.value) for row in rows_of(catalog, tmp_path / "out").collect()] == [b"v"]
    with pytest.raises(Exception, match=r"use load\(PATH\)"):
        catalog.table("of_columns").collect()


@needs_limits
def test_a_batch_of_a_stream_may_be_written(spark: Any, tmp_path: pathlib.Path) -> None:
    """Spark runs it inside another execution, as it does with tables."""
    stream = spark.readStream.format("klog").option("startingOffsets", "earliest")
    rows = stream.load(str(FIXTURES / "magic-0" / "logdir"))

    def write_batch(batch: Any, number: int) -> None:
        write(by_partition(batch), tmp_path / f"out-{number}")

    writer = rows.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(tmp_path / "seen"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert rows_of(spark, tmp_path / "out-0").count() == rows_of(spark, FIXTURES / "magic-0" / "logdir").count() > 0
