"""Values that ask for much more memory than they have bytes, in a process that has little."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from raw_batches import build_batch
from running import ROOT, run_apart, with_memory

from klogtool.decoding.bounds import FREE_ITEMS, FREE_TEXT_BYTES, ITEMS_PER_BYTE, TEXT_PER_BYTE
from klogtool.decoding.formats import find_decoder
from klogtool.decoding.record_values import PartDecoder
from klogtool.decoding.schemas import Schemas, read_schemas
from klogtool.escape import escaped_json
from klogtool.format.batch import Record
from klogtool.render.decoded_text import decoded_text

MEMORY_BYTES = 1 << 30
SCHEMAS = {
    "1.avsc": {"type": "array", "items": "null"},
    "2.avsc": {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
    "3.avsc": {"type": "map", "values": {"type": "array", "items": "string"}},
    "4.avsc": {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}, {"name": "s", "type": "R"}]},
}


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


VALUES = {
    "json": [b"[" + b"[]," * (5 << 20) + b"[]]", b'{"a":' * 100_000, b'"' + b"\\u0000" * (1 << 20) + b'"', b"9" * 4301],
    "msgpack": [
        b"\xdd\x00\x0f\xff\xff" * 200_000,
        b"\xdc\xff\xff" + b"\x90" * 65535,
        b"\x81" * 1_000_000,
        b"\x90" * 99,
    ],
    "avro": [
        framed(1, b"\xfe" + b"\xff" * 8 + b"\x01"),
        framed(2, b"\xfe\xff\xff\xff\x0f"),
        framed(3, b"\xfe\xff\xff\xff\x0f" + b"\xfe\xff\xff\xff\x0f"),
        framed(3, b"\x01\xff\xff\xff\xff\x0f\x02" * 1000),
        framed(4, b""),
        framed(1, b"\x80\x80\x20" * 1000),
    ],
    "protobuf": [framed(21, b"\0" + b"\x1a\0" * (1 << 20)), framed(21, b"\0" + b"\n\xff\xff\xff\xff\x0f"), b"\0" * 6],
    "string": [b"\xed\xa0\x80" * (1 << 17), b"\x1b" * (1 << 17)],
}


@pytest.mark.parametrize(("form", "output"), [*((form, "json") for form in VALUES), ("string", "text")])
def test_memory_is_bounded(form: str, output: str, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.parent.mkdir()
    batches = [build_batch([Record(n, n, None, value)], base_offset=n) for n, value in enumerate(VALUES[form])]
    log.write_bytes(b"".join(batches))
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    for name, schema in SCHEMAS.items():
        (schemas / name).write_text(json.dumps(schema))
    (schemas / "21.desc").write_bytes((ROOT / "docs/examples/values/schemas/21.desc").read_bytes())
    ways = ("--value-format", form, "--schemas", schemas, "--format", output)
    done = run_apart("dump-log", log, *ways, before=with_memory(MEMORY_BYTES))
    assert "Traceback" not in done.err
    assert done.status == 0, done.err
    assert done.out.count(b"payload: " if output == "text" else b'"value_decoded":{') == len(VALUES[form])


N = 4000
MOST_CALLS = 12  # of functions for one item
BOMBS = {
    "10.avsc": [
        {"type": "record", "name": f"R{n}", "fields": [{"name": at, "type": f"R{n + 1}"} for at in "ab"]}
        for n in range(40)
    ],
    "11.avsc": {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A" * 100_000]}},
    "12.avsc": {
        "type": "array",
        "items": {"type": "bytes", "logicalType": "decimal", "precision": 9999, "scale": 9999},
    },
    "13.avsc": {
        "type": "array",
        "items": {"type": "record", "name": "L", "fields": [{"name": "A" * 50_000, "type": "boolean"}]},
    },
    "14.avsc": {"type": "record", "name": "W", "fields": [{"name": "x", "type": {"type": "array", "items": "W"}}]},
    "15.avsc": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
}
_BLOCK = b"\xc0\x3e"  # 4,000 items
GROWING = {
    "avro": [
        framed(10, b""),
        *(framed(n, _BLOCK + bytes(N) + b"\0") for n in (11, 12, 13, 14)),
        framed(15, b"\x80\x80\x20\0"),
        framed(1, b"\x80\x80\x20\0"),
    ],
    "msgpack": [
        b"\xdd\x00\x00\x0f\xa0" + item * N
        for item in (b"\x90", b"\x80", b"\xd4\x01\x01", b"\xc4\x01\xff", b"\x91" * 90 + b"\xc0", b"\xa2\xc2\x80")
    ],
    "json": [
        b"[" + b",".join([item] * N) + b"]"
        for item in (b"{}", b'{"a":[[]]}', b"9" * 4000, b"1e300", b'"\\u0080"', "\u0080".encode().join((b'"', b'"')))
    ],
    "protobuf": [framed(21, b"\0" + item * N) for item in (b"\x1a\0", b"\x0a\0", b"\x1a\1a")]
    + [framed(22, b"\0" + item * N) for item in (b"\x1a\0", b"\x1a\x02\x1a\0", b"\x22\0", b"\x12\0", b"\x2a\0")],
    "string": [b"\xed\xa0\x80" * N, b"\xc2\x80" * N],
    "hex": [bytes(N)],
}


def schemas_of_bombs(folder: pathlib.Path) -> Schemas:
    import google.protobuf.struct_pb2
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    for name, schema in (SCHEMAS | BOMBS).items():
        chain = [*schema] if isinstance(schema, list) else [schema]
        for n, one in enumerate(chain):
            (folder / (f"R{n}.avsc" if n else name)).write_text(json.dumps(one))
    (folder / "R40.avsc").write_text(json.dumps({"type": "record", "name": "R40", "fields": []}))
    (folder / "21.desc").write_bytes((ROOT / "docs/examples/values/schemas/21.desc").read_bytes())
    found: Any = FileDescriptorSet()
    found.file.add().ParseFromString(google.protobuf.struct_pb2.DESCRIPTOR.serialized_pb)
    file = found.file.add(name="tree.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/struct.proto")
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="any", number=2, type=Field.TYPE_MESSAGE, label=3, type_name=".google.protobuf.Struct")
    tree.field.add(name="below", number=3, type=Field.TYPE_MESSAGE, label=3, type_name=".p.Tree")
    tree.field.add(name="list", number=4, type=Field.TYPE_MESSAGE, label=3, type_name=".google.protobuf.ListValue")
    tree.field.add(name="B" * 50_000, number=5, type=Field.TYPE_MESSAGE, label=3, type_name=".p.Tree")
    (folder / "22.desc").write_bytes(found.SerializeToString())
    return read_schemas(str(folder))


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions are called."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.some(12)
@pytest.mark.parametrize(
    ("form", "number"), [(form, n) for form, values in GROWING.items() for n in range(len(values))]
)
def test_work_and_text_follow_from_the_size(form: str, number: int, tmp_path: pathlib.Path) -> None:
    """Each item takes some calls, and there are as many items as the size allows, whatever the value asks for."""
    data = GROWING[form][number]
    piece = PartDecoder(form, find_decoder(form, schemas_of_bombs(tmp_path), is_key=False))
    found = piece.decoded(data, "t")  # loads the schema
    again = []
    calls = calls_of(lambda: again.append(piece.decoded(data, "t")))
    assert calls <= MOST_CALLS * (FREE_ITEMS + ITEMS_PER_BYTE * len(data))
    assert again == [found]
    assert found.failure is None or found.failure.startswith("too large to decode: more than "), found.failure
    shown = decoded_text(found)
    assert len(shown) <= 6 * (FREE_TEXT_BYTES + TEXT_PER_BYTE * len(data))  # \u0080 for a character


@pytest.mark.parametrize("char", ["\x80", "\u200b", "\U000e0001", "\u00e9", "\n", "a"])
def test_text_is_escaped_without_a_call_for_each_character(char: str) -> None:
    assert calls_of(lambda: escaped_json(char * 10_000)) < 100


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: None, "no schemas in it"),
        (lambda folder: (folder / "1.avsc").mkdir(), "a folder, not a file"),
        (lambda folder: (folder / "1.avsc").symlink_to("/dev/zero"), "a device, not a file"),
        (lambda folder: (folder / "1.avsc").symlink_to("gone"), "a link to a file that is not there"),
        (lambda folder: (folder / "1.avsc").open("wb").truncate(5 << 20), "too large for a schema"),
        (lambda folder: folder.rmdir(), "no such file"),
        (lambda folder: (folder.rmdir(), folder.write_text("")), "not a directory"),
    ],
)
def test_a_folder_of_schemas_that_cannot_be_read_is_one_line(make: object, told: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "sche mas"
    folder.mkdir()
    assert callable(make)
    make(folder)
    log = ROOT / "docs/examples/values/logdir/orders-0"
    done = run_apart("dump-log", log, "--value-format", "avro", "--schemas", folder)
    assert told in done.told
    assert done.status in (2, 4)
    assert len(done.told.splitlines()) <= 2
