"""Why a segment stays, until when, and because of which record."""

import pathlib
from typing import Any

import pytest
from loading import NOW_MS, data, make, name_of, segment
from raw_batches import build_batch
from retaining import gone, kept, retained

from klogtool.causes import words
from klogtool.format.batch import Record
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import build_message_set
from klogtool.render.retain import retain_text

DAY_MS = 86_400_000
LIMIT = {"retention.ms": str(DAY_MS)}
LATER_MS = NOW_MS + 3_600_000


def one(plan: Any, base: int) -> Any:
    return next(row for row in plan.answer_in(words)["kept"] if row["segment"] == base)


def batch_of(base_offset: int, timestamps: list[int], **header: Any) -> bytes:
    records = [Record(base_offset + n, timestamp, b"k", b"v") for n, timestamp in enumerate(timestamps)]
    return build_batch(records, partition_leader_epoch=1, **header)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_record_is_named_that_is_waited_for(tmp_path: pathlib.Path, codec: str) -> None:
    held = batch_of(
        1, [NOW_MS, NOW_MS + 90, NOW_MS + 50], codec=codec, producer_id=9001, producer_epoch=0, base_sequence=0
    )
    log = make(tmp_path / "t-0", {0: data(0, time_ms=NOW_MS) + held + data(4, time_ms=NOW_MS + 80)})
    row = one(retained(log, LIMIT, LATER_MS), 0)
    assert row["held_by"] == {"segment": 0, "offset": 2, "producer_id": 9001, "timestamp": NOW_MS + 90}
    assert (row["reason"], row["due_ms"]) == ("young", NOW_MS + 90 + DAY_MS + 1)


def test_in_a_compressed_set_of_an_old_format_too(tmp_path: pathlib.Path) -> None:
    records = [Record(offset, NOW_MS + timestamp, None, b"v") for offset, timestamp in enumerate((1, 9, 5))]
    log = make(tmp_path / "t-0", {0: build_message_set(records, magic=1, codec="gzip")})
    row = one(retained(log, LIMIT, LATER_MS), 0)
    assert row["held_by"] == {"segment": 0, "offset": 1, "producer_id": -1, "timestamp": NOW_MS + 9}


def test_a_segment_goes_when_it_is_due_and_not_before(tmp_path: pathlib.Path) -> None:
    """Also one that is behind another: it is due when that one is."""
    times = {0: NOW_MS + 5, 4: NOW_MS + 90, 8: NOW_MS + 10}
    log = make(tmp_path / "t-0", {base: data(base, time_ms=time_ms) for base, time_ms in times.items()})
    rows = retained(log, LIMIT, NOW_MS + 100).answer["kept"]
    assert [row["due_ms"] - DAY_MS - NOW_MS - 1 for row in rows] == [5, 90, 90]
    assert [row["reason"] for row in rows] == ["young", "young", "behind"]
    assert rows[2]["held_by"] == rows[1]["held_by"]
    for row in rows:
        for now_ms, goes in ((row["due_ms"] - 1, False), (row["due_ms"], True)):
            assert ((row["segment"], "time") in gone(retained(log, LIMIT, now_ms))) == goes


@pytest.mark.parametrize(
    ("timestamp", "reason", "told"),
    [
        (LATER_MS - 3_600_000, "young", "the newest record is 1 h ago"),
        (LATER_MS, "young", "the newest record is 0 ms ago"),
        (LATER_MS + 2 * DAY_MS, "future", "the newest record is 2 d in the future"),
        (
            NOW_MS * 1000,
            "microseconds",
            f"the largest timestamp, {NOW_MS * 1000}, is in microseconds, as its size shows",
        ),
        (
            NOW_MS * 10**6,
            "nanoseconds",
            f"the largest timestamp, {NOW_MS * 10**6}, is in nanoseconds, as its size shows",
        ),
    ],
)
def test_timestamps_of_the_future_and_of_other_units_are_named(
    tmp_path: pathlib.Path, timestamp: int, reason: str, told: str
) -> None:
    log = make(tmp_path / "t-0", {0: data(0, time_ms=timestamp), 4: data(4, time_ms=0)})
    plan = retained(log, LIMIT, LATER_MS)
    assert kept(plan) == [(0, reason), (4, "behind")]
    assert one(plan, 0)["detail"] == told


