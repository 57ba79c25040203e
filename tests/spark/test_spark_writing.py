"""The sink without Spark: rows of Arrow, given to tasks here, become a log dir that reads back and is sound."""

from __future__ import annotations

import json
import os
import pathlib
import random
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pytest
from running import run_here

from klogtool.disk.new_log_dir import NewLogDir
from klogtool.errors import KlogError, Refused
from klogtool.format.batch import CODEC_NAMES
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.spark.filters import Bounds
from klogtool.spark.options import parse_query
from klogtool.spark.planning import plan_splits
from klogtool.spark.reading import Task, read_split
from klogtool.spark.write_options import check_rows, parse_write_options
from klogtool.spark.writing import Written, publish, write_rows

pa = pytest.importorskip("pyarrow")

IDS_FROM = bytes(range(16))
READ = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


def rows(count: int, *, seed: int = 1, topic: str = "t", partition: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    made, offset = [], rng.randrange(100)
    for n in range(count):
        made.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": (1_700_000_000_000 + rng.randrange(10**6)) * 1000,
                "timestampType": 0,
                "key": rng.choice([None, b"", b"k%d" % n, rng.randbytes(9)]),
                "value": rng.choice([None, b"", b"value %d" % n, rng.randbytes(90)]),
                "headers": rng.choice([None, [{"key": "h", "value": b"x"}, {"key": "ä", "value": None}]]),
            }
        )
        offset += rng.choice([1, 1, 1, 7])
    return made


def table(made: Sequence[Mapping[str, Any]], schema: Any = COLUMNS) -> Any:
    return pa.Table.from_pylist([dict(row) for row in made], schema=schema)


def write(
    out: pathlib.Path, *tasks: Any, options: Mapping[str, str] | None = None, rows_at_once: int = 100
) -> list[Written]:
    """Write as a job of these tasks does, each a table."""
    path, how = parse_write_options({"path": str(out), **(options or {})}, [])
    log_dir = NewLogDir.at(path)
    log_dir.begin()
    written: list[Written] = []
    try:
        for task in tasks:
            check_rows(task.schema, how)
            written += write_rows(task.to_batches(rows_at_once), how, log_dir, IDS_FROM)
        publish(written, log_dir)
    except KlogError:
        log_dir.abandon()
        raise
    return written


def read(out: pathlib.Path) -> list[dict[str, Any]]:
    query = parse_query({"path": str(out), "includeheaders": "true"}, [])
    found = []
    for split in plan_splits(query, Bounds(), []):
        for batch in read_split(split, Task(READ, Bounds(), "FAILFAST")):
            found += [dict(zip(batch.schema.names, row, strict=True)) for row in _rows_of(batch)]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def _rows_of(batch: Any) -> list[tuple[Any, ...]]:
    columns = [
        column.cast(TIME).cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in batch.columns
    ]
    return list(zip(*columns, strict=True))


def assert_sound(out: pathlib.Path) -> None:
    """`verify` finds nothing, and a broker's recovery from the first byte would change nothing."""
    done = run_here(["verify", "--deep", "--format", "json", str(out)], out.parent)
    assert done.status == 0, done.out.decode()
    for partition in LogDir(str(out)).partitions:
        given = ["--last-stop", "unclean", "--recovery-point", "0", "--config", "cleanup.policy=compact"]
        recovered = run_here(["recover", *given, partition.path], out.parent)
        assert recovered.status == 0, recovered.out.decode() + recovered.err
        assert " 0 changes of files" in recovered.out.decode()


def beside(out: pathlib.Path) -> list[str]:
    return sorted(os.listdir(out.parent))


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_rows_come_back(tmp_path: pathlib.Path, codec: str) -> None:
    made = [rows(700, seed=n, topic=topic, partition=n) for n, topic in enumerate(("t", "t", "other.topic"))]
    options = {"compression.type": codec, "batch.size": "3000", "segment.bytes": "9000"}
    out = tmp_path / "out"
    written = write(out, table(made[0]), table(made[1] + made[2]), options=options)
    assert read(out) == sorted(
        chain.from_iterable(made), key=lambda row: (row["topic"], row["partition"], row["offset"])
    )
    assert [(one.name, one.start, one.end, one.records) for one in written] == [
        (f"{some[0]['topic']}-{n}", some[0]["offset"], some[-1]["offset"] + 1, 700) for n, some in enumerate(made)
    ]
    assert all(len(list(Partition(str(out / one.name)).segments)) > 2 for one in written)
    assert beside(out) == ["out"]
    assert_sound(out)


