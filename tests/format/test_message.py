"""Messages of magic 0 and 1: Kafka's bytes read and built, and what Java makes of odd ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import layout
from outcome import until_error
from vectors import (
    MAGIC_0,
    MAGIC_0_GZIP,
    MAGIC_0_LZ4,
    MAGIC_1,
    MAGIC_1_GZIP,
    MAGIC_1_LZ4_APPEND_TIME,
    MESSAGES,
    PLAIN_MESSAGES,
    WRAPPERS,
    Vector,
)

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.batch import CODEC_NAMES, Record
from klogtool.format.message import (
    Message,
    build_message,
    build_message_set,
    check_magic,
    inflate,
    parse_message,
    to_record,
    walk_messages,
)

LONG_MAX = 2**63 - 1


def records_of(message: Message) -> Iterator[Record]:
    yield from message.records()


def refused(data: bytes) -> tuple[list[Record], str | None]:
    """The records before the error, and its class in Kafka."""
    message = parse_message(data, base=300)
    records, error = until_error(records_of(message))
    assert error is not None
    assert error.position == 300
    return records, error.kafka_class


def wrapper(inner: bytes, codec: str = "gzip", **fields: Any) -> bytes:
    """A wrapper of magic 1 around a message set, offset 100 if not said otherwise."""
    found = layout.Message(100, 1, CODEC_NAMES.index(codec), 5, None, layout.compress(CODEC_NAMES.index(codec), inner))
    return replace(found, **fields).build()


def inner(offset: int, *, magic: int = 1, attributes: int = 0, timestamp: int = 5) -> bytes:
    return layout.Message(offset, magic, attributes, timestamp, None, b"v").build()


def offsets_in(data: bytes) -> list[int]:
    return [record.offset for record in parse_message(data).records()]


# ---------------------------------------------------------------- Kafka's bytes


@pytest.mark.parametrize("vector", MESSAGES, ids=str)
def test_records_of_what_kafka_wrote(vector: Vector) -> None:
    message = parse_message(vector.data)
    assert tuple(message.records()) == vector.records
    assert (message.codec, message.crc_valid) == (vector.codec, True)
    assert (message.size, message.last_offset) == (len(vector.data), vector.records[-1].offset)


def test_every_field_of_magic_0() -> None:
    message = parse_message(MAGIC_0.data, base=50)
    assert (message.position, message.offset, message.magic, message.crc) == (50, 0, 0, 0x1FECD70A)
    assert (message.attributes, message.codec) == (0, "none")
    assert (message.timestamp, message.max_timestamp, message.timestamp_type) == (-1, -1, "NoTimestampType")
    assert (message.key, message.value, message.key_size, message.value_size) == (b"k", b"v", 1, 1)


def test_every_field_of_a_wrapper_of_magic_1() -> None:
    message = parse_message(MAGIC_1_LZ4_APPEND_TIME.data)
    assert (message.offset, message.magic, message.crc, message.attributes) == (14, 1, 0x465F229C, 0x0B)
    assert (message.timestamp, message.timestamp_type, message.codec) == (1600000009999, "LogAppendTime", "lz4")
    assert (message.key, message.value_size) == (None, 68)


def test_null_keys_and_values_have_a_size_of_minus_one() -> None:
    message = parse_message(build_message(0, None, None, magic=1))
    assert (message.key_size, message.value_size, message.key, message.value) == (-1, -1, None, None)
    message = parse_message(build_message(0, b"", b"", magic=1))
    assert (message.key_size, message.value_size, message.key, message.value) == (0, 0, b"", b"")


def test_what_only_batches_have() -> None:
    message = parse_message(MAGIC_1.data)
    assert (message.producer_id, message.producer_epoch, message.base_sequence, message.last_sequence) == (-1,) * 4
    assert (message.partition_leader_epoch, message.delete_horizon_ms, message.records_count) == (-1, None, None)
    assert (message.is_transactional, message.is_control) == (False, False)


# ---------------------------------------------------------------- the same bytes, built


@pytest.mark.parametrize("vector", PLAIN_MESSAGES, ids=str)
def test_the_same_record_builds_the_same_bytes(vector: Vector) -> None:
    magic = vector.data[16]
    assert build_message_set(vector.records, magic=magic).hex() == vector.data.hex()


@pytest.mark.parametrize("vector", WRAPPERS, ids=str)
def test_wrappers_are_built_alike_but_for_the_matches_that_the_library_chose(vector: Vector) -> None:
    theirs = parse_message(vector.data)
    append_time = theirs.timestamp_type == "LogAppendTime"
    built = build_message_set(
        vector.records,
        magic=theirs.magic,
        codec=vector.codec,
        timestamp_type=theirs.timestamp_type,
        log_append_time=theirs.timestamp if append_time else None,
    )
    mine = parse_message(built)
    assert built[:8] == vector.data[:8]
    assert (mine.magic, mine.attributes, mine.timestamp, mine.key) == (
        theirs.magic,
        theirs.attributes,
        theirs.timestamp,
        None,
    )
    assert inflate(mine) == inflate(theirs)
    assert mine.crc_valid


def test_the_header_checksum_of_lz4_frames_is_the_wrong_one_for_magic_0_only() -> None:
    for vector, checksum in ((MAGIC_0_LZ4, 0x1A), (MAGIC_1_LZ4_APPEND_TIME, 0x82)):
        magic = vector.data[16]
        value = parse_message(build_message_set(vector.records, magic=magic, codec="lz4")).value
        assert value is not None
        assert value[6] == checksum


def test_a_wrong_header_checksum_is_refused_above_magic_0() -> None:
    frame = layout.framings(layout.LZ4, inner(0))["header checksum of 0.8"]
    assert refused(wrapper(b"", "lz4", value=frame)) == ([], "KafkaException")
    assert len(list(parse_message(wrapper(b"", "lz4", value=frame, magic=0)).records())) == 1


texts = st.none() | st.binary(max_size=30)


@st.composite
def message_sets(draw: st.DrawFn) -> tuple[tuple[Record, ...], dict[str, Any]]:
    magic = draw(st.integers(0, 1))
    first = draw(st.integers(0, 2**62))
    offsets = sorted({first, *draw(st.lists(st.integers(first, first + 1000), max_size=4))})
    times = st.integers(-1, LONG_MAX) if magic else st.just(-1)
    records = tuple(Record(offset, draw(times), draw(texts), draw(texts)) for offset in offsets)
    codec = draw(st.sampled_from(CODEC_NAMES[:4]))
    append_time = draw(st.none() | st.integers(0, LONG_MAX)) if magic else None
    return records, {"magic": magic, "codec": codec, "log_append_time": append_time}


@given(message_sets())
@settings(deadline=None, max_examples=60)
def test_what_is_built_is_read_again(drawn: tuple[tuple[Record, ...], dict[str, Any]]) -> None:
    records, fields = drawn
    append_time = fields["log_append_time"]
    type_name = "CreateTime" if append_time is None else "LogAppendTime"
    data, found, at = build_message_set(records, timestamp_type=type_name, **fields), [], 0
    while at < len(data):
        message = parse_message(data, at)
        assert message.crc_valid
        found += message.records()
        at += message.size
    assert all(record.crc_valid for record in found)
    times = [record.timestamp if append_time is None else append_time for record in records]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == [
        (r.offset, time, r.key, r.value) for r, time in zip(records, times, strict=True)
    ]


@pytest.mark.parametrize("vector", MESSAGES, ids=str)
def test_the_crc_covers_all_from_the_magic_on(vector: Vector) -> None:
    for position in range(12, len(vector.data)):
        wounded = bytearray(vector.data)
        wounded[position] ^= 0x80
        assert not parse_message(wounded).crc_valid, position
    for position in range(8):
        wounded = bytearray(vector.data)
        wounded[position] ^= 1
        assert parse_message(wounded).crc_valid, position


@given(st.sampled_from(MESSAGES), st.data())
def test_no_wound_makes_another_error_than_klogtools_own(vector: Vector, data: st.DataObject) -> None:
    wounded = bytearray(vector.data)
    for _ in range(data.draw(st.integers(1, 3))):
        wounded[data.draw(st.integers(12, len(wounded) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(26, len(wounded)))
    wounded[8:12] = (size - 12).to_bytes(4, "big")
    records, error = until_error(records_of(parse_message(wounded[:size])))
    assert records or error is not None
    assert error is None or error.position == 0


# ---------------------------------------------------------------- offsets of inner messages


def test_inner_offsets_are_absolute_under_a_wrapper_of_magic_0() -> None:
    inside = inner(3, magic=0) + inner(9, magic=0)
    assert offsets_in(wrapper(inside, magic=0, offset=9)) == [3, 9]
    assert offsets_in(wrapper(inside, magic=0, offset=5000)) == [3, 9]  # the wrapper's own is not looked at


def test_inner_offsets_are_relative_to_the_last_under_a_wrapper_of_magic_1() -> None:
    assert offsets_in(wrapper(inner(0) + inner(1) + inner(2))) == [98, 99, 100]
    assert offsets_in(wrapper(inner(0) + inner(7))) == [93, 100]  # compacted
    assert offsets_in(wrapper(inner(4) + inner(7))) == [97, 100]


def test_the_wrapper_decides_and_not_the_inner_magic() -> None:
    """KAFKA-4298: the cleaner of 0.10.0 left messages of magic 0 in wrappers of magic 1."""
    assert offsets_in(wrapper(inner(0, magic=0) + inner(1, magic=0))) == [99, 100]
    assert offsets_in(wrapper(inner(50) + inner(51), magic=0)) == [50, 51]


def test_a_wrapper_offset_of_zero_makes_inner_offsets_absolute() -> None:
    """As old librdkafka producers left it."""
    assert offsets_in(wrapper(inner(0) + inner(1), offset=0)) == [0, 1]
    assert offsets_in(wrapper(inner(40) + inner(41), offset=0)) == [40, 41]


def test_a_wrapper_offset_below_the_last_inner_one_is_an_error() -> None:
    assert refused(wrapper(inner(0) + inner(101))) == ([], "InvalidRecordException")
    assert refused(wrapper(inner(0), offset=-1)) == ([], "InvalidRecordException")
    assert offsets_in(wrapper(inner(101) + inner(100))) == [101, 100]  # only the last counts


def test_offsets_wrap_at_two_to_the_63() -> None:
    assert offsets_in(wrapper(inner(3) + inner(0), offset=LONG_MAX)) == [-(2**63) + 2, LONG_MAX]
    assert offsets_in(wrapper(inner(0) + inner(-1), offset=LONG_MAX)) == [-(2**63), LONG_MAX]


# ---------------------------------------------------------------- timestamps of inner messages


def test_under_append_time_all_have_the_wrappers_time() -> None:
    data = wrapper(inner(0, timestamp=5) + inner(1, timestamp=6), attributes=0x09, timestamp=1000)
    assert [record.timestamp for record in parse_message(data).records()] == [1000, 1000]
    assert [m.timestamp_type for m in walk_messages(parse_message(data))] == ["LogAppendTime"] * 2


def test_under_create_time_each_has_its_own() -> None:
    data = wrapper(inner(0, timestamp=5) + inner(1, timestamp=-1), timestamp=1000)
    assert [record.timestamp for record in parse_message(data).records()] == [5, -1]


def test_the_wrappers_timestamp_type_counts_not_the_inner_bit() -> None:
    data = wrapper(inner(0, timestamp=5, attributes=8), timestamp=1000)
    (message,) = walk_messages(parse_message(data))
    assert (message.timestamp, message.timestamp_type) == (5, "CreateTime")


def test_an_inner_message_of_magic_0_has_no_time_under_append_time_either() -> None:
    data = wrapper(inner(0, magic=0) + inner(1), attributes=0x09, timestamp=1000)
    assert [record.timestamp for record in parse_message(data).records()] == [-1, 1000]


def test_the_timestamp_bit_of_magic_0_means_nothing() -> None:
    message = parse_message(layout.Message(0, 0, 8, -1, None, None).build())
    assert (message.timestamp_type, message.timestamp) == ("NoTimestampType", -1)


# ---------------------------------------------------------------- wrappers that are none


def test_a_wrapper_around_nothing() -> None:
    assert refused(wrapper(b"")) == ([], "InvalidRecordException")
    assert refused(wrapper(inner(0)[:11])) == ([], "InvalidRecordException")


def test_a_wrapper_without_a_value() -> None:
    assert refused(wrapper(b"", value=None)) == ([], "InvalidRecordException")


def test_a_wrapper_whose_value_is_no_frame() -> None:
    assert refused(wrapper(b"", value=b"\xff" * 20)) == ([], "KafkaException")


def test_the_key_of_a_wrapper_is_not_looked_at() -> None:
    assert offsets_in(wrapper(inner(0), key=b"key")) == [100]


def test_compressed_messages_do_not_nest() -> None:
    """The error comes when the compressed one's turn comes: those before it are read."""
    nested = wrapper(inner(0), offset=1)
    records, error_class = refused(wrapper(inner(0) + nested))
    assert ([record.offset for record in records], error_class) == ([99], "InvalidRecordException")


