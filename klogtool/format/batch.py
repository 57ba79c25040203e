"""Record batches, magic 2: header, records, and building both (org.apache.kafka.common.record DefaultRecordBatch).

The CRC is after the magic and covers only what follows it. So a broker can set base offset and leader epoch without
computing it again. Damage to those fields, to the length and to the magic is not detected by it.

This is the reference reader: simple, complete, slow. The kernels do the same over millions of batches and are tested
against it.

This is the reference of kernels/_records.pxi and kernels/_objects.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from construct import ConstructError, Container
from msgspec import Struct

from klogtool.errors import AboveLimit, Corrupt, KlogError, Unsupported
from klogtool.format.buffers import Buffer
from klogtool.format.checksums import crc32c
from klogtool.format.codecs import CODEC_NAMES as CODEC_NAMES
from klogtool.format.codecs import compress, decompress
from klogtool.format.fields import field_names, numbers
from klogtool.format.framing import LOG_OVERHEAD
from klogtool.format.java_numbers import MAX_INT, to_signed
from klogtool.format.layouts import BATCH_HEADER, RECORD
from klogtool.format.text import java_utf8
from klogtool.format.varint import InvalidCount, OverlongVarint, TooMany, Varint, build_zigzag
from klogtool.values import PartlyCompared

_BATCH_HEADER, _BATCH_FIELDS = numbers(BATCH_HEADER), field_names(BATCH_HEADER)
RECORD_BATCH_OVERHEAD = _BATCH_HEADER.size
CRC_COVERS_FROM = 21  # from the attributes to the end; tests compare it with the declaration

CODEC_MASK, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, DELETE_HORIZON_BIT = 0x07, 0x08, 0x10, 0x20, 0x40
HEAD_COLUMNS = (
    *("position", "size", "base_offset", "last_offset", "partition_leader_epoch", "magic", "crc", "attributes"),
    *("last_offset_delta", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"),
    *("last_sequence", "records_count"),
)
"""What the kernel tells of each batch's header, in this order (kernels/_heads.pxi)."""
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = "CreateTime", "LogAppendTime", "NoTimestampType"
NO_TIMESTAMP = NO_PRODUCER_ID = NO_PRODUCER_EPOCH = NO_SEQUENCE = NO_PARTITION_LEADER_EPOCH = -1
CODECS_WITH_HEAD = ("gzip", "snappy", "lz4")  # opening a stream of these reads its head, of zstd nothing
MOST_HEADERS: int = RECORD.headers.most
KEPT_RECORDS = (
    1 << 16
)  # a batch with more is read twice and not kept: a compression bomb has millions in a few kilobytes


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SHOWN_BYTES = 16


class Header(NamedTuple):
    """A record header: the key as its bytes (UTF-8 where Kafka's clients wrote it), the value may be null.

    A tuple, so that `dict(record.headers)` works; if a key occurs twice, its last value counts, as in Kafka's
    `lastHeader`.
    """

    key: bytes
    value: bytes | None


class Record(Struct, frozen=True):
    """One record of any magic, as a reader gets it.

    offset: absolute. timestamp: ms since the epoch, -1 none. sequence: -1 none. crc, crc_valid: only magic 0 and 1,
    where each message has a checksum of its own, else None.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE
    crc: int | None = None
    crc_valid: bool | None = None

    def __repr__(self) -> str:
        """Return one line: the fields that apply, of long bytes the first, of headers how many."""
        fields = ((name, getattr(self, name)) for name in ("sequence", "crc", "crc_valid"))
        more = "".join(f", {name}={value}" for name, value in fields if value not in (None, NO_SEQUENCE))
        headers = f", headers={len(self.headers)}" if self.headers else ""
        content = f"key={_shown(self.key)}, value={_shown(self.value)}{headers}"
        return f"Record(offset={self.offset}, timestamp={self.timestamp}, {content}{more})"

    @property
    def datetime(self) -> dt.datetime | None:
        """The timestamp as a time in UTC. None if there is none, or if Python cannot express it (years 1 to 9999)."""
        try:
            return None if self.timestamp == NO_TIMESTAMP else _EPOCH + dt.timedelta(milliseconds=self.timestamp)
        except OverflowError:
            return None

    @property
    def key_size(self) -> int:
        """Bytes of the key, -1 for null."""
        return -1 if self.key is None else len(self.key)

    @property
    def value_size(self) -> int:
        """Bytes of the value, -1 for null."""
        return -1 if self.value is None else len(self.value)


def _shown(data: bytes | None) -> str:
    if data is None or len(data) <= _SHOWN_BYTES:
        return repr(data)
    return f"{data[:_SHOWN_BYTES]!r}... ({len(data)} bytes)"


def codec_name(attributes: int, position: int) -> str:
    """The codec of the entry at a position, by its attributes. Raises Unsupported for ids 5 to 7 (CompressionType)."""
    codec_id = attributes & CODEC_MASK
    if codec_id >= len(CODEC_NAMES):
        raise Unsupported(
            f"unknown compression type id: {codec_id}", position=position, kafka_class="IllegalArgumentException"
        )
    return CODEC_NAMES[codec_id]


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the next sequence number; 0 follows 2147483647 (DefaultRecordBatch.incrementSequence, including Java's int
    overflow)."""
    if sequence > to_signed(MAX_INT - increment, 32):
        return to_signed(increment - (MAX_INT - sequence) - 1, 32)
    return to_signed(sequence + increment, 32)