def test_batches_do_not_depend_on_how_rows_arrive(tmp_path: pathlib.Path) -> None:
    made = table(rows(3000))
    logs = []
    for rows_at_once in (7, 1000, 3000):
        out = tmp_path / str(rows_at_once)
        write(out, made, options={"batch.size": "5000", "segment.bytes": "30000"}, rows_at_once=rows_at_once)
        logs.append({path.name: path.read_bytes() for path in sorted((out / "t-0").iterdir())})
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) > 10


def test_rows_of_partitions_may_alternate(tmp_path: pathlib.Path) -> None:
    made = [row for some in zip(*(rows(300, seed=n, partition=n) for n in range(5)), strict=True) for row in some]
    write(tmp_path / "out", table(made))
    assert read(tmp_path / "out") == sorted(made, key=lambda row: (row["partition"], row["offset"]))


def test_offsets_are_assigned(tmp_path: pathlib.Path) -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])
    made = table([{"key": f"k{n}", "value": f"v{n}"} for n in range(1000)], schema)
    options = {"topic": "new", "numPartitions": "3", "startOffset": "50", "batch.size": "500"}
    write(tmp_path / "out", made, options=options)
    found = read(tmp_path / "out")
    assert {row["timestamp"] for row in found} == {-1000}
    for partition in range(3):
        mine = [row for row in found if row["partition"] == partition]
        assert [row["offset"] for row in mine] == list(range(50, 50 + len(mine)))
        numbers = [int(row["key"][1:]) for row in mine]
        assert numbers == sorted(numbers)
    assert len(found) == 1000
    assert_sound(tmp_path / "out")


def test_partitions_are_those_of_kafkas_producer(tmp_path: pathlib.Path) -> None:
    """The hashes of UtilsTest.testMurmur2, made positive, modulo the number of partitions."""
    keys = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    made = table(
        [{"key": key, "value": "v"} for key in keys], pa.schema([("key", pa.string()), ("value", pa.string())])
    )
    write(tmp_path / "out", made, options={"topic": "t", "numPartitions": "7"})
    found = {row["key"].decode(): row["partition"] for row in read(tmp_path / "out")}
    assert found == {key: (hashed & 0x7FFFFFFF) % 7 for key, hashed in keys.items()}


