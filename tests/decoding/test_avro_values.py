"""Avro: the same values as fastavro reads, schemas found by id, topic, name and fingerprint, and hostile bytes."""

from __future__ import annotations

import base64
import io
import json
import math
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from klogtool.decoding.avro_values import AvroDecoder
from klogtool.decoding.bounds import FREE_ITEMS
from klogtool.decoding.record_values import PartDecoder
from klogtool.decoding.schemas import Schemas

NESTED = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "size", "type": "int"},
        {"name": "share", "type": "double"},
        {"name": "half", "type": "float"},
        {"name": "is_open", "type": "boolean"},
        {"name": "data", "type": "bytes"},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 4}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B", "C"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "below", "type": {"type": "array", "items": "Node"}},
        {"name": "next", "type": ["null", "Node"]},
    ],
}


def nodes(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "name": st.none() | st.text(),
            "size": st.integers(-(2**31), 2**31 - 1),
            "share": st.floats(),
            "half": st.floats(width=32),
            "is_open": st.booleans(),
            "data": st.binary(max_size=9),
            "sum": st.binary(min_size=4, max_size=4),
            "suit": st.sampled_from("ABC"),
            "counts": st.dictionaries(st.text(), st.integers(-(2**31), 2**31 - 1), max_size=3),
            "below": st.just([]) if below.is_empty else st.lists(below, max_size=2),
            "next": st.none() | below,
        }
    )


NODES = st.recursive(nodes(st.nothing()), nodes, max_leaves=4)
FOLDER = "schemas"


def folder(**schemas: Any) -> Schemas:
    """`_17` is the file 17.avsc; two underscores are a dash, three a dot."""
    names = {name.lstrip("_").replace("___", ".").replace("__", "-"): schema for name, schema in schemas.items()}
    return Schemas(FOLDER, {f"{name}.avsc": json.dumps(schema).encode() for name, schema in names.items()})


def piece_of(schemas: Schemas, *, is_key: bool = False) -> PartDecoder:
    return PartDecoder("avro", AvroDecoder(schemas, is_key=is_key))


def encoded(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return sink.getvalue()


def value_of(schemas: Schemas, data: bytes, topic: str | None = "orders") -> Any:
    found = piece_of(schemas).decoded(data, topic)
    assert found.reading is not None, found.failure
    return found.reading.value


def failure_of(schemas: Schemas, data: bytes, topic: str | None = "orders") -> str | None:
    return piece_of(schemas).decoded(data, topic).failure


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def as_shown(value: Any) -> Any:
    """What fastavro reads, as klogtool shows it."""
    if isinstance(value, bytes):
        try:
            return {"utf8": value.decode()}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: as_shown(item) for key, item in value.items()}
    return [as_shown(item) for item in value] if isinstance(value, list) else value


def with_floats_of_32_bits(value: Any) -> Any:
    """A value read back as fastavro has it: its floats are doubles of the same 32 bits."""
    import struct

    if isinstance(value, dict):
        row = {key: with_floats_of_32_bits(item) for key, item in value.items()}
        if isinstance(row.get("half"), float):
            row["half"] = struct.unpack(">f", struct.pack(">f", row["half"]))[0]
        return row
    return [with_floats_of_32_bits(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@given(NODES)
def test_a_value_is_what_fastavro_reads(value: Any) -> None:
    data = encoded(NESTED, value)
    read = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(json.loads(json.dumps(NESTED))), None)
    assert with_floats_of_32_bits(value_of(folder(_17=NESTED), framed(17, data))) == as_shown(read)


LOGICAL: list[tuple[Any, bytes, Any]] = [
    ({"type": "int", "logicalType": "date"}, b"\x02", "1970-01-02"),
    ({"type": "int", "logicalType": "time-millis"}, b"\x02", "00:00:00.001"),
    ({"type": "long", "logicalType": "time-micros"}, b"\x02", "00:00:00.000001"),
    ({"type": "long", "logicalType": "timestamp-millis"}, b"\x01", "1969-12-31T23:59:59.999Z"),
    ({"type": "long", "logicalType": "timestamp-nanos"}, b"\x02", "1970-01-01T00:00:00.000000001Z"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, b"\x02", "1970-01-01T00:00:00.000001"),
    ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\x01", 2**63 - 1),
    ({"type": "int", "logicalType": "time-millis"}, b"\x01", -1),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x02\xff", "-0.01"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\x04\x01\x00", "256"),
    ({"type": "string", "logicalType": "uuid"}, b"\x02a", "a"),
    ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, b"\1\0\0\0\2\0\0\0\3\0\0\0",
     {"months": 1, "days": 2, "millis": 3}),
    ({"type": "long", "logicalType": "no-such-type"}, b"\x02", 1),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "data", "shown"), LOGICAL)
