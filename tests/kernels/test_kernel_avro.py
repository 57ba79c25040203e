"""JSON of Avro: the kernel makes the same as the reference, or nothing, and nothing of what the reference refuses."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.decoding.avro_programs import build_program
from klogtool.decoding.avro_schemas import parse_avro_schema
from klogtool.decoding.avro_values import read_avro
from klogtool.decoding.decoded import json_text
from klogtool.decoding.schemas import Schemas
from klogtool.errors import Corrupt

pytestmark = pytest.mark.usefixtures("native")

LONG_DAYS = st.integers(-(10**12), 10**12)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("bytes", st.binary(max_size=40)),
    ("string", st.text(max_size=40)),
    ({"type": "string"}, st.text("aé\x7f\u202e\"\\\n\0", max_size=9)),
    ({"type": "int", "logicalType": "date"}, st.integers(-800_000, 3_000_000)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(-5, 86_400_005)),
    ({"type": "long", "logicalType": "time-micros"}, st.integers(-5, 86_400_000_005)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-63 * 10**12, 254 * 10**12)),
    ({"type": "long", "logicalType": "timestamp-micros"}, LONG_DAYS),
    ({"type": "long", "logicalType": "timestamp-nanos"}, st.integers(-(2**63), 2**63 - 1)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, LONG_DAYS),
    ({"type": "long", "logicalType": "no-such"}, LONG_DAYS),
    ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}, st.binary(max_size=9)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9}, st.binary(max_size=8)),
    ({"type": "bytes", "logicalType": "uuid"}, st.binary(min_size=16, max_size=16)),
]  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, names: str = "") -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema without its logical types' readers, and a strategy of its raw values."""
    kind = (
        draw(st.sampled_from(("leaf", "leaf", "record", "array", "map", "union", "enum", "fixed"))) if depth else "leaf"
    )
    name = f"N{names}"
    if kind == "record":
        inner = [draw(schemas(depth - 1, f"{names}{n}")) for n in range(draw(st.integers(0, 3)))]
        fields = [{"name": f"f{n}", "type": schema} for n, (schema, _) in enumerate(inner)]
        values = st.fixed_dictionaries({f"f{n}": value for n, (_, value) in enumerate(inner)})
        return {"type": "record", "name": name, "fields": fields}, values
    if kind == "array":
        schema, value = draw(schemas(depth - 1, f"{names}a"))
        return {"type": "array", "items": schema}, st.lists(value, max_size=3)
    if kind == "map":
        schema, value = draw(schemas(depth - 1, f"{names}m"))
        return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=3), value, max_size=3)
    if kind == "union":
        schema, value = draw(schemas(0, f"{names}u"))
        return (schema, value) if schema == "null" else (["null", schema], st.none() | value)
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B_2"]}, st.sampled_from(("A", "B_2"))
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": 4}, st.binary(min_size=4, max_size=4)
    return draw(st.sampled_from(LEAVES))


def without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: without_logical_types(one) for name, one in schema.items() if name != "logicalType"}
    return [without_logical_types(one) for one in schema] if isinstance(schema, list) else schema


def encoded(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(without_logical_types(schema)), value)
    return sink.getvalue()


def parsed(schema: Any) -> Any:
    return parse_avro_schema(Schemas("schemas", {"1.avsc": json.dumps(schema).encode()}), "1.avsc")


def kernel_says(schema: Any, data: bytes) -> str | None:
    """What the kernel makes of bytes, which is what the reference makes of them, or nothing."""
    program = build_program(parsed(schema))
    text = None if program is None else program.text(data)
    if text is not None:
        assert text == json_text(read_avro(parsed(schema), data))
    return text


@given(st.data())
def test_a_value_has_the_text_of_the_reference_and_so_has_damage(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    whole = encoded(schema, data.draw(values))
    kernel_says(schema, whole)
    for cut in range(len(whole)):
        kernel_says(schema, whole[:cut])
    kernel_says(schema, whole + b"\0")
    for at in range(min(len(whole), 20)):
        kernel_says(schema, whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :])


ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "by", "type": ["null", "string"]},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "share", "type": "double"},
        {"name": "half", "type": "float"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "parent", "type": ["null", "Order"]},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 4}},
    ],
}  # fmt: skip


def test_everyday_values_are_the_kernels_own() -> None:
    order = {"id": 7, "by": "Zoë", "total": b"\xff", "at": -1, "share": 0.1, "half": 0.5, "tags": ["a", 'b"'],
             "counts": {"x": -2, "y": 3}, "parent": None, "suit": "B", "sum": b"\xff\0\0\0"}  # fmt: skip
    text = kernel_says(ORDER, encoded(ORDER, order | {"parent": order}))
    assert text is not None
    read = json.loads(text)
    assert read["at"] == "1969-12-31T23:59:59.999Z"
    assert read["total"] == "-0.01"
    assert read["parent"]["by"] == "Zoë"


CHAIN = {"type": "record", "name": "R", "fields": [{"name": "r", "type": {"type": "array", "items": "R"}}]}


@pytest.mark.parametrize("levels", [1, 10, 21, 22, 23, 60])
def test_a_value_nested_deeper_than_the_kernel_goes_is_for_the_reference(levels: int) -> None:
    data = b"\x02" * levels + b"\0" * (levels + 1)
    assert (kernel_says(CHAIN, data) is None) == (levels >= 22)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "array", "items": "null"}, b"\xfe" + b"\xff" * 8 + b"\x01"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x20\0"),
        ({"type": "array", "items": "null"}, b"\xff" * 9 + b"\x01\0\0"),
        (
            {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A" * 60_000]}},
            b"\x80\x02" + bytes(129),
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b""),
        ({"type": "record", "name": "R", "fields": [{"name": n, "type": ["null", "R"]} for n in "ab"]}, b"\x02" * 99),
        ({"type": "map", "values": "null"}, b"\x04\x02a\x02a\x00"),
        (["null", "int"], b"\x01"),
        ("boolean", b"\x02"),
        ("long", b"\xff" * 9 + b"\x7f"),
        ("int", b"\x80\x80\x80\x80\x10"),
        ("string", b"\x01"),
        ({"type": "fixed", "name": "F", "size": 2**40}, b""),
        ({"type": "fixed", "name": "F", "size": 2**80}, b""),
    ],
)
def test_what_the_reference_refuses_has_no_text(schema: Any, data: bytes) -> None:
    with pytest.raises(Corrupt):
        read_avro(parsed(schema), data)
    assert kernel_says(schema, data) is None
