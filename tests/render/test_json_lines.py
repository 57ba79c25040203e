"""Batches and records as JSON lines: every field, nothing lost, the same bytes from both readers."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_batches import build_batch
from readers import NAME, READERS, Reader
from running import run_here
from vectors import BATCH_DELETE_HORIZON, BATCH_EMPTIED, BATCH_WITH_HEADERS, COMMIT, MAGIC_0, MAGIC_1_GZIP

from klogtool import kernels
from klogtool.errors import Corrupt
from klogtool.format.batch import Header, Record, parse_batch
from klogtool.format.message import build_message
from klogtool.render import json_lines, log_lines
from klogtool.render.json_lines import (
    LongLine,
    error_row,
    json_bytes,
    json_line,
    json_timestamp,
    record_line,
    record_row,
)
from klogtool.render.selection import DumpForm

FORM = DumpForm(json_file="t-0/0.log")
SOME_BYTES = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode())
HERE = [name for name in READERS if name == "reference" or kernels.is_built()]


def rows(reader: Reader, data: bytes, form: DumpForm = FORM) -> list[dict[str, Any]]:
    """Line by line; each one object, no blank that need not be."""
    lines = reader.show(data, form).out.splitlines(keepends=True)
    found = [json.loads(line) for line in lines]
    assert [json_line(row) for row in found] == lines
    return found


def record_of(reader: Reader, record: Record, **fields: Any) -> dict[str, Any]:
    batch, found = rows(reader, build_batch([record], **fields))
    assert (batch["type"], found["type"]) == ("batch", "record")
    return found


# ---------------------------------------------------------------- rows


def test_a_batch_and_a_record_with_headers(reader: Reader) -> None:
    batch, first, second = rows(reader, BATCH_WITH_HEADERS.data)
    assert list(batch.items()) == [
        ("type", "batch"),
        ("file", "t-0/0.log"),
        ("position", 0),
        ("size", 86),
        ("base_offset", 20),
        ("last_offset", 21),
        ("partition_leader_epoch", 4),
        ("magic", 2),
        ("crc", 0x69911087),
        ("crc_valid", True),
        ("attributes", 0),
        ("codec", "none"),
        ("timestamp_type", "CreateTime"),
        ("is_transactional", False),
        ("is_control", False),
        ("delete_horizon_ms", None),
        ("last_offset_delta", 1),
        ("base_timestamp", 1600000001000),
        ("max_timestamp", 1600000001001),
        ("producer_id", -1),
        ("producer_epoch", -1),
        ("base_sequence", -1),
        ("last_sequence", -1),
        ("records_count", 2),
    ]
    assert list(first.items()) == [
        ("type", "record"),
        ("file", "t-0/0.log"),
        ("batch_position", 0),
        ("magic", 2),
        ("codec", "none"),
        ("offset", 20),
        ("timestamp", 1600000001000),
        ("timestamp_type", "CreateTime"),
        ("key", {"utf8": "a"}),
        ("value", {"utf8": "b"}),
        ("headers", [["h1", {"utf8": "x"}], ["h2", None]]),
        ("producer_id", -1),
        ("producer_epoch", -1),
        ("sequence", -1),
        ("is_transactional", False),
        ("is_control", False),
        ("partition_leader_epoch", 4),
        ("delete_horizon_ms", None),
    ]
    assert (second["offset"], second["key"], second["value"], second["headers"]) == (21, None, None, [])


def test_a_message_has_the_same_fields_as_far_as_it_has_them(reader: Reader) -> None:
    batch, record = rows(reader, MAGIC_0.data)
    assert (batch["base_offset"], batch["last_offset"], batch["records_count"]) == (0, 0, None)
    assert (batch["magic"], batch["crc"], batch["timestamp_type"]) == (0, 0x1FECD70A, "NoTimestampType")
    assert (batch["max_timestamp"], batch["producer_id"], batch["partition_leader_epoch"]) == (None, -1, -1)
    assert "base_timestamp" not in batch
    assert "last_offset_delta" not in batch
    assert (record["crc"], record["crc_valid"], record["timestamp"], record["headers"]) == (0x1FECD70A, True, None, [])
    assert list(record)[-2:] == ["crc", "crc_valid"]


def test_a_wrapper_does_not_say_its_first_offset(reader: Reader) -> None:
    batch, *records = rows(reader, MAGIC_1_GZIP.data)
    assert (batch["base_offset"], batch["last_offset"], batch["codec"]) == (None, 12, "gzip")
    assert [(r["batch_position"], r["offset"], r["codec"], r["crc"]) for r in records] == [
        (0, 11, "gzip", 804835230),
        (0, 12, "gzip", 3648741940),
    ]


def test_a_delete_horizon(reader: Reader) -> None:
    batch, *records = rows(reader, BATCH_DELETE_HORIZON.data)
    assert [row["delete_horizon_ms"] for row in (batch, *records)] == [1700000001000] * 3
    assert (batch["base_timestamp"], batch["attributes"]) == (1700000001000, 65)


def test_an_emptied_batch_has_no_records(reader: Reader) -> None:
    (batch,) = rows(reader, BATCH_EMPTIED.data)
    assert (batch["records_count"], batch["base_timestamp"], batch["max_timestamp"]) == (0, None, 1600000000010)


def test_sequences_epochs_and_transactions(reader: Reader) -> None:
    fields = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 2**31 - 1, "is_transactional": True}
    data = build_batch([Record(0, 5, None, None), Record(1, 5, None, None)], partition_leader_epoch=9, **fields)
    batch, *records = rows(reader, data)
    assert (batch["producer_id"], batch["producer_epoch"], batch["partition_leader_epoch"]) == (7, 3, 9)
    assert (batch["base_sequence"], batch["last_sequence"]) == (2**31 - 1, 0)
    assert [(r["sequence"], r["is_transactional"], r["producer_id"]) for r in records] == [
        (2**31 - 1, True, 7),
        (0, True, 7),
    ]


# ---------------------------------------------------------------- bytes and times


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, None),
        (b"", {"utf8": ""}),
        (b"text", {"utf8": "text"}),
        ("ä€😀\u2028\x7f".encode(), {"utf8": "ä€😀\u2028\x7f"}),
        (b'"\\/\b\f\n\r\t\0\x1f', {"utf8": '"\\/\b\f\n\r\t\0\x1f'}),
        (b"eight by\xff", {"base64": "ZWlnaHQgYnn/"}),
        (b"\xff", {"base64": "/w=="}),
        (b"\xff\xfe", {"base64": "//4="}),
        (b"\xff\xfe\xfd", {"base64": "//79"}),
        (b"\xed\xa0\x80", {"base64": "7aCA"}),
        (b"\xc0\x80", {"base64": "wIA="}),
        (b"good until its end \xe2\x82", {"base64": "Z29vZCB1bnRpbCBpdHMgZW5kIOKC"}),
    ],
)
def test_bytes_are_text_or_base64(reader: Reader, data: bytes | None, shown: dict[str, str] | None) -> None:
    assert json_bytes(data) == shown
    record = record_of(reader, Record(0, 0, data, data, (Header(b"h", data),)))
    assert (record["key"], record["value"], record["headers"]) == (shown, shown, [["h", shown]])
    _, message = rows(reader, build_message(0, data, data, magic=1))
    assert (message["key"], message["value"]) == (shown, shown)


def test_text_is_escaped_as_little_as_json_allows(reader: Reader) -> None:
    out = reader.show(build_message(0, None, '"\\/ü\x01\x7f\u2028'.encode(), magic=0), FORM).text
    assert '"value":{"utf8":"\\"\\\\/ü\\u0001\x7f\u2028"}' in out


def test_a_header_key_that_is_no_utf8_is_told_twice(reader: Reader) -> None:
    """With replacement characters where all others have their keys, and whole in a field of its own."""
    headers = (Header(b"ok", b"1"), Header(b"\xff", None))
    record = record_of(reader, Record(0, 0, None, None, headers))
    assert record["headers"] == [["ok", {"utf8": "1"}], ["\ufffd", None]]
    assert record["header_keys"] == [{"utf8": "ok"}, {"base64": "/w=="}]
    assert "header_keys" not in record_of(reader, Record(0, 0, None, None, headers[:1]))


@pytest.mark.parametrize(("timestamp", "shown"), [(-1, None), (0, 0), (-2, -2), (2**62, 2**62)])
def test_a_missing_timestamp_is_null(reader: Reader, timestamp: int, shown: int | None) -> None:
    assert json_timestamp(timestamp) == shown
    batch, record = rows(reader, build_batch([Record(0, timestamp, None, None)]))
    assert (batch["base_timestamp"], batch["max_timestamp"], record["timestamp"]) == (shown, shown, shown)
    batch, record = rows(reader, build_message(0, None, None, magic=1, timestamp=timestamp))
    assert (batch["max_timestamp"], record["timestamp"]) == (shown, shown)


def test_a_file_is_named_as_it_was_given(reader: Reader) -> None:
    for name in ('t-0/"quoted"\\.log', "ü\n.log", "x" * 5000):
        assert {row["file"] for row in rows(reader, COMMIT.data, DumpForm(json_file=name))} == {name}


@given(st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=50), st.binary(max_size=10))
def test_nothing_is_lost(key: bytes | None, value: bytes | None, header: bytes) -> None:
    for name in HERE:
        row = record_of(Reader(name), Record(0, 0, key, value, (Header(header, value),)))
        assert (bytes_of(row["key"]), bytes_of(row["value"]), bytes_of(row["headers"][0][1])) == (key, value, value)
        shown = row.get("header_keys", [{"utf8": row["headers"][0][0]}])
        assert bytes_of(shown[0]) == header


def bytes_of(shown: dict[str, str] | None) -> bytes | None:
    if shown is None:
        return None
    return shown["utf8"].encode() if "utf8" in shown else base64.b64decode(shown["base64"])


# ---------------------------------------------------------------- content that is decoded


def decoded(reader: Reader, key: str, value: str | None) -> object:
    record = Record(0, 0, bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    return record_of(reader, record, is_control=True)["decoded"]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("0000 0000", "0000 00000007", {"type": "ABORT", "coordinator_epoch": 7}),
        ("0000 0001", "0000 ffffffff", {"type": "COMMIT", "coordinator_epoch": -1}),
        ("0000 0001", "0009 00000001 77", {"type": "COMMIT", "coordinator_epoch": 1}),
        ("0001 0001", "0000 00000001", {"type": "COMMIT", "coordinator_epoch": 1}),
        ("0000 0004", "0000 00", {"type": "SNAPSHOT_FOOTER", "data": {"version": 0}}),
        ("0000 0004", "0000 01 09 02 ffff", {"type": "SNAPSHOT_FOOTER", "data": {"version": 0}}),  # an unknown tag
        ("0000 0005", "0000 0001 00", {"type": "KRAFT_VERSION", "data": {"version": 0, "kRaftVersion": 1}}),
        ("0000 0005", None, {"type": "KRAFT_VERSION", "type_id": 5}),
        ("0000 0063", "00", {"type": "UNKNOWN", "type_id": 99}),
    ],
)
def test_control_records_say_what_they_are(reader: Reader, key: str, value: str | None, shown: object) -> None:
    assert decoded(reader, key, value) == shown


@pytest.mark.parametrize(
    ("key", "value"), [("0000", "00"), ("ffff 0000", "0000 00000001"), ("0000 0000", "0000 00"), ("0000 0000", None)]
)
def test_of_control_records_that_cannot_be_read_it_says_why(reader: Reader, key: str, value: str | None) -> None:
    """Where kafka-dump-log dies; the lines after it are there all the same."""
    shown = decoded(reader, key, value)
    assert isinstance(shown, dict)
    assert list(shown) == ["error"]


def test_internal_topics_are_decoded_by_name(reader: Reader) -> None:
    key = bytes.fromhex("0001 0001 67 0001 74 00000003")
    value = bytes.fromhex("0003 0000000000000000 00000000 0000 0000000000000000")
    data = build_batch([Record(0, 0, key, value), Record(1, 0, b"\0", None)])
    _, record, odd = rows(reader, data, DumpForm(json_file="f", topic="__consumer_offsets"))
    assert record["decoded"]["key"]["data"] == {"group": "g", "topic": "t", "partition": 3}
    assert record["decoded"]["value"]["data"]["offset"] == 0
    assert odd["decoded"] == {"error": "Could not read version from key's buffer."}
    assert all("decoded" not in row for row in rows(reader, data))


def test_an_error_row_says_where_and_what() -> None:
    error = Corrupt("a reason", position=7, kafka_class="InvalidRecordException")
    assert json_line(error_row("f", error)) == (
        b'{"type":"error","file":"f","position":7,"detail":"a reason","kafka_class":"InvalidRecordException"}\n'
    )


# ---------------------------------------------------------------- long lines


@given(key=SOME_BYTES, value=SOME_BYTES, header=SOME_BYTES, name=st.binary(min_size=1), size=st.integers(1, 9))
def test_a_long_line_in_pieces_is_the_same(
    key: bytes | None, value: bytes | None, header: bytes | None, name: bytes, size: int
) -> None:
    data = build_batch([Record(0, 5, key, value, (Header(name, header), Header(b"h", None)))])
    batch = parse_batch(data)
    (record,) = batch.records()
    with patch.multiple(json_lines, LONG_BYTES=1, LONG_PIECE_BYTES=3 * size):
        line = record_line("t-0/0.log", batch, record)
        made = b"".join(line.walk()) if isinstance(line, LongLine) else line
    assert isinstance(line, LongLine) or not any((key, value, header))
    assert made == json_line(record_row("t-0/0.log", batch, record))


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("value", ["é\x01".encode() * 700_000, b"\xff\x01" * 700_000], ids=["utf8", "base64"])
def test_a_dump_of_long_records_is_the_same(value: bytes, codec: str, tmp_path: pathlib.Path) -> None:
    log = tmp_path / NAME
    log.write_bytes(build_batch([Record(n, 5, b"k", value) for n in range(2)], codec=codec) + MAGIC_0.data)
    words = ["dump-log", "--files", str(log), "--format", "json"]
    whole = run_here(words, tmp_path).out
    with (
        patch.object(log_lines, "LONG_TEXT_BYTES", 1 << 20),
        patch.object(LongLine, "walk", autospec=True, side_effect=LongLine.walk) as walk,
    ):
        assert run_here(words, tmp_path).out == whole
    assert walk.call_count == 2
