"""Record batches of magic 2: Kafka's bytes read and built, and what Java makes of odd ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka import layout
from msgspec.structs import replace
from outcome import until_error
from raw_batches import build_batch, raw_batch
from vectors import (
    ABORT,
    BATCH,
    BATCH_DELETE_HORIZON,
    BATCH_EMPTIED,
    BATCH_GZIP,
    BATCH_WITH_HEADERS,
    BATCHES,
    COMMIT,
    COMPRESSED_BATCHES,
    KRAFT_BATCHES,
    MARKERS,
    PLAIN_BATCHES,
    Vector,
)

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.batch import (
    CODEC_NAMES,
    CRC_COVERS_FROM,
    RECORD_BATCH_OVERHEAD,
    Header,
    Record,
    RecordBatch,
    build_record,
    increment_sequence,
    inflate,
    is_in_sequence,
    parse_batch,
)

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
NO_RECORD = ()


def raw(body: str | bytes = b"", **fields: int) -> RecordBatch:
    """A batch with any header fields, length and CRC right, around record bytes in hex."""
    return parse_batch(raw_batch(bytes.fromhex(body) if isinstance(body, str) else body, **fields))


def one_record(body: str, **fields: int) -> Record:
    (record,) = raw(body, **fields).records()
    return record


def refused(batch: RecordBatch) -> tuple[list[int], str | None]:
    """Offsets of the records that come before the error, and its class in Kafka."""
    records, error = until_error(records_of(batch))
    assert isinstance(error, Corrupt)
    assert error.position == batch.position
    return [record.offset for record in records], error.kafka_class


def records_of(batch: RecordBatch) -> Iterator[Record]:
    """The records, with an error that comes at once only when the first is asked for."""
    yield from batch.records()


# ---------------------------------------------------------------- Kafka's bytes


@pytest.mark.parametrize("vector", BATCHES, ids=str)
def test_records_of_what_kafka_wrote(vector: Vector) -> None:
    batch = parse_batch(vector.data)
    assert tuple(batch.records()) == vector.records
    assert (batch.codec, batch.crc_valid) == (vector.codec, True)
    assert (batch.size, batch.position) == (len(vector.data), 0)


def test_every_header_field() -> None:
    batch = parse_batch(BATCH.data, base=700)
    assert (batch.position, batch.size, batch.length, batch.magic) == (700, 81, 69, 2)
    assert (batch.base_offset, batch.last_offset, batch.last_offset_delta) == (0, 1, 1)
    assert (batch.partition_leader_epoch, batch.crc, batch.attributes) == (3, 0x5F3E3F81, 0)
    assert (batch.base_timestamp, batch.max_timestamp) == (1600000000000, 1600000000005)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert (batch.records_count, batch.timestamp_type, batch.delete_horizon_ms) == (2, "CreateTime", None)
    assert (batch.is_transactional, batch.is_control) == (False, False)


def test_an_emptied_transactional_batch() -> None:
    batch = parse_batch(BATCH_EMPTIED.data)
    assert (batch.base_offset, batch.last_offset, batch.records_count, batch.size) == (6, 6, 0, 61)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (50, 0, 0, 0)
    assert (batch.is_transactional, batch.is_control) == (True, False)
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, 1600000000010)


@pytest.mark.parametrize("vector", MARKERS, ids=str)
def test_a_marker_is_control_and_transactional(vector: Vector) -> None:
    batch = parse_batch(vector.data)
    assert (batch.is_transactional, batch.is_control, batch.base_sequence) == (True, True, -1)


@pytest.mark.parametrize("vector", KRAFT_BATCHES, ids=str)
def test_krafts_control_batches_are_not_transactional(vector: Vector) -> None:
    batch = parse_batch(vector.data)
    assert (batch.is_transactional, batch.is_control, batch.producer_id) == (False, True, -1)


def test_a_delete_horizon_is_in_the_field_of_the_base_timestamp() -> None:
    batch = parse_batch(BATCH_DELETE_HORIZON.data)
    assert (batch.delete_horizon_ms, batch.base_timestamp) == (1700000001000, 1700000001000)
    assert [record.timestamp for record in batch.records()] == [1600000000003, 1600000000004]
    assert (batch.base_offset, batch.last_offset, batch.records_count) == (3, 5, 2)  # compacted: the last is gone


def test_a_batch_in_the_middle_of_a_buffer() -> None:
    data = memoryview(b"junk" + BATCH.data + ABORT.data)
    batch = parse_batch(data, 4, base=1000)
    assert (batch.position, batch.crc_valid) == (1004, True)
    assert tuple(batch.records()) == BATCH.records


# ---------------------------------------------------------------- the same bytes, built

BUILT = {
    "magic 2": (BATCH, {"partition_leader_epoch": 3}),
    "magic 2, headers": (BATCH_WITH_HEADERS, {"partition_leader_epoch": 4}),
    "abort": (ABORT, {"partition_leader_epoch": 1, "producer_id": 50, "is_transactional": True, "is_control": True}),
    "commit": (COMMIT, {"partition_leader_epoch": 1, "producer_id": 51, "is_transactional": True, "is_control": True}),
    **{str(vector): (vector, {"partition_leader_epoch": 3, "is_control": True}) for vector in KRAFT_BATCHES},
}


@pytest.mark.parametrize("name", BUILT)
def test_the_same_records_build_the_same_bytes(name: str) -> None:
    vector, fields = BUILT[name]
    epoch = 0 if "producer_id" in fields else -1
    assert build_batch(vector.records, producer_epoch=epoch, **fields).hex() == vector.data.hex()


def test_an_emptied_batch_is_built_as_the_cleaner_writes_it() -> None:
    built = build_batch(
        NO_RECORD,
        base_offset=6,
        last_offset=6,
        max_timestamp=1600000000010,
        producer_id=50,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        partition_leader_epoch=1,
        codec="gzip",  # of which nothing is left
        delete_horizon_ms=1700000001000,
    )
    assert built.hex() == BATCH_EMPTIED.data.hex()


def but_size_and_crc(data: bytes) -> bytes:
    """A batch's header without what hangs on the compressed size."""
    return data[:8] + data[12:17] + data[21:RECORD_BATCH_OVERHEAD]