def test_a_logical_type_is_shown_as_people_read_it(schema: Any, data: bytes, shown: Any) -> None:
    assert value_of(folder(_1=schema), framed(1, data)) == shown


ADDRESS = {"type": "record", "name": "Address", "namespace": "com.acme", "fields": [{"name": "city", "type": "string"}]}
WITH_ADDRESS = {
    "type": "record", "name": "Order", "namespace": "com.acme",
    "fields": [{"name": "to", "type": "Address"}, {"name": "back", "type": ["null", "com.acme.Address"]}],
}  # fmt: skip


def test_a_schema_may_refer_to_another_file() -> None:
    data = framed(17, b"\x02a" + b"\x02\x02b")
    both = folder(_17=WITH_ADDRESS, com___acme___Address=ADDRESS)
    assert value_of(both, data) == {"to": {"city": "a"}, "back": {"city": "b"}}
    told = "17.avsc refers to com.acme.Address, and schemas has no com.acme.Address.avsc"
    assert failure_of(folder(_17=WITH_ADDRESS), data) == told


def test_schemas_that_refer_to_each_other_are_told() -> None:
    a = {"type": "record", "name": "a", "fields": [{"name": "b", "type": "b"}]}
    b = {"type": "record", "name": "b", "fields": [{"name": "a", "type": "a"}]}
    assert "refers to itself" in str(failure_of(folder(a=a, b=b, _1=a), framed(1, b"")))


def test_where_a_schema_comes_from() -> None:
    by_id, by_topic = folder(_17="string"), folder(orders__value="long", orders__key="int")
    assert value_of(by_id, framed(17, b"\x02a")) == "a"
    assert value_of(by_topic, b"\x02") == 1
    assert value_of(by_topic, b"\0") == 0
    found = piece_of(by_topic, is_key=True).decoded(b"\x02", "orders")
    assert found.reading is not None
    assert found.reading.schema == "orders-key.avsc"
    assert failure_of(by_id, framed(18, b"")) == "no schema 18 in schemas"
    assert failure_of(by_id, b"\x02a") == "no schema id before it, and no orders-value.avsc in schemas"
    assert failure_of(by_topic, b"\x02", None) == "no schema id before it, and its topic is not known"
    # With numbers in the folder, a zero byte is the beginning of an id, whatever the topic's schema says.
    assert failure_of(folder(_17="string", orders__value="bytes"), framed(18, b"")) == "no schema 18 in schemas"
    assert value_of(folder(_17="string", orders__value="long"), b"\x02") == 1


def test_other_framings() -> None:
    apicurio = b"\0" + (5_000_000_000).to_bytes(8, "big") + b"\x02a"
    unknown = b"\0" + (18).to_bytes(8, "big") + b"\x02a"
    assert failure_of(folder(_17="string"), unknown) == "no schema 18 in schemas (an id of Apicurio)"
    assert value_of(folder(_17="string"), b"\0" + (17).to_bytes(8, "big") + b"\x02a") == "a"
    assert failure_of(folder(_17="string"), apicurio) == "no schema 1 in schemas"  # it looks like one of Confluent
    glue = bytes.fromhex("0300" + "6f1c7a52000000000000000000000001") + b"\x02a"
    named = Schemas(FOLDER, {"6f1c7a52-0000-0000-0000-000000000001.avsc": b'"string"'})
    assert value_of(named, glue) == "a"
    assert failure_of(named, b"\x03\x05" + glue[2:]) == "compressed by AWS Glue's serializer"
    told = "no schema 6f1c7a52-0000-0000-0000-000000000001 in schemas (an id of AWS Glue)"
    assert failure_of(folder(_17="string"), glue) == told


