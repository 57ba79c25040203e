"""A broker serves what Spark's sink wrote: each record with its offset, headers and timestamp. Kafka's tool reads it.

The rows are given to tasks as Spark gives them, in Arrow; tests/spark/live has the same with Spark.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import sys
from typing import Any

import pytest

from klogtool.disk.new_log_dir import NewLogDir
from klogtool.format.batch import CODEC_NAMES
from klogtool.spark.write_options import parse_write_options
from klogtool.spark.writing import publish, write_rows

from .brokers import CUTS, a_broker, kept_files
from .kafka import Kafka, prepare, scratch_folder

pa = pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


def rows_of(topic: str, *, gaps: bool) -> list[dict[str, Any]]:
    """Null keys and values, headers, times that go back and LogAppendTime; with gaps they begin at offset 70."""
    rng = random.Random(topic)
    rows, offset = [], 70 if gaps else 0
    for n in range(400):
        is_append_time = 200 <= n < 250
        rows.append(
            {
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "timestamp": (NOW_MS + (n // 20 if is_append_time else rng.randrange(10**6))) * 1000,
                "timestampType": int(is_append_time),
                "key": rng.choice([None, b"", b"k%d" % n]),
                "value": rng.choice([None, b"", rng.randbytes(30)]),
                "headers": rng.choice([None, [{"key": "ä", "value": b"x"}, {"key": "", "value": None}]]),
            }
        )
        offset += rng.choice([1, 1, 5]) if gaps else 1
    return rows


def write(out: pathlib.Path, rows: list[dict[str, Any]], **options: str) -> None:
    path, how = parse_write_options({"path": str(out), **options}, [])
    log_dir = NewLogDir.at(path)
    log_dir.begin()
    publish(write_rows(pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(90), how, log_dir, b""), log_dir)


def as_row(topic: str, record: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": int(record.timestamp_type == "LogAppendTime"),
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


def assert_kafkas_tool_finds_nothing(kafka: Kafka, partition: pathlib.Path) -> None:
    for log in sorted(partition.glob("*.log")):
        files = {path.name: path.read_bytes() for path in partition.glob(f"{log.stem}.*")}
        dumped = kafka.dump(files, ["--files", log.name])
        assert (dumped.exit, dumped.stderr, dumped.thrown) == (0, "", None)
        assert dumped.stdout.count(b"isvalid: true") == dumped.stdout.count(b"baseOffset: ") > 0
        for kind in ("index", "timeindex"):
            dumped = kafka.dump(files, ["--files", f"{log.stem}.{kind}"])  # compares each entry with the log
            assert (dumped.exit, dumped.stderr, dumped.thrown) == (0, "", None)
            assert b"Found" not in dumped.stdout
            assert dumped.stdout.count(b"offset: ") > 0


def test_a_broker_serves_the_rows() -> None:
    scratch = scratch_folder("klogtool-brokers-rows-")
    topics = {codec: rows_of(codec, gaps=n % 2 == 1) for n, codec in enumerate(CODEC_NAMES)}
    try:
        with a_broker("4.3.1", scratch / "broker") as broker, Kafka(prepare()) as kafka:
            record = sys.modules[type(broker).__module__].Record
            broker.start()
            ids = {topic: broker.create_topic(topic, 1, retention_ms=-1) for topic in topics}
            broker.stop()
            (log_dir,) = broker.log_dirs
            written: dict[str, Any] = {}
            for topic, rows in topics.items():
                options = {"compression.type": topic, "batch.size": "900", "segment.bytes": "6000"}
                options["index.interval.bytes"] = "500"
                write(scratch / topic, rows, topicId=ids[topic], **options)
                partition = scratch / topic / f"{topic}-0"
                assert_kafkas_tool_finds_nothing(kafka, partition)
                shutil.rmtree(log_dir / f"{topic}-0")
                shutil.copytree(partition, log_dir / f"{topic}-0")
                written[topic] = kept_files(partition)
            broker.start()
            assert "stray" not in broker.log_text()
            assert not [line for line in broker.log_text().splitlines() if any(cut in line for cut in CUTS)]
            for topic, rows in topics.items():
                assert [as_row(topic, found) for found in broker.consume(topic, 0)] == rows, topic
                end = rows[-1]["offset"] + 1
                assert broker.produce(topic, 0, [record(key=b"new", value=b"v")], enable_idempotence="true") == [end]
                kept = {
                    name: data for name, data in kept_files(log_dir / f"{topic}-0").items() if name in written[topic]
                }
                for name, data in written[topic].items():
                    assert kept[name].startswith(data) or name.endswith((".index", ".timeindex")), name
            broker.kill()
            broker.start()  # a recovery cuts nothing either
            assert not [line for line in broker.log_text().splitlines() if any(cut in line for cut in CUTS)]
            for topic, rows in topics.items():
                assert [as_row(topic, found) for found in broker.consume(topic, 0)][:-1] == rows, topic
    finally:
        shutil.rmtree(scratch)