@pytest.mark.parametrize("vector", COMPRESSED_BATCHES, ids=str)
def test_compressed_batches_are_built_alike_but_for_the_matches_that_the_library_chose(vector: Vector) -> None:
    theirs = parse_batch(vector.data)
    built = build_batch(
        vector.records,
        codec=vector.codec,
        last_offset=theirs.last_offset,
        partition_leader_epoch=theirs.partition_leader_epoch,
        delete_horizon_ms=theirs.delete_horizon_ms,
    )
    assert but_size_and_crc(built) == but_size_and_crc(vector.data)
    assert inflate(parse_batch(built)) == inflate(theirs)
    assert parse_batch(built).crc_valid


def test_a_record_is_built_with_its_length_first() -> None:
    record = Record(20, 1600000001000, b"a", b"b", (Header(b"h1", b"x"), Header(b"h2", None)))
    assert build_record(record, base_offset=20, base_timestamp=1600000001000) == bytes.fromhex(
        "22  00 00 00  02 61  02 62  04  04 6831 02 78  04 6832 01"
    )


def test_a_batch_with_append_time_keeps_the_producers_deltas() -> None:
    records = (Record(0, 5, None, b"a"), Record(1, 9, None, b"b"))
    batch = parse_batch(build_batch(records, timestamp_type="LogAppendTime", log_append_time=1000))
    assert (batch.timestamp_type, batch.base_timestamp, batch.max_timestamp) == ("LogAppendTime", 5, 1000)
    assert [record.timestamp for record in batch.records()] == [1000, 1000]
    as_written = replace(batch, attributes=0)
    assert [record.timestamp for record in as_written.records()] == [5, 9]


