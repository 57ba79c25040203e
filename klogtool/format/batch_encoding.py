"""Columns of records, made into batches of magic 2 as a producer fills them (MemoryRecordsBuilder).

Columns are laid out as Arrow's, in buffers of any origin, so that no object is made for a record.

This is the reference of kernels/_encode.pxi: change a rule in both places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct

from klogtool.format.batch import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    Header,
    Record,
    build_raw_batch,
    build_record,
    increment_sequence,
)
from klogtool.format.buffers import Buffer
from klogtool.format.framing import LOG_OVERHEAD
from klogtool.format.java_numbers import MAX_INT

MOST_BODY_BYTES = MAX_INT - (RECORD_BATCH_OVERHEAD - LOG_OVERHEAD)  # so that the length of a batch fits its field

Numbers: TypeAlias = "memoryview | array[int]"
# Returns the records of a batch, compressed.
Compress: TypeAlias = Callable[[bytes], bytes]


class BytesColumn(Struct, frozen=True):
    """Bytes or null, a row each, as Arrow's binary arrays have them.

    starts: 32-bit numbers, where the bytes of each row begin in `data`; one more says where those of the last row end.
    is_valid: a byte for each row, 0 for null; None: no row is null.
    """

    starts: Numbers
    data: Buffer
    is_valid: Buffer | None = None


class HeadersColumn(Struct, frozen=True):
    """The headers of each row, as Arrow's lists have them.

    starts: 32-bit numbers, which of the headers is the first of each row; one more says where those of the last row
    end. keys, values: of all headers. A null list is an empty one.
    """

    starts: Numbers
    keys: BytesColumn
    values: BytesColumn


class RecordColumns(Struct, frozen=True):
    """Records of one partition. offsets, timestamps (ms, -1: none): 64-bit numbers. None: all rows are null, or have
    no headers."""

    offsets: Numbers
    timestamps: Numbers
    keys: BytesColumn | None = None
    values: BytesColumn | None = None
    headers: HeadersColumn | None = None

    @property
    def rows(self) -> int:
        """How many records."""
        return len(self.offsets)


class BatchForm(Struct, frozen=True):
    """What the batches have in common. batch_bytes: the most bytes of one before compression; a single record may be
    larger. batch_records: the most records of one. attributes: with the bits of the codec.

    append_time_ms: of batches with LogAppendTime. base_sequence: of the first batch; later ones continue it.
    least_timestamp: below it a record is refused. A Java producer refuses what is below -1, a broker does not.
    """

    batch_bytes: int
    batch_records: int = MAX_INT
    attributes: int = 0
    append_time_ms: int | None = None
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    least_timestamp: int = NO_TIMESTAMP


def encode_batches(
    columns: RecordColumns, at: int, stop: int, form: BatchForm, compress: Compress | None = None
) -> bytes:
    """Return the batches of the rows [at, stop), one behind the other. compress: called for the records of each batch.

    A batch ends where the next record would make it too large, or would be more than 2147483647 offsets from its first.
    Raises ValueError, with the row, for columns that do not fit together, offsets that do not ascend, a timestamp below
    the least, the null key of a header, and records of more than 2 GiB.
    """
    if not 0 <= at <= stop <= columns.rows:
        raise ValueError("the rows have to lie in the columns")
    encoded, sequence = bytearray(), form.base_sequence
    for records, bodies in _fill(_walk_rows(columns, at, stop, form.least_timestamp), form):
        body = b"".join(bodies)
        encoded += _build(records, body if compress is None else compress(body), form, sequence)
        sequence = sequence if sequence == NO_SEQUENCE else increment_sequence(sequence, len(records))
    return bytes(encoded)


def column_of(values: Sequence[bytes | None]) -> BytesColumn:
    """Return a column with these values."""
    is_valid = bytes(value is not None for value in values) if None in values else None
    texts = [value or b"" for value in values]
    return BytesColumn(array("i", accumulate(map(len, texts), initial=0)), b"".join(texts), is_valid)


def headers_of(rows: Sequence[Sequence[tuple[bytes, bytes | None]]]) -> HeadersColumn:
    """Return a column with these headers."""
    flat = [header for row in rows for header in row]
    starts = array("i", accumulate(map(len, rows), initial=0))
    return HeadersColumn(starts, column_of([key for key, _ in flat]), column_of([value for _, value in flat]))


def _fill(records: Iterable[tuple[int, Record]], form: BatchForm) -> Iterator[tuple[list[Record], list[bytes]]]:
    """Yield the records of each batch, and their bytes."""
    taken: list[Record] = []
    bodies: list[bytes] = []
    size = 0
    for row, record in records:
        if taken and record.offset - taken[0].offset <= MAX_INT and len(taken) < form.batch_records:
            body = _build_record(record, taken[0], row)
            if RECORD_BATCH_OVERHEAD + size + len(body) <= form.batch_bytes:
                taken.append(record)
                bodies.append(body)
                size += len(body)
                continue
        if taken:
            yield taken, bodies
        taken, bodies = [record], [_build_record(record, record, row)]
        size = len(bodies[0])
    if taken:
        yield taken, bodies


def _build_record(record: Record, first: Record, row: int) -> bytes:
    body = build_record(record, base_offset=first.offset, base_timestamp=first.timestamp)
    if len(body) > MOST_BODY_BYTES:
        raise ValueError(f"row {row}: the record is too large for a batch")
    return body


def _build(records: Sequence[Record], body: bytes, form: BatchForm, sequence: int) -> bytes:
    if len(body) > MOST_BODY_BYTES:
        raise ValueError("a batch became too large when it was compressed")
    largest = max(record.timestamp for record in records)
    return build_raw_batch(
        body,
        base_offset=records[0].offset,
        last_offset_delta=records[-1].offset - records[0].offset,
        attributes=form.attributes,
        base_timestamp=records[0].timestamp,
        max_timestamp=largest if form.append_time_ms is None else form.append_time_ms,
        producer_id=form.producer_id,
        producer_epoch=form.producer_epoch,
        base_sequence=sequence,
        records_count=len(records),
        partition_leader_epoch=form.partition_leader_epoch,
    )


def _walk_rows(columns: RecordColumns, at: int, stop: int, least_timestamp: int) -> Iterator[tuple[int, Record]]:
    before = -1
    if len(columns.timestamps) < columns.rows:
        raise ValueError("there are not as many timestamps as offsets")
    for row in range(at, stop):
        offset, timestamp = columns.offsets[row], columns.timestamps[row]
        if offset <= before:
            raise ValueError(f"row {row}: offsets have to ascend, from 0 on")
        if timestamp < least_timestamp:
            raise ValueError(f"row {row}: invalid negative timestamp")
        key, value = bytes_at(columns.keys, row, row), bytes_at(columns.values, row, row)
        yield row, Record(offset, timestamp, key, value, tuple(_headers_at(columns.headers, row)))
        before = offset


def bytes_at(column: BytesColumn | None, n: int, row: int) -> bytes | None:
    """Return the bytes number `n` of a column. row: for the ValueError, if they are not in it."""
    if column is None:
        return None
    if n + 1 >= len(column.starts) or (column.is_valid is not None and n >= len(column.is_valid)):
        raise _outside(row)
    if column.is_valid is not None and not column.is_valid[n]:
        return None
    start, stop = column.starts[n], column.starts[n + 1]
    if not 0 <= start <= stop <= len(column.data):
        raise _outside(row)
    return bytes(column.data[start:stop])


def _headers_at(column: HeadersColumn | None, row: int) -> Iterator[Header]:
    if column is None:
        return
    if row + 1 >= len(column.starts):
        raise _outside(row)
    start, stop = column.starts[row], column.starts[row + 1]
    if not 0 <= start <= stop < len(column.keys.starts):
        raise _outside(row)
    for n in range(start, stop):
        key = bytes_at(column.keys, n, row)
        if key is None:
            raise ValueError(f"row {row}: the key of a header is null")
        yield Header(key, bytes_at(column.values, n, row))


def _outside(row: int) -> ValueError:
    return ValueError(f"row {row}: its bytes lie outside of the column")
