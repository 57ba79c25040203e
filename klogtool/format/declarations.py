"""Declarations with fields of variable size: records of a batch, their headers, key and value of a message."""

from __future__ import annotations

from construct import Bytes, If, Int8sb, Int32sb, Struct, this

from klogtool.format.varint import Varint, VarintBytes, Varlong

RECORD = Struct(
    "attributes" / Int8sb,
    "timestamp_delta" / Varlong,
    "offset_delta" / Varint,
    "key" / VarintBytes(),
    "value" / VarintBytes(),
)
HEADER = Struct("key" / VarintBytes(null=False), "value" / VarintBytes())
SIZED_BYTES = Struct("size" / Int32sb, "bytes" / If(this.size >= 0, Bytes(this.size)))
