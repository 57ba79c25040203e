"""What a leader refuses, batch by batch and record by record (the checks of LogValidator and MemoryRecordsBuilder)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.appending.analysis import invalid_record
from klogtool.broker.config import LogConfig
from klogtool.errors import Corrupt, Refused
from klogtool.format.batch import (
    LOG_APPEND_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Header,
    Record,
    RecordBatch,
)
from klogtool.format.java_numbers import wrap_long
from klogtool.format.message import Message
from klogtool.log.entries import Entry
from klogtool.log.producer_state import AppendOrigin

NONE, PRODUCER, UNCOMPRESSED = "none", "producer", "uncompressed"
ERRORS_SHOWN = 3
# A record of magic 2, with all its fields or without key, value and headers; or a message.
AnyRecord: TypeAlias = Record | Message
_illegal = partial(Refused, kafka_class="IllegalArgumentException")


class Validation(Struct, frozen=True):
    """The rules for a leader's set. to_magic: the format of the log. codec: the codec of the set.
    max_record_size: of a record of a compressed batch; None if any size is valid."""

    partition: str
    config: LogConfig
    origin: AppendOrigin
    leader_epoch: int
    to_magic: int
    codec: str
    now_ms: int
    max_record_size: int | None = None

    @property
    def target_codec(self) -> str:
        """The codec that batches have in the log (BrokerCompressionType.targetCompression)."""
        wanted = self.config.compression_type
        return self.codec if wanted == PRODUCER else NONE if wanted == UNCOMPRESSED else wanted

    @property
    def level(self) -> int | None:
        """The compression level for `target_codec`; None for the codec's default."""
        levels = {
            "gzip": self.config.compression_gzip_level,
            "lz4": self.config.compression_lz4_level,
            "zstd": self.config.compression_zstd_level,
        }
        return None if self.config.compression_type == PRODUCER else levels.get(self.target_codec)

    @property
    def is_append_time(self) -> bool:
        """Whether the log uses LogAppendTime."""
        return self.config.message_timestamp_type == LOG_APPEND_TIME


class RecordError(Struct, frozen=True):
    """A refused record, with its index in the batch."""

    index: int
    message: str
    is_of_time: bool = False

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.index}, message='{self.message}')"


class RecordsRefused(Refused):
    """Some records of a set are refused, and therefore the whole set (RecordValidationException)."""

    def __init__(self, errors: Sequence[RecordError]) -> None:
        is_of_time = any(error.is_of_time for error in errors)
        self.invalid_class = "InvalidTimestampException" if is_of_time else "InvalidRecordException"
        shown = ", ".join(map(str, errors[:ERRORS_SHOWN]))
        self.record_errors = tuple(errors)
        by_count = f"{len(errors)} record errors in total, and only showing the first three errors at most: [{shown}]"
        why = f"invalid timestamp: {errors[0].message}" if is_of_time else by_count
        super().__init__(
            f"One or more records have been rejected due to {why}", kafka_class="RecordValidationException"
        )


# Batches.


def only_or_first(entries: Sequence[Entry], codec: str) -> Entry:
    """Return the first batch. A batch of magic 2, or a compressed one, must be the only one. Raises Refused."""
    if not entries:
        raise invalid_record("Record batch has no batches at all")
    if len(entries) > 1 and (entries[0].magic >= 2 or codec != NONE):
        raise invalid_record("Compressed outer record has more than one batch")
    return entries[0]


def check_batch(first: Entry, entry: Entry, rules: Validation) -> None:
    """Check a batch (LogValidator.validateBatch). Raises Refused."""
    partition = rules.partition
    if entry.magic != first.magic:
        raise invalid_record(
            f"Batch magic {entry.magic} is not the same as the first batch's magic byte {first.magic} in topic "
            f"partition {partition}"
        )
    if rules.origin is AppendOrigin.CLIENT and isinstance(entry, RecordBatch):
        _check_client_batch(entry, partition)
    if rules.to_magic < 2:
        if entry.is_transactional:
            raise _unsupported_format("Transactional", rules.to_magic)
        if entry.producer_id > NO_PRODUCER_ID:
            raise _unsupported_format("Idempotent", rules.to_magic)


def _check_client_batch(entry: RecordBatch, partition: str) -> None:
    spanned, count = wrap_long(entry.last_offset - entry.base_offset + 1), entry.records_count
    if spanned <= 0:
        raise invalid_record(
            f"Batch has an invalid offset range: [{entry.base_offset}, {entry.last_offset}] in topic partition "
            f"{partition}"
        )
    if count <= 0:
        raise invalid_record(f"Invalid reported count for record batch: {count} in topic partition {partition}")
    if spanned != count:
        raise invalid_record(
            f"Inconsistent batch offset range [{entry.base_offset}, {entry.last_offset}] and count of records {count} "
            f"in topic partition {partition}"
        )
    if entry.is_control:
        raise invalid_record(f"Clients are not allowed to write control records in topic partition {partition}")
    if entry.producer_id > NO_PRODUCER_ID and entry.base_sequence < 0:
        raise invalid_record(
            f"Invalid sequence number {entry.base_sequence} in record batch with producerId {entry.producer_id} in "
            f"topic partition {partition}"
        )


