"""What a leader writes for the batches that it receives: checks, offsets, timestamps, another format or codec.

Source: LogValidator. If only the header has to change, the bytes of the records stay as they are; otherwise the batch
is rebuilt. Kafka makes some checks only on one of these paths, and klogtool does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.appending.checks import (
    NONE,
    AnyRecord,
    RecordError,
    Validation,
    check_batch,
    check_buildable,
    check_builder,
    check_producer,
    headers_of,
    is_in_time,
    only_or_first,
    raise_if_any,
    record_error,
)
from klogtool.broker.appending.record_survey import survey_records, walk_partly
from klogtool.broker.decompressed_sizes import find_too_large, walk_limited
from klogtool.errors import Refused
from klogtool.format.batch import LOG_APPEND_TIME, NO_TIMESTAMP, Record, RecordBatch, build_batch, rewritten_headers
from klogtool.format.java_numbers import MAX_LONG, wrap_long
from klogtool.format.message import build_message_set, check_magic, walk_messages
from klogtool.format.restamp import restamp_batch, restamp_message
from klogtool.log.entries import Entry
from klogtool.log.entries import RecordBatch as FileBatch


class Validated(Struct, frozen=True):
    """The bytes for the log, and facts about them. may_differ: their size may have changed."""

    data: bytes
    last_offset: int
    max_timestamp: int
    may_differ: bool


def validate(entries: Sequence[Entry], first_offset: int, rules: Validation) -> Validated:
    """Return the set with offsets from first_offset on (LogValidator.validateMessagesAndAssignOffsets).

    Raises Refused, Corrupt or Unsupported, with Kafka's class, for what a leader refuses.
    """
    if rules.codec == NONE and rules.target_codec == NONE:
        if any(entry.magic != rules.to_magic for entry in entries):
            return _convert(entries, first_offset, rules)
        return _assign(entries, first_offset, rules)
    return _validate_compressed(entries, first_offset, rules)


# The three paths.


def _convert(entries: Sequence[Entry], first_offset: int, rules: Validation) -> Validated:
    """Validate a set that is not compressed and has another format than the log."""
    for entry in entries:  # Kafka reads all records to estimate the size, and finds errors in them here
        for record in _walk(entry):
            _ = record.key, record.value
    first = only_or_first(entries, NONE)
    check_builder(first, rules)
    records: list[AnyRecord] = []
    for entry in entries:
        check_batch(first, entry, rules)
        errors: list[RecordError] = []
        for n, record in enumerate(_walk(entry)):
            error = record_error(entry, record, n, rules)
            if error is not None:
                errors.append(error)
            elif not errors:
                check_buildable(record, rules)
                records.append(record)
        raise_if_any(errors)
    return _build(records, first, first_offset, rules)


def _assign(entries: Sequence[Entry], first_offset: int, rules: Validation) -> Validated:
    """Validate a set that is not compressed and has the log's format: only headers change."""
    next_offset, largest, parts = first_offset, NO_TIMESTAMP, []
    first = only_or_first(entries, NONE)
    for entry in entries:
        check_batch(first, entry, rules)
        count, max_timestamp = _check_records(entry, rules)
        next_offset += count
        largest = max(largest, max_timestamp)
        parts.append(_restamped(entry, next_offset - 1, max_timestamp, rules))
    if rules.is_append_time:
        largest = NO_TIMESTAMP if rules.to_magic == 0 else rules.now_ms
    return Validated(b"".join(parts), next_offset - 1, largest, may_differ=False)


def _check_records(entry: Entry, rules: Validation) -> tuple[int, int]:
    """Return the count of a batch's records and their largest timestamp (-1 for magic 0). Raises RecordsRefused."""
    survey = _survey(entry, rules)
    if survey is not None:
        return survey
    errors, count, largest = [], 0, NO_TIMESTAMP
    for record in _walk(entry):
        error = record_error(entry, record, count, rules)
        if error is not None:
            errors.append(error)
        if entry.magic > 0:
            largest = max(largest, record.timestamp)
        count += 1
    raise_if_any(errors)
    return count, largest


def _validate_compressed(entries: Sequence[Entry], first_offset: int, rules: Validation) -> Validated:
    """Validate a set that is compressed or will be."""
    first = only_or_first(entries, rules.codec)
    in_place = rules.codec == rules.target_codec and first.magic == rules.to_magic != 0
    if rules.codec == NONE and first.is_control:  # a control batch that is not compressed stays so
        in_place = True
    if in_place and first.magic >= 2 and len(entries) == 1:
        check_batch(first, first, rules)
        survey = _survey(first, rules, are_offsets_from=0)
        if survey is not None:
            count, largest = survey
            return _restamped_alone(first, first_offset, count, largest, rules)
    return _read_compressed(entries, first, first_offset, rules, in_place=in_place)


