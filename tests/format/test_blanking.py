"""Entries without keys and values: what goes, what stays, and that checksums are right."""

from __future__ import annotations

import random

import pytest
from raw_batches import build_batch
from vectors import BATCH

from klogtool.broker.config import is_harmless
from klogtool.format.batch import CODEC_NAMES, Header, Record, parse_batch
from klogtool.format.blanking import blank_batch, blank_bytes, blank_damaged, blank_entry, blank_message, head_spans
from klogtool.format.codecs import compress, decompress
from klogtool.format.codecs.padding import padded
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
    parse_control_type_id,
)
from klogtool.format.control_values import build_control_value
from klogtool.format.internal.blanked_metadata import Replacing, blank_metadata_value
from klogtool.format.internal.records import METADATA, build_metadata_record, parse_metadata_record
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import build_message_set, parse_message

SECRET = b"a secret"
HEADERS = (Header(b"secret-name", SECRET), Header(b"null", None))
RECORDS = [Record(5 + n, 1000 + n, SECRET + b"%d" % n, SECRET * (n + 1), HEADERS) for n in range(20)]
PLAIN = [Record(record.offset, record.timestamp, record.key, record.value) for record in RECORDS]
STREAMS = [codec for codec in CODEC_NAMES if codec != "none"]


def blanked(data: bytes, open_from_ms: int = MAX_LONG) -> bytes:
    out = bytearray(data)
    blank_entry(memoryview(out), open_from_ms)
    assert len(out) == len(data)
    return bytes(out)


def test_sizes_offsets_and_times_stay() -> None:
    batch = parse_batch(blanked(build_batch(RECORDS)))
    found = list(batch.records())
    assert batch.crc_valid
    assert [(r.offset, r.timestamp, r.key_size, r.value_size) for r in found] == [
        (r.offset, r.timestamp, r.key_size, r.value_size) for r in RECORDS
    ]
    assert not any(any(r.key or b"") or any(r.value or b"") for r in found)
    assert {tuple((len(h.key), h.value and len(h.value)) for h in r.headers) for r in found} == {((11, 8), (4, None))}
    assert SECRET not in bytes(batch.data)


@pytest.mark.parametrize("codec", STREAMS)
def test_compressed_records_go(codec: str) -> None:
    data = build_batch(RECORDS, codec=codec)
    batch = parse_batch(blanked(data))
    assert (batch.crc_valid, batch.codec) == (True, codec)
    assert set(bytes(batch.data[61:])) <= {0, 1}


@pytest.mark.parametrize("codec", STREAMS)
def test_compressed_records_stay_readable_if_they_are_needed(codec: str) -> None:
    batch = parse_batch(blanked(build_batch(RECORDS, codec=codec), 1019))
    assert batch.crc_valid
    assert [(r.offset, r.timestamp, r.key_size) for r in batch.records()] == [
        (r.offset, r.timestamp, r.key_size) for r in RECORDS
    ]
    assert not any(any(r.key or b"") or any(r.value or b"") for r in batch.records())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_messages(magic: int, codec: str) -> None:
    records = PLAIN[:1] if codec == "none" else PLAIN
    message = parse_message(blanked(build_message_set(records, magic=magic, codec=codec)))
    found = list(message.records())
    assert message.crc_valid
    assert [(r.offset, r.timestamp, r.key_size, r.value_size) for r in found] == [
        (r.offset, r.timestamp if magic else -1, r.key_size, r.value_size) for r in records
    ]
    assert all(set(r.key or b"") | set(r.value or b"") <= {0, 1} and r.crc_valid for r in found)


def test_zeros_at_the_end_stay_as_many() -> None:
    for data in (build_batch(RECORDS), build_batch(RECORDS, codec="zstd"), BATCH.data):
        assert len(blanked(data).rstrip(b"\0")) == len(data.rstrip(b"\0"))


def control_batch(key: bytes, value: bytes, codec: str = "none") -> bytes:
    return build_batch([Record(0, 0, key, value)], is_control=True, producer_id=1, producer_epoch=0, codec=codec)


VOTERS = build_control_value(ControlRecordType.LEADER_CHANGE, {"leaderId": 1, "voters": [{"voterId": 1}]})


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ControlRecordType.COMMIT, build_end_transaction_marker(EndTransactionMarker(ControlRecordType.COMMIT, 3))),
        (ControlRecordType.LEADER_CHANGE, VOTERS),
    ],
)
def test_control_records_stay(kind: ControlRecordType, value: bytes, codec: str) -> None:
    data = control_batch(build_control_key(kind), value, codec)
    (before,), (after,) = (list(parse_batch(form).records()) for form in (data, blanked(data)))
    assert (before.key, before.value) == (after.key, after.value)


@pytest.mark.parametrize("key", [SECRET, build_control_key(ControlRecordType.COMMIT) + SECRET, b"\0\0\0\3"])
def test_what_is_no_control_record_goes(key: bytes) -> None:
    """An attribute that says so makes no control record of it."""
    for codec in ("none", "gzip"):
        batch = parse_batch(blanked(control_batch(key, SECRET * 3, codec)))
        assert not any(SECRET in form for form in (bytes(batch.data), *(r.key + r.value for r in batch.records())))
    kinds = [ControlRecordType.of(parse_control_type_id(record.key)) for record in batch.records()]
    assert kinds == [ControlRecordType.UNKNOWN if key == SECRET else ControlRecordType.of(key[3])]