def _unsupported_format(kind: str, magic: int) -> Refused:
    return Refused(
        f"{kind} records cannot be used with magic version {magic}", kafka_class="UnsupportedForMessageFormatException"
    )


# Records.


def record_error(entry: Entry, record: AnyRecord, index: int, rules: Validation) -> RecordError | None:
    """Return why a record is refused, or None (LogValidator.validateRecord).

    Raises Corrupt (CorruptRecordException) for an inner message with a wrong checksum.
    """
    where = f"in topic partition {rules.partition}"
    if isinstance(record, Message):
        if record.magic != entry.magic:
            _check_printable(record)
            return RecordError(
                index, f"Record of magic {record.magic}'s magic does not match outer magic {entry.magic} {where}"
            )
        if entry.codec != NONE and not record.crc_valid:
            raise Corrupt(f"Record is corrupt (stored crc = {record.crc})", kafka_class="CorruptRecordException")
    if rules.config.compact and record.key_size < 0:
        return RecordError(index, f"Compacted topic cannot accept message without key {where}")
    return _timestamp_error(entry, record, index, rules)


def _check_printable(message: Message) -> None:
    """Raise the error with which Kafka fails when it prints a refused message: an unknown codec or invalid sizes."""
    _ = message.codec, message.key, message.value


def _timestamp_error(entry: Entry, record: AnyRecord, index: int, rules: Validation) -> RecordError | None:
    if not rules.is_append_time and record.timestamp != NO_TIMESTAMP:
        if is_in_time(record.timestamp, rules):
            return None
        config = rules.config
        first, last = (
            wrap_long(rules.now_ms - config.message_timestamp_before_max_ms),
            wrap_long(rules.now_ms + config.message_timestamp_after_max_ms),
        )
        return RecordError(
            index,
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The timestamp "
            f"should be within [{first}, {last}]",
            is_of_time=True,
        )
    if entry.timestamp_type != LOG_APPEND_TIME:
        return None
    if isinstance(record, Message):
        _check_printable(record)
    return RecordError(
        index,
        f"Invalid timestamp type in message of offset {record.offset}. Producer should not set timestamp type to "
        "LogAppendTime.",
        is_of_time=True,
    )


def is_in_time(timestamp: int, rules: Validation) -> bool:
    """Whether a timestamp is in the allowed window around now. NO_TIMESTAMP is allowed."""
    if timestamp == NO_TIMESTAMP:
        return True
    age, config = wrap_long(rules.now_ms - timestamp), rules.config
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return age <= before and wrap_long(-age) <= after


def raise_if_any(errors: Sequence[RecordError]) -> None:
    """Raise RecordsRefused if a batch has any errors."""
    if errors:
        raise RecordsRefused(errors)


# Batches that are rebuilt.


def headers_of(record: AnyRecord) -> tuple[Header, ...]:
    """Return a record's headers; messages have none."""
    return record.headers if isinstance(record, Record) else ()


def check_builder(first: Entry, rules: Validation) -> None:
    """Raise what MemoryRecordsBuilder throws before the first record."""
    if rules.to_magic >= 2:
        return
    if first.is_transactional:
        raise _illegal(f"Transactional records are not supported for magic {rules.to_magic}")
    if rules.target_codec == "zstd":
        raise _illegal(f"ZStandard compression is not supported for magic {rules.to_magic}")


def check_buildable(record: AnyRecord, rules: Validation) -> None:
    """Raise what MemoryRecordsBuilder throws for a record."""
    if record.timestamp < 0 and record.timestamp != NO_TIMESTAMP:
        raise _illegal(f"Invalid negative timestamp {record.timestamp}")
    if rules.to_magic < 2 and headers_of(record):
        raise _illegal(f"Magic v{rules.to_magic} does not support record headers")


def check_producer(first: Entry, rules: Validation) -> None:
    """Raise what MemoryRecordsBuilder throws at the end (validateProducerState)."""
    if first.is_transactional and first.producer_id == NO_PRODUCER_ID:
        raise _illegal("Cannot write transactional messages without a valid producer ID")
    if first.producer_id == NO_PRODUCER_ID:
        return
    if first.producer_epoch == NO_PRODUCER_EPOCH:
        raise _illegal("Invalid negative producer epoch")
    if first.base_sequence < 0:
        raise _illegal("Invalid negative sequence number used")
    if rules.to_magic < 2:
        raise _illegal(f"Idempotent messages are not supported for magic {rules.to_magic}")
