"""The options of Spark's kafka source, in its words; and what filters leave."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.errors import Refused
from klogtool.render.selection import LARGEST, SMALLEST
from klogtool.spark.filters import Bounds, bounds_of
from klogtool.spark.options import EARLIEST, LATEST, Bound, parse_query


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
    ({"subscribePattern": "("}, "no regular expression"),
    ({"assign": "t"}, "no JSON"),
    ({"assign": '{"t":0}'}, "is to be like"),
    ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
    ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "is to be like"),
    ({"startingOffsets": '{"t":{"x":3}}'}, "is to be like"),
    ({"startingOffsets": '{"t":{"0":true}}'}, "is to be like"),
    ({"startingOffsets": "[1]"}, "not as expected"),
    ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
    ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
    ({"endingOffsets": '{"t":{"0":3}}', "startingOffsets": '{"t":{"1":3}}'}, "do not name the same partitions"),
    ({"endingOffsets": '{"t":{"0":3}}', "startingOffsets": '{"t":{"0":4}}'}, "behind its end, 3"),
    ({"startingTimestamp": "yesterday"}, "no number"),
    ({"startingTimestamp": "-1"}, "negative"),
    ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "is to be like"),
    ({"minPartitions": "0"}, "must be positive"),
    ({"maxRecordsPerPartition": "0"}, "must be positive"),
    ({"mode": "LOOSE"}, "one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ({"includeHeaders": "yes"}, "one of false, true"),
    ({"kafka.isolation.level": "none"}, "read_uncommitted, read_committed"),
    ({"table": "topics"}, "records, batches, findings, segments"),
    ({"stream": True, "endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    ({"stream": True, "endingOffsetsByTimestamp": '{"t":{"0":3}}'}, "ending offset not valid in streaming queries"),
    ({"stream": True, "minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "is more than maxOffsetsPerTrigger"),
    ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "is more than maxOffsetsPerTrigger"),
    ({"kafka.auto.offset.reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported"),
    ({"stream": True, "maxTriggerDelay": "soon"}, "no time"),
    ({"path": ""}, "no path"),
    ({"paths": "x"}, "no JSON"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=re.escape(words)):
        query(**options)


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
        "endingOffset": "4",
        "Mode": "failfast",
    }
    parse_query({"path": "/dev/null", **options}, notes)
    assert notes == [
        "option kafka.bootstrap.servers has no effect: there is no broker",
        "option maxoffsetspertrigger has no effect: it is for streams",
        "option endingoffset is not known, and has no effect",
    ]


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
