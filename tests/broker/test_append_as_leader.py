"""What a leader takes, makes of it, and turns away: Kafka's LogValidatorTest and UnifiedLogTest, as rules."""

from __future__ import annotations

import pathlib
import struct
from typing import Any

import pytest
from appending import NOW_MS, appended, batch, follower, leader, mended, patched, plan_of, records, refusal, replica
from raw_batches import build_batch

from klogtool.broker.content import read_content
from klogtool.format.batch import NO_TIMESTAMP, Header, Record, RecordBatch
from klogtool.format.message import Message, build_message_set
from klogtool.log.entries import Entry, walk_entries
from klogtool.plans.plan import Write


def written(folder: pathlib.Path, *calls: Any, **config: Any) -> list[Entry]:
    """The batches as they go into the first segment."""
    plan = plan_of(folder, *calls, **config)
    assert not any("error" in row for row in plan.answer["appends"]), plan.answer
    (log,) = (step for step in plan.steps if isinstance(step, Write) and step.path.endswith(".log"))
    path = folder.with_suffix(".log")
    path.write_bytes(read_content(log.content))
    return list(walk_entries(str(path)))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "t-0"


# Offsets.


def test_offsets_go_on_from_the_end(folder: pathlib.Path) -> None:
    first, second = appended(folder, leader(batch(3)), leader(batch(2)))
    assert (first["first_offset"], first["last_offset"], second["first_offset"], second["last_offset"]) == (0, 2, 3, 4)
    assert second["log_end_offset"] == 5


@pytest.mark.parametrize("magic", [1, 2])
def test_offsets_do_not_go_beyond_the_last_there_is(folder: pathlib.Path, magic: int) -> None:
    """Kafka's builder calls an offset illegal that comes around to the negative ones."""
    last = follower(replica(2**63 - 2))
    records_of_two = build_message_set(records(2), magic=1, codec="gzip") if magic == 1 else batch(2)
    rows = appended(folder, last, leader(records_of_two), compression_type="gzip")
    assert [row["error"]["class"] for row in rows if "error" in row] == ["IllegalArgumentException"]


def test_the_epoch_is_the_leaders_and_is_noted(folder: pathlib.Path) -> None:
    entries = written(folder, leader(batch(), leader_epoch=4), leader(batch(), leader_epoch=7))
    assert [entry.partition_leader_epoch for entry in entries] == [4, 7]
    plan = plan_of(folder, leader(batch(), leader_epoch=4), leader(batch(), leader_epoch=7))
    (epochs,) = (step for step in plan.steps if isinstance(step, Write) and step.path.endswith("checkpoint"))
    assert read_content(epochs.content) == b"0\n2\n4 0\n7 1\n"


@pytest.mark.parametrize(
    ("data", "kafka_class"),
    [
        (build_batch(records(1, first=5)), "InvalidRecordException"),
        (batch(2) + batch(1), "InvalidRecordException"),
        (batch(1, last_offset=3), "InvalidRecordException"),
        (build_batch([], base_offset=0, last_offset=0), "InvalidRecordException"),
        (patched(batch(2), 57, struct.pack(">i", 1)), "InvalidRecordException"),
        (batch(1, is_control=True), "InvalidRecordException"),
        (batch(1, producer_id=9, producer_epoch=0), "InvalidRecordException"),
        (patched(batch(1), 22, b"\x07"), "IllegalArgumentException"),
        (patched(batch(1), 61, b"\x7e"), "InvalidRecordException"),
        (batch(1)[:-1] + b"\1", "CorruptRecordException"),
        (batch(1) + bytes(12), "CorruptRecordException"),
        (bytes(30), "CorruptRecordException"),
        (batch(1)[:16] + b"\x03" + batch(1)[17:], "CorruptRecordException"),
        (batch(1) + batch(1)[:-3], None),
        (b"", None),
        (batch(1)[:-1], None),
    ],
)
def test_sets_that_are_none(folder: pathlib.Path, data: bytes, kafka_class: str | None) -> None:
    assert refusal(folder, leader(data)) == kafka_class


def test_what_is_refused_appends_nothing_and_the_others_go_on(folder: pathlib.Path) -> None:
    rows = appended(folder, leader(batch(2)), leader(batch(1)[:-1] + b"\1"), leader(batch(1)))
    assert ["error" in row for row in rows] == [False, True, False]
    assert [row["log_end_offset"] for row in rows] == [2, 2, 3]


