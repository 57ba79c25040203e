#!/usr/bin/env python3
"""Write the topics and schemas of docs/values.md: `make_values_example.py [DIR]`, default docs/examples/values.

The values are as the serializers of Kafka, Confluent and Protobuf write them. The same bytes every time.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from klogtool.format.batch import BatchOrigin, Record, build_batch

DEFAULT = pathlib.Path(__file__).resolve().parent.parent / "docs/examples/values"
START_MS = 1_700_000_000_000
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "com.acme",
    "fields": [{"name": "street", "type": "string"}, {"name": "city", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "com.acme",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "ship_to", "type": "com.acme.Address"},
    ],
}
VISITS = """syntax = "proto3";
package com.acme;

message Visit {
  string page = 1;
  int64 millis = 2;
  repeated string tags = 3;
}

message Leave {
  string page = 1;
}
"""


def varint(number: int) -> bytes:
    """A zigzag varint, as Avro writes numbers."""
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def text(value: str) -> bytes:
    """A text of Avro."""
    return varint(len(value.encode())) + value.encode()


def order(number: int, customer: str | None, cents: int, street: str, city: str) -> bytes:
    """A value of ORDER."""
    total = cents.to_bytes(cents.bit_length() // 8 + 1, "big")
    named = varint(0) if customer is None else varint(1) + text(customer)
    placed = varint(START_MS + 1000 * number)
    return varint(number) + named + varint(len(total)) + total + placed + text(street) + text(city)


def framed(number: int, payload: bytes) -> bytes:
    """A value behind the id of its schema, as Confluent's serializers write it."""
    return b"\0" + number.to_bytes(4, "big") + payload


def log_of(records: list[tuple[bytes | None, bytes | None]]) -> bytes:
    """A log with one batch."""
    kept = [Record(n, START_MS + n, key, value) for n, (key, value) in enumerate(records)]
    return build_batch(kept, BatchOrigin(partition_leader_epoch=0))


def topics() -> dict[str, list[tuple[bytes | None, bytes | None]]]:
    """Keys and values by topic."""
    orders = [
        (b"o-1", framed(17, order(1, "ann", 1999, "Main Street 5", "Springfield"))),
        (b"o-2", framed(17, order(2, None, 250, "Hill Road 1", "Ogdenville"))),
        (b"o-3", framed(18, b"\x06\x00")),
        (b"o-1", None),
        (b"o-4", b""),
    ]
    visits = [
        (b"ann", framed(21, b"\0" + b"\n\x05/home\x10\xe8\x07\x1a\x03new")),
        (b"ann", framed(21, b"\x02\x02" + b"\n\x05/home")),
    ]
    counts = [((7).to_bytes(4, "big"), (1 << 40).to_bytes(8, "big")), ((8).to_bytes(4, "big"), b"\0\x01")]
    profiles = [(b"ann", b'{"age": 31, "tags": ["new", "eu"]}'), (b"bob", b'{"age": NaN}')]
    moves = [(b"ann", b"\x82\xa1x\x01\xa1y\xcb?\xe0\0\0\0\0\0\0")]
    return {"orders": orders, "visits": visits, "counts": counts, "profiles": profiles, "moves": moves}


def descriptor_set() -> bytes:
    """What `protoc --include_imports --descriptor_set_out` makes of VISITS."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found: Any = FileDescriptorSet()
    file = found.file.add(name="visits.proto", package="com.acme", syntax="proto3")
    fields = {
        "Visit": [("page", Field.TYPE_STRING, 1), ("millis", Field.TYPE_INT64, 1), ("tags", Field.TYPE_STRING, 3)],
        "Leave": [("page", Field.TYPE_STRING, 1)],
    }
    for name, of in fields.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, label) in enumerate(of, 1):
            message.field.add(name=field, number=number, type=kind, label=label, json_name=field)
    data: bytes = found.SerializeToString(deterministic=True)
    return data


def write_example(folder: pathlib.Path) -> None:
    """Write all files."""
    for topic, records in topics().items():
        place = folder / "logdir" / f"{topic}-0"
        place.mkdir(parents=True, exist_ok=True)
        (place / "00000000000000000000.log").write_bytes(log_of(records))
    replica = folder / "replica" / "orders-0"
    replica.mkdir(parents=True, exist_ok=True)
    other = topics()["orders"]
    other[1] = (b"o-2", framed(17, order(2, None, 275, "Hill Road 1", "Ogdenville")))
    (replica / "00000000000000000000.log").write_bytes(log_of(other))
    schemas = folder / "schemas"
    schemas.mkdir(exist_ok=True)
    (schemas / "17.avsc").write_text(json.dumps(ORDER, indent=2) + "\n")
    (schemas / "com.acme.Address.avsc").write_text(json.dumps(ADDRESS, indent=2) + "\n")
    (schemas / "21.desc").write_bytes(descriptor_set())
    (schemas / "visits.proto").write_text(VISITS)


if __name__ == "__main__":
    write_example(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