@pytest.mark.parametrize("start", [0, *range(17, 53)])
def test_text_in_a_header_goes(start: int) -> None:
    """Where it leaves length and magic as they are."""
    data = bytearray(build_batch(RECORDS))
    data[start : start + 8] = b"hush-now"
    blank_damaged(memoryview(data))
    assert not any(b"hush-now"[at : at + 5] in data for at in range(4))


def test_the_length_and_the_magic_need_not_be_right() -> None:
    data = bytearray(build_batch(RECORDS))
    data[8:12], data[16] = b"\x7f\0\0\0", 9
    blank_batch(memoryview(data), MAX_LONG)
    data[8:12], data[16] = (len(data) - 12).to_bytes(4, "big"), 2
    assert parse_batch(bytes(data)).crc_valid


def test_a_message_that_is_cut_short() -> None:
    whole = build_message_set(PLAIN[:1], magic=1)
    for size in range(26, len(whole)):
        data = bytearray(whole[:size])
        blank_message(memoryview(data))
        assert SECRET not in data


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_wrong_checksum_stays(magic: int) -> None:
    whole = build_batch(RECORDS) if magic == 2 else build_message_set(PLAIN[:1], magic=magic)
    data = bytearray(whole)
    data[-5] ^= 1
    blank_damaged(memoryview(data))
    assert data[:21] == whole[:21]
    assert SECRET not in data
    again = bytes(data)
    blank_damaged(memoryview(data))
    assert data == again


def test_damaged_bytes_keep_heads_only() -> None:
    data = bytearray(build_batch(RECORDS) * 2)
    blank_bytes(memoryview(data), [(0, bytes(data[:61]))])
    assert bytes(data[:61]) == build_batch(RECORDS)[:61]
    assert set(data[61:]) <= {0, 1}
    message = build_message_set(PLAIN[:1], magic=1)
    assert list(head_spans(message)) == [(0, 30), (39, 43)]


@pytest.mark.parametrize("codec", STREAMS)
def test_a_stream_of_any_size(codec: str) -> None:
    chance = random.Random(codec)
    for content in (b"x", bytes(5000), chance.randbytes(300)):
        stream = compress(codec, content, magic=2)
        for more in (*range(64), 1000, 9001):
            longer = padded(codec, stream, len(stream) + more)
            assert longer is not None
            assert len(longer) == len(stream) + more
            assert decompress(codec, longer, magic=2) == content
        assert padded(codec, stream, len(stream) - 1) is None


def metadata(kind: str, /, **values: object) -> bytes:
    return build_metadata_record(kind, 0, values)


def blanked_metadata(value: bytes) -> bytes:
    out = bytearray(value)
    replacing = Replacing(lambda name: "z" * len(name), lambda text: "y" * len(text), is_harmless)
    blank_metadata_value(memoryview(out), replacing)
    return bytes(out)


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_topics_of_the_metadata_get_other_names() -> None:
    found = parse_metadata_record(METADATA, blanked_metadata(metadata("TopicRecord", name="orders", topicId=TOPIC_ID)))
    assert found.values == {"name": "zzzzzz", "topicId": TOPIC_ID}


@pytest.mark.parametrize(
    ("kind", "of", "name", "value", "expected"),
    [
        (2, "orders", "retention.ms", "7", ("zzzzzz", "retention.ms", "7")),
        (2, "orders", "cleanup.policy", "top", ("zzzzzz", "cleanup.policy", "xxx")),
        (2, "orders", "cleanup.policy", "compact,delete", ("zzzzzz", "cleanup.policy", "compact,delete")),
        (2, "orders", "retention.ms", "hush", ("zzzzzz", "retention.ms", "xxxx")),
        (2, "orders", "min.insync.replicas", "2", ("zzzzzz", "min.insync.replicas", "2")),
        (4, "1", "ssl.key.password", "hush", ("1", "x" * 16, "xxxx")),
    ],
)
def test_settings_of_the_metadata(kind: int, of: str, name: str, value: str, expected: tuple[str, ...]) -> None:
    record = metadata("ConfigRecord", resourceType=kind, resourceName=of, name=name, value=value)
    values = parse_metadata_record(METADATA, blanked_metadata(record)).values
    assert (values["resourceName"], values["name"], values["value"]) == expected


def test_private_records_of_the_metadata_have_no_text() -> None:
    group = metadata("ConfigRecord", resourceType=32, resourceName="payroll", name="retention.ms", value="7")
    values = parse_metadata_record(METADATA, blanked_metadata(group)).values
    assert (values["resourceName"], values["name"], values["value"]) == ("yyyyyyy", "y" * 12, "y")
    secrets = {"salt": b"salt", "storedKey": b"hush", "serverKey": b"k", "iterations": 4096}
    user = metadata("UserScramCredentialRecord", name="jane", mechanism=1, **secrets)
    assert not any(word in blanked_metadata(user) for word in (b"jane", b"salt", b"hush"))
    assert parse_metadata_record(METADATA, blanked_metadata(user)).values["name"] == "yyyy"
    whole = metadata("RemoveTopicRecord", topicId=TOPIC_ID)
    assert blanked_metadata(whole) == whole
    assert b"orders" not in blanked_metadata(metadata("FeatureLevelRecord", name="orders", featureLevel=1))
    for junk in (b"", b"\1", b"\1\2\0orders", b"\xff" * 9, whole + b"orders", whole[:-1] + b"\1\x09\x06orders"):
        assert b"orders" not in blanked_metadata(junk)