def test_coordinators_may_do_what_clients_may_not(folder: pathlib.Path) -> None:
    call = leader(build_batch(records(1, first=5)), origin="coordinator")
    (entry,) = written(folder, call)
    assert (entry.base_offset, entry.last_offset) == (0, 0)


# Sizes.


@pytest.mark.parametrize("excess", [0, 1])
def test_a_batch_of_max_message_bytes(folder: pathlib.Path, excess: int) -> None:
    data = batch(3)
    found = refusal(folder, leader(data), max_message_bytes=len(data) - excess)
    assert found == ("RecordTooLargeException" if excess else None)


def test_one_that_is_too_large_only_when_it_is_inflated(folder: pathlib.Path) -> None:
    data = build_batch([Record(0, NOW_MS, b"k", b"x" * 3000)], codec="gzip")
    assert refusal(folder, leader(data), max_message_bytes=2000, compression_type="uncompressed") == (
        "RecordTooLargeException"
    )
    assert refusal(folder, leader(data), max_message_bytes=2000) is None


@pytest.mark.parametrize("excess", [0, 1])
def test_a_set_of_segment_bytes(folder: pathlib.Path, excess: int) -> None:
    data = batch(3)
    found = refusal(folder, leader(data), segment_bytes=len(data) - excess)
    assert found == ("RecordBatchTooLargeException" if excess else None)


def test_a_full_segment_is_rolled(folder: pathlib.Path) -> None:
    rows = appended(folder, *[leader(batch(1))] * 3, segment_bytes=2 * len(batch(1)))
    assert [row["rolled"] for row in rows] == [False, False, True]


# Timestamps.


@pytest.mark.parametrize(
    ("age_ms", "settings", "is_good"),
    [
        (10**15, {}, True),
        (100, {"message_timestamp_before_max_ms": 100}, True),
        (101, {"message_timestamp_before_max_ms": 100}, False),
        (-3_600_000, {}, True),
        (-3_600_001, {}, False),
        (-5, {"message_timestamp_after_max_ms": 5}, True),
        (-6, {"message_timestamp_after_max_ms": 5}, False),
        (101, {"message_timestamp_before_max_ms": 100, "message_timestamp_type": "LogAppendTime"}, True),
    ],
)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_window(folder: pathlib.Path, age_ms: int, settings: dict[str, Any], is_good: bool, codec: str) -> None:
    data = build_batch([Record(0, NOW_MS - age_ms, b"k", b"v")], codec=codec)
    assert refusal(folder, leader(data), **settings) == (None if is_good else "RecordValidationException")


def test_the_records_that_are_out_of_it_are_named(folder: pathlib.Path) -> None:
    made = [Record(n, NOW_MS + (10**9 if n % 2 else 0), b"k", b"v") for n in range(4)]
    (row,) = appended(folder, leader(build_batch(made)))
    assert row["error"]["invalid_class"] == "InvalidTimestampException"
    assert [wrong["batch_index"] for wrong in row["error"]["record_errors"]] == [1, 3]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_log_append_time(folder: pathlib.Path, magic: int, codec: str) -> None:
    data = batch(2, codec=codec) if magic == 2 else build_message_set(records(2), magic=magic, codec=codec)
    call = leader(data, record_version=magic, now_ms=NOW_MS + 77)
    entries = written(folder, call, message_timestamp_type="LogAppendTime")
    expected = NO_TIMESTAMP if magic == 0 else NOW_MS + 77
    assert {record.timestamp for entry in entries for record in entry.records()} == {expected}
    assert all(entry.crc_valid for entry in entries)


def test_a_client_does_not_set_log_append_time(folder: pathlib.Path) -> None:
    data = build_batch(records(1), timestamp_type="LogAppendTime", log_append_time=NOW_MS)
    assert refusal(folder, leader(data), message_timestamp_type="LogAppendTime") == "RecordValidationException"
    (entry,) = written(folder, leader(data))
    assert entry.timestamp_type == "CreateTime"


def test_the_largest_timestamp_is_made_right(folder: pathlib.Path) -> None:
    data = patched(batch(2), 35, struct.pack(">q", 5))
    (entry,) = written(folder, leader(data))
    assert (entry.max_timestamp, entry.crc_valid) == (NOW_MS + 1, True)


# Keys.


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_compacted_topic_wants_keys(folder: pathlib.Path, codec: str) -> None:
    data = build_batch([*records(1), Record(1, NOW_MS, None, b"v")], codec=codec)
    assert refusal(folder, leader(data), cleanup_policy="compact") == "RecordValidationException"
    assert refusal(folder, leader(data)) is None