# ---------------------------------------------------------------- parse(build(x)) == x

texts = st.none() | st.binary(max_size=40)
headers = st.lists(st.builds(Header, st.binary(max_size=8), texts), max_size=3).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[Record, ...], dict[str, object]]:
    base_offset = draw(st.integers(0, 2**62))
    deltas = sorted(draw(st.sets(st.integers(0, 1000) | st.integers(0, INT_MAX), min_size=1, max_size=5)))
    has_sequence = draw(st.booleans())
    base_sequence = draw(st.integers(0, INT_MAX)) if has_sequence else -1
    records = tuple(
        Record(
            base_offset + delta,
            draw(st.integers(-1, 2**61)),
            draw(texts),
            draw(texts),
            draw(headers),
            increment_sequence(base_sequence, delta) if has_sequence else -1,
        )
        for delta in deltas
    )
    fields = {
        "base_offset": base_offset,
        "codec": draw(st.sampled_from(CODEC_NAMES)),
        "last_offset": base_offset + draw(st.integers(deltas[-1], INT_MAX)),
        "delete_horizon_ms": draw(st.none() | st.integers(0, 2**61)),
        "producer_id": draw(st.integers(-1, LONG_MAX)),
        "producer_epoch": draw(st.integers(-1, 32767)),
        "base_sequence": base_sequence,
        "is_transactional": draw(st.booleans()),
        "is_control": draw(st.booleans()),
        "partition_leader_epoch": draw(st.integers(-1, INT_MAX)),
    }
    return records, fields


@given(batches())
@settings(deadline=None, max_examples=60)
def test_what_is_built_is_read_again(drawn: tuple[tuple[Record, ...], dict[str, object]]) -> None:
    records, fields = drawn
    batch = parse_batch(build_batch(records, **fields))  # type: ignore[arg-type]
    assert tuple(batch.records()) == records
    assert batch.crc_valid
    for name, value in fields.items():
        assert getattr(batch, name) == value, name
    assert (batch.records_count, batch.max_timestamp) == (len(records), max(record.timestamp for record in records))


@pytest.mark.parametrize("vector", BATCHES, ids=str)
def test_a_flip_under_the_crc_is_always_found(vector: Vector) -> None:
    """Outside it are only base offset, length, leader epoch and magic: for those see the next test."""
    for position in range(layout.BATCH["crc"][0], len(vector.data)):
        for bit in (0, 7):
            wounded = bytearray(vector.data)
            wounded[position] ^= 1 << bit
            assert not parse_batch(wounded).crc_valid, position


def test_what_the_crc_does_not_cover() -> None:
    assert layout.BATCH["attributes"][0] == CRC_COVERS_FROM
    for field in ("base_offset", "partition_leader_epoch", "magic"):
        at, size = layout.BATCH[field]
        for position in range(at, at + size):
            wounded = bytearray(BATCH.data)
            wounded[position] ^= 1
            assert parse_batch(wounded).crc_valid, field


vectors = st.sampled_from(BATCHES)


@given(vectors, st.data())
def test_no_wound_makes_another_error_than_klogtools_own(vector: Vector, data: st.DataObject) -> None:
    wounded = bytearray(vector.data)
    for _ in range(data.draw(st.integers(1, 3))):
        wounded[data.draw(st.integers(12, len(wounded) - 1))] = data.draw(st.integers(0, 255))
    body = bytes(wounded[: data.draw(st.integers(RECORD_BATCH_OVERHEAD, len(wounded)))])
    batch = replace(parse_batch(wounded), data=memoryview(body), length=len(body) - 12)
    records, error = until_error(records_of(batch))
    assert error is None or error.position == 0
    assert error is not None or len(records) == batch.records_count


# ---------------------------------------------------------------- Java's arithmetic


