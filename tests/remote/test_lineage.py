"""Which segment serves which offset: held against answers of Kafka's own classes, and against a plain model."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from running import ROOT

from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState
from klogtool.remote.lineage import RemoteLogCache, is_within_lineage

ANSWERS = ROOT.parent / "shared/tiered-samples/lineage"
STATES = {state.value: state for state in SegmentState}


def key(number: int) -> SegmentKey:
    return SegmentKey("topic", 0, str(number))


def segment(number: int, start: int, end: int, epochs: dict[int, int]) -> RemoteSegment:
    state = SegmentState.COPY_STARTED
    return RemoteSegment(key(number), "t", start, end, 0, tuple(sorted(epochs.items())), 10, 0, state)


def after(history: list[list[Any]]) -> RemoteLogCache:
    cache = RemoteLogCache()
    for event in history:
        if event[0] == "A":
            _, number, start, end, epochs = event
            cache.add(segment(number, start, end, {int(epoch): at for epoch, at in epochs.items()}))
        else:
            cache.update(key(event[1]), STATES[event[2]])
    return cache


def lines(name: str) -> list[dict[str, Any]]:
    path = ANSWERS / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


@pytest.mark.shared
def test_each_offset_is_served_by_the_segment_that_kafka_serves_it_from() -> None:
    answers = 0
    for case in lines("cases.jsonl"):
        cache = after(case["history"])
        runs = case["served_from"]
        for n, (epoch, start, expected) in enumerate(runs):
            end = runs[n + 1][1] if n + 1 < len(runs) and runs[n + 1][0] == epoch else 135
            for offset in range(start, end, 3):
                found = cache.find(epoch, offset)
                assert ("-" if found is None else found.key.segment_id) == expected, (case["history"], epoch, offset)
                answers += 1
        for epoch, highest in case["highest"].items():
            assert (
                str(cache.highest_offset(int(epoch)) if cache.highest_offset(int(epoch)) is not None else "-")
                == highest
            )
        listed = {int(one.key.segment_id): one.state.value for one in cache.segments.values()}
        assert "{" + ", ".join(f"{number}={listed[number]}" for number in sorted(listed)) + "}" == case["listed"]
    assert answers > 70_000


@pytest.mark.shared
def test_a_segment_is_within_the_lineage_when_kafka_says_so() -> None:
    cases = lines("within.jsonl")
    for case in cases:
        own = {int(epoch): start for epoch, start in case["segment_epochs"].items()}
        leader = {int(epoch): start for epoch, start in case["leader_epochs"].items()}
        one = segment(1, max(0, min(own.values())), case["segment_end"], own)
        assert is_within_lineage(one, case["log_end"], leader) is case["within"], case
    assert len(cases) > 1000


def test_a_newer_short_segment_hides_an_older_long_one() -> None:
    cache = after(
        [
            ["A", 1, 30, 59, {"0": 30}],
            ["U", 1, "COPY_SEGMENT_FINISHED"],
            ["A", 2, 30, 47, {"0": 30}],
            ["U", 2, "COPY_SEGMENT_FINISHED"],
        ]
    )
    assert cache.find(0, 47).key == key(2)
    assert cache.find(0, 48) is None
    assert cache.listed() == {key(2)}
    served = [(one.start, one.end, one.segment and one.segment.key) for one in cache.walk_served([(0, 0)], 0, 60)]
    assert served == [(0, 30, None), (30, 48, key(2)), (48, 60, None)]


def test_what_is_being_deleted_serves_nothing_and_the_epochs_decide() -> None:
    cache = after(
        [
            ["A", 1, 60, 89, {"0": 60}],  # what the old leader copied
            ["U", 1, "COPY_SEGMENT_FINISHED"],
            ["A", 2, 60, 89, {"0": 60, "2": 66}],
            ["U", 2, "COPY_SEGMENT_FINISHED"],
            ["A", 3, 90, 119, {"2": 90}],
            ["U", 3, "COPY_SEGMENT_FINISHED"],
            ["U", 3, "DELETE_SEGMENT_STARTED"],
        ]
    )
    served = [
        (one.start, one.end, one.segment and one.segment.key) for one in cache.walk_served([(0, 0), (2, 66)], 60, 120)
    ]
    assert served == [(60, 66, key(2)), (66, 90, key(2)), (90, 120, None)]
    assert not cache.update(key(3), SegmentState.COPY_FINISHED)
    assert not is_within_lineage(cache.segments[key(1)], 120, {0: 0, 2: 66})
    assert is_within_lineage(cache.segments[key(2)], 120, {0: 0, 2: 66})
