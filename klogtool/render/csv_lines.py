"""Records as rows of CSV (RFC 4180): the reference for the kernel, which writes the same bytes.

Columns have the names and the order of Arrow's (render/record_columns). A null is a field with nothing in it, an empty
value is `""`: text is always quoted. Bytes that are no text are `\\x` and hex digits, as PostgreSQL writes a bytea. So
are bytes that begin with `\\x`, so that every field has one meaning.

This is the reference of kernels/_csv.pxi: change a rule in both places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from klogtool.format.batch import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, NO_TIMESTAMP_TYPE, Record, RecordBatch
from klogtool.format.message import Message
from klogtool.format.text import java_bool, java_utf8
from klogtool.render.json_lines import LONG_BYTES, LongLine, is_utf8, json_bytes_or_long, walk_chunks, walk_json
from klogtool.render.record_columns import COLUMN_TYPES

HEADING = (",".join(COLUMN_TYPES) + "\r\n").encode()
TIMESTAMP_TYPE_IDS = {NO_TIMESTAMP_TYPE: -1, CREATE_TIME: 0, LOG_APPEND_TIME: 1}
HEX = b"\\x"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class CsvPlace(Struct, frozen=True):
    """The columns with one value for a whole file, as bytes. before_offset: topic and partition; before_position: the
    file's name. Each has the commas around it."""

    before_offset: bytes
    before_position: bytes

    @classmethod
    def of(cls, topic: str | None, partition: int | None, segment: str | None) -> CsvPlace:
        """Return the columns of a file."""
        number = b"" if partition is None else b"%d" % partition
        return cls(b",%b,%b," % (_name(topic), number), b",%b," % _name(segment))


def _name(name: str | None) -> bytes:
    return csv_value(None if name is None else os.fsencode(name))


def csv_row(place: CsvPlace, batch: RecordBatch | Message, record: Record) -> bytes | LongLine:
    """Return a record's row; a LongLine if it is long."""
    headers = sum(len(header.key) + len(header.value or b"") for header in record.headers)
    size = max(record.key_size, 0) + max(record.value_size, 0) + headers
    if size >= LONG_BYTES:
        return LongLine(size, partial(walk_row, place, batch, record))
    return b"".join(walk_row(place, batch, record))


def walk_row(place: CsvPlace, batch: RecordBatch | Message, record: Record) -> Iterator[bytes]:
    """Yield a record's row in pieces."""
    yield from walk_value(record.key)
    yield b","
    yield from walk_value(record.value)
    yield place.before_offset
    timestamp = b"" if record.timestamp == NO_TIMESTAMP else b"%d" % record.timestamp
    yield b"%d,%b,%d," % (record.offset, timestamp, TIMESTAMP_TYPE_IDS[batch.timestamp_type])
    if record.headers:
        yield b'"'
        for chunk in walk_json([[java_utf8(h.key), json_bytes_or_long(h.value)] for h in record.headers]):
            yield chunk.replace(b'"', b'""')
        yield b'"'
    yield place.before_position
    own_offset = batch.last_offset if batch.codec == "none" else None
    base_offset = getattr(batch, "base_offset", own_offset)
    lineage = (
        batch.position,
        "" if base_offset is None else base_offset,
        batch.producer_id,
        batch.producer_epoch,
        record.sequence,
        java_bool(batch.is_control),
        java_bool(batch.is_transactional),
        batch.codec,
        java_bool(batch.crc_valid and record.crc_valid is not False),
        batch.partition_leader_epoch,
    )
    yield (",".join(map(str, lineage)) + "\r\n").encode()


def csv_value(data: bytes | None) -> bytes:
    """Return a field: text in quotes, or hex; nothing for a null."""
    return b"".join(walk_value(data))


def walk_value(data: bytes | None) -> Iterator[bytes]:
    """Yield what `csv_value` returns, in pieces."""
    if data is None:
        return
    is_text = not data.startswith(HEX) and _CONTROL.search(data) is None and is_utf8(data)
    yield b'"' if is_text else b'"' + HEX
    for chunk in walk_chunks(data):
        yield bytes(chunk).replace(b'"', b'""') if is_text else chunk.hex().encode()
    yield b'"'