@pytest.mark.parametrize(
    ("sequence", "increment", "after"),
    [
        (5, 1, 6),
        (INT_MAX - 1, 1, INT_MAX),
        (INT_MAX, 1, 0),
        (INT_MAX, 0, INT_MAX),
        (INT_MAX - 2, 5, 2),
        (INT_MAX, INT_MAX, INT_MAX - 1),
        (5, -1, 4 - 2**31),  # 2147483647 - -1 is negative in Java
        (-5, INT_MAX, INT_MAX - 5),
        (-(2**31), -(2**31), 0),
    ],
)
def test_after_the_largest_sequence_comes_zero(sequence: int, increment: int, after: int) -> None:
    assert increment_sequence(sequence, increment) == after


def test_sequences_wrap_in_a_batch() -> None:
    built = build_batch((Record(0, 0, None, b""), Record(1, 0, None, b"")), base_sequence=INT_MAX, producer_id=1)
    batch = parse_batch(built)
    assert [record.sequence for record in batch.records()] == [INT_MAX, 0]
    assert (batch.base_sequence, batch.last_sequence) == (INT_MAX, 0)


def test_a_negative_base_sequence_other_than_minus_one_counts_for_the_batch_only() -> None:
    batch = raw("0c 00 00 00 01 01 00", base_sequence=-2, last_offset_delta=1)
    assert batch.last_sequence == -1
    assert [record.sequence for record in batch.records()] == [-1]


def test_offsets_wrap_at_two_to_the_63() -> None:
    batch = raw("0c 00 00 02 01 01 00", base_offset=LONG_MAX, last_offset_delta=3)
    assert batch.last_offset == -(2**63) + 2
    assert [record.offset for record in batch.records()] == [-(2**63)]


def test_timestamps_wrap_at_two_to_the_63() -> None:
    assert one_record("0c 00 02 00 01 01 00", base_timestamp=LONG_MAX).timestamp == -(2**63)
    assert one_record("0c 00 01 00 01 01 00", base_timestamp=-(2**63)).timestamp == LONG_MAX


def test_offset_deltas_may_be_negative() -> None:
    assert one_record("0c 00 00 05 01 01 00", base_offset=10).offset == 7


# ---------------------------------------------------------------- lengths and varints


@pytest.mark.parametrize("size", ["01", "03", "7f"])
def test_any_negative_key_or_value_length_is_null(size: str) -> None:
    record = one_record(f"0c 00 00 00 {size} {size} 00")
    assert (record.key, record.value, record.key_size, record.value_size) == (None, None, -1, -1)


def test_null_is_not_empty() -> None:
    record = one_record("0c 00 00 00 00 00 00")
    assert (record.key, record.value, record.key_size, record.value_size) == (b"", b"", 0, 0)


def test_a_header_value_may_be_null_and_its_key_may_not() -> None:
    assert one_record("10 00 00 00 01 01 02 00 01").headers == (Header(b"", None),)
    assert refused(raw("10 00 00 00 01 01 02 01 01")) == ([], "InvalidRecordException")


def test_varints_may_be_longer_than_they_need_be() -> None:
    assert one_record("14 00 828000 848000 01 01 00").offset == 2


def test_bits_that_an_int_has_no_room_for_are_dropped() -> None:
    assert one_record("14 00 00 ffffffff7f 01 01 00", base_offset=2**31).offset == 0


def test_bits_that_a_long_has_no_room_for_are_dropped() -> None:
    assert one_record("1e 00 ffffffffffffffffff7f 00 01 01 00").timestamp == -(2**63)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ("16 00 00 8080808080 00 01 01 00", "an offset delta"),
        ("16 00 00 00 8080808080 00 01 00", "a key length"),
        ("20 00 80808080808080808080 00 00 01 01 00", "a timestamp delta"),
    ],
)
def test_an_endless_varint_is_an_invalid_record(record: str, what: str) -> None:
    assert refused(raw(record)) == ([], "InvalidRecordException"), what


