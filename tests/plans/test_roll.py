"""When a segment is due, and what rolling leaves (Kafka's LogSegmentTest, UnifiedLogTest, LocalLogTest)."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from deciding import decided, question_of, roll_at
from loading import CONFIG, NOW_MS, data, make, marker, names_of, result_of, segment

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError, Refused
from klogtool.format.message import build_message
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.plans.plan import Plan
from klogtool.plans.plan_change import plan_change

BATCH = len(data(0))


def asked(folder: pathlib.Path, config: Mapping[str, str] | None = None, now_ms: int = NOW_MS, **given: Any) -> Plan:
    circumstances = Circumstances(
        now_ms=now_ms, config={**CONFIG, **(config or {})}, loaded_at_ms=given.pop("loaded", None)
    )
    (plan,) = decided("roll", str(folder), {**circumstances.as_arguments(), "jobs": 1, **given})
    return plan


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    """Offsets 0 to 3, 4 to 7; one batch a second."""
    return make(tmp_path / "t-0", {0: segment(0), 4: segment(4)})


def test_by_size_only_if_it_would_pass_the_limit(partition: pathlib.Path) -> None:
    config = {"segment.bytes": str(5 * BATCH), "segment.ms": str(10**15)}
    assert not asked(partition, config, incoming_bytes=BATCH).answer["due"]
    found = asked(partition, config, incoming_bytes=BATCH + 1).answer
    assert (found["due"], found["why"]["size"], found["rolled_to"]) == (True, True, 8)


def test_bytes_to_come_are_a_java_int(partition: pathlib.Path) -> None:
    assert not asked(partition, {"segment.bytes": "-2147483648", "segment.ms": "1000000"}, incoming_bytes=1).answer[
        "why"
    ]["size"]


@pytest.mark.parametrize(("timestamp", "due"), [(NOW_MS + 14_000, False), (NOW_MS + 14_001, True), (0, False)])
def test_by_time_of_records_and_not_of_the_clock(partition: pathlib.Path, timestamp: int, due: bool) -> None:
    """The first batch of segment 4 is of NOW + 4 s."""
    found = asked(partition, {"segment.ms": "10000"}, now_ms=NOW_MS + 10**9, incoming_timestamp=timestamp).answer
    assert (found["due"], found["why"]["waited_ms"]) == (due, timestamp - NOW_MS - 4000)


def test_the_timestamp_0_is_a_timestamp(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: build_message(0, b"k", b"v", magic=1, timestamp=0)})
    for timestamp, due in ((10_000, False), (10_001, True)):
        found = asked(folder, {"segment.ms": "10000"}, now_ms=NOW_MS, incoming_timestamp=timestamp).answer
        assert (found["due"], found["why"]["waited_ms"]) == (due, timestamp)


def test_without_a_timestamp_the_clock_counts_from_the_loading(tmp_path: pathlib.Path) -> None:
    batch = build_message(0, b"k", b"v", magic=0)
    folder = make(tmp_path / "t-0", {0: batch})
    config = {"segment.ms": "10000"}
    assert not asked(folder, config, loaded=NOW_MS - 10_000, incoming_timestamp=2**60).answer["due"]
    assert asked(folder, config, loaded=NOW_MS - 10_001, incoming_timestamp=0).answer["why"]["time"]


def test_an_empty_segment_never_by_time(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: b""})
    found = asked(folder, {"segment.ms": "1"}, now_ms=NOW_MS + 10**9, loaded=NOW_MS).answer
    assert (found["due"], found["why"]["waited_ms"]) == (False, 10**9)


def test_max_compaction_lag_counts_for_a_compacted_topic(partition: pathlib.Path) -> None:
    config = {"segment.ms": "100000", "max.compaction.lag.ms": "5000", "cleanup.policy": "compact"}
    assert asked(partition, config, incoming_timestamp=NOW_MS + 10_000).answer["due"]
    assert not asked(partition, {**config, "cleanup.policy": "delete"}, incoming_timestamp=NOW_MS + 10_000).answer[
        "due"
    ]


@pytest.mark.parametrize(("index_bytes", "time_full"), [("67", False), ("60", False), ("59", True), ("36", True)])
def test_index_sizes_are_rounded_down_to_entries(tmp_path: pathlib.Path, index_bytes: str, time_full: bool) -> None:
    """Three entries each: 67 is room for 8 and 5, 59 for 7 and 4, of which one is kept for closing."""
    folder = make(tmp_path / "t-0", {0: segment(0)})
    assert [(folder / f"{0:020d}.{kind}").stat().st_size for kind in ("index", "timeindex")] == [24, 36]
    found = asked(folder, {"segment.index.bytes": index_bytes, "segment.ms": str(10**15)}).answer
    assert (found["why"]["offset_index_full"], found["why"]["time_index_full"]) == (False, time_full)
    assert found["active"]["offset_index"] == [3, int(index_bytes) // 8]
    assert found["due"] is time_full


def test_an_index_that_is_full_to_the_byte(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: segment(0)})
    (folder / f"{0:020d}.timeindex").write_bytes(b"")
    why = asked(folder, {"segment.index.bytes": "31", "segment.ms": str(10**15)}).answer["why"]
    assert (why["offset_index_full"], why["time_index_full"]) == (True, False)


@pytest.mark.parametrize("index_bytes", ["7", "11"])
def test_an_index_without_room_for_one_entry_cannot_be_made(tmp_path: pathlib.Path, index_bytes: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    with pytest.raises(KlogError) as refused:
        asked(folder, {"segment.index.bytes": index_bytes})
    assert refused.value.kafka_class == "IllegalArgumentException"


def test_of_a_time_index_with_one_slot_every_roll_is_due(tmp_path: pathlib.Path) -> None:
    """That slot is kept for closing; the empty segment is replaced by another one, for ever."""
    folder = make(tmp_path / "t-0", {0: b""})
    found = asked(folder, {"segment.index.bytes": "12"}).answer
    assert (found["due"], found["why"]["time_index_full"], found["rolled_to"]) == (True, True, 0)


@pytest.mark.parametrize(("offset", "due"), [(2**31 + 3, False), (2**31 + 4, True), (3, True)])
def test_an_offset_that_no_index_can_hold(partition: pathlib.Path, offset: int, due: bool) -> None:
    assert asked(partition, {"segment.ms": str(10**15)}, incoming_offset=offset).answer["due"] is due


def test_what_it_leaves(partition: pathlib.Path) -> None:
    """A new `.log` with indexes without entries, and a snapshot at its base; the others closed."""
    files = result_of(asked(partition, force=True))
    assert names_of(files, "log") == [0, 4, 8]
    assert [files[f"{8:020d}.{kind}"] for kind in ("log", "index", "timeindex")] == [b"", b"", b""]
    assert names_of(files, "snapshot")[-1] == 8
    assert len(files[f"{4:020d}.timeindex"]) == 36


def test_the_snapshot_has_what_producers_wrote(tmp_path: pathlib.Path) -> None:
    batches = [
        data(0, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        marker(1, 7),
        data(2, producer_id=9, producer_epoch=1, base_sequence=5),
    ]
    files = result_of(asked(make(tmp_path / "t-0", {0: batches}), force=True))
    entries = parse_producer_snapshot(files[f"{3:020d}.snapshot"])
    assert [(entry.producer_id, entry.last_offset) for entry in entries] == [(7, 0), (9, 2)]


def test_an_empty_active_segment_is_replaced(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: segment(0), 4: b""})
    plan = asked(folder, force=True)
    assert (plan.answer["rolled_to"], plan.answer["state"]["log_end_offset"]) == (4, 4)
    files = result_of(plan)
    assert names_of(files, "log") == [0, 4]
    assert names_of(files, "log.deleted") == [4]
    assert names_of(result_of(asked(folder, force=True, purge=True)), "log.deleted") == []


def rolled_ahead(folder: pathlib.Path, expected: int) -> Plan:
    arguments = {**Circumstances(now_ms=NOW_MS, config=CONFIG).as_arguments(), "jobs": 1}
    (plan,) = plan_change(
        "roll",
        str(folder),
        question_of("roll", arguments),
        lambda log: roll_at(log, expected),
    )
    return plan


def test_an_offset_that_is_expected_next_may_be_further(partition: pathlib.Path) -> None:
    """The log end stays; the new segment has no indexes, for there is nothing to flush."""
    plan = rolled_ahead(partition, 20)
    assert (plan.answer["rolled_to"], plan.answer["state"]["log_end_offset"]) == (20, 8)
    files = result_of(plan)
    assert [name for name in sorted(files) if name.startswith(f"{20:020d}")] == [
        f"{20:020d}.log",
        f"{20:020d}.snapshot",
    ]
    assert rolled_ahead(partition, 3).answer["rolled_to"] == 8


def test_no_segment_takes_the_place_of_one_with_records(tmp_path: pathlib.Path) -> None:
    """A log that ends at the base of its last segment, which has bytes: they are less than a batch."""
    folder = make(tmp_path / "t-0", {0: segment(0), 4: b""})
    (folder / f"{4:020d}.log").write_bytes(data(4)[:20])
    with pytest.raises(Refused, match="already exists") as refused:
        asked(folder, force=True)
    assert refused.value.kafka_class == "KafkaException"