def _read_compressed(
    entries: Sequence[Entry], first: Entry, first_offset: int, rules: Validation, *, in_place: bool
) -> Validated:
    largest, expected = NO_TIMESTAMP, 0
    records: list[AnyRecord] = []
    for entry in entries:
        check_batch(first, entry, rules)
        errors: list[RecordError] = []
        is_partial = in_place and isinstance(entry, RecordBatch) and entry.codec != NONE
        walked = walk_partly(entry) if is_partial and isinstance(entry, RecordBatch) else _walk(entry)
        for n, record in enumerate(walk_limited(entry, walked, rules.max_record_size)):
            error = record_error(entry, record, n, rules)
            if error is not None:
                errors.append(error)
            else:
                if entry.magic > 0 and rules.to_magic > 0:
                    largest = max(largest, record.timestamp)
                    in_place = in_place and record.offset == expected  # old clients number them differently
                records.append(record)
            expected += 1
        raise_if_any(errors)
    if in_place:
        return _restamped_alone(first, first_offset, len(records), largest, rules)
    check_builder(first, rules)
    if any(isinstance(record, Record) and record.crc is not None for record in records):
        raise Refused("key is skipped in PartialDefaultRecord", kafka_class="UnsupportedOperationException")
    for record in records:
        check_buildable(record, rules)
    return _build(records, first, first_offset, rules)


# Headers that change.


def _restamped_alone(entry: Entry, first_offset: int, count: int, largest: int, rules: Validation) -> Validated:
    last_offset = first_offset + count - 1
    if rules.is_append_time:
        largest = rules.now_ms
    data = _restamped(entry, last_offset, largest, rules)
    return Validated(data, last_offset, largest, may_differ=False)


def _restamped(entry: Entry, last_offset: int, max_timestamp: int, rules: Validation) -> bytes:
    """Return the entry with another last offset, leader epoch, timestamp and timestamp type."""
    timestamp = rules.now_ms if rules.is_append_time else max_timestamp
    stamp = rules.config.message_timestamp_type
    if isinstance(entry, RecordBatch):
        return restamp_batch(entry, last_offset, rules.leader_epoch, stamp, timestamp)
    return restamp_message(entry, last_offset, stamp, timestamp)


# Batches that are rebuilt.


def _build(records: Sequence[AnyRecord], first: Entry, first_offset: int, rules: Validation) -> Validated:
    """Build the set as MemoryRecordsBuilder does: one batch, or for magic 0 and 1 without a codec single messages."""
    check_producer(first, rules)
    if not records and rules.is_append_time and (rules.to_magic >= 2 or rules.target_codec != NONE):
        raise Refused("a batch without records", kafka_class="NullPointerException")  # MemoryRecordsBuilder.info
    renumbered = [
        Record(first_offset + n, record.timestamp, record.key, record.value, rewritten_headers(headers_of(record)))
        for n, record in enumerate(records)
    ]
    last_offset = first_offset + len(records) - 1
    if last_offset > MAX_LONG:
        raise Refused(
            f"Illegal offset {wrap_long(MAX_LONG + 1)} following previous offset {MAX_LONG} "
            "(Offsets must increase monotonically).",
            kafka_class="IllegalArgumentException",
        )
    times = (record.timestamp for record in renumbered) if rules.to_magic > 0 else ()
    largest = rules.now_ms if rules.is_append_time else max([NO_TIMESTAMP, *times])
    data = _built(renumbered, first, first_offset, rules) if renumbered else b""
    return Validated(data, last_offset, largest, may_differ=True)


def _built(records: Sequence[Record], first: Entry, first_offset: int, rules: Validation) -> bytes:
    stamp = rules.config.message_timestamp_type
    time = rules.now_ms if rules.is_append_time else None
    if rules.to_magic < 2:
        return build_message_set(
            records,
            magic=rules.to_magic,
            codec=rules.target_codec,
            level=rules.level,
            timestamp_type=stamp,
            log_append_time=time,
        )
    return build_batch(
        records,
        replace(first.origin, is_control=False, partition_leader_epoch=rules.leader_epoch),
        codec=rules.target_codec,
        level=rules.level,
        base_offset=first_offset,
        append_time_ms=time,
    )


def _walk(entry: Entry) -> Iterator[AnyRecord]:
    if isinstance(entry, RecordBatch):
        return entry.records()
    check_magic(entry)
    return walk_messages(entry)


def _survey(entry: Entry, rules: Validation, are_offsets_from: int | None = None) -> tuple[int, int] | None:
    """Return what `_check_records` returns, for all records at once; None if they have to be checked one by one."""
    if not isinstance(entry, FileBatch) or (not rules.is_append_time and entry.timestamp_type == LOG_APPEND_TIME):
        return None
    survey = survey_records(entry)
    if survey is None or (rules.config.compact and survey.has_null_key):
        return None
    if are_offsets_from is not None and (entry.base_offset != are_offsets_from or not survey.is_consecutive):
        return None
    if entry.timestamp_type == LOG_APPEND_TIME:
        return None
    if rules.max_record_size is not None and find_too_large(entry, rules.max_record_size) is not None:
        return None
    if not rules.is_append_time and not (
        is_in_time(survey.min_timestamp, rules) and is_in_time(survey.max_timestamp, rules)
    ):
        return None
    return survey.count, max(survey.max_timestamp, NO_TIMESTAMP)