def test_an_endless_length_of_a_record_escapes_from_a_plain_batch_as_what_bytesutils_throws() -> None:
    endless = bytes.fromhex("8c80808080 00  00 00 00 01 01 00")
    assert refused(raw(endless)) == ([], "IllegalArgumentException")
    packed = raw(layout.compress(layout.GZIP, endless), attributes=layout.GZIP)
    assert refused(packed) == ([], "InvalidRecordException")


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ("0e 00 00 00 01 01 00", "longer than the batch"),
        ("feffffff0f 00 00 00 01 01 00", "as long as an int can say"),
        ("0a 00 00 00 01 01 00", "shorter than its fields"),
        ("0e 00 00 00 01 01 00 00", "longer than its fields"),
        ("00", "empty"),
        ("01 00 00 00 01 01 00", "of negative length"),
        ("0c 00 00 00 08 01 00", "with a key that goes past the end"),
        ("0c 00 00 00 01 feffffff0f 00", "with a value of two gigabytes"),
        ("0c 00 00 00 01 01 01", "with -1 headers"),
        ("0c 00 00 00 01 01 02", "with a header that is not there"),
        ("0c 00 00 00 01 01 feffffff0f", "with two thousand million headers"),
        ("10 00 00 00 01 01 02 08 00", "with a header key that goes past the end"),
        ("0c 00 00 00 01 01", "without a number of headers"),
    ],
)
def test_a_record_that_contradicts_itself(record: str, what: str) -> None:
    assert refused(raw(record)) == ([], "InvalidRecordException"), what


def test_the_attributes_of_a_record_mean_nothing() -> None:
    assert one_record("0c ff 00 00 01 01 00") == one_record("0c 00 00 00 01 01 00")


def test_the_high_byte_of_a_batchs_attributes_means_nothing() -> None:
    batch = raw("0c 00 00 00 01 01 00", attributes=0x7F80)
    assert (batch.codec, batch.timestamp_type, batch.delete_horizon_ms) == ("none", "CreateTime", None)
    assert (batch.is_transactional, batch.is_control, batch.attributes) == (False, False, 0x7F80)


# ---------------------------------------------------------------- records that do not fit the batch

RECORDS = tuple(Record(n, 0, None, b"v%d" % n) for n in range(4))


def body_of(records: Sequence[Record]) -> bytes:
    return b"".join(build_record(record, base_offset=0, base_timestamp=0) for record in records)


BROKEN_THIRD = body_of(RECORDS[:2]) + bytes.fromhex("0c 00 00 00 01 01 02") + body_of(RECORDS[3:])


def test_of_an_uncompressed_batch_the_records_before_a_broken_one_are_read() -> None:
    assert refused(raw(BROKEN_THIRD, records_count=4)) == ([0, 1], "InvalidRecordException")


@pytest.mark.parametrize("codec", CODEC_NAMES[1:])
def test_of_a_compressed_batch_none_is(codec: str) -> None:
    packed = layout.compress(CODEC_NAMES.index(codec), BROKEN_THIRD)
    batch = raw(packed, records_count=4, attributes=CODEC_NAMES.index(codec))
    assert refused(batch) == ([], "InvalidRecordException")


def test_bytes_behind_the_last_record_take_that_record_with_them() -> None:
    assert refused(raw(body_of(RECORDS) + b"\0", records_count=4)) == ([0, 1, 2], "InvalidRecordException")


def test_fewer_records_than_counted() -> None:
    assert refused(raw(body_of(RECORDS), records_count=5)) == ([0, 1, 2, 3], "InvalidRecordException")
    assert refused(raw(body_of(RECORDS), records_count=INT_MAX)) == ([0, 1, 2, 3], "InvalidRecordException")


def test_more_records_than_counted() -> None:
    assert refused(raw(body_of(RECORDS), records_count=3)) == ([0, 1], "InvalidRecordException")