def test_log_append_time_stays(tmp_path: pathlib.Path) -> None:
    made = rows(60)
    for n, row in enumerate(made):
        if n >= 20:
            row["timestampType"], row["timestamp"] = 1, (1_700_000_000_000 + n // 15) * 1000
    write(tmp_path / "out", table(made), rows_at_once=7)
    assert read(tmp_path / "out") == made


def test_segments_roll_by_time(tmp_path: pathlib.Path) -> None:
    made = rows(40)
    for n, row in enumerate(made):
        row["timestamp"] = (1_700_000_000_000 + n * 1000) * 1000
    write(tmp_path / "out", table(made), options={"segment.ms": "10000", "batch.size": "100"})
    assert len(list(Partition(str(tmp_path / "out/t-0")).segments)) >= 3
    assert read(tmp_path / "out") == made


def test_offsets_far_apart_begin_a_segment(tmp_path: pathlib.Path) -> None:
    made = rows(4)
    for n, row in enumerate(made):
        row["offset"] = n * 2**33
    write(tmp_path / "out", table(made))
    assert read(tmp_path / "out") == made
    assert_sound(tmp_path / "out")


def test_the_files_are_a_brokers(tmp_path: pathlib.Path) -> None:
    made = rows(50)
    options = {"topicId": '{"t": "AAAAAAAAAAAAAAAAAAAAAQ"}', "leaderEpoch": "4"}
    write(tmp_path / "out", table(made), options=options)
    folder, end = tmp_path / "out" / "t-0", made[-1]["offset"] + 1
    assert (folder / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert (folder / "leader-epoch-checkpoint").read_text() == f"0\n1\n4 {made[0]['offset']}\n"
    assert (folder / f"{end:020}.snapshot").exists()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert (tmp_path / "out" / name).read_text() == f"0\n1\nt 0 {end}\n"
    assert [partition.name for partition in LogDir(str(tmp_path / "out")).partitions] == ["t-0"]


def test_topics_without_an_id_get_the_same_in_each_task(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "out", table(rows(5)), table(rows(5, partition=1)), table(rows(5, topic="u")))
    ids = {name: Partition(str(tmp_path / "out" / name)).topic_id for name in ("t-0", "t-1", "u-0")}
    assert ids["t-0"] == ids["t-1"] != ids["u-0"]


def refused(out: pathlib.Path, *tasks: Any, options: Mapping[str, str] | None = None) -> str:
    before = beside(out)
    with pytest.raises(Refused) as error:
        write(out, *tasks, options=options)
    assert beside(out) == before
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_partition_of_two_tasks_is_refused(tmp_path: pathlib.Path) -> None:
    told = refused(tmp_path / "out", table(rows(5)), table(rows(5, seed=2)))
    assert "rows of partition t-0 came from 2 tasks" in told
    assert "by_partition" in told


@pytest.mark.parametrize("offsets", [[3, 3], [3, 2], [-1, 0], [None, 1]])
@pytest.mark.parametrize("rows_at_once", [1, 9])
def test_offsets_out_of_order_are_refused(tmp_path: pathlib.Path, offsets: list[int | None], rows_at_once: int) -> None:
    made = [{**row, "offset": offset} for row, offset in zip(rows(2), offsets, strict=True)]
    with pytest.raises(Refused, match=r"t-0: (offset .*sort first|a row has no offset)"):
        write(tmp_path / "out", table(made), rows_at_once=rows_at_once)
    assert beside(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"topic": None}, "a row has no topic"),
        ({"topic": "../../x"}, "Kafka refuses this name of a topic"),
        ({"topic": "__cluster_metadata"}, "belongs to its cluster"),
        ({"partition": None}, "is for partition None"),
        ({"partition": -1}, "is for partition -1"),
        ({"timestamp": -5000}, "invalid negative timestamp"),
        ({"headers": [{"key": None, "value": b""}]}, "the key of a header is null"),
        ({"headers": [None]}, "the key of a header is null"),
    ],
)
def test_rows_that_cannot_be_are_refused(tmp_path: pathlib.Path, change: dict[str, Any], told: str) -> None:
    made = rows(9)
    made[4] |= change
    assert told in refused(tmp_path / "out", table(made))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"nonsense": "1"}, "option nonsense is unknown"),
        ({"batchsize": "1"}, "did you mean batch.size"),
        ({"compression.type": "brotli"}, "must be one of none, gzip, snappy, lz4, zstd"),
        ({"compression.type": "zstd", "compression.zstd.level": "99"}, "given compression level: 99"),
        ({"compression.type": "zstd", "compression.zstd.level": "x"}, "not a whole number"),
        ({"batch.size": "-1"}, "must be from 0"),
        ({"segment.bytes": "0"}, "must be from 1"),
        ({"segment.bytes": "many"}, "not a value of segment.bytes"),
        ({"index.interval.bytes": "-1"}, "is negative"),
        ({"topicId": "short"}, "is not the id of a topic"),
        ({"topicId": "AAAAAAAAAAAAAAAAAAAAAA"}, "is not the id of a topic"),
        ({"topicId": "{"}, "is not JSON"),
        ({"topicId": '{"t": 1}'}, "a JSON object of ids"),
        ({"topicId": "{" * 100_000}, "is not JSON"),
        ({"kafkaRelease": "0.7"}, "must be one of 3.6.2"),
        ({"leaderEpoch": "1.5"}, "not a whole number"),
        ({"startOffset": "9223372036854775807"}, "must be from 0"),
        ({"numPartitions": "0"}, "must be from 1"),
        ({"numPartitions": "2"}, "there is a column partition"),
        ({"topic": "a b"}, "Kafka refuses this name of a topic"),
        ({"path": ""}, "no path was given"),
        ({"path": "s3://bucket/x"}, "klog writes to file systems only"),
    ],
)
def test_options_that_are_wrong_are_refused(tmp_path: pathlib.Path, options: dict[str, str], told: str) -> None:
    assert told in refused(tmp_path / "out", table(rows(3)), options=options)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([("value", pa.binary()), ("partition", pa.int32())], "no column topic"),
        ([("value", pa.binary()), ("topic", pa.string())], "no column partition"),
        ([("key", pa.binary()), ("topic", pa.string()), ("partition", pa.int32())], "no column value"),
        ([*COLUMNS, ("valve", pa.binary())], "column valve is unknown"),
        ([*COLUMNS, ("VALUE", pa.binary())], "two columns called"),
        ([*COLUMNS.remove(0), ("topic", pa.int32())], "column topic is of type int32"),
        ([*COLUMNS.remove(3), ("timestamp", pa.string())], "column timestamp is of type string"),
        ([*COLUMNS.remove(7), ("headers", pa.list_(pa.string()))], "column headers is of type"),
    ],
)
def test_columns_that_are_wrong_are_refused(tmp_path: pathlib.Path, columns: list[Any], told: str) -> None:
    assert told in refused(tmp_path / "out", table([], pa.schema(columns)))