def is_in_sequence(last_sequence: int, next_sequence: int) -> bool:
    """Whether a producer's next batch continues its last one (ProducerAppendInfo.inSequence)."""
    return next_sequence == increment_sequence(last_sequence, 1)


def last_sequence_of(base_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence number of a batch's last record (DefaultRecordBatch.lastSequence)."""
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else increment_sequence(base_sequence, last_offset_delta)


class RecordBatch(PartlyCompared, frozen=True, eq=False):
    """A record batch: its header fields under Kafka's names, and its bytes.

    position: byte in the file. data: the whole batch; shorter than a header if the length field says so.
    """

    uncompared = frozenset({"data"})
    unshown = frozenset({"data"})

    position: int
    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    data: memoryview

    @property
    def size(self) -> int:
        """Bytes of the batch, offset and length fields included."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, kept when compaction drops that record."""
        return to_signed(self.base_offset + self.last_offset_delta, 64)

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 if the batch has none."""
        return last_sequence_of(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> str:
        """none, gzip, snappy, lz4 or zstd. Raises Unsupported for ids 5 to 7."""
        return codec_name(self.attributes, self.position)

    @property
    def timestamp_type(self) -> str:
        """CreateTime or LogAppendTime."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction, or its marker."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Holds a control record (transaction marker, KRaft) in place of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in it may be removed (KIP-534), or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def origin(self) -> BatchOrigin:
        """Who wrote it, and what for."""
        return BatchOrigin(**{name: getattr(self, name) for name in BatchOrigin.__struct_fields__})

    @property
    def crc_valid(self) -> bool:
        """Return whether it is large enough for a batch and its bytes match the CRC (DefaultRecordBatch.isValid)."""
        return self.size >= RECORD_BATCH_OVERHEAD and crc32c(self.data[CRC_COVERS_FROM:]) == self.crc

    def records(self) -> Iterator[Record]:
        """Yield its records, decompressed. Raises Corrupt or Unsupported if Kafka's reader fails."""
        return walk_records(self)


def parse_batch(data: Buffer, at: int = 0, *, base: int = 0) -> RecordBatch:
    """Parse the batch whose frame begins at byte `at`. base: position of data[0] in its file.

    Raises Corrupt if the buffer ends inside the 61 header bytes, which is possible with a length field below 49.
    """
    view = memoryview(data)
    if len(view) - at < RECORD_BATCH_OVERHEAD:
        raise Corrupt("the file ends inside the batch header", position=base + at, kafka_class="KafkaException")
    fields = dict(zip(_BATCH_FIELDS, _BATCH_HEADER.unpack_from(view, at), strict=True))
    return RecordBatch(position=base + at, data=view[at : at + LOG_OVERHEAD + fields["length"]], **fields)


def walk_records(batch: RecordBatch) -> Iterator[Record]:
    """Yield the records of a batch, in order (DefaultRecordBatch.iterator).

    An uncompressed batch is read record by record, so the records before damage are yielded. A compressed batch is read
    whole first, so none is. Raises Corrupt or Unsupported, with the position of the batch.
    """
    body = _records_of(batch)
    if batch.records_count == 0 or batch.codec == "none":
        return _walk_body(batch, body)
    if batch.records_count <= KEPT_RECORDS:
        return iter(list(_walk_body(batch, body)))
    for _ in _walk_body(batch, body):
        pass
    return _walk_body(batch, body)


def stream_records(batch: RecordBatch) -> Iterator[Record]:
    """Yield the records before damage also for a compressed batch (DefaultRecordBatch.streamingIterator).

    If the compressed bytes themselves are damaged, there are none: those are read whole first. Of a batch without
    records the stream is opened, too.
    """
    open_stream_of_none(batch)
    return _walk_body(batch, _records_of(batch))


def open_stream_of_none(batch: RecordBatch) -> None:
    """Raise Corrupt if a consumer fails at a batch without a byte of records: it opens their stream, and reads its head
    (DefaultRecordBatch.streamingIterator)."""
    if batch.size == RECORD_BATCH_OVERHEAD and batch.codec in CODECS_WITH_HEAD:
        inflate(batch)


def read_head(batch: RecordBatch) -> tuple[list[Record], int]:
    """Return the records of an uncompressed batch that come before damage, and the bytes that they take. Their offsets
    ascend, up to the last one of the batch."""
    records, size = list[Record](), 0
    try:
        stream, end = _ViewStream(batch.data[RECORD_BATCH_OVERHEAD:]), len(batch.data) - RECORD_BATCH_OVERHEAD
        while len(records) < batch.records_count:
            record = _parse_record(batch, stream, end)
            if not (records[-1].offset if records else batch.base_offset - 1) < record.offset <= batch.last_offset:
                break
            records.append(record)
            size = stream.tell()
    except KlogError:  # that is the damage
        pass
    return records, size


def _records_of(batch: RecordBatch) -> memoryview:
    """Return the bytes of the records of a batch, without a codec."""
    if batch.size < RECORD_BATCH_OVERHEAD:
        raise Corrupt(
            "batch is smaller than its header", position=batch.position, kafka_class="IndexOutOfBoundsException"
        )
    if batch.records_count == 0 or batch.codec == "none":
        return batch.data[RECORD_BATCH_OVERHEAD:]
    return memoryview(inflate(batch))


def inflate(batch: RecordBatch) -> bytes:
    """Return the decompressed bytes of the records of a batch. Raises Corrupt or Unsupported."""
    try:
        return decompress(batch.codec, batch.data[RECORD_BATCH_OVERHEAD:], magic=batch.magic)
    except KlogError as error:
        error.position = batch.position
        raise


# --- building ---------------------------------------------------------------------------------------------------------


def rewritten_headers(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """Return headers as a leader or the cleaner writes them when it rebuilds a batch from records (RecordHeader.key).

    The key of a header is text to Kafka: what is not UTF-8 becomes U+FFFD.
    """
    if all(header.key.isascii() for header in headers):
        return headers
    return tuple(Header(java_utf8(header.key).encode(), header.value) for header in headers)


def build_record(record: Record, *, base_offset: int, base_timestamp: int) -> bytes:
    """Build a record of magic 2, with its length (DefaultRecord.writeTo)."""
    body = RECORD.build(
        {
            "attributes": 0,
            "timestamp_delta": to_signed(record.timestamp - base_timestamp, 64),
            "offset_delta": to_signed(record.offset - base_offset, 32),
            "key": record.key,
            "value": record.value,
            "headers": [{"key": header.key, "value": header.value} for header in record.headers],
        }
    )
    built: bytes = build_zigzag(len(body)) + body
    return built


class BatchOrigin(Struct, frozen=True):
    """Who wrote a batch, and what for: what MemoryRecordsBuilder is told of a producer, its transaction, a leader."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH

    @property
    def attributes(self) -> int:
        """The bits of a batch's attributes that say so."""
        return TRANSACTIONAL_BIT * self.is_transactional | CONTROL_BIT * self.is_control

    def header(self) -> dict[str, int]:
        """Return the header fields for `build_raw_batch` that are not bits of the attributes."""
        names = ("producer_id", "producer_epoch", "base_sequence", "partition_leader_epoch")
        return {name: getattr(self, name) for name in names}


NO_ORIGIN = BatchOrigin()
"""Of no producer, in no transaction, of no leader epoch: as a client without idempotence sends it."""


def build_batch(
    records: Sequence[Record],
    origin: BatchOrigin = NO_ORIGIN,
    *,
    codec: str = "none",
    level: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build a whole batch of magic 2 with at least one record, as MemoryRecordsBuilder writes it.

    base_offset, last_offset: default to the first and last record's. append_time_ms: the time of a batch with
    LogAppendTime; None: CreateTime.
    """
    first = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    body = b"".join(build_record(r, base_offset=first, base_timestamp=base_timestamp) for r in records)
    attributes = CODEC_NAMES.index(codec) | origin.attributes
    attributes |= 0 if append_time_ms is None else TIMESTAMP_TYPE_BIT
    attributes |= 0 if delete_horizon_ms is None else DELETE_HORIZON_BIT
    return build_raw_batch(
        compress(codec, body, magic=2, level=level),
        base_offset=first,
        last_offset_delta=to_signed(last - first, 32),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max(r.timestamp for r in records) if append_time_ms is None else append_time_ms,
        records_count=len(records),
        **origin.header(),
    )


def build_emptied_batch(
    origin: BatchOrigin, base_offset: int, last_offset: int, max_timestamp: int, timestamp_type: str = CREATE_TIME
) -> bytes:
    """Build the 61 bytes of a batch that has lost all its records (DefaultRecordBatch.writeEmptyHeader)."""
    return build_raw_batch(
        b"",
        base_offset=base_offset,
        last_offset_delta=to_signed(last_offset - base_offset, 32),
        attributes=origin.attributes | (TIMESTAMP_TYPE_BIT if timestamp_type == LOG_APPEND_TIME else 0),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=max_timestamp,
        records_count=0,
        **origin.header(),
    )


def build_raw_batch(body: bytes, *, magic: int = 2, **fields: int) -> bytes:
    """Build a batch from record bytes and any fields of its header (layouts.BATCH_HEADER), but length and CRC, which
    are computed. Raises KeyError if one is missing."""
    header = {**fields, "length": RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(body), "magic": magic, "crc": 0}
    header["crc"] = crc32c((BATCH_HEADER.build(header) + body)[CRC_COVERS_FROM:])
    built: bytes = BATCH_HEADER.build(header) + body
    return built


class _ViewStream:
    """The part of a file's interface that construct needs, over bytes that are not copied."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def read(self, size: int) -> bytes:
        chunk = bytes(self._view[self._at : self._at + size])
        self._at += len(chunk)
        return chunk

    def tell(self) -> int:
        return self._at


def _walk_body(batch: RecordBatch, body: memoryview) -> Iterator[Record]:
    """Yield the records. Raises Corrupt or Unsupported at the first wrong one."""
    if batch.records_count < 0:
        raise _invalid(batch, f"invalid record count {batch.records_count}")
    stream = _ViewStream(body)
    for n in range(batch.records_count):
        record = _parse_record(batch, stream, len(body))
        if n == batch.records_count - 1 and stream.tell() != len(body):
            raise _invalid(batch, "incorrect declared batch size, records still remaining in file")
        yield record


def _parse_record(batch: RecordBatch, stream: _ViewStream, end: int) -> Record:
    """Parse the record at the stream's position; it must fill exactly the bytes of its length."""
    at = stream.tell()
    length = _parse_length(batch, stream)
    start = stream.tell()
    if length > end - start:
        raise _invalid(batch, f"record size {length} at byte {at} of the records, but {end - start} bytes are left")
    try:
        fields = RECORD.parse_stream(stream, end=start + length)
    except TooMany as error:
        reason = f"a record with {error} headers: more than klogtool opens ({MOST_HEADERS})"
        raise AboveLimit(reason, position=batch.position) from error
    except ConstructError as error:
        raise _invalid(batch, f"record at byte {at} of the records: {_why(error)}") from error
    if stream.tell() - start != length:
        raise _invalid(batch, f"record at byte {at} of the records is not as long as it says ({length} bytes)")
    return _absolute(batch, fields)


def _parse_length(batch: RecordBatch, stream: _ViewStream) -> int:
    at = stream.tell()
    try:
        length: int = Varint.parse_stream(stream)
    except ConstructError as error:
        wrong = _invalid(batch, f"invalid record size at byte {at} of the records ({type(error).__name__})")
        if isinstance(error, OverlongVarint) and batch.codec == "none":
            wrong.kafka_class = "IllegalArgumentException"  # only for compressed batches Kafka throws another one
        raise wrong from error
    return length


def _why(error: ConstructError) -> str:
    """Say where construct stopped, in words of the format."""
    if isinstance(error, OverlongVarint):
        return "a variable-length number does not end"
    if isinstance(error, InvalidCount):
        return f"invalid number of record headers {error}"
    return "its fields go past the end of the batch"


def _absolute(batch: RecordBatch, fields: Container) -> Record:
    """Return a record with its deltas resolved; under LogAppendTime all have the batch's time."""
    timestamp = to_signed(batch.base_timestamp + fields.timestamp_delta, 64)
    return Record(
        offset=to_signed(batch.base_offset + fields.offset_delta, 64),
        timestamp=batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else timestamp,
        key=fields.key,
        value=fields.value,
        headers=tuple(Header(key, value) for key, value in fields.headers),
        sequence=NO_SEQUENCE
        if batch.base_sequence < 0
        else increment_sequence(batch.base_sequence, fields.offset_delta),
    )


def _invalid(batch: RecordBatch, reason: str) -> Corrupt:
    return Corrupt(reason, position=batch.position, kafka_class="InvalidRecordException")