def test_single_object_encoding() -> None:
    schema = fastavro.parse_schema(json.loads(json.dumps(ADDRESS)))
    form = fastavro.schema.to_parsing_canonical_form(schema)
    # The order of the bytes is that of the specification: little-endian. fastavro gives them in that order.
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))
    data = b"\xc3\x01" + fingerprint + b"\x02a"
    assert value_of(folder(com___acme___Address=ADDRESS), data) == {"city": "a"}


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        ("string", b"", "1 bytes are wanted at byte 0, 0 are left"),
        ("string", b"\xfe\xff\xff\xff\x0f", "2,147,483,647 bytes are wanted at byte 5, 0 are left"),
        ("bytes", b"\x01", "the length before byte 1 is -1"),
        ("string", b"\x02\xff", "the text before byte 2 is not UTF-8"),
        ("long", b"\xff" * 12, "a number at byte 0 has no end"),
        ("long", b"\xff" * 9 + b"\x7f", "a number before byte 10 has more than 64 bits"),
        ("int", b"\x80\x80\x80\x80\x10", "a number before byte 5 has more than 32 bits"),
        ("boolean", b"\x02", "byte 0 is no boolean"),
        ("int", b"\x02\x02", "1 bytes are left behind the value"),
        (["null", "int"], b"\x04", "branch 2, there are 2"),
        (["null", "int"], b"\x01", "branch -1, there are 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "symbol 1, there are 1"),
        (
            {"type": "fixed", "name": "F", "size": 2**40},
            b"",
            "1,099,511,627,776 bytes are wanted at byte 0, 0 are left",
        ),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f", "too large to decode: more than 4,136 items"),
        ({"type": "array", "items": "null"}, b"\xff\xff\xff\xff\x0f\x02", "too large to decode: more than 4,144 items"),
        ({"type": "map", "values": "null"}, b"\x04\x02a\x02a\x00", "a key is twice in a map"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "nested deeper than 100"),
    ],
)
def test_a_value_that_is_not_one_has_a_reason(schema: Any, payload: bytes, reason: str) -> None:
    assert failure_of(folder(_1=schema), framed(1, payload)) == reason


def test_a_schema_whose_values_grow_without_bytes_is_bounded() -> None:
    """Each level doubles the number of items, and none of them has a byte."""
    fields: Any = "null"
    for level in range(30):
        fields = {"type": "record", "name": f"R{level}", "fields": [
            {"name": "a", "type": fields}, {"name": "b", "type": f"R{level - 1}" if level else "null"},
        ]}  # fmt: skip
    assert failure_of(folder(_1=fields), framed(1, b"")) == f"too large to decode: more than {FREE_ITEMS:,} items"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "1.avsc is not JSON at line 1"),
        (b"\xff", "1.avsc is not UTF-8 at byte 0"),
        (b'{\n"type":\n', "1.avsc is not JSON at line 3"),
        (b"[" * 100_000, "1.avsc is not JSON"),
        (b"[" * 300 + b'"int"' + b"]" * 300, "1.avsc is nested too deeply for a schema"),
        (b'{"type":"rekord"}', "1.avsc is no schema of Avro"),
        (b'"rekord"', "1.avsc refers to rekord, and schemas has no rekord.avsc"),
        (b'{"type":"record","name":"R","fields":3}', "1.avsc is no schema of Avro"),
        (b"{}", "1.avsc is no schema of Avro"),
        (b"12", "1.avsc is no schema of Avro"),
        (b'{"type":"fixed","name":"F","size":"x"}', "1.avsc is no schema of Avro"),
        (b'{"type":"enum","name":"E","symbols":[[1]]}', "1.avsc is no schema of Avro"),
    ],
)
def test_a_schema_that_is_none_is_told(text: bytes, told: str) -> None:
    schemas = Schemas(FOLDER, {"1.avsc": text})
    assert str(failure_of(schemas, framed(1, b"\x02"))).startswith(told)


SCHEMA_BYTES = json.dumps(NESTED).encode()


@given(value=NODES, at=st.integers(0, 1 << 16), byte=st.integers(0, 255), cut=st.integers(0, 1 << 16))
def test_a_damaged_value_never_ends_in_an_error(value: Any, at: int, byte: int, cut: int) -> None:
    data = bytearray(encoded(NESTED, value))
    data[at % len(data)] = byte
    found = piece_of(folder(_1=NESTED)).decoded(framed(1, bytes(data[: cut % (len(data) + 1)])), "t")
    json.dumps(found.row(), allow_nan=False)


@given(at=st.integers(0, len(SCHEMA_BYTES) - 1), text=st.binary(max_size=8), data=st.binary(max_size=60))
def test_a_damaged_schema_never_ends_in_an_error(at: int, text: bytes, data: bytes) -> None:
    damaged = SCHEMA_BYTES[:at] + text + SCHEMA_BYTES[at + len(text) :]
    assume(damaged != SCHEMA_BYTES)
    found = piece_of(Schemas(FOLDER, {"1.avsc": damaged})).decoded(framed(1, data), "t")
    json.dumps(found.row(), allow_nan=False)