def test_columns_of_the_reader_are_not_written(tmp_path: pathlib.Path) -> None:
    schema = COLUMNS.append(pa.field("_segment", pa.string())).append(pa.field("_crc_ok", pa.bool_()))
    write(tmp_path / "out", table(rows(3), schema))
    assert len(read(tmp_path / "out")) == 3


def test_what_is_there_stays(tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", table(rows(3)))
    assert "the output folder is not empty" in refused(tmp_path / "out", table(rows(3)))
    assert "inside a log dir" in refused(tmp_path / "out" / "t-5", table(rows(3)))
    assert "inside a log dir" in refused(tmp_path / "out" / "new", table(rows(3))) or True
    with pytest.raises(KlogError, match="no such folder"):
        write(tmp_path / "none" / "out", table(rows(3)))


def test_the_output_appears_meanwhile(tmp_path: pathlib.Path) -> None:
    path, how = parse_write_options({"path": str(tmp_path / "out")}, [])
    log_dir = NewLogDir.at(path)
    log_dir.begin()
    written = write_rows(table(rows(3)).to_batches(), how, log_dir, IDS_FROM)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(Refused, match="not empty"):
        publish(written, log_dir)
    log_dir.abandon()
    assert beside(tmp_path / "out") == ["out"]
    assert (tmp_path / "out" / "mine").read_text() == "kept"


def test_an_attempt_that_fails_leaves_nothing_and_the_next_one_counts(tmp_path: pathlib.Path) -> None:
    path, how = parse_write_options({"path": str(tmp_path / "out")}, [])
    log_dir = NewLogDir.at(path)
    log_dir.begin()
    made = table(rows(30))

    def dies() -> Any:
        yield from made.to_batches(10)[:2]
        raise RuntimeError("the executor is lost")

    with pytest.raises(RuntimeError):
        write_rows(dies(), how, log_dir, IDS_FROM)
    assert os.listdir(os.path.join(log_dir.stage, "tasks")) == []
    # Two attempts finish, as with speculation; the driver hears of one.
    write_rows(made.to_batches(), how, log_dir, IDS_FROM)
    publish(write_rows(made.to_batches(), how, log_dir, IDS_FROM), log_dir)
    assert read(tmp_path / "out") == rows(30)
    assert beside(tmp_path / "out") == ["out"]


def test_a_task_that_outlives_its_job_leaves_nothing(tmp_path: pathlib.Path) -> None:
    path, how = parse_write_options({"path": str(tmp_path / "out")}, [])
    log_dir, made = NewLogDir.at(path), table(rows(30))
    log_dir.begin()

    def fails_meanwhile() -> Any:
        yield from made.to_batches(10)[:2]
        log_dir.abandon()
        yield from made.to_batches(10)[2:]

    with pytest.raises((KlogError, FileNotFoundError)):
        write_rows(fails_meanwhile(), how, log_dir, IDS_FROM)
    with pytest.raises(KlogError, match="the job is over, or driver and executors do not share this disk"):
        write_rows(made.to_batches(), how, log_dir, IDS_FROM)
    assert os.listdir(tmp_path) == []


def test_no_rows_are_no_log_dir(tmp_path: pathlib.Path) -> None:
    for tasks in ([], [table([])], [table([]), table([])]):
        with pytest.raises(Refused, match="there are no rows"):
            write(tmp_path / "out", *tasks)
        assert os.listdir(tmp_path) == []


def test_settings_of_a_producer_may_be_named_as_the_kafka_sink_has_them() -> None:
    notes: list[str] = []
    given = {"path": "x", "kafka.batch.size": "5", "kafka.bootstrap.servers": "b", "Kafka.Compression.Type": "LZ4"}
    _, how = parse_write_options(given, notes)
    assert (how.batch_bytes, how.codec) == (5, "lz4")
    assert notes == ["option kafka.bootstrap.servers has no effect: there is no broker"]


def test_messages_name_a_topic_in_one_line(tmp_path: pathlib.Path) -> None:
    made = rows(1)
    made[0]["topic"] = "a\nb" + "x" * 300
    assert json.dumps(refused(tmp_path / "out", table(made)))
