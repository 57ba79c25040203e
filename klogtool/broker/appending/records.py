"""Records in JSON lines, as dump-log prints them, made into batches as a client sends them.

msgspec reads most lines. Those that it refuses or is not sure of are read again, slower, to say what is wrong.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import astuple

from klogtool import kernels
from klogtool.broker.appending.appender import Call
from klogtool.broker.appending.calls import JsonObject, check_fields, parse_line, split_lines, wrong_line
from klogtool.broker.causes import LineCause
from klogtool.format.batch import CODEC_NAMES, NO_TIMESTAMP, Header, Record
from klogtool.format.batch_encoding import BatchForm, RecordColumns, column_of, headers_of
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.message import build_message_set

BATCH_BYTES = 16_384  # batch.size of a producer
RECORD = "record"
PASSED_OVER = ("klogtool", "batch", "index-entry", "answer", "summary")
BYTES_FIELDS = ("utf8", "base64")


class _Carried(Struct, forbid_unknown_fields=True):
    """Bytes in the contract's form (docs/contract.md)."""

    utf8: str | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET


_Bytes: TypeAlias = _Carried | str | None


class _Line(Struct):
    """A line as msgspec reads it. The `Raw` fields are ignored, since a leader sets them."""

    type: str | UnsetType = UNSET
    is_control: bool | UnsetType | None = UNSET
    key: _Bytes | UnsetType = UNSET
    value: _Bytes | UnsetType = UNSET
    headers: list[tuple[str, _Bytes]] | UnsetType | None = UNSET
    timestamp: int | UnsetType | None = UNSET
    file: Raw | UnsetType = UNSET
    batch_position: Raw | UnsetType = UNSET
    magic: Raw | UnsetType = UNSET
    codec: Raw | UnsetType = UNSET
    offset: Raw | UnsetType = UNSET
    timestamp_type: Raw | UnsetType = UNSET
    producer_id: Raw | UnsetType = UNSET
    producer_epoch: Raw | UnsetType = UNSET
    sequence: Raw | UnsetType = UNSET
    is_transactional: Raw | UnsetType = UNSET
    partition_leader_epoch: Raw | UnsetType = UNSET
    delete_horizon_ms: Raw | UnsetType = UNSET
    crc: Raw | UnsetType = UNSET
    crc_valid: Raw | UnsetType = UNSET


FIELDS = frozenset((*_Line.__struct_fields__, "header_keys", "decoded"))
_decode = Decoder(_Line).decode


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


def walk_record_calls(chunks: Iterator[bytes], path: str, batching: Batching) -> Iterator[Call]:
    """Yield a leader's call for each batch. chunks: of the text. Raises KlogError for a line that is not a record."""
    filling = BatchFilling(batching.batch_bytes, batching.batch_records)
    for number, line in split_lines(chunks, path):
        row = _row_of(line, number, path, batching)
        if row is not None and not filling.add(*row):
            yield _call_with(filling, batching)
            filling.add(*row)
    if not filling.is_empty():
        yield _call_with(filling, batching)


def _call_with(filling: BatchFilling, batching: Batching) -> Call:
    """Return the call for the records so far, and begin the next batch."""
    codec = batching.codec
    if batching.magic < 2:
        data = build_message_set(filling.to_records(), magic=batching.magic, codec=codec)
    else:
        columns = filling.to_columns()
        form = BatchForm(MAX_INT, attributes=CODEC_NAMES.index(codec), least_timestamp=-MAX_LONG - 1)
        compress = None if codec == "none" else partial(kernels.compress, codec, magic=2)
        data = kernels.native.encode_batches(columns, 0, columns.rows, form, compress)
    filling.clear()
    return Call((data,), False, batching.leader_epoch, None, to_magic=batching.magic)


# One line.


def _row_of(line: bytes, number: int, path: str, batching: Batching) -> Row | None:
    """Return a line's record; None for a line that a client cannot send, such as a control record or a batch."""
    read = _read(line)
    if read is None or (read.headers and batching.magic < 2):
        return _parse_row(line, number, path, batching)
    if read.type in PASSED_OVER:
        return None
    if read.is_control:
        batching.control_records += 1
        return None
    when = batching.now_ms if read.timestamp is UNSET else read.timestamp
    headers = tuple((key.encode(), _to_bytes(value)) for key, value in read.headers or ())
    return NO_TIMESTAMP if when is None else when, _to_bytes(read.key), _to_bytes(read.value), headers


def _read(line: bytes) -> _Line | None:
    """Return a line that msgspec reads as `_parse_row` would; None for others, which `_parse_row` reads or refuses."""
    try:
        read = _decode(line)
        if not line.isascii():
            line.decode()  # msgspec looks at the UTF-8 of none that is `Raw`
    except (ValueError, RecursionError):
        return None
    if read.type is not UNSET and read.type != RECORD:
        return read if read.type in PASSED_OVER else None
    if read.timestamp and not -MAX_LONG - 1 <= read.timestamp <= MAX_LONG:
        return None
    return read if _members_of(line) == _members_read(read) else None