def test_what_can_never_be_due_has_no_time(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {0: data(0, time_ms=MAX_LONG - 5), 4: data(4, time_ms=1)})
    rows = retained(log, LIMIT, LATER_MS).answer["kept"]
    assert [row["due_ms"] for row in rows] == [None, None]
    assert rows[0]["held_by"]["timestamp"] == MAX_LONG - 5


@pytest.mark.parametrize(
    ("config", "given", "reason", "told"),
    [
        ({}, {}, "unlimited", "neither retention.ms nor retention.bytes sets a limit"),
        ({"cleanup.policy": "compact"}, {}, "policy", "cleanup.policy is compact: "),
        ({"cleanup.policy": ""}, {}, "policy", "cleanup.policy is empty: "),
        ({"retention.bytes": "9999"}, {}, "size", "without this segment it would have less than retention.bytes"),
        ({**LIMIT, "remote.storage.enable": "true"}, {}, "tiered", "only a broker knows"),
        (LIMIT, {"high_watermark": 2}, "high_watermark", "reaches up to offset 4, the high watermark is 2"),
    ],
)
def test_what_is_no_question_of_time(
    tmp_path: pathlib.Path, config: dict[str, str], given: dict[str, Any], reason: str, told: str
) -> None:
    log = make(tmp_path / "t-0", {0: segment(0), 4: segment(4)})
    row = one(retained(log, config, **given), 0)
    assert (row["reason"], row["due_ms"], row["held_by"]) == (reason, None, None)
    assert told in row["detail"]


def test_where_the_record_is_not_found_the_index_has_the_word(tmp_path: pathlib.Path) -> None:
    """Damage that Kafka does not see, since nothing reads there."""
    log = make(tmp_path / "t-0", {0: segment(0), 4: segment(4)})
    file = log / name_of(0, "log")
    file.write_bytes(bytes(len(file.read_bytes())))
    row = one(retained(log, LIMIT), 0)
    assert row["held_by"] == {"segment": 0, "offset": 3, "producer_id": None, "timestamp": NOW_MS + 3000}


def test_the_table_for_people_says_it_in_words(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    held = batch_of(4, [NOW_MS * 1000], producer_id=9001, producer_epoch=0, base_sequence=0)
    log = make(tmp_path / "t-0", {0: data(0, time_ms=NOW_MS), 4: held, 8: data(8, time_ms=NOW_MS)})
    text = retain_text(retained(log, LIMIT, LATER_MS + DAY_MS))
    assert all(len(line) <= 80 for line in text.splitlines()[1:8])
    told = " ".join(text.split())
    for part in (
        "t-0: 1 of 3 segments goes, 79 B; then the log starts at offset 4, not at 0",
        "delete retention.ms: 1 h past its time",
        "held by offset 4 (producer 9001): its timestamp is in microseconds, as its size shows, "
        "2023-11-14T22:13:20Z; due",
        "keep after segment 4, which stays, because a log has no holes",
        "retention.ms: 86400000, as given",
    ):
        assert part in told


@pytest.mark.parametrize(("time", "is_told"), [(NOW_MS // 1000, True), (NOW_MS, False), (5, False), (10**9 - 1, False)])
def test_a_segment_that_goes_at_once_since_its_times_are_in_seconds(
    tmp_path: pathlib.Path, time: int, is_told: bool
) -> None:
    log = make(tmp_path / "t-0", {0: batch_of(0, [time])})
    text = " ".join(retain_text(retained(log, LIMIT, LATER_MS + 2 * DAY_MS)).split())
    assert "t-0: 1 of 1 segment goes" in text
    assert ("its timestamp is in seconds, as its size shows, 2023-11-14T22:13:20Z" in text) == is_told
