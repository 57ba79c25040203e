"""A broker serves what klogtool built: offsets, keys, values, headers, timestamps, transactions. It changes no file."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

from klogtool.building import read_spec
from klogtool.disk.building import build
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment

from .brokers import CUTS, VERSIONS, a_broker, kept_files, served
from .kafka import scratch_folder

SPEC = pathlib.Path(__file__).resolve().parent / "built.yaml"
ABORTED, OPEN = b"aborted", b"open"
pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]


def whole(broker: Any, topic: str) -> list[tuple[Any, ...]]:
    """All that a consumer is told of each record."""
    return [
        (one.offset, one.timestamp, one.timestamp_type, one.key, one.value, tuple(map(tuple, one.headers)))
        for one in broker.consume(topic, 0)
    ]


def built_records(partition: pathlib.Path) -> list[tuple[Any, ...]]:
    return [
        (
            record.offset,
            record.timestamp,
            batch.timestamp_type,
            record.key,
            record.value,
            tuple((header.key.decode(), header.value) for header in record.headers),
        )
        for segment in Partition(str(partition)).segments
        for batch in Segment(segment.path).batches()
        if not batch.is_control
        for record in batch.records()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_serves_all_of_it_and_leaves_every_file(version: str) -> None:
    spec, scratch = read_spec(SPEC.read_bytes()), scratch_folder("klogtool-brokers-built-")
    try:
        build(spec, scratch / "logs")
        with a_broker(version, scratch / "broker") as broker:
            broker.start()
            for partition in spec.partitions:
                small = {"internal_segment_bytes": 9000} if version == "4.3.1" else {"segment_bytes": 9000}
                index = {"index_interval_bytes": partition.config["index.interval.bytes"]}
                broker.create_topic(partition.topic, 1, retention_ms=-1, **small, **index)
            broker.stop()
            expected = {}
            for partition in spec.partitions:
                folder = scratch / "logs" / f"{partition.topic}-0"
                expected[partition.topic] = built_records(folder)
                broker.plant(folder, partition.topic, 0, clean=True)
            before = {topic: kept_files(broker.partition_dir(topic, 0)) for topic in expected}
            broker.start()
            for topic, records in expected.items():
                assert whole(broker, topic) == records, topic
            committed = [value for _, _, value in served(broker, "built", isolation="read_committed")]
            assert committed == [row[4] for row in expected["built"] if row[4] not in (ABORTED, OPEN)]
            assert not [line for line in broker.log_text().splitlines() if any(words in line for words in CUTS)]
            broker.stop()
            assert {topic: kept_files(broker.partition_dir(topic, 0)) for topic in expected} == before
    finally:
        shutil.rmtree(scratch)
