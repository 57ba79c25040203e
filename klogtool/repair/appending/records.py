"""Records in JSON lines, as dump-log prints them, into batches as a client sends them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from klogtool import kernels
from klogtool.format.batch import (
    CODEC_NAMES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Header,
    Record,
    build_raw_batch,
    build_record,
)
from klogtool.format.codecs import compress
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import build_message_set
from klogtool.lazy_dataclasses import dataclass
from klogtool.repair.appending.appender import Call
from klogtool.repair.appending.calls import parse_line, wrong_line

BATCH_BYTES = 16_384  # batch.size of a producer
RECORD = "record"
PASSED_OVER = ("klogtool", "batch", "index-entry", "answer", "summary")
_OVERHEAD_BYTES = 21  # of a record, at most (DefaultRecord.MAX_RECORD_OVERHEAD)

# Timestamp, key, value, headers as pairs of key and value.
Row: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


@dataclass(slots=True)
class Batching:
    """How records become batches. batch_bytes: about so many, before compression; batch_records: so many at most.

    control_records: of how many it was seen that they are no client's, and left out.
    """

    codec: str
    magic: int
    batch_bytes: int
    batch_records: int
    leader_epoch: int
    now_ms: int
    control_records: int = 0


def walk_record_calls(lines: Iterator[tuple[int, bytes]], path: str, batching: Batching) -> Iterator[Call]:
    """A leader's call for each batch. Raises KlogError for a line that is no record."""
    rows: list[Row] = []
    size = 0
    for number, line in lines:
        row = _parse_row(line, number, path, batching)
        if row is None:
            continue
        row_bytes = _OVERHEAD_BYTES + len(row[1] or b"") + len(row[2] or b"") + len(row[3]) * _OVERHEAD_BYTES
        if rows and (size + row_bytes > batching.batch_bytes or len(rows) >= batching.batch_records):
            yield _call_of(rows, batching)
            rows, size = [], 0
        rows.append(row)
        size += row_bytes
    if rows:
        yield _call_of(rows, batching)


def _call_of(rows: list[Row], batching: Batching) -> Call:
    build = _build_batch if batching.magic == 2 else _build_messages
    return Call((build(rows, batching),), False, batching.leader_epoch, None, to_magic=batching.magic)


def _build_batch(rows: list[Row], batching: Batching) -> bytes:
    base_timestamp = rows[0][0]
    build = _build_by_reference if kernels.native is None else kernels.native.build_records
    body = build(rows, base_timestamp)
    return build_raw_batch(
        compress(batching.codec, body, magic=2),
        base_offset=0,
        last_offset_delta=len(rows) - 1,
        attributes=CODEC_NAMES.index(batching.codec),
        base_timestamp=base_timestamp,
        max_timestamp=max(row[0] for row in rows),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=len(rows),
        partition_leader_epoch=-1,
    )


def _build_by_reference(rows: list[Row], base_timestamp: int) -> bytes:
    return b"".join(build_record(record, base_offset=0, base_timestamp=base_timestamp) for record in _records_of(rows))


def _build_messages(rows: list[Row], batching: Batching) -> bytes:
    return build_message_set(_records_of(rows), magic=batching.magic, codec=batching.codec)


def _records_of(rows: list[Row]) -> Iterator[Record]:
    for n, (timestamp, key, value, headers) in enumerate(rows):
        yield Record(n, timestamp, key, value, tuple(Header(*header) for header in headers))


# One line.


def _parse_row(line: bytes, number: int, path: str, batching: Batching) -> Row | None:
    """None for what is no record of a client."""
    row = parse_line(line, number, path)
    kind = row.get("type", RECORD)
    if kind != RECORD:
        if kind in PASSED_OVER:
            return None
        raise wrong_line(number, path, f"not a record: {_said(row) or kind}")
    if row.get("is_control"):
        batching.control_records += 1
        return None
    try:
        key, value = _bytes_of(row.get("key")), _bytes_of(row.get("value"))
        headers = _headers_of(row)
        timestamp = _timestamp_of(row, batching.now_ms)
    except (TypeError, ValueError, KeyError, binascii.Error) as error:
        raise wrong_line(number, path, str(error)) from None
    if headers and batching.magic < 2:
        raise wrong_line(number, path, f"records of magic {batching.magic} have no headers")
    return timestamp, key, value, headers


def _said(row: Mapping[str, Any]) -> str:
    return f"{row.get('type')}: {row['detail']}" if "detail" in row else ""


def _bytes_of(value: Any) -> bytes | None:
    """The contract's form of bytes, or a text. Raises TypeError or ValueError for anything else."""
    if value is None:
        return None
    if isinstance(value, dict) and len(value) == 1:
        text = value.get("utf8")
        if isinstance(text, str):
            return text.encode()
        coded = value.get("base64")
        if isinstance(coded, str):
            return base64.b64decode(coded, validate=True)
    if isinstance(value, str):
        return value.encode()
    raise TypeError('bytes are {"utf8": ...}, {"base64": ...} or null')


def _headers_of(row: Mapping[str, Any]) -> tuple[tuple[bytes, bytes | None], ...]:
    headers = row.get("headers")
    if not headers:
        return ()
    if not isinstance(headers, list):
        raise TypeError("headers are a list of [key, value]")
    exact = row.get("header_keys")  # where keys are no UTF-8
    keys: list[Any] = exact if isinstance(exact, list) else []
    if keys and len(keys) != len(headers):
        raise ValueError("header_keys are as many as headers")
    return tuple(_header_of(header, keys[n] if keys else None) for n, header in enumerate(headers))


def _header_of(header: Any, exact: Any) -> tuple[bytes, bytes | None]:
    if not isinstance(header, list) or len(header) != 2 or not isinstance(header[0], str):
        raise TypeError("a header is [key, value]")
    key = header[0].encode() if exact is None else _bytes_of(exact)
    if key is None:
        raise TypeError("the key of a header is not null")
    return key, _bytes_of(header[1])


def _timestamp_of(row: Mapping[str, Any], now_ms: int) -> int:
    """Ms; null is none, as of magic 0; one that is not told is now."""
    if "timestamp" not in row:
        return now_ms
    timestamp = row["timestamp"]
    if timestamp is None:
        return NO_TIMESTAMP
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -MAX_LONG - 1 <= timestamp <= MAX_LONG:
        raise ValueError(f"a timestamp is a whole number of ms, not {timestamp!r}")
    return timestamp