def _members_of(line: bytes) -> int:
    """Return how many members the objects of a line have, or more, or -1 for a line in which they cannot be counted.

    msgspec takes the last of two members with one name, and says nothing; nor of one that it does not know, here. What
    they were to say would be lost: a value that is called vaule makes a tombstone. So all are counted. A name ends with
    a quote and a colon. In a text, that quote has a backslash before it, or begins the text: then it is one too many.
    """
    if b" :" in line or b"\t:" in line or b"\r:" in line or b'\\\\":' in line:
        return -1
    return line.count(b'":') - (line.count(b'\\":') if b"\\" in line else 0)


def _members_read(read: _Line) -> int:
    """Return how many members msgspec has understood; 0 if bytes have none or two."""
    members = len(_Line.__struct_fields__) - astuple(read).count(UNSET)
    for value in (read.key, read.value, *(header[1] for header in read.headers or ())):
        if isinstance(value, _Carried):
            if (value.utf8 is UNSET) == (value.base64 is UNSET):
                return 0
            members += 1
    return members


def _to_bytes(value: _Bytes | UnsetType) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, _Carried):
        return None
    return value.base64 if isinstance(value.base64, bytes) else str(value.utf8).encode()


def _parse_row(line: bytes, number: int, path: str, batching: Batching) -> Row | None:
    """Return the row of a line; None for a line that is no record, or is to be left out."""
    row = parse_line(line, number, path)
    kind = row.get("type", RECORD)
    if kind != RECORD:
        if kind in PASSED_OVER:
            return None
        kind = f"{kind}: {row['detail']}" if "detail" in row else kind
        raise wrong_line(number, path, LineCause.NO_RECORD(kind=str(kind)))
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
        raise wrong_line(number, path, LineCause.NO_HEADERS_IN(magic=batching.magic))
    return timestamp, key, value, headers


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
    raise TypeError(LineCause.NO_BYTES())


def _headers_of(row: Mapping[str, object]) -> tuple[tuple[bytes, bytes | None], ...]:
    headers = row.get("headers")
    if not headers:
        return ()
    if not isinstance(headers, list):
        raise TypeError(LineCause.NO_HEADERS())
    exact = row.get("header_keys")  # there if keys are not UTF-8
    keys: list[Any] = exact if isinstance(exact, list) else []
    if keys and len(keys) != len(headers):
        raise ValueError(LineCause.HEADER_KEYS())
    return tuple(_header_of(header, keys[n] if keys else None) for n, header in enumerate(headers))


def _header_of(header: Any, exact: Any) -> tuple[bytes, bytes | None]:
    if not isinstance(header, list) or len(header) != 2 or not isinstance(header[0], str):
        raise TypeError(LineCause.NO_HEADER())
    key = header[0].encode() if exact is None else _bytes_of(exact)
    if key is None:
        raise TypeError(LineCause.NULL_KEY())
    return key, _bytes_of(header[1])


def _timestamp_of(row: Mapping[str, object], now_ms: int) -> int:
    """Return a timestamp in ms: NO_TIMESTAMP for null, as in magic 0; `now_ms` if the field is missing."""
    if "timestamp" not in row:
        return now_ms
    timestamp = row["timestamp"]
    if timestamp is None:
        return NO_TIMESTAMP
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -MAX_LONG - 1 <= timestamp <= MAX_LONG:
        raise ValueError(LineCause.NO_TIMESTAMP(timestamp=repr(timestamp)))
    return timestamp


MAX_RECORD_OVERHEAD = 21  # bytes of a record beside key, value and headers, at most (DefaultRecord)

# Timestamp (ms), key, value, headers as pairs of key and value.
Row: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


class BatchFilling:
    """The records so far, with offsets from 0 on.

    batch_bytes: how large it becomes, about, before compression. batch_records: how many records it has at most.
    """

    def __init__(self, batch_bytes: int, batch_records: int) -> None:
        self._batch_bytes, self._batch_records = batch_bytes, batch_records
        self._rows: list[Row] = []
        self._size = 0

    def is_empty(self) -> bool:
        """Whether the batch has no record yet."""
        return not self._rows

    def add(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[tuple[bytes, bytes | None], ...]
    ) -> bool:
        """Add a record. False, and nothing has changed, if the batch has no room for it. An empty batch has room."""
        size = MAX_RECORD_OVERHEAD * (1 + len(headers)) + len(key or b"") + len(value or b"")
        is_full = self._size + size > self._batch_bytes or len(self._rows) >= self._batch_records
        if self._rows and is_full:
            return False
        self._rows.append((timestamp, key, value, headers))
        self._size += size
        return True

    def to_records(self) -> list[Record]:
        """Return the records so far."""
        return [
            Record(n, timestamp, key, value, tuple(Header(*header) for header in headers))
            for n, (timestamp, key, value, headers) in enumerate(self._rows)
        ]

    def to_columns(self) -> RecordColumns:
        """Return the records so far as columns."""
        timestamps, keys, values, headers = zip(*self._rows, strict=True)
        return RecordColumns(
            array("q", range(len(keys))),
            array("q", timestamps),
            column_of(keys),
            column_of(values),
            headers_of(headers) if any(headers) else None,
        )

    def clear(self) -> None:
        """Begin the next batch."""
        self._rows, self._size = [], 0