# Formats and codecs.


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_become_magic_2(folder: pathlib.Path, magic: int, codec: str) -> None:
    data = build_message_set(records(3), magic=magic, codec=codec)
    (entry,) = written(folder, leader(data))
    assert isinstance(entry, RecordBatch)
    assert (entry.codec, entry.base_offset, entry.last_offset) == (codec, 0, 2)
    assert [record.value for record in entry.records()] == [b"value"] * 3
    expected = [NO_TIMESTAMP] * 3 if magic == 0 else [NOW_MS, NOW_MS + 1, NOW_MS + 2]
    assert [record.timestamp for record in entry.records()] == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_and_magic_2_becomes_an_old_one(folder: pathlib.Path, magic: int) -> None:
    entries = written(folder, leader(batch(3), record_version=magic))
    assert all(isinstance(entry, Message) and entry.magic == magic for entry in entries)
    assert [entry.last_offset for entry in entries] == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "kafka_class"),
    [
        (batch(1, codec="zstd"), "IllegalArgumentException"),
        (batch(1, producer_id=9, producer_epoch=0, base_sequence=0), "UnsupportedForMessageFormatException"),
        (
            batch(1, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True),
            "IllegalArgumentException",
        ),
    ],
)
def test_what_old_formats_have_not(folder: pathlib.Path, data: bytes, kafka_class: str) -> None:
    assert refusal(folder, leader(data, record_version=1)) == kafka_class


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_codec_is_the_topics(folder: pathlib.Path, codec: str, wanted: str) -> None:
    (entry,) = written(folder, leader(batch(5, codec=codec)), compression_type=wanted)
    assert entry.codec == {"uncompressed": "none", "producer": codec}.get(wanted, wanted)
    assert [record.offset for record in entry.records()] == list(range(5))


@pytest.mark.parametrize(
    ("sent", "key"),
    [(b"\x80", "\ufffd"), (b"a\xed\xa0\x80b", "a\ufffdb"), ("é😀".encode(), "é😀"), (b"", "")],
)
def test_header_keys_are_text_where_a_batch_is_built_anew(folder: pathlib.Path, sent: bytes, key: str) -> None:
    data = build_batch([Record(0, NOW_MS, b"k", b"v", (Header(sent, b"x"), Header(b"h", None)))])
    for compression_type, found in (("producer", sent), ("zstd", key.encode())):
        (entry,) = written(folder, leader(data), compression_type=compression_type)
        (record,) = entry.records()
        assert isinstance(record, Record)
        assert record.headers == (Header(found, b"x"), Header(b"h", None))


def test_inner_offsets_of_old_clients_are_put_right(folder: pathlib.Path) -> None:
    made = [Record(n, NOW_MS, b"k", b"v") for n in (0, 0, 0)]
    data = build_message_set(made, magic=1, codec="gzip")
    (entry,) = written(folder, leader(data, record_version=1))
    assert [record.offset for record in entry.records()] == [0, 1, 2]


def test_compressed_batches_are_not_opened_wider_than_they_must(folder: pathlib.Path) -> None:
    """Kafka steps over keys and values there; what it would need then to renumber, it does not have."""
    made = [Record(n, NOW_MS, b"k", b"v") for n in (0, 2)]
    data = patched(build_batch(made, codec="gzip"), 57, struct.pack(">i", 3))
    assert refusal(folder, leader(data)) == "InvalidRecordException"
    holes = build_batch(made, codec="gzip")
    assert refusal(folder, leader(holes, origin="coordinator")) == "UnsupportedOperationException"


def test_an_inner_message_has_a_checksum_of_its_own(folder: pathlib.Path) -> None:
    inner = bytearray(build_message_set(records(1), magic=1))
    inner[-1] ^= 1
    from klogtool.format.codecs import compress
    from klogtool.format.message import build_message

    wrapper = build_message(0, None, compress("gzip", bytes(inner), magic=1), magic=1, timestamp=NOW_MS, attributes=1)
    assert refusal(folder, leader(wrapper)) == "CorruptRecordException"


def test_magics_do_not_mix(folder: pathlib.Path) -> None:
    old = [build_message_set(records(1), magic=magic) for magic in (0, 1)]
    assert refusal(folder, leader(b"".join(old))) == "InvalidRecordException"


def test_a_message_whose_sizes_cannot_be(folder: pathlib.Path) -> None:
    whole = build_message_set(records(1), magic=1)
    wrong = mended(whole[:26] + struct.pack(">i", 2**30) + whole[30:])
    assert refusal(folder, leader(wrong)) == "IllegalArgumentException"
