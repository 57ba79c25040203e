"""Protobuf: messages by index, with what they import, unknown fields, and hostile bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st
from running import ROOT

from klogtool.decoding.protobuf_values import MOST_PROTOBUF_BYTES, ProtobufDecoder, parse_indexes
from klogtool.decoding.record_values import PartDecoder
from klogtool.decoding.schemas import PROTOBUF, Schemas, read_schemas
from klogtool.errors import Corrupt
from klogtool.render.decoded_text import decoded_text

VISITS = (ROOT / "docs/examples/values/schemas/21.desc").read_bytes()


def piece_of(files: dict[str, bytes]) -> PartDecoder:
    return PartDecoder("protobuf", ProtobufDecoder(Schemas("schemas", files, PROTOBUF), is_key=False))


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def value_of(files: dict[str, bytes], data: bytes) -> Any:
    found = piece_of(files).decoded(data, "visits")
    assert found.reading is not None, found.failure
    return found.reading.value


def failure_of(files: dict[str, bytes], data: bytes) -> str | None:
    return piece_of(files).decoded(data, "visits").failure


def event_set(*, with_timestamp: bool = False) -> bytes:
    """A message Outer with a message Inner in it, whose field is a timestamp of Protobuf's own."""
    found: Any = FileDescriptorSet()
    if with_timestamp:
        from google.protobuf import timestamp_pb2

        found.file.add().ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = found.file.add(name="event.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    outer = file.message_type.add(name="Outer")
    outer.nested_type.add(name="First")
    inner = outer.nested_type.add(name="Inner")
    inner.field.add(name="at", number=1, type=Field.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp")
    inner.field.add(name="more", number=2, type=Field.TYPE_MESSAGE, label=3, type_name=".p.Outer.Inner")
    inner.field.add(name="share", number=3, type=Field.TYPE_DOUBLE, label=1)
    data: bytes = found.SerializeToString()
    return data


@pytest.mark.parametrize("with_timestamp", [True, False])
def test_a_message_inside_a_message_with_an_import(with_timestamp: bool) -> None:
    files = {"5.pb": event_set(with_timestamp=with_timestamp)}
    data = framed(5, b"\x04\x00\x02" + b"\x0a\x02\x08\x01" + b"\x12\x00")
    assert value_of(files, data) == {"at": "1970-01-01T00:00:01Z", "more": [{}]}
    found = piece_of(files).decoded(data, "t")
    assert found.reading is not None
    assert found.reading.schema == "5.pb:p.Outer.Inner"


def test_numbers_that_json_does_not_have_are_text() -> None:
    data = framed(5, b"\x04\x00\x02" + b"\x19\0\0\0\0\0\0\xf0\x7f")
    assert value_of({"5.pb": event_set()}, data) == {"share": "Infinity"}


def test_by_topic_the_whole_value_is_the_first_message() -> None:
    assert value_of({"visits-value.desc": VISITS}, b"\n\x05/home") == {"page": "/home"}


def test_unknown_fields_are_counted() -> None:
    found = piece_of({"21.desc": VISITS}).decoded(framed(21, b"\0" + b"\n\x01/" + b"\x7a\x03abc"), "visits")
    assert found.row()["unknown_bytes"] == 5
    assert decoded_text(found) == '{"page":"/"} (and 5 bytes of unknown fields)'


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (framed(22, b""), "no schema 22 in schemas"),
        (framed(21, b""), "it ends inside the message indexes"),
        (framed(21, b"\xff" * 6), "a message index has no end"),
        (framed(21, b"\xff\xff\xff\xff\x0f"), "-2147483648 message indexes"),
        (framed(21, b"\x02\x08"), "21.desc has no message 4"),
        (framed(21, b"\x04\x00\x00"), "21.desc has no message 0.0"),
        (framed(21, b"\x02\x01"), "21.desc has no message -1"),
        (framed(21, b"\0\n\x05"), "not the Protobuf of 21.desc"),
        (framed(21, b"\0\n\x01\xff"), "not the Protobuf of 21.desc"),
        (framed(21, b"\0" + b"\x0b" * 200), "not the Protobuf of 21.desc"),
        (b"\n\x05/home", "no schema id before it, and no visits-value.desc in schemas"),
        (framed(21, bytes(MOST_PROTOBUF_BYTES)), "more than 4 MiB of Protobuf"),
    ],
)
def test_a_value_that_is_no_message_has_a_reason(data: bytes, told: str) -> None:
    assert str(failure_of({"21.desc": VISITS}, data)).startswith(told)


def test_messages_nested_without_end_are_refused() -> None:
    data = b""
    for _ in range(101):
        data = (
            b"\x12"
            + (len(data).to_bytes(1, "big") if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7]))
            + data
        )
    assert str(failure_of({"5.pb": event_set()}, framed(5, b"\x04\x00\x02" + data))).startswith("not the Protobuf of")


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (b"", "1.desc is a descriptor set without messages"),
        (b"\xff", "1.desc is no descriptor set of Protobuf"),
        (b"\n\x02\n\0", "1.desc is"),
    ],
)
def test_a_schema_that_is_none_is_told(schema: bytes, told: str) -> None:
    assert str(failure_of({"1.desc": schema}, framed(1, b"\0"))).startswith(told)


def test_a_missing_import_is_told() -> None:
    found: Any = FileDescriptorSet()
    file = found.file.add(name="a.proto", syntax="proto3")
    file.dependency.append("b.proto")
    file.message_type.add(name="A").field.add(name="b", number=1, type=Field.TYPE_MESSAGE, label=1, type_name=".B")
    told = failure_of({"1.desc": found.SerializeToString()}, framed(1, b"\0"))
    assert str(told).startswith("1.desc is no descriptor set of Protobuf")


def test_indexes() -> None:
    assert parse_indexes(b"\0rest") == ((0,), b"rest")
    assert parse_indexes(b"\x04\x02\x00rest") == ((1, 0), b"rest")
    with pytest.raises(Corrupt, match="101 message indexes"):
        parse_indexes(b"\xca\x01")


def test_a_folder_is_read_once_and_has_both_kinds() -> None:
    schemas = read_schemas(str(ROOT / "docs/examples/values/schemas"))
    assert sorted(schemas.files) == ["17.avsc", "21.desc", "com.acme.Address.avsc"]
    assert list(schemas.of(PROTOBUF).files) == ["21.desc"]


@given(data=st.binary(max_size=80), at=st.integers(0, len(VISITS) - 1), byte=st.integers(0, 255))
def test_damage_never_ends_in_an_error(data: bytes, at: int, byte: int) -> None:
    damaged = VISITS[:at] + bytes([byte]) + VISITS[at + 1 :]
    for files in ({"1.desc": VISITS}, {"1.desc": damaged}):
        found = piece_of(files).decoded(framed(1, b"\0" + data), "t")
        json.dumps(found.row(), allow_nan=False)
