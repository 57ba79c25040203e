"""`decode=internal`: the messages of internal topics as columns, whatever their bytes are."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest
from planned import given, read
from running import FIXTURES

from klogtool.errors import KlogError, Refused
from klogtool.format.internal.decoders import MODULES_OF_TOPICS, read_internal_record
from klogtool.render.internal_columns import MAIN, InternalColumns
from klogtool.spark.options import parse_query
from klogtool.spark.tables import arrow_schema

pa = pytest.importorskip("pyarrow")

LOGS = sorted(path for path in FIXTURES.glob("*/logdir/__*-0") if path.name.removesuffix("-0") in MODULES_OF_TOPICS)
UNKNOWN_FIELDS = "_unknownTaggedFields"  # of a later Kafka: no column, since nobody knows their types
RECORDS = ("topic", "partition", "offset", "timestamp", "key", "value")


def topic_of(log: pathlib.Path) -> str:
    return log.name.removesuffix("-0")


def check(row: dict[str, Any], topic: str, key: bytes | None, value: bytes | None) -> None:
    """Is the row what Kafka's message says, no more and no less?"""
    assert row["_is_tombstone"] is (value is None)
    fields = {name: cell for name, cell in row.items() if not name.startswith("_") and cell is not None}
    try:
        named, content = read_internal_record(topic, key, value)
        reason = None
    except KlogError as error:
        named, content, reason = None, None, error.reason
    assert row["_error"] == reason
    expected = {**(named.values if named else {}), **(content.values if content else {})}
    own = row["_message"].removeprefix("Legacy") == MAIN.get(topic) if row["_message"] else False
    found = fields if own else fields.get(row["_message"], {})
    assert own or fields.keys() <= {row["_message"]}
    _check_fields(found, expected)


def _check_fields(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        for name, cell in found.items():
            _check_fields(cell, expected.get(name))
        assert {name for name, cell in expected.items() if cell is not None} - {UNKNOWN_FIELDS} <= found.keys()
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _check_fields(one, other)
    elif isinstance(expected, bytes | memoryview):
        assert found == bytes(expected)
    else:
        assert found == expected


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parts[-3]} {log.name}")
def test_every_message_is_a_row_with_its_fields(log: pathlib.Path) -> None:
    records = read(log, columns="offset,key,value").to_pylist()
    rows = read(log, decode="internal", subscribe=topic_of(log)).to_pylist()
    assert [row["_offset"] for row in rows] == [record["offset"] for record in records]
    for row, record in zip(rows, records, strict=True):
        check(row, topic_of(log), record["key"], record["value"])
    assert any(row["_message"] for row in rows)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parts[-3]} {log.name}")
def test_any_bytes_are_a_row(log: pathlib.Path) -> None:
    rng, topic = random.Random(log.name), topic_of(log)

    def hurt(data: bytes | None) -> bytes | None:
        if data is None or rng.random() < 0.1:
            return rng.choice([None, b"", rng.randbytes(rng.randrange(40))])
        bad = bytearray(data)
        for _ in range(rng.randrange(4) if bad else 0):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        return bytes(bad[: rng.randrange(len(bad) + 1)] if rng.random() < 0.3 else bad)

    pairs = [(hurt(r["key"]), hurt(r["value"])) for r in read(log, columns="key,value").to_pylist() * 10]
    columns = InternalColumns(topic, arrow_schema("records", RECORDS[:4]))
    raw = pa.RecordBatch.from_pydict(
        {"key": pa.array([k for k, _ in pairs], pa.binary()), "value": pa.array([v for _, v in pairs], pa.binary())}
    )
    names = [name for name in columns.schema.names if name[1:] not in RECORDS]
    rows = pa.RecordBatch.from_pydict(columns.arrays(raw, topic, names)).to_pylist()
    for row, (key, value) in zip(rows, pairs, strict=True):
        check(row, topic, key, value)


def test_only_what_is_wanted_is_made_and_filters_are_of_the_record() -> None:
    log = FIXTURES / "groups/logdir"
    internal = {"decode": "internal", "subscribe": "__consumer_offsets"}
    every = read(log, **internal)
    some = read(log, **internal, columns="_offset,GROUP,offset")
    assert some.equals(every.select(["_offset", "group", "offset"]))
    assert read(log, **internal, columns="_offset").equals(every.select(["_offset"]))
    with_place = read(log, **internal, includeMetadata=True)
    assert with_place.column_names[: every.num_columns] == every.column_names
    assert "_segment" in with_place.column_names


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "decode internal reads one topic"),
        ({"subscribe": "t"}, "decode internal reads one topic"),
        ({"subscribe": "__consumer_offsets,__transaction_state"}, "decode internal reads one topic"),
        ({"subscribe": "__consumer_offsets", "valueFormat": "json"}, "without keyFormat and valueFormat"),
        ({"subscribe": "__consumer_offsets", "table": "batches"}, "is for the table records"),
        ({"subscribe": "__consumer_offsets", "columns": "value"}, "no such column"),
        ({"subscribe": "__consumer_offsets", "decode": "avro"}, "decode"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read(FIXTURES / "groups/logdir", **{"decode": "internal"} | options)


def test_a_topic_by_assign() -> None:
    query = parse_query(given("x", {"decode": "internal", "assign": '{"__consumer_offsets": [0]}'}), [])
    assert query.shape.internal == "__consumer_offsets"
