"""Batches and records as JSON lines: the reference for the kernel, which writes the same bytes.

Bytes are {"utf8": ...} if they are UTF-8, otherwise {"base64": ...}; null is null. A timestamp of -1 is null.

This is the reference of kernels/_json.pxi: change a rule in both places.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from klogtool.errors import KlogError
from klogtool.format.batch import NO_TIMESTAMP, Record, RecordBatch
from klogtool.format.control import ControlRecordType, parse_control_type_id, parse_end_transaction_marker
from klogtool.format.control_values import VALUE_MESSAGES, parse_control_value
from klogtool.format.internal.decoders import decode_json
from klogtool.format.internal.json_form import to_json
from klogtool.format.message import Message
from klogtool.format.text import java_utf8
from klogtool.json_rows import row_line

Row = dict[str, object]
LONG_BYTES = 1 << 20  # of a key, value or header: from this size on, its text is made piece by piece
LONG_PIECE_BYTES = 3 << 18  # base64 takes three bytes at a time


def json_line(row: Row) -> bytes:
    """Return one JSON object as a line: compact, in UTF-8."""
    return row_line(row, ascii_only=False).encode() + b"\n"


def json_bytes(data: bytes | None) -> dict[str, str] | None:
    """Return the JSON form of a key, a value or a header value."""
    if data is None:
        return None
    try:
        return {"utf8": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


class LongLine:
    """The line of a record with a long key, value or header. Its text is made piece by piece while it is written.

    The text may be six times as long as the bytes, and only the bytes are held. len(): about the size of these bytes.
    """

    def __init__(self, size: int, chunks: Callable[[], Iterator[bytes]]) -> None:
        self._size, self._chunks = size, chunks

    def __len__(self) -> int:
        return self._size

    def walk(self) -> Iterator[bytes]:
        """Yield the bytes of the line."""
        return self._chunks()


Text = bytes | memoryview | LongLine


def walk_text(text: Text) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a piece of text; those of a long line are made meanwhile."""
    if isinstance(text, LongLine):
        yield from text.walk()
    else:
        yield text


class _Long:
    """Bytes whose text is not made yet."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def walk(self) -> Iterator[bytes]:
        """Yield the same bytes as `json_line` makes of what `json_bytes` returns."""
        if not is_utf8(self.data):
            yield b'{"base64":"'
            yield from map(base64.b64encode, walk_chunks(self.data))
        else:
            yield b'{"utf8":"'
            decode = codecs.getincrementaldecoder("utf-8")().decode
            for chunk in walk_chunks(self.data):
                yield json.dumps(decode(chunk), ensure_ascii=False).encode()[1:-1]
        yield b'"}'


def walk_chunks(data: bytes) -> Iterator[memoryview]:
    """Yield the bytes in pieces whose text is short enough to be in memory."""
    view = memoryview(data)
    return (view[at : at + LONG_PIECE_BYTES] for at in range(0, len(view), LONG_PIECE_BYTES))


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        for chunk in walk_chunks(data):
            decode(chunk)
        decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _long_ones(value: Any) -> Iterator[_Long]:
    if isinstance(value, _Long):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _long_ones(item)


def walk_json(value: Any) -> Iterator[bytes]:
    """Yield the same bytes as `json_line`, without the line's end, in pieces."""
    if isinstance(value, _Long):
        yield from value.walk()
        return
    if next(_long_ones(value), None) is None:
        yield row_line(value, ascii_only=False).encode()
        return
    is_row = isinstance(value, dict)
    for n, item in enumerate(value.items() if is_row else value):
        yield (b"{" if is_row else b"[") if n == 0 else b","
        if is_row:
            yield row_line(item[0], ascii_only=False).encode() + b":"
        yield from walk_json(item[1] if is_row else item)
    yield b"}" if is_row else b"]"


def record_line(
    file: str, batch: RecordBatch | Message, record: Record, topic: str | None = None, decoded: Row | None = None
) -> bytes | LongLine:
    """Return a record's line; a LongLine if a key, value or header is long. decoded: further fields."""
    row = record_row(file, batch, record, topic, json_bytes_or_long) | (decoded or {})
    size = sum(len(long.data) for long in _long_ones(row))
    return LongLine(size, lambda: chain(walk_json(row), (b"\n",))) if size else json_line(row)