def test_an_inner_codec_that_there_is_not() -> None:
    records, error_class = refused(wrapper(inner(0) + inner(1, attributes=6) + inner(2)))
    assert ([record.offset for record in records], error_class) == ([98], "IllegalArgumentException")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not(codec: int) -> None:
    message = parse_message(inner(0, attributes=codec))
    with pytest.raises(Unsupported, match=f"unknown compression type id: {codec}") as found:
        message.codec  # noqa: B018
    assert (found.value.kafka_class, found.value.position) == ("IllegalArgumentException", 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_came_too_late_for_messages(magic: int) -> None:
    data = wrapper(inner(0), "zstd", magic=magic)
    assert parse_message(data).codec == "zstd"
    assert refused(data) == ([], "InvalidRecordException")


@pytest.mark.parametrize("size", [13, 0, -1, -(2**31)])
def test_an_inner_size_below_fourteen_takes_all_of_the_wrapper_with_it(size: int) -> None:
    bad = b"\0" * 8 + size.to_bytes(4, "big", signed=True)
    assert refused(wrapper(inner(0) + bad)) == ([], "CorruptRecordException")
    assert refused(wrapper(inner(0) + bad + bytes(40))) == ([], "CorruptRecordException")


@pytest.mark.parametrize("stray", [1, 11])
def test_less_than_an_inner_head_at_the_end_is_passed_over(stray: int) -> None:
    assert offsets_in(wrapper(inner(0) + inner(1) + b"\xff" * stray)) == [99, 100]


def test_an_inner_message_that_is_cut_off_is_passed_over() -> None:
    assert offsets_in(wrapper(inner(0) + inner(1)[:-1])) == [100]


def test_an_inner_message_that_claims_more_than_a_jvm_has() -> None:
    huge = b"\0" * 8 + (2**31 - 1).to_bytes(4, "big")
    assert refused(wrapper(inner(0) + huge)) == ([], "OutOfMemoryError")
    assert offsets_in(wrapper(inner(0) + b"\0" * 8 + (1 << 20).to_bytes(4, "big"))) == [100]


def test_an_inner_checksum_is_told_and_nothing_else() -> None:
    bad = inner(0)[:-1] + b"w"
    (record,) = parse_message(wrapper(bad)).records()
    assert (record.value, record.crc_valid, record.crc) == (b"w", False, int.from_bytes(bad[12:16], "big"))


@pytest.mark.parametrize("magic", [2, 3, 127, -1, -128])
def test_an_inner_magic_that_there_is_not_is_laid_out_as_1(magic: int) -> None:
    odd = inner(0)[:16] + magic.to_bytes(1, "big", signed=True) + inner(0)[17:]
    (message,) = walk_messages(parse_message(wrapper(odd, attributes=0x09, timestamp=1000)))
    assert (message.magic, message.value, message.timestamp) == (magic, b"v", 5)


# ---------------------------------------------------------------- magic


@pytest.mark.parametrize("magic", [-1, -128])
def test_a_negative_magic_is_laid_out_as_1_and_refused_by_name(magic: int) -> None:
    message = parse_message(MAGIC_1.data[:16] + magic.to_bytes(1, "big", signed=True) + MAGIC_1.data[17:], base=7)
    assert (message.magic, message.key, message.value, message.timestamp) == (magic, b"k", b"v", 1600000000000)
    with pytest.raises(Corrupt, match=f"invalid magic {magic}") as found:
        check_magic(message)
    assert (found.value.position, found.value.kafka_class) == (7, "IllegalArgumentException")


def test_magic_0_and_1_are_all_there_is() -> None:
    for vector in (MAGIC_0, MAGIC_1, MAGIC_1_GZIP):
        check_magic(parse_message(vector.data))


# ---------------------------------------------------------------- sizes of key and value


def sized(magic: int, key_size: int, value_size: int, room: bytes = b"kv") -> Message:
    """A message whose size fields say what they like; `room` lies where key and value would."""
    head = bytes([magic, 0]) + (b"\0" * 8 if magic else b"")
    body = key_size.to_bytes(4, "big", signed=True) + room[:1] + value_size.to_bytes(4, "big", signed=True) + room[1:]
    data = layout.sealed(bytes(8) + bytes(4) + bytes(4) + head + body)
    return parse_message(data, base=9)


def error_of(message: Message, name: str) -> tuple[str | None, str | None]:
    with pytest.raises(Corrupt) as found:
        getattr(message, name)
    assert found.value.position == 9
    return found.value.kafka_class, found.value.kafka_message


@pytest.mark.parametrize("magic", [0, 1])
def test_sizes_that_fit(magic: int) -> None:
    message = sized(magic, 1, 1)
    assert (message.key, message.value) == (b"k", b"v")
    message = sized(magic, -5, -7, b"")
    assert (message.key, message.value, message.key_size, message.value_size) == (None, None, -5, -7)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_value_that_goes_past_the_end(magic: int) -> None:
    """Its size can be told, itself not."""
    message = sized(magic, 1, 2)
    assert (message.key, message.key_size, message.value_size) == (b"k", 1, 2)
    assert error_of(message, "value") == ("IllegalArgumentException", "newLimit > capacity: (2 > 1)")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_value_that_ends_too_early(magic: int) -> None:
    message = sized(magic, 1, 1, b"kvw")
    assert (message.value, message.crc_valid) == (b"v", True)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key_size", [4, 2**31 - 1])
def test_a_key_that_leaves_no_room_for_the_values_size(magic: int, key_size: int) -> None:
    message = sized(magic, key_size, 1)
    assert message.key_size == key_size
    assert error_of(message, "value_size") == ("IndexOutOfBoundsException", "null")
    assert error_of(message, "value") == ("IndexOutOfBoundsException", "null")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_key_that_goes_past_the_end(magic: int) -> None:
    message = sized(magic, 100, 1)
    assert error_of(message, "key") == ("IllegalArgumentException", "newLimit > capacity: (100 > 6)")


def test_a_message_of_magic_1_that_ends_behind_its_timestamp() -> None:
    message = parse_message(layout.sealed(bytes(16) + b"\1\0" + bytes(8)), base=9)
    assert (message.size, message.timestamp, message.crc_valid) == (26, 0, True)
    assert error_of(message, "key_size") == ("IndexOutOfBoundsException", "null")
    with pytest.raises(KlogError):
        to_record(message)


def test_the_smallest_message_has_neither_key_nor_value() -> None:
    message = parse_message(build_message(5, None, None, magic=0))
    assert (message.size, message.crc_valid) == (26, True)
    assert [record.offset for record in message.records()] == [5]


def test_wrappers_are_not_opened_to_look_at_them() -> None:
    assert parse_message(MAGIC_0_GZIP.data).value_size == 0x36
