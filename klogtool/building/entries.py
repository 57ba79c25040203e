"""Batches, messages and markers in words, made into bytes.

What a spec leaves out follows from what came before in the same log: the next offset, the clock, the leader epoch, a
producer's epoch and its next sequence number.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from klogtool import kernels
from klogtool.building.spec import Batch, Clock, EndSpec, Moment, RecordSpec, Spec
from klogtool.building.spec_data import chunk_bytes, content_bytes, data_bytes
from klogtool.errors import KlogError
from klogtool.format import batch as format_batch
from klogtool.format.batch import (
    CODEC_NAMES,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    MOST_HEADERS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Header,
    build_raw_batch,
    build_record,
    increment_sequence,
)
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.format.framing import CURRENT_MAGIC
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.message import build_message, build_message_set
from klogtool.format.typed import parse_moment


class Producer(Struct):
    """Where a producer is: its epoch, and the sequence number of its next record."""

    epoch: int = 0
    next_sequence: int = 0


class Course(Struct):
    """What a log has come to, for what a spec leaves out. magic: of batches that do not say."""

    now_ms: int
    step_ms: int
    leader_epoch: int
    magic: int = CURRENT_MAGIC
    next_offset: int = 0
    producers: dict[int, Producer] = field(default_factory=dict)

    def tick(self) -> int:
        """Return the time, and let the clock go on."""
        now_ms = self.now_ms
        self.now_ms = min(now_ms + self.step_ms, MAX_LONG)
        return now_ms

    def time_of(self, timestamp: Moment | UnsetType | None) -> int:
        """Return a timestamp in milliseconds: the clock, if there is none. Raises KlogError for a text that is no
        time."""
        if timestamp is UNSET:
            return self.tick()
        return NO_TIMESTAMP if timestamp is None else moment_ms(timestamp)

    def take_leader_epoch(self, epoch: int | None) -> int:
        """Return the leader epoch of a batch; one that is given holds from here on."""
        if epoch is not None:
            self.leader_epoch = epoch
        return self.leader_epoch


def clock_of(spec: Spec) -> tuple[int, int]:
    """Return the time of the first record, and how far the clock goes on, in ms. Raises KlogError."""
    clock = spec.clock if isinstance(spec.clock, Clock) else Clock(start=spec.clock)
    start_ms = moment_ms(clock.start)
    if not 0 <= start_ms <= MAX_LONG:
        raise KlogError(f"clock: a log begins in 1970 or later, not at {start_ms} ms")
    return start_ms, clock.step_ms


def moment_ms(moment: Moment | UnsetType | None) -> int:
    """Return epoch milliseconds. Raises KlogError for a text that is no time."""
    assert isinstance(moment, int | str)
    return parse_moment(moment)


def build_entries(batch: Batch, course: Course) -> bytes:
    """Return the bytes of a batch, or of messages below magic 2. Raises KlogError for what cannot be."""
    first = course.next_offset if batch.offset is None else batch.offset
    records = _records_of(batch.records, first, course)
    magic = course.magic if batch.magic is None else batch.magic
    last = batch.last_offset if batch.last_offset is not None else records[-1].offset if records else first
    if last < first or last - first > MAX_INT or (records and last < records[-1].offset):
        raise KlogError(f"a batch cannot go from offset {first} to {last}")
    if magic < CURRENT_MAGIC:
        data = _build_messages(batch, records, magic)
    else:
        data = _build_batch(batch, records, last, course)
    course.next_offset = last + 1
    return data


def build_end(end: EndSpec | int, kind: ControlRecordType, course: Course) -> bytes:
    """Return the bytes of the marker that ends a transaction."""
    if isinstance(end, int):
        end = EndSpec(producer=end)
    known = course.producers.setdefault(end.producer, Producer())
    known.epoch = known.epoch if end.epoch is None else end.epoch
    marker = EndTransactionMarker(kind, end.coordinator_epoch)
    offset = course.next_offset if end.offset is None else end.offset
    course.next_offset = offset + 1
    record = format_batch.Record(
        offset, course.time_of(end.timestamp), build_control_key(kind), build_end_transaction_marker(marker)
    )
    epoch = course.take_leader_epoch(end.leader_epoch)
    return format_batch.build_batch(
        [record], format_batch.BatchOrigin(end.producer, known.epoch, -1, True, True, epoch)
    )


def _records_of(records: tuple[RecordSpec, ...], first: int, course: Course) -> list[format_batch.Record]:
    built, offset = [], first
    for record in records:
        if record.offset is not None and record.offset < offset:
            raise KlogError(f"offset {record.offset} is below {offset}, the next one")
        offset = offset if record.offset is None else record.offset
        if len(record.headers) > MOST_HEADERS:
            raise KlogError(f"more than {MOST_HEADERS} headers")
        headers = tuple(Header(chunk_bytes(key), data_bytes(value)) for key, value in record.headers)
        time = course.time_of(record.timestamp)
        built.append(format_batch.Record(offset, time, data_bytes(record.key), data_bytes(record.value), headers))
        offset += 1
    return built


def _build_messages(batch: Batch, records: list[format_batch.Record], magic: int) -> bytes:
    """Return messages, or a wrapper around them."""
    for name in _NOT_IN_MESSAGES:
        if getattr(batch, name) is not None:
            raise KlogError(f"magic {magic} has no {name}")
    if batch.transactional or batch.control or any(record.headers for record in records):
        raise KlogError(f"magic {magic} has no transactions, control records and headers")
    if not records and batch.body is None:
        raise KlogError(f"a batch of magic {magic} has at least one record")
    if batch.codec == "zstd":
        raise KlogError(f"zstd does not exist for magic {magic}")
    if batch.body is not None:
        return _build_wrapper(batch, magic)
    append_time = batch.log_append_time
    is_append_time = append_time is not None
    return build_message_set(
        records,
        magic=magic,
        codec=batch.codec,
        timestamp_type=LOG_APPEND_TIME if is_append_time else format_batch.CREATE_TIME,
        log_append_time=moment_ms(append_time) if is_append_time else None,
    )


def _build_wrapper(batch: Batch, magic: int) -> bytes:
    """Return a wrapper whose inner messages are given compressed."""
    if batch.records or batch.codec == "none" or batch.last_offset is None or batch.body is None:
        raise KlogError("a body stands in place of records, with a codec and last_offset")
    times = batch.max_timestamp, batch.log_append_time
    return build_message(
        batch.last_offset,
        None,
        content_bytes(batch.body),
        magic=magic,
        timestamp=next((moment_ms(time) for time in times if time is not None), NO_TIMESTAMP),
        attributes=CODEC_NAMES.index(batch.codec) | (TIMESTAMP_TYPE_BIT if batch.log_append_time is not None else 0),
    )


_NOT_IN_MESSAGES = ("producer", "epoch", "sequence", "base_timestamp", "delete_horizon", "records_count")


def _build_batch(batch: Batch, records: list[format_batch.Record], last: int, course: Course) -> bytes:
    first = course.next_offset if batch.offset is None else batch.offset
    base = _base_timestamp(batch, records)
    largest = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    largest = largest if batch.log_append_time is None else moment_ms(batch.log_append_time)
    producer_id, epoch, sequence = _take_producer(batch, last - first + 1, course)
    return build_raw_batch(
        _body_of(batch, records, first, base),
        base_offset=first,
        last_offset_delta=last - first,
        attributes=_attributes(batch, is_empty=not records and batch.body is None),
        base_timestamp=base,
        max_timestamp=largest if batch.max_timestamp is None else batch.max_timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records_count=_count(batch, records),
        partition_leader_epoch=course.take_leader_epoch(batch.leader_epoch),
    )


def _base_timestamp(batch: Batch, records: list[format_batch.Record]) -> int:
    if batch.delete_horizon is not None:
        return batch.delete_horizon
    if batch.base_timestamp is not None:
        return batch.base_timestamp
    return records[0].timestamp if records else NO_TIMESTAMP


def _body_of(batch: Batch, records: list[format_batch.Record], first: int, base: int) -> bytes:
    if batch.body is not None:
        if records or batch.records_count is None or batch.last_offset is None:
            raise KlogError("a body stands in place of records, with records_count and last_offset")
        return content_bytes(batch.body)
    body = b"".join(build_record(record, base_offset=first, base_timestamp=base) for record in records)
    return kernels.compress(batch.codec, body, magic=CURRENT_MAGIC) if records else b""


def _count(batch: Batch, records: list[format_batch.Record]) -> int:
    if batch.records_count is None:
        return len(records)
    if batch.body is None:
        raise KlogError("records_count goes with body")
    return batch.records_count


def _attributes(batch: Batch, *, is_empty: bool) -> int:
    """Return the attributes. A batch that compaction emptied has no codec."""
    return (
        (0 if is_empty else CODEC_NAMES.index(batch.codec))
        | (TIMESTAMP_TYPE_BIT if batch.log_append_time is not None else 0)
        | (TRANSACTIONAL_BIT if batch.transactional else 0)
        | (CONTROL_BIT if batch.control else 0)
        | (DELETE_HORIZON_BIT if batch.delete_horizon is not None else 0)
    )


def _take_producer(batch: Batch, offsets: int, course: Course) -> tuple[int, int, int]:
    """Return producer id, epoch and base sequence; the producer goes on."""
    if batch.producer is None:
        if batch.epoch is not None:
            raise KlogError("epoch goes with producer")
        if batch.transactional:
            raise KlogError("a transactional batch has a producer")
        return NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE if batch.sequence is None else batch.sequence
    return take_producer(course, batch.producer, batch.epoch, batch.sequence, offsets)


def take_producer(
    course: Course, producer_id: int, epoch: int | None, sequence: int | None, offsets: int
) -> tuple[int, int, int]:
    """Return producer id, epoch and base sequence of a batch with so many offsets; the producer goes on."""
    known = course.producers.setdefault(producer_id, Producer())
    if epoch is not None and epoch != known.epoch:
        known.epoch, known.next_sequence = epoch, 0
    base = known.next_sequence if sequence is None else sequence
    if base != NO_SEQUENCE:
        known.next_sequence = increment_sequence(base, offsets)
    return producer_id, known.epoch, base