@pytest.mark.parametrize("codec", range(5))
def test_a_count_of_zero_is_believed_whatever_follows_the_header(codec: int) -> None:
    assert list(raw(body_of(RECORDS), records_count=0, attributes=codec).records()) == []
    assert list(raw(b"garbage", records_count=0, attributes=codec).records()) == []


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_negative_count_is_an_error(count: int) -> None:
    assert refused(raw(body_of(RECORDS), records_count=count)) == ([], "InvalidRecordException")
    packed = layout.compress(layout.GZIP, body_of(RECORDS))
    assert refused(raw(packed, records_count=count, attributes=layout.GZIP)) == ([], "InvalidRecordException")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not(codec: int) -> None:
    batch = raw(body_of(RECORDS), records_count=4, attributes=codec)
    with pytest.raises(Unsupported, match=f"unknown compression type id: {codec}") as found:
        batch.codec  # noqa: B018
    assert (found.value.kafka_class, found.value.position) == ("IllegalArgumentException", 0)
    with pytest.raises(Unsupported):
        list(batch.records())
    assert list(replace(batch, records_count=0).records()) == []


def test_a_compressed_body_that_is_none() -> None:
    for codec in range(1, 5):
        with pytest.raises(Corrupt) as found:
            list(raw(b"\xff" * 40, attributes=codec).records())
        assert found.value.position == 0


# ---------------------------------------------------------------- the header and the size


@pytest.mark.parametrize("length", range(14, 49))
def test_a_batch_shorter_than_its_header_has_fields_and_no_records(length: int) -> None:
    """FileChannelRecordBatch reads the 61 bytes of a header wherever the batch ends."""
    data = bytearray(BATCH.data)
    data[8:12] = length.to_bytes(4, "big")
    batch = parse_batch(data)
    assert (batch.size, batch.records_count, batch.crc_valid) == (12 + length, 2, False)
    with pytest.raises(Corrupt, match="smaller than its header") as found:
        list(batch.records())
    assert found.value.kafka_class == "IndexOutOfBoundsException"


@pytest.mark.parametrize("size", [26, 60])
def test_a_header_read_past_the_end_of_the_file(size: int) -> None:
    with pytest.raises(Corrupt, match="ends inside the batch header") as found:
        parse_batch(BATCH.data[:size], base=300)
    assert (found.value.position, found.value.kafka_class) == (300, "KafkaException")


@pytest.mark.parametrize("magic", [3, 4, 127])
def test_a_magic_to_come_is_read_as_two(magic: int) -> None:
    batch = raw(body_of(RECORDS), records_count=4, magic=magic)
    assert (batch.magic, batch.crc_valid) == (magic, True)
    assert len(list(batch.records())) == 4


def test_a_batch_of_exactly_its_header() -> None:
    batch = raw(b"", records_count=0)
    assert (batch.size, batch.crc_valid, list(batch.records())) == (61, True, [])
    assert refused(raw(b"", records_count=1)) == ([], "InvalidRecordException")


@given(st.binary(max_size=80))
@example(BATCH_GZIP.data[61:])
def test_any_bytes_as_records_are_read_or_refused(body: bytes) -> None:
    for count in (1, 2):
        records, error = until_error(records_of(raw(body, records_count=count)))
        assert len(records) == count if error is None else isinstance(error, Corrupt)


def test_sizes_of_plain_batches_add_up() -> None:
    assert [parse_batch(vector.data).size for vector in PLAIN_BATCHES] == [81, 86]


# ---------------------------------------------------------------- sequence numbers


@pytest.mark.parametrize(
    ("last", "following", "goes_on"),
    [(-1, 0, True), (-1, 1, False), (0, 1, True), (0, 0, False), (2**31 - 1, 0, True), (2**31 - 1, 1, False)],
)
def test_a_sequence_continues_with_the_next_number_and_with_0_after_the_largest(
    last: int, following: int, goes_on: bool
) -> None:
    assert is_in_sequence(last, following) is goes_on
