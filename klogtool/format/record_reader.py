"""The records of a batch, one after the other, from its decompressed bytes (DefaultRecord.readFrom).

Apart from `format.batch`, whose headers are read without it and without construct.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from construct import ConstructError

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.batch import (
    LOG_APPEND_TIME,
    MOST_HEADERS,
    NO_SEQUENCE,
    Header,
    Record,
    RecordBatch,
    increment_sequence,
)
from klogtool.format.declarations import HEADER, RECORD
from klogtool.format.varint import OverlongVarint, Varint
from klogtool.format.zigzag import to_signed

if TYPE_CHECKING:
    from construct import Container


class ViewStream:
    """As much of a file as construct needs, over bytes that are not copied."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        piece = bytes(self._view[self._at : self._at + size])
        self._at += len(piece)
        return piece

    def tell(self) -> int:
        """Bytes read so far."""
        return self._at


def walk_body(batch: RecordBatch, body: memoryview) -> Iterator[Record]:
    """The records. Raises Corrupt or Unsupported at the first that is wrong."""
    if batch.records_count < 0:
        raise _invalid(batch, f"invalid record count {batch.records_count}")
    stream = ViewStream(body)
    for n in range(batch.records_count):
        record = _parse_record(batch, stream, len(body))
        if n == batch.records_count - 1 and stream.tell() != len(body):
            raise _invalid(batch, "incorrect declared batch size, records still remaining in file")
        yield record


def _parse_record(batch: RecordBatch, stream: ViewStream, end: int) -> Record:
    """The record at the stream's position; it must fill exactly the bytes that its length says."""
    at = stream.tell()
    length = _parse_length(batch, stream)
    start = stream.tell()
    if length > end - start:
        raise _invalid(batch, f"record size {length} at byte {at} of the records, but {end - start} bytes are left")
    try:
        fields = RECORD.parse_stream(stream)
        headers = _parse_headers(stream, start + length - stream.tell())
    except TooManyHeaders as error:
        raise Unsupported(str(error), position=batch.position) from error
    except ConstructError as error:
        raise _invalid(batch, f"record at byte {at} of the records: {_why(error)}") from error
    if stream.tell() - start != length:
        raise _invalid(batch, f"record at byte {at} of the records is not as long as it says ({length} bytes)")
    return _absolute(batch, fields, headers)


def _parse_length(batch: RecordBatch, stream: ViewStream) -> int:
    at = stream.tell()
    try:
        length: int = Varint.parse_stream(stream)
    except ConstructError as error:
        wrong = _invalid(batch, f"invalid record size at byte {at} of the records ({type(error).__name__})")
        if isinstance(error, OverlongVarint) and batch.codec == "none":
            wrong.kafka_class = "IllegalArgumentException"  # only compressed batches make another one of it
        raise wrong from error
    return length


def _why(error: ConstructError) -> str:
    """What construct stopped at, in words of the format."""
    if isinstance(error, OverlongVarint):
        return "a variable-length number does not end"
    if isinstance(error, InvalidHeaders):
        return str(error)
    return "its fields go past the end of the batch"


class InvalidHeaders(ConstructError):  # type: ignore[misc]
    """A number of headers, or the size of a header's key, that cannot be."""


class TooManyHeaders(ConstructError):  # type: ignore[misc]
    """More headers than there is memory for, all of them sound perhaps."""


def _parse_headers(stream: ViewStream, left: int) -> tuple[Header, ...]:
    count = Varint.parse_stream(stream)
    if not 0 <= count <= max(left, 0):
        raise InvalidHeaders(f"invalid number of record headers {count}")
    if count > MOST_HEADERS:
        raise TooManyHeaders(f"a record with {count} headers: more than klogtool opens ({MOST_HEADERS})")
    parsed = (HEADER.parse_stream(stream) for _ in range(count))
    return tuple(Header(h.key, h.value) for h in parsed)


def _absolute(batch: RecordBatch, fields: Container, headers: tuple[Header, ...]) -> Record:
    """A record with its deltas resolved; under LogAppendTime all have the batch's time."""
    timestamp = to_signed(batch.base_timestamp + fields.timestamp_delta, 64)
    return Record(
        offset=to_signed(batch.base_offset + fields.offset_delta, 64),
        timestamp=batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else timestamp,
        key=fields.key,
        value=fields.value,
        headers=headers,
        sequence=NO_SEQUENCE
        if batch.base_sequence < 0
        else increment_sequence(batch.base_sequence, fields.offset_delta),
    )


def _invalid(batch: RecordBatch, reason: str) -> Corrupt:
    return Corrupt(reason, position=batch.position, kafka_class="InvalidRecordException")
