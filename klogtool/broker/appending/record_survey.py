"""Checks the records of an appended batch, without making objects of regular ones.

The kernel is in kernels/_append.pxi.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import LOG_APPEND_TIME, RECORD_BATCH_OVERHEAD, Record, RecordBatch, inflate
from klogtool.format.java_numbers import wrap_long
from klogtool.format.varint import VARINT_BITS, VARLONG_BITS, Overlong, read_zigzag

SKIPPED = b""  # represents a key that exists and was not read
PARTIAL = 0  # instead of a checksum: marks a record without key, value and headers
_invalid = partial(Corrupt, kafka_class="InvalidRecordException")


class RecordsSurvey(Struct, frozen=True):
    """Facts about the records of a batch, all of which are sound.

    is_consecutive: their offsets are consecutive from the batch's base offset on. min_timestamp: of the records that
    have a timestamp; both timestamps are NO_TIMESTAMP if none has.
    """

    count: int
    min_timestamp: int
    max_timestamp: int
    has_null_key: bool
    is_consecutive: bool


def survey_records(batch: RecordBatch) -> RecordsSurvey | None:
    """Check a batch of magic 2 with CreateTime. None if the reference has to find out what is wrong with it."""
    if batch.records_count <= 0 or batch.size < RECORD_BATCH_OVERHEAD:
        return None
    try:
        body = batch.data[RECORD_BATCH_OVERHEAD : batch.size] if batch.codec == "none" else memoryview(inflate(batch))
    except KlogError:  # the reference reports it
        return None
    survey = kernels.native.survey_records(body, batch.records_count, batch.base_timestamp)
    return None if survey is None else RecordsSurvey(batch.records_count, *survey)


def walk_partly(batch: RecordBatch) -> Iterator[Record]:
    """Yield the records of a compressed batch as a leader reads them that will not change them (PartialDefaultRecord).

    Keys, values and headers are skipped, and the length of a record is not checked. Raises Corrupt
    (InvalidRecordException) where Kafka does, and what inflating raises.
    """
    if batch.records_count == 0:
        return
    body = inflate(batch)
    if batch.records_count < 0:
        raise _invalid(f"Found invalid record count {batch.records_count} in magic v{batch.magic} batch")
    reader = _RecordCursor(body)
    for n in range(batch.records_count):
        record = _read_partly(reader, batch)
        if n == batch.records_count - 1 and reader.at < len(body):
            raise _invalid("Incorrect declared batch size, records still remaining in file")
        yield record


def _read_partly(reader: _RecordCursor, batch: RecordBatch) -> Record:
    reader.varint()
    reader.skip(1)
    timestamp = wrap_long(batch.base_timestamp + reader.varlong())
    offset = wrap_long(batch.base_offset + reader.varint())
    key_size = reader.varint()
    reader.skip(key_size)
    reader.skip(reader.varint())
    header_count = reader.varint()
    if header_count < 0:
        raise _invalid(f"Found invalid number of record headers {header_count}")
    for _ in range(header_count):
        header_key_size = reader.varint()
        if header_key_size < 0:
            raise _invalid(f"Invalid negative header key size {header_key_size}")
        reader.skip(header_key_size)
        reader.skip(reader.varint())
    if batch.timestamp_type == LOG_APPEND_TIME:
        timestamp = batch.max_timestamp
    return Record(offset, timestamp, SKIPPED if key_size >= 0 else None, None, crc=PARTIAL)


class _RecordCursor:
    """A cursor over inflated bytes, with Java's numbers."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, size: int) -> bytes:
        chunk = self.data[self.at : self.at + size]
        self.at += len(chunk)
        return chunk

    def varint(self) -> int:
        return self._number(VARINT_BITS)

    def varlong(self) -> int:
        return self._number(VARLONG_BITS)

    def skip(self, size: int) -> None:
        """Skip bytes; none if `size` is negative."""
        if size > len(self.data) - self.at:
            raise _invalid("Reached end of input stream before skipping all bytes.")
        self.at += max(0, size)

    def _number(self, bits: int) -> int:
        try:
            return read_zigzag(self.read, bits)
        except (EOFError, Overlong):
            raise _invalid("Found invalid record structure") from None
