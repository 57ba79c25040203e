"""What Spark makes of it: rows, schema, filters, streams. What is read is tested without Spark, beside this folder."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pyspark
import pytest
from damage import append_bytes, flip_bit
from loading import NOW_MS, data, make, name_of
from planned import offsets, read
from running import FIXTURES

from klogtool.format.identity import PartitionMetadata, build_partition_metadata

HAS_STREAMS = pyspark.__version__ >= "4.2"
needs_limits = pytest.mark.skipif(not HAS_STREAMS, reason="streams need PySpark 4.2")
LOG_DIR = FIXTURES / "transactions" / "logdir"
KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
)


def load(spark: Any, path: pathlib.Path, **options: Any) -> Any:
    given = {name.replace("_", "."): value for name, value in options.items()}
    return spark.read.format("klog").options(**given).load(str(path))


def rows(frame: Any) -> list[tuple[Any, ...]]:
    found = [
        (r.topic, r.partition, r.offset, r.key and bytes(r.key), r.value and bytes(r.value)) for r in frame.collect()
    ]
    return sorted(found, key=lambda row: row[:3])


def planned_rows(path: pathlib.Path, **options: Any) -> list[tuple[Any, ...]]:
    table = read(path, **options)
    names = ("topic", "partition", "offset", "key", "value")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    """Partition t-0 with 90 records a second apart, in three segments."""
    return make(tmp_path / "t-0", {base: [data(n) for n in range(base, base + 30)] for base in (0, 30, 60)})


def test_schema_and_rows_are_those_of_the_kafka_source(spark: Any) -> None:
    frame = load(spark, LOG_DIR)
    assert frame.schema.simpleString() == KAFKA_SCHEMA
    assert rows(frame) == planned_rows(LOG_DIR)
    committed = {"subscribe": "t", "kafka_isolation_level": "read_committed", "splitBytes": 500}
    assert rows(load(spark, LOG_DIR, **committed)) == planned_rows(LOG_DIR, **committed)


def test_all_columns_of_every_table(spark: Any) -> None:
    wide = load(spark, LOG_DIR, includeHeaders=True, includeMetadata=True)
    by_arrow = wide.toArrow().sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    assert by_arrow.equals(read(LOG_DIR, includeHeaders=True, includeMetadata=True).cast(by_arrow.schema))
    for table in ("batches", "segments"):
        assert load(spark, LOG_DIR, table=table).count() == read(LOG_DIR, table=table).num_rows
    wounded = FIXTURES / "killed-mid-append" / "logdir"
    ids = {row.id for row in load(spark, wounded, table="findings").collect()}
    assert {"batch-crc", "unclean-shutdown"} <= ids


def test_a_user_schema_chooses_columns(spark: Any, log: pathlib.Path) -> None:
    frame = spark.read.format("klog").schema("offset bigint, key binary").load(str(log))
    assert [(row.offset, bytes(row.key)) for row in frame.collect()] == [(n, b"k") for n in range(90)]
    with pytest.raises(Exception, match="the column types of the given schema"):
        spark.read.format("klog").schema("offset string").load(str(log)).collect()


FILTERS = [
    ("offset between 28 and 32", 5),
    ("offset > 85 and partition = 0", 4),
    ("topic = 'other'", 0),
    ("partition in (1, 2)", 0),
    (f"timestamp >= timestamp_millis({NOW_MS + 80_000})", 10),
    (f"timestamp < timestamp_millis({NOW_MS + 3_000})", 3),
    ("key = cast('k' as binary) and offset < 7", 7),
    ("key = cast('x' as binary)", 0),
    ("offset = 3 or offset = 60", 2),
    ("offset % 2 = 0", 45),
    ("not offset = 3", 89),
]


@pytest.mark.parametrize(("condition", "count"), FILTERS)
def test_filters_that_are_handed_over_change_no_answer(
    pushing: Any, log: pathlib.Path, condition: str, count: int
) -> None:
    assert load(pushing, log).where(condition).count() == count


def test_filters_where_the_session_hands_none_over(spark: Any, log: pathlib.Path) -> None:
    assert load(spark, log).where("offset between 28 and 32").count() == 5


def test_nothing_to_read(spark: Any, log: pathlib.Path) -> None:
    both = '{"t":{"0":5}}'
    assert load(spark, log, startingOffsets=both, endingOffsets=both).count() == 0
    assert load(spark, log, startingOffsets=both, endingOffsets=both, table="segments").count() == 0


def test_mistakes_and_damage_are_told_in_one_sentence(spark: Any, log: pathlib.Path) -> None:
    with pytest.raises(Exception, match="starting offset can't be latest for batch queries"):
        load(spark, log, startingOffsets="latest").count()
    flip_bit(log / name_of(0, "log"), 70)
    with pytest.raises(Exception, match=r"000\.log: at byte 0: the CRC does not match"):
        load(spark, log).count()
    assert load(spark, log, mode="DROPMALFORMED").count() == 89


# Streams.


def drain(spark: Any, log: pathlib.Path, checkpoint: pathlib.Path, **options: Any) -> tuple[list[int], list[int]]:
    """Offsets that came, and how many in each batch, until there is nothing new."""
    seen: list[int] = []

    def take(frame: Any, _number: int) -> None:
        seen.extend(row.offset for row in frame.select("offset").collect())

    stream = spark.readStream.format("klog").options(**options).load(str(log))
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return seen, [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


@needs_limits
def test_a_stream_follows_a_log_that_grows(spark: Any, log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    seen, sizes = drain(spark, log, tmp_path / "checkpoint", **options)
    assert (seen, sizes) == (list(range(90)), [40, 40, 10])
    append_bytes(log / name_of(60, "log"), data(90) + data(91)[:-3])
    assert drain(spark, log, tmp_path / "checkpoint", **options)[0] == [90]
    assert drain(spark, log, tmp_path / "checkpoint", **options)[0] == []
    make(log.parent / "t-1", {0: [data(n) for n in range(3)]})
    assert drain(spark, log.parent, tmp_path / "other", startingOffsets="latest")[0] == []


@needs_limits
def test_the_progress_of_a_stream_shows_the_ends_of_the_logs(
    spark: Any, log: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Also while a limit lets it read less."""
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    stream = spark.readStream.format("klog").options(**options).load(str(log))
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    told = [progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(told) == 3
    assert ["90" in str(source["latestOffset"]) for source in told] == [True] * 3
    assert ["90" in str(source["endOffset"]) for source in told] == [False, False, True]


@needs_limits
def test_a_stream_whose_data_is_gone_fails_unless_it_need_not(
    spark: Any, log: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = {"startingOffsets": "earliest"}
    kept = {path: path.read_bytes() for path in log.glob("000000000000000000[36]0.*")}
    for path in kept:
        path.unlink()
    assert drain(spark, log, tmp_path / "checkpoint", **options)[0] == list(range(30))
    for path, content in kept.items():
        path.write_bytes(content)
    for path in [*log.glob("00000000000000000000.*"), *log.glob("00000000000000000030.*")]:
        path.unlink()
    with pytest.raises(Exception, match="Partition t-0 starts from 60: offsets from 30 on are no longer there"):
        drain(spark, log, tmp_path / "checkpoint", **options)
    seen, _ = drain(spark, log, tmp_path / "checkpoint", failOnDataLoss="false", **options)
    assert seen == list(range(60, 90))
    assert offsets(read(log)) == seen


def give_id(log: pathlib.Path, topic_id: bytes) -> None:
    (log / "partition.metadata").write_bytes(build_partition_metadata(PartitionMetadata(0, topic_id)))


@needs_limits
def test_a_stream_over_a_topic_that_was_created_anew(spark: Any, log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    give_id(log, bytes(range(16)))
    options = {"startingOffsets": "earliest"}
    assert drain(spark, log, tmp_path / "checkpoint", **options)[0] == list(range(90))
    shutil.rmtree(log)
    give_id(make(log, {0: [data(n) for n in range(5)]}), bytes(range(1, 17)))
    for _ in range(2):
        with pytest.raises(Exception, match=r"Partition t-0's offset was changed from 90 to 5.*created again"):
            drain(spark, log, tmp_path / "checkpoint", **options)
    again = drain(spark, log, tmp_path / "checkpoint", failOnDataLoss="false", **options)
    assert again == (list(range(5)), [5])
    assert drain(spark, log, tmp_path / "checkpoint", **options)[0] == []


@needs_limits
def test_a_stream_over_a_partition_that_was_removed(spark: Any, log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    make(log.parent / "t-1", {0: [data(n) for n in range(3)]})
    options = {"startingOffsets": "earliest", "subscribe": "t"}
    assert len(drain(spark, log.parent, tmp_path / "checkpoint", **options)[0]) == 93
    shutil.rmtree(log)
    with pytest.raises(Exception, match=r"Partitions \[t-0\] are gone"):
        drain(spark, log.parent, tmp_path / "checkpoint", **options)
    append_bytes(log.parent / "t-1" / name_of(0, "log"), data(3))
    assert drain(spark, log.parent, tmp_path / "checkpoint", failOnDataLoss="false", **options)[0] == [3]
