"""The transactions of a log: what a broker remembers of producers, and each transaction as its batches show it.

The first comes from ProducerStateManager and TransactionIndex; the second from the headers of batches and the markers,
including what a broker has since forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import walk_entries_with
from klogtool.broker.unified_log.reading import collect_aborted_txns, find_first_unstable
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import LOG_APPEND_TIME, TRANSACTIONAL_BIT, RecordBatch
from klogtool.format.control import parse_end_transaction_marker
from klogtool.format.indexes import AbortedTxn
from klogtool.format.producers import ProducerState


class Status(Enum):
    """How a transaction ended. EMPTY: a marker without data before it, because the data was compacted or there was
    none."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    EMPTY = "empty"


class Transaction(Struct, frozen=True):
    """One transaction. first_offset, last_offset: of its data, None without data. first_timestamp: ms, of its first
    record, or of its marker if it is EMPTY; None if no header has it. marker_offset: None while it is open."""

    producer_id: int
    producer_epoch: int
    first_offset: int | None
    last_offset: int | None
    status: Status
    first_timestamp: int | None
    marker_offset: int | None


class LogTransactions(Struct, frozen=True):
    """What a broker knows once it has loaded the log. producers: by id. first_unstable_offset: of the first transaction
    that holds the last stable offset back, or would. aborted: from the transaction indexes."""

    producers: tuple[ProducerState, ...]
    high_watermark: int
    last_stable_offset: int
    first_unstable_offset: int | None
    aborted: tuple[AbortedTxn, ...]


def transaction_state(log: LoadedLog) -> LogTransactions:
    """Return the state. Raises Corrupt or Unsupported if a search meets damage, or an index has an entry of a later
    version."""
    first_unstable = find_first_unstable(log)
    unstable_offset = None if first_unstable is None else first_unstable.offset
    return LogTransactions(
        tuple(log.producers.producers[producer_id] for producer_id in sorted(log.producers.producers)),
        log.high_watermark,
        log.high_watermark if unstable_offset is None else min(unstable_offset, log.high_watermark),
        unstable_offset,
        collect_aborted_txns(
            log, log.segments.floor(log.local_log_start_offset), log.log_start_offset, log.log_end_offset
        ),
    )


def walk_transactions(log: LoadedLog) -> Iterator[Transaction]:
    """Yield transactions in the order of their markers; open ones follow by first offset.

    Batches that end below the log start do not count. Raises Corrupt or Unsupported if a batch cannot be read, Corrupt
    if its offsets go back: no checksum covers a base offset.
    """
    is_open: dict[int, Transaction] = {}
    for batch in _walk_transactional(log):
        if batch.is_control:
            ended = _ended(batch, is_open.pop(batch.producer_id, None))
            if ended is not None:
                yield ended
        else:
            before = is_open.get(batch.producer_id) or _begun(batch)
            latest = replace(before, producer_epoch=batch.producer_epoch, last_offset=batch.last_offset)
            is_open[batch.producer_id] = latest
    yield from sorted(is_open.values(), key=lambda txn: txn.first_offset or 0)


def _walk_transactional(log: LoadedLog) -> Iterator[RecordBatch]:
    before = -1
    for segment in log.segments.values(log.local_log_start_offset):
        with segment.open_log() as file:
            for entry in walk_entries_with(file, TRANSACTIONAL_BIT):
                if not isinstance(entry, RecordBatch) or not entry.is_transactional:
                    continue
                if entry.base_offset <= before:
                    raise Corrupt(
                        f"offset {entry.base_offset} does not lie behind offset {before}",
                        path=file.path,
                        position=entry.position,
                    )
                before = entry.last_offset
                if entry.last_offset >= log.log_start_offset:
                    yield entry


def _begun(batch: RecordBatch) -> Transaction:
    timestamp: int | None = batch.max_timestamp
    if (
        batch.timestamp_type != LOG_APPEND_TIME
    ):  # a compacted batch has a delete horizon in place of its first timestamp
        timestamp = batch.base_timestamp if batch.delete_horizon_ms is None else None
    first = batch.base_offset
    return Transaction(batch.producer_id, batch.producer_epoch, first, None, Status.OPEN, timestamp, None)


def _ended(batch: RecordBatch, txn: Transaction | None) -> Transaction | None:
    """Return the ended transaction for a marker of its producer; None for a control batch that lost its marker."""
    try:
        record = next(iter(batch.records()), None)
        marker = None if record is None else parse_end_transaction_marker(record.key, record.value)
    except KlogError as error:
        error.position = batch.position if error.position is None else error.position
        raise
    if record is None or marker is None:
        return None
    if txn is None:
        status, timestamp = Status.EMPTY, record.timestamp
        return Transaction(batch.producer_id, batch.producer_epoch, None, None, status, timestamp, batch.base_offset)
    status = Status.ABORTED if marker.is_abort else Status.COMMITTED
    return replace(txn, status=status, marker_offset=batch.base_offset)
