"""Records in JSON lines, as dump-log prints them, made into batches as a client sends them.

This is the reference of kernels/_json_records.pxi: change a rule in both places.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec import Struct

from klogtool import kernels
from klogtool.broker.appending.appender import Call
from klogtool.broker.appending.calls import (
    JsonObject,
    check_fields,
    check_line_size,
    parse_line,
    split_lines,
    wrong_line,
)
from klogtool.format.batch import CODEC_NAMES, NO_TIMESTAMP
from klogtool.format.batch_filling import BatchFilling, Row
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import build_message_set

BATCH_BYTES = 16_384  # batch.size of a producer
RECORD = "record"
PASSED_OVER = ("klogtool", "batch", "index-entry", "answer", "summary")
# The fields of a line of dump-log. Those not in LOOKED_AT are ignored: a leader sets them (the kernel has the same).
LOOKED_AT = ("type", "is_control", "key", "value", "headers", "header_keys", "timestamp")
FIELDS = frozenset(
    (
        *LOOKED_AT,
        "file",
        "batch_position",
        "magic",
        "codec",
        "offset",
        "timestamp_type",
        "producer_id",
        "producer_epoch",
        "sequence",
        "is_transactional",
        "partition_leader_epoch",
        "delete_horizon_ms",
        "crc",
        "crc_valid",
        "decoded",
    )
)
BYTES_FIELDS = ("utf8", "base64")


class Batching(Struct):
    """How records become batches. batch_bytes: approximate size before compression. batch_records: the most records.

    control_records: how many control records were left out, because a client cannot send them.
    """

    codec: str
    magic: int
    batch_bytes: int
    batch_records: int
    leader_epoch: int
    now_ms: int
    control_records: int = 0


def walk_record_calls(pieces: Iterator[bytes], path: str, batching: Batching) -> Iterator[Call]:
    """Yield a leader's call for each batch. pieces: of the text. Raises KlogError for a line that is not a record."""
    if batching.magic < 2:
        return _walk_message_sets(split_lines(pieces, path), path, batching)
    return _RecordLines(path, batching).walk(pieces)


def _walk_message_sets(lines: Iterator[tuple[int, bytes]], path: str, batching: Batching) -> Iterator[Call]:
    """Yield a call for each set of messages of magic 0 or 1."""

    def call() -> Call:
        data = build_message_set(filling.to_records(), magic=batching.magic, codec=batching.codec)
        filling.clear()
        return _call_with(data, batching)

    filling = BatchFilling(batching.batch_bytes, batching.batch_records)
    for number, line in lines:
        row = _parse_row(line, number, path, batching)
        if row is not None and not filling.add(*row):
            yield call()
            filling.add(*row)
    if not filling.is_empty():
        yield call()


class _RecordLines:
    """Makes record batches, by the kernel; the reference reads the lines that the kernel does not take."""

    def __init__(self, path: str, batching: Batching) -> None:
        self._path, self._batching = path, batching
        self._kernel = kernels.native.RecordLines(batching.batch_bytes, batching.batch_records, batching.now_ms)

    def walk(self, pieces: Iterator[bytes]) -> Iterator[Call]:
        """Yield a call for each batch."""
        kernel, rest = self._kernel, b""
        for piece in chain(pieces, (b"\n",)):  # the last line may lack its line end
            data = rest + piece
            at, why = kernel.take(data, 0)
            while why != kernels.native.CUT_OFF:
                if why == kernels.native.FULL:
                    yield self._call()
                else:
                    end = data.index(b"\n", at)
                    yield from self._take_by_reference(data[at:end])
                    at = end + 1
                at, why = kernel.take(data, at)
            rest = data[at:]
            check_line_size(rest, kernel.lines + 1, self._path)
        self._batching.control_records += kernel.control_records
        if not kernel.is_empty():
            yield self._call()

    def _take_by_reference(self, line: bytes) -> Iterator[Call]:
        """Read a line. If it does not fit into the current batch, yields the call for that batch first."""
        self._kernel.lines += 1
        row = _parse_row(line, self._kernel.lines, self._path, self._batching) if line.strip() else None
        if row is not None and not self._kernel.add(*row):
            yield self._call()
            self._kernel.add(*row)

    def _call(self) -> Call:
        """Return the call for the current batch."""
        codec = self._batching.codec
        body = kernels.compress(codec, self._kernel.records(), magic=2)
        return _call_with(self._kernel.fetch(body, CODEC_NAMES.index(codec)), self._batching)


def _call_with(data: bytes, batching: Batching) -> Call:
    return Call((data,), False, batching.leader_epoch, None, to_magic=batching.magic)


# One line.


def _parse_row(line: bytes, number: int, path: str, batching: Batching) -> Row | None:
    """Return a line's record; None for a line that a client cannot send, such as a control record or a batch."""
    row = parse_line(line, number, path)
    kind = row.get("type", RECORD)
    if kind != RECORD:
        if kind in PASSED_OVER:
            return None
        raise wrong_line(number, path, f"not a record: {_said(row) or kind}")
    try:
        check_fields(row, FIELDS, "a record")
        if row.get("is_control"):
            batching.control_records += 1
            return None
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
    """Return the bytes of the contract's form (docs/contract.md) or of a text. Raises TypeError or ValueError for
    anything else."""
    if value is None:
        return None
    if isinstance(value, JsonObject):
        check_fields(value, BYTES_FIELDS, "an object for bytes")
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
    exact = row.get("header_keys")  # there if keys are not UTF-8
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
    """Return a timestamp in ms: NO_TIMESTAMP for null, as in magic 0; `now_ms` if the field is missing."""
    if "timestamp" not in row:
        return now_ms
    timestamp = row["timestamp"]
    if timestamp is None:
        return NO_TIMESTAMP
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -MAX_LONG - 1 <= timestamp <= MAX_LONG:
        raise ValueError(f"a timestamp is a whole number of ms, not {timestamp!r}")
    return timestamp