def json_bytes_or_long(data: bytes | None) -> Any:
    """Return what `json_bytes` returns, or for long bytes something that only `walk_json` can write."""
    return _Long(data) if data is not None and len(data) >= LONG_BYTES else json_bytes(data)


def json_timestamp(timestamp: int) -> int | None:
    """Return a timestamp in ms since the epoch; None for NO_TIMESTAMP."""
    return None if timestamp == NO_TIMESTAMP else timestamp


_HEAD = (
    *("position", "size", "base_offset", "last_offset", "partition_leader_epoch", "magic", "crc", "crc_valid"),
    *("attributes", "codec", "timestamp_type", "is_transactional", "is_control", "delete_horizon_ms"),
)
_TIMES = ("base_timestamp", "max_timestamp")
_TAIL = ("max_timestamp", "producer_id", "producer_epoch", "base_sequence", "last_sequence", "records_count")


def batch_row(file: str, batch: RecordBatch | Message) -> Row:
    """Return every header field under its name. Raises Unsupported for an unknown codec."""
    own = () if isinstance(batch, Message) else ("last_offset_delta", "base_timestamp")
    fields = {name: getattr(batch, name) for name in (*_HEAD, *own, *_TAIL)}
    times = {name: json_timestamp(fields[name]) for name in _TIMES if name in fields}
    return {"type": "batch", "file": file, **fields, **times}


def record_row(
    file: str,
    batch: RecordBatch | Message,
    record: Record,
    topic: str | None = None,
    json_bytes: Callable[[bytes | None], Any] = json_bytes,
) -> Row:
    """Return a record with its batch's fields. topic: an internal topic; its content is decoded too. json_bytes: makes
    the JSON form of bytes."""
    row: Row = {
        "type": "record",
        "file": file,
        "batch_position": batch.position,
        "magic": batch.magic,
        "codec": batch.codec,
        "offset": record.offset,
        "timestamp": json_timestamp(record.timestamp),
        "timestamp_type": batch.timestamp_type,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[java_utf8(h.key), json_bytes(h.value)] for h in record.headers],
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": record.sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "delete_horizon_ms": batch.delete_horizon_ms,
    }
    row.update(_further(batch, record, topic, json_bytes))
    return row


def _further(
    batch: RecordBatch | Message, record: Record, topic: str | None, json_bytes: Callable[[bytes | None], Any]
) -> Iterator[tuple[str, object]]:
    """Yield the fields that only some records have."""
    if record.crc is not None:
        yield "crc", record.crc
        yield "crc_valid", record.crc_valid
    keys = [json_bytes(h.key) for h in record.headers if not is_utf8(h.key)]
    if keys:  # `headers` shows them with replacement characters; this field keeps all bytes
        yield "header_keys", [json_bytes(h.key) for h in record.headers]
    if batch.is_control:
        yield "decoded", control_row(record)
    elif topic is not None:
        decoded = decode_json(topic, record.key, record.value)
        if decoded is not None:
            yield "decoded", decoded


def control_row(record: Record) -> Row:
    """Return the content of a control record, or why it cannot be read."""
    try:
        type_id = parse_control_type_id(record.key)
        kind = ControlRecordType.of(type_id)
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            marker = parse_end_transaction_marker(record.key, record.value)
            return {"type": kind.name, "coordinator_epoch": marker.coordinator_epoch}
        if kind is ControlRecordType.UNKNOWN or record.value is None:
            return {"type": kind.name, "type_id": type_id}
        values = parse_control_value(kind, record.value)
        return {"type": kind.name, "data": to_json(VALUE_MESSAGES[kind], values["version"], values)}
    except KlogError as error:
        return {"error": error.reason}


def error_row(file: str, error: KlogError) -> Row:
    """Return the row of an error, with its file and position."""
    return {
        "type": "error",
        "file": file,
        "position": error.position,
        "detail": error.reason,
        "kafka_class": error.kafka_class,
    }
