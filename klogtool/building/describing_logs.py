"""The batches and messages of a `.log`, as the steps of a spec.

Each entry is said in words, made into bytes again, and compared. What words do not give back is raw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from klogtool import kernels
from klogtool.building.entries import Course, Producer, build_end, build_entries
from klogtool.building.spec import Batch, Codec, Coded, EndSpec, FileContent, RecordSpec, StepSpec
from klogtool.building.spec_data import describe_content, describe_data
from klogtool.errors import KlogError
from klogtool.format import batch as format_batch
from klogtool.format.batch import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    parse_batch,
)
from klogtool.format.control import TRANSACTION_MARKERS, ControlRecordType, parse_end_transaction_marker
from klogtool.format.framing import CURRENT_MAGIC, Frame, find_frame
from klogtool.log.entries import Message, RecordBatch, read_entry
from klogtool.log.windows import Window

# Appends an entry that is said in words. Raises KlogError if it cannot be appended.
Append: TypeAlias = Callable[[bytes], None]
# Puts bytes that are not.
PutRaw: TypeAlias = Callable[[bytes], None]


def walk_log(data: bytes, base_offset: int, course: Course, append: Append, put_raw: PutRaw) -> Iterator[StepSpec]:
    """Yield the steps that give these bytes. course: goes on as it does when the steps are built."""
    at = raw_from = 0
    while at < len(data):
        frame = find_frame(data, at, len(data))
        stop = at + frame.size if isinstance(frame, Frame) else _next_entry(data, at, base_offset)
        step = _describe_entry(data, frame, course, append) if isinstance(frame, Frame) else None
        if step is None:
            put_raw(data[at:stop])
        else:
            yield from _describe_raw(data[raw_from:at])
            yield step
            raw_from = stop
        at = stop
    yield from _describe_raw(data[raw_from:])


def _next_entry(data: bytes, at: int, base_offset: int) -> int:
    """Return where the next sound entry begins, behind bytes that are none; else the end."""
    next_at, _ = kernels.native.find_batch(data, at + 1, len(data), base_offset, len(data))
    return next_at if next_at > at else len(data)


def _describe_raw(data: bytes) -> Iterator[StepSpec]:
    if data:
        yield StepSpec(raw=describe_content(data))


def _describe_entry(data: bytes, frame: Frame, course: Course, append: Append) -> StepSpec | None:
    """Return the words for an entry, once it is appended; None if there are none, or it cannot be appended."""
    words = _find_words(data, frame, course)
    if words is None:
        return None
    trial, step = words
    try:
        append(data[frame.position : frame.position + frame.size])
    except KlogError:
        return None
    course.now_ms, course.leader_epoch, course.next_offset = trial.now_ms, trial.leader_epoch, trial.next_offset
    course.producers.update(trial.producers)
    return step


def _find_words(data: bytes, frame: Frame, course: Course) -> tuple[Course, StepSpec] | None:
    """Return words for an entry that give its bytes back, and where the log is behind them; None if there are none."""
    wanted = data[frame.position : frame.position + frame.size]
    try:
        entry = read_entry(Window(0, memoryview(data), len(data), last=True), frame, "")
        if not entry.crc_valid:
            return None
        for step in _walk_steps(entry, wanted, course):
            known = course.producers.get(entry.producer_id) if isinstance(entry, RecordBatch) else None
            trial = replace(course, producers={} if known is None else {entry.producer_id: replace(known)})
            if _built(step, trial) == wanted:
                return trial, step
    except KlogError:
        return None
    return None


def _built(step: StepSpec, course: Course) -> bytes | None:
    try:
        if step.commit is not None:
            return build_end(step.commit, ControlRecordType.COMMIT, course)
        if step.abort is not None:
            return build_end(step.abort, ControlRecordType.ABORT, course)
        return build_entries(step.batch or Batch(), course)
    except KlogError:
        return None


def _walk_steps(entry: RecordBatch | Message, data: bytes, course: Course) -> Iterator[StepSpec]:
    """Yield words for an entry, the plainest first."""
    if isinstance(entry, Message):
        inner = list(entry.records())
        yield StepSpec(batch=_describe_message(entry, inner, course))
        yield StepSpec(batch=_describe_wrapper(entry, inner[0].offset, course))
        return
    records = _records_of(entry, data)
    if records is not None:
        marker = _describe_marker(entry, records, course)
        if marker is not None:
            yield marker
        yield StepSpec(batch=_describe_batch(entry, records, course))
    yield StepSpec(batch=_describe_body(entry, data, course))


def _records_of(batch: RecordBatch, data: bytes) -> list[format_batch.Record] | None:
    """Return the records with the timestamps that they have themselves; None if they cannot be read."""
    try:
        if not batch.attributes & TIMESTAMP_TYPE_BIT:
            return list(batch.records())
        plain = replace(parse_batch(data), attributes=batch.attributes & ~TIMESTAMP_TYPE_BIT)
        return list(plain.records())
    except KlogError:
        return None


def _describe_marker(batch: RecordBatch, records: list[format_batch.Record], course: Course) -> StepSpec | None:
    if not batch.is_control or not batch.is_transactional or len(records) != 1:
        return None
    try:
        marker = parse_end_transaction_marker(records[0].key, records[0].value)
    except KlogError:
        return None
    if marker.type not in TRANSACTION_MARKERS:
        return None
    known = course.producers.get(batch.producer_id, Producer())
    end = EndSpec(
        producer=batch.producer_id,
        epoch=None if batch.producer_epoch == known.epoch else batch.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=_describe_time(batch.base_timestamp, course.now_ms),
        offset=_unless(batch.base_offset, course.next_offset),
        leader_epoch=_unless(batch.partition_leader_epoch, course.leader_epoch),
    )
    plain = end.producer if end == EndSpec(producer=end.producer) else end
    return StepSpec(abort=plain) if marker.is_abort else StepSpec(commit=plain)


def _describe_batch(batch: RecordBatch, records: list[format_batch.Record], course: Course) -> Batch:
    first_time = records[0].timestamp if records else NO_TIMESTAMP
    largest = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    return replace(
        _describe_head(batch, course, largest),
        records=_describe_records(records, batch.base_offset, course),
        last_offset=_unless(batch.last_offset, records[-1].offset if records else batch.base_offset),
        base_timestamp=_unless(batch.base_timestamp, first_time) if batch.delete_horizon_ms is None else None,
    )


def _describe_body(batch: RecordBatch, data: bytes, course: Course) -> Batch:
    """Return a batch whose records are only bytes."""
    return replace(
        _describe_head(batch, course, NO_TIMESTAMP),
        body=_compact(data[RECORD_BATCH_OVERHEAD:]),
        records_count=batch.records_count,
        last_offset=batch.last_offset,
        base_timestamp=None if batch.delete_horizon_ms is not None else batch.base_timestamp,
    )


def _describe_head(batch: RecordBatch, course: Course, largest: int) -> Batch:
    known = course.producers.get(batch.producer_id, Producer())
    has_producer = batch.producer_id > NO_PRODUCER_ID
    is_append_time = bool(batch.attributes & TIMESTAMP_TYPE_BIT)
    sequence = known.next_sequence if batch.producer_epoch == known.epoch else 0
    sequence = sequence if has_producer else NO_SEQUENCE
    return Batch(
        magic=_unless(CURRENT_MAGIC, course.magic),
        codec=_codec_of(batch),
        offset=_unless(batch.base_offset, course.next_offset),
        leader_epoch=_unless(batch.partition_leader_epoch, course.leader_epoch),
        producer=batch.producer_id if has_producer else None,
        epoch=_unless(batch.producer_epoch, known.epoch) if has_producer else None,
        sequence=_unless(batch.base_sequence, sequence),
        transactional=batch.is_transactional,
        control=batch.is_control,
        log_append_time=batch.max_timestamp if is_append_time else None,
        max_timestamp=None if is_append_time else _unless(batch.max_timestamp, largest),
        delete_horizon=batch.delete_horizon_ms,
    )


def _describe_message(message: Message, records: list[format_batch.Record], course: Course) -> Batch:
    """Return a message, or a wrapper with what is in it."""
    return Batch(
        magic=_unless(message.magic, course.magic),
        codec=_codec_of(message),
        offset=_unless(records[0].offset, course.next_offset),
        log_append_time=message.timestamp if _is_append_time(message) else None,
        records=_describe_records(records, records[0].offset, course, has_times=message.magic > 0),
    )


def _describe_wrapper(message: Message, first: int, course: Course) -> Batch:
    """Return a wrapper whose inner messages are only bytes."""
    is_append_time = _is_append_time(message)
    return Batch(
        magic=_unless(message.magic, course.magic),
        codec=_codec_of(message),
        offset=_unless(first, course.next_offset),
        last_offset=message.offset,
        log_append_time=message.timestamp if is_append_time else None,
        max_timestamp=None if is_append_time or message.magic == 0 else message.timestamp,
        body=_compact(bytes(message.value or b"")),
    )


def _is_append_time(message: Message) -> bool:
    return message.magic == 1 and bool(message.attributes & TIMESTAMP_TYPE_BIT)


def _codec_of(entry: RecordBatch | Message) -> Codec:
    """Return the codec. Raises Unsupported."""
    return cast("Codec", entry.codec)


def _describe_records(
    records: list[format_batch.Record], first: int, course: Course, *, has_times: bool = True
) -> tuple[RecordSpec, ...]:
    described, now_ms, expected = [], course.now_ms, first
    for record in records:
        time = _describe_time(record.timestamp, now_ms) if has_times else UNSET
        now_ms += course.step_ms if time is UNSET else 0
        described.append(
            RecordSpec(
                key=describe_data(record.key),
                value=describe_data(record.value),
                headers=tuple((describe_data(key) or "", describe_data(value)) for key, value in record.headers),
                timestamp=time,
                offset=_unless(record.offset, expected),
            )
        )
        expected = record.offset + 1
    return tuple(described)


def _describe_time(timestamp: int, now_ms: int) -> int | UnsetType | None:
    if timestamp == now_ms:
        return UNSET
    return None if timestamp == NO_TIMESTAMP else timestamp


def _unless(value: int, expected: int) -> int | None:
    return None if value == expected else value


def _compact(data: bytes) -> FileContent:
    return Coded(base64="") if not data else describe_content(data)
