"""The state of transactional ids, as a transaction coordinator has it after it has loaded a partition of
`__transaction_state` (TransactionStateManager.loadTransactionMetadata, TransactionLog.read)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.causes import UnreadRecordCause
from klogtool.broker.coordinator.coordinator_load import (
    MOST_BYTES,
    MOST_LARGE_BYTES,
    MOST_RECORDS,
    NULL_KEY,
    UNKNOWN_STATE_ID,
    UNKNOWN_VERSION,
    find_load_end,
    is_loaded,
    why_unread,
)
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.causes import Reason
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import NO_PRODUCER_ID, Record
from klogtool.format.internal.records import TRANSACTION, ApiMessage, UnknownRecordType, parse_coordinator_record
from klogtool.format.names import TopicPartition
from klogtool.log.entries import Entry, Message

_Found: TypeAlias = tuple[int, int, bytes]  # offset, timestamp, value of a record


class TransactionState(Enum):
    """The state of a transactional id; the values are those on disk (org.apache.kafka.coordinator.transaction)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def told(self) -> str:
        """The name as Kafka's tools print it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TransactionMetadata(Struct, frozen=True):
    """One record of a transactional id. coordinator: the partition of `__transaction_state`. offset, timestamp: of the
    record there. partitions: those that the transaction writes to; a coordinator still has to end it there."""

    transactional_id: str
    coordinator: int
    offset: int
    timestamp: int
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_ms: int
    last_update_ms: int
    client_version: int

    @classmethod
    def of(cls, key: ApiMessage, value: ApiMessage, at: tuple[int, int, int]) -> TransactionMetadata:
        """Make it of a record's key and value. at: the partition, offset and timestamp of the record. Raises Corrupt
        (IllegalStateException) for a state that no release has."""
        values, number = value.values, value.values["transactionStatus"]
        try:
            state = TransactionState(number)
        except ValueError:
            raise Corrupt(UNKNOWN_STATE_ID.format(number), kafka_class="IllegalStateException") from None
        topics = () if state is TransactionState.EMPTY else values["transactionPartitions"] or ()
        return cls(
            key.values["transactionalId"],
            *at,
            values["producerId"],
            values.get("previousProducerId", NO_PRODUCER_ID),
            values.get("nextProducerId", NO_PRODUCER_ID),
            values["producerEpoch"],
            values["transactionTimeoutMs"],
            state,
            frozenset(TopicPartition(topic["topic"], number) for topic in topics for number in topic["partitionIds"]),
            values["transactionStartTimestampMs"],
            values["transactionLastUpdateTimestampMs"],
            values.get("clientTransactionVersion", 0),
        )


class CoordinatorPartition(Struct, frozen=True):
    """A partition of `__transaction_state`, loaded. path: its dir. end_offset: the log end. latest: by transactional
    id, without those that a tombstone removed. ends: every record in the last run of offsets without a gap that decides
    how a transaction ends, and every record that says that it has ended, in their order. whole_from_ms: the
    timestamp of the first record of that run; None if there is no record."""

    path: str
    partition: int
    end_offset: int
    latest: dict[str, TransactionMetadata]
    ends: tuple[TransactionMetadata, ...] = ()
    whole_from_ms: int | None = None


_OWING = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
)
_HISTORY = tuple(TransactionState)[TransactionState.PREPARE_COMMIT.value : TransactionState.DEAD.value]


def load_transactions(log: LoadedLog, partition: int, *, with_ends: bool = False) -> CoordinatorPartition | None:
    """Replay a partition of `__transaction_state` from its log start: the latest record of each transactional id wins,
    and a tombstone removes it. Records of a type or version that 4.3.1 does not know are passed over, as Kafka does.

    None: the records were blanked (`klogtool image`), so nothing is known. with_ends: also keep what ended, which needs
    memory for each transaction. Raises Corrupt or Unsupported if a batch or a record cannot be read: a coordinator
    stops loading there, and knows nothing behind it. Of a log with too much to open (`opens_all`), a record that a
    later one of its id replaces is not opened.
    """
    latest: dict[bytes, _Found] = {}
    run: list[tuple[bytes, _Found]] = []
    next_offset = log.log_start_offset
    whole_from_ms = None
    for entry in walk_data(log):
        for record in entry.records():
            if record.key is None:
                raise Corrupt(
                    NULL_KEY, position=entry.position, kafka_class="IllegalArgumentException", cure=_cure(log)
                )
            if record.offset != next_offset or whole_from_ms is None:
                whole_from_ms = record.timestamp
                run.clear()
            next_offset = record.offset + 1
            latest.pop(record.key, None)
            if record.value is not None:
                latest[record.key] = record.offset, record.timestamp, record.value
                if with_ends:
                    run.append((record.key, latest[record.key]))
    by_id = {one.transactional_id: one for one in _walk_parsed(latest.items(), partition, _cure(log))}
    if "" in by_id:  # no broker accepts an empty id (TransactionCoordinator.handleInitProducerId)
        return None
    if opens_all(log):
        _check_all(log)
    ends = tuple(one for one in _walk_parsed(run, partition, _cure(log)) if one.state in _HISTORY)
    return CoordinatorPartition(log.draft.path, partition, log.log_end_offset, by_id, ends, whole_from_ms)


def _check_all(log: LoadedLog) -> None:
    """Raises Corrupt at the first record that a coordinator cannot read."""
    end = find_load_end(walk_data(log), TRANSACTION, log.terms.rules)
    if end is not None:
        reason = UnreadRecordCause.AT(offset=end.offset, why=end.reason)
        raise Corrupt(reason, kafka_class="RuntimeException", cure=_cure(log))


def opens_all(log: LoadedLog) -> bool:
    """Return whether each record that a coordinator loads is opened: they are few, or small. A single one can be larger
    than MOST_BYTES. Raises KlogError if an entry cannot be read."""
    size = sum(segment.size for segment in log.segments.values(log.log_start_offset))
    if size <= MOST_BYTES or size > MOST_LARGE_BYTES:
        return size <= MOST_BYTES
    left = MOST_RECORDS
    for entry in walk_data(log):
        if (count := entry.records_count) is None:  # a wrapper does not say it
            return False
        left -= count
        if left < 0:
            return False
    return True


def walk_data(log: LoadedLog) -> Iterator[Entry]:
    """Yield the entries that a coordinator loads, but markers. Each is valid until the next one."""
    for segment in log.segments.values(log.log_start_offset):
        with segment.open_log() as file:
            for entry in walk_entries(file):
                if is_loaded(entry, log.log_start_offset):
                    yield entry


def find_owed_markers(log: LoadedLog) -> frozenset[TopicPartition]:
    """Return where the coordinator of a partition of `__transaction_state` appends a marker by itself once it has
    loaded it: of transactions that it has decided about, or whose timeout comes. A load that ends early keeps what it
    has read before (TransactionStateManager.loadTransactionMetadata). Of a log with too much to open (`opens_all`) only
    the latest record of each id is opened."""
    latest: dict[bytes, _Found] = {}
    with suppress(KlogError):
        for record in _walk_loaded(log):
            latest.pop(record.key or b"", None)
            if record.value is not None:
                latest[record.key or b""] = record.offset, record.timestamp, record.value
    owing = [one for one in _walk_parsed(latest.items(), 0, _cure(log)) if one.state in _OWING]
    return frozenset(partition for one in owing for partition in one.partitions)


def _walk_loaded(log: LoadedLog) -> Iterator[Record | Message]:
    is_small = opens_all(log)
    for entry in walk_data(log):
        for record in entry.records():
            if is_small and why_unread(record.key, record.value, TRANSACTION, log.terms.rules) is not None:
                return
            yield record


def _cure(log: LoadedLog) -> Reason:
    """Return the command that says what to do about a record: verify judges batches, and not what they mean."""
    return UnreadRecordCause.DOCTOR(path=os.path.dirname(log.draft.path))


def _walk_parsed(
    records: Iterable[tuple[bytes, _Found]], partition: int, cure: Reason
) -> Iterator[TransactionMetadata]:
    """Yield what records say, without those that a coordinator passes over."""
    for key, (offset, timestamp, value) in records:
        try:
            key_message, value_message = parse_coordinator_record(TRANSACTION, key, value)
            if value_message is not None:
                yield TransactionMetadata.of(key_message, value_message, (partition, offset, timestamp))
        except UnknownRecordType:
            continue
        except KlogError as error:
            if error.kafka_class != UNKNOWN_VERSION:
                error.reason, error.cure = str(UnreadRecordCause.AT(offset=offset, why=error.reason)), str(cure)
                raise
