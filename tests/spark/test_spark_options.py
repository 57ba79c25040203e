"""The options of Spark's kafka source, in its words; and what filters leave."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import FIXTURES

from klogtool.errors import KlogError, Refused
from klogtool.log.file import Unreadable
from klogtool.log.storage import Place, RemoteStorage, open_place, prefix_of
from klogtool.render.selection import LARGEST, SMALLEST
from klogtool.spark.filters import Bounds, bounds_of
from klogtool.spark.options import (
    EARLIEST,
    LATEST,
    SPELLED,
    Bound,
    check_options,
    parse_query,
)


def query(*, stream: bool = False, **options: str) -> Any:
    return parse_query({"path": "/dev/null", **options}, [], stream=stream)


def test_defaults_are_those_of_the_kafka_source() -> None:
    batch, stream = query(), query(stream=True)
    assert (batch.starting, batch.ending, stream.starting) == (Bound(EARLIEST), Bound(LATEST), Bound(LATEST))
    assert not batch.is_committed_only
    assert batch.fails_on_data_loss
    assert batch.mode == "FAILFAST"
    assert query(table="batches").mode == "PERMISSIVE"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "Only one of the following options"),
    ({"subscribe": " , "}, "No topics to subscribe to"),
    ({"subscribePattern": "("}, "not a valid regular expression"),
    ({"assign": "t"}, "not valid JSON"),
    ({"assign": '{"t":0}'}, "must look like"),
    ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
    ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "must look like"),
    ({"startingOffsets": '{"t":{"x":3}}'}, "must look like"),
    ({"startingOffsets": '{"t":{"0":true}}'}, "must look like"),
    ({"startingOffsets": "[1]"}, "must be a JSON object"),
    ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
    ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
    ({"endingOffsets": '{"t":{"0":3}}', "startingOffsets": '{"t":{"1":3}}'}, "do not name the same partitions"),
    ({"endingOffsets": '{"t":{"0":3}}', "startingOffsets": '{"t":{"0":4}}'}, "after its end, 3"),
    ({"startingTimestamp": "yesterday"}, "not a number"),
    ({"startingTimestamp": "-1"}, "negative"),
    ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "must look like"),
    ({"minPartitions": "0"}, "must be positive"),
    ({"maxRecordsPerPartition": "0"}, "must be positive"),
    ({"mode": "LOOSE"}, "one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ({"includeHeaders": "yes"}, "one of false, true"),
    ({"kafka.isolation.level": "none"}, "read_uncommitted, read_committed"),
    ({"table": "topics"}, "records, batches, findings, left_out, segments"),
    ({"stream": True, "endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    ({"stream": True, "endingOffsetsByTimestamp": '{"t":{"0":3}}'}, "ending offset not valid in streaming queries"),
    ({"stream": True, "minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "is more than maxOffsetsPerTrigger"),
    ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "is more than maxOffsetsPerTrigger"),
    ({"kafka.auto.offset.reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported"),
    ({"stream": True, "maxTriggerDelay": "soon"}, "not a duration"),
    ({"path": ""}, "no path"),
    ({"paths": "x"}, "not valid JSON"),
    ({"endingOffset": "4"}, "option endingoffset is unknown (did you mean endingOffsets?)"),
    ({"failOnDataLost": "true"}, "option failondatalost is unknown (did you mean failOnDataLoss?)"),
    ({"zzz": "4"}, "option zzz is unknown"),
    ({"splitBytes": "128 parsecs"}, "option splitbytes is not a size such as 134217728 or 128m"),
    ({"splitBytes": "0"}, "must be positive"),
    ({"copies": "some"}, "option copies must be one of one, all, got some"),
    ({"splitBytes": "-1"}, "is not a size"),
    ({"splitBytes": "9" * 5000}, "is not a size"),
    ({"stream": True, "maxTriggerDelay": "9" * 5000}, "not a duration"),
    ({"subscribePattern": "a{99999999999}"}, "not a valid regular expression"),
    ({"startingOffsets": '{"t":{"%s":1}}' % ("1" * 5000)}, "must look like"),
    ({"paths": "[" * 100_000}, "not valid JSON"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=re.escape(words)):
        query(**options)


TEXTS = ("a\0b", "\udc80", "x" * 70_000, "-" + "9" * 5000, "[" * 100_000, '{"a":' * 50_000)


@pytest.mark.parametrize("name", [*SPELLED.values(), "path", "paths"])
def test_no_text_of_an_option_ends_in_a_traceback(name: str, tmp_path: pathlib.Path) -> None:
    base = {"path": "/dev/null", "valueFormat": "avro", "schemas": str(tmp_path)} if name == "schemas" else {}
    for text in TEXTS:
        for is_stream in (False, True):
            with contextlib.suppress(KlogError):
                query(stream=is_stream, **base | {name: text})


def test_time_comes_before_time_by_partition_before_offsets() -> None:
    by_partition = {"startingOffsets": '{"t":{"0":3}}', "startingOffsetsByTimestamp": '{"t":{"0":5}}'}
    assert query(**by_partition).starting == Bound(each=((("t", 0), 5),), is_time=True)
    assert query(**by_partition, startingTimestamp="7").starting == Bound(7, is_time=True)
    assert query(**by_partition, startingTimestamp="7").starting.of("any", 9) == 7


def test_what_has_no_effect_is_told() -> None:
    notes: list[str] = []
    options = {
        "kafka.bootstrap.servers": "b:9092",
        "maxOffsetsPerTrigger": "3",
        "Mode": "failfast",
    }
    parse_query({"path": "/dev/null", **options}, notes)
    assert notes == [
        "option kafka.bootstrap.servers has no effect: there is no broker",
        "option maxoffsetspertrigger has no effect: it applies to streams only",
    ]


def test_a_size_may_have_a_unit() -> None:
    for text, size in (
        ("7", 7),
        ("128m", 128 << 20),
        ("1G", 1 << 30),
        (" 64 k".replace(" ", ""), 65536),
        ("2mb", 2 << 20),
    ):
        assert query(splitBytes=text).split_bytes == size


LOAD = [
    ({"path": ""}, Refused, "no path was given: use load"),
    ({"path": "LOGS/nowhere"}, Unreadable, "no such file or directory"),
    ({"path": "LOGS/*.nothing"}, Unreadable, "no such file or directory"),
    ({"path": "EMPTY"}, Refused, "no partition dir with a .log file was found"),
    ({"path": "nothing://x"}, KlogError, "nothing"),
    ({"path": "LOGS", "startingOffset": "earliest"}, Refused, "did you mean startingOffsets?"),
    ({"path": "LOGS", "mode": "LOOSE"}, Refused, "one of FAILFAST"),
    ({"path": "LOGS", "startingOffsets": "latest", "endingOffsets": "latest"}, Refused, "can't be latest for batch"),
]


@pytest.mark.parametrize(("options", "kind", "words"), LOAD, ids=range(len(LOAD)))
def test_what_is_wrong_is_known_before_anything_is_planned(
    options: dict[str, str], kind: type[KlogError], words: str, tmp_path: pathlib.Path
) -> None:
    places = {"LOGS": str(FIXTURES / "transactions/logdir"), "EMPTY": str(tmp_path)}
    for word, place in places.items():
        options = {name: value.replace(word, place) for name, value in options.items()}
    with pytest.raises(kind, match=re.escape(words)):
        check_options(options)


def test_what_a_batch_or_a_stream_can_be_made_of_is_not_refused() -> None:
    path = str(FIXTURES / "transactions/logdir")
    for options in ({}, {"startingOffsets": "latest"}, {"endingOffsets": "latest"}, {"maxOffsetsPerTrigger": "4"}):
        check_options({"path": path, **options})
    check_options({"paths": json.dumps([path, path + "/t-0"])})


@pytest.mark.parametrize(
    ("uri", "path", "prefix"),
    [
        ("memory://logs", "/logs", "memory:/"),
        ("memory:///logs/", "/logs", "memory://"),
        ("s3a://bucket/logs?x=1", "bucket/logs", "s3://"),
        ("sftp://host/data/logs", "/data/logs", "sftp://host"),
        ("sftp://host/", "/", "sftp://host"),
        ("sftp://me:word@host:22/logs", "/logs", "sftp://***@host:22"),
        ("odd://host/logs", "elsewhere", "odd://"),
    ],
)
def test_a_uri_of_fsspec_keeps_its_host(uri: str, path: str, prefix: str) -> None:
    assert prefix_of(Place(uri), path) == prefix


def test_a_path_of_hadoops_s3_is_one_of_s3() -> None:
    assert [Place(f"{scheme}://bucket/logs").scheme for scheme in ("s3", "s3a", "s3n")] == ["s3"] * 3
    storage, path = open_place(Place("s3a://bucket/logs?region=eu-central-1"))
    assert path == "s3://bucket/logs"
    assert isinstance(storage, RemoteStorage)
    assert storage.prefix == "s3://"


def test_a_delay_is_told_with_its_unit() -> None:
    for text, seconds in (("15m", 900), ("2h", 7200), ("30", 30), ("5min", 300)):
        assert query(stream=True, maxTriggerDelay=text).most_seconds == seconds


# Filters.


def make_filter(kind: str, column: str, value: Any) -> Any:
    """As pyspark.sql.datasource has them."""
    return type(kind, (), {"attribute": (column,), "value": value})()


COMPARED = {
    "EqualTo": lambda a, b: a == b,
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqual": lambda a, b: a <= b,
    "In": lambda a, b: a in b,
}
few = st.integers(-4, 4)
comparisons = st.sampled_from(sorted(COMPARED)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(few, min_size=1, max_size=3) if kind == "In" else few)
)


@given(st.lists(comparisons, max_size=3))
def test_offsets_that_filters_keep_are_in_bounds(chosen: list[tuple[str, Any]]) -> None:
    bounds = bounds_of(make_filter(kind, "offset", value) for kind, value in chosen)
    kept = [n for n in range(-9, 10) if all(COMPARED[kind](n, value) for kind, value in chosen)]
    assert all(bounds.offsets[0] <= n <= bounds.offsets[1] for n in kept)
    if kept and all(kind != "In" for kind, _ in chosen):
        outside = [n for n in range(-9, 10) if bounds.offsets[0] <= n <= bounds.offsets[1] and n not in kept]
        assert not outside, "bounds are wider than the filters"


@given(comparisons)
def test_timestamps_that_filters_keep_are_in_bounds(chosen: tuple[str, Any]) -> None:
    """A record's time is in ms, a filter's in microseconds: here in steps of 400."""
    kind, value = chosen

    def time(microseconds: int) -> datetime:
        return datetime(2023, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)

    given_times = [time(400 * v) for v in value] if kind == "In" else time(400 * value)
    bounds = bounds_of([make_filter(kind, "timestamp", given_times)])
    first = int(datetime(2023, 1, 1, tzinfo=UTC).timestamp() * 1000)
    for ms in range(-5, 6):
        if COMPARED[kind](time(1000 * ms), given_times):
            assert bounds.timestamps[0] <= first + ms <= bounds.timestamps[1]


def test_filters_of_names_numbers_and_keys() -> None:
    topic, partition = make_filter("In", "topic", ("a", "b")), make_filter("EqualTo", "partition", 3)
    bounds = bounds_of([topic, partition, make_filter("EqualTo", "topic", "a"), make_filter("EqualTo", "key", b"k")])
    assert bounds == Bounds(topics=frozenset({"a"}), partitions=frozenset({3}), key=b"k")
    assert bounds.may_hold("a", 3)
    assert not bounds.may_hold("b", 3)
    assert not bounds.may_hold("a", 4)


def test_filters_that_say_nothing_of_bounds() -> None:
    zone = timezone(timedelta(hours=2))
    for kind, column, value in (
        ("EqualTo", "value", b"x"),
        ("StringStartsWith", "topic", "x"),
        ("GreaterThan", "topic", "x"),
        ("EqualTo", "offset", None),
        ("In", "offset", ()),
        ("EqualTo", "offset", 1.5),
        ("GreaterThan", "timestamp", datetime(2023, 1, 1)),
        ("Not", "offset", 3),
    ):
        assert bounds_of([make_filter(kind, column, value)]) == Bounds(), (kind, column, value)
    after = bounds_of([make_filter("GreaterThan", "timestamp", datetime(2023, 1, 1, 2, tzinfo=zone))])
    assert after.timestamps == (1_672_531_200_001, LARGEST)
    assert after.offsets == (SMALLEST, LARGEST)
