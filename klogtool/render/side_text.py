"""Lines of kafka-dump-log for producer snapshots and transaction indexes."""

from __future__ import annotations

from klogtool.errors import KlogError
from klogtool.format.indexes import AbortedTxn, parse_txn_index
from klogtool.format.producer_snapshot import ProducerStateEntry, parse_producer_snapshot
from klogtool.kernels import crc32c
from klogtool.log.file import read_whole
from klogtool.render.kafka_text import optional_long

MOST_BYTES = 2**31 - 1


def read_producers(path: str) -> list[ProducerStateEntry]:
    """Return the entries of a `.snapshot`. Raises Corrupt with Kafka's message, other KlogErrors if the file cannot be
    read."""
    return parse_producer_snapshot(read_whole(path, limit=MOST_BYTES), crc32c)


def producer_line(entry: ProducerStateEntry, *, as_scala: bool = False) -> str:
    """Return the line of a producer (DumpLogSegments.dumpProducerIdSnapshot). as_scala: as the tool in Scala wrote it,
    with a blank at the end if the producer has no batch."""
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {optional_long(entry.current_txn_first_offset)} lastTimestamp: {entry.timestamp}"
    )
    if not entry.has_batch:
        return f"{line} " if as_scala else line
    return line + (
        f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset}"
        f" offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


def read_aborted_txns(path: str) -> list[AbortedTxn]:
    """Return the entries of a `.txnindex`. Raises KlogError for a version that Kafka does not know."""
    data = read_whole(path, limit=MOST_BYTES)
    try:
        return parse_txn_index(data)
    except KlogError as error:
        raise error.at_path(path) from None


def aborted_txn_line(txn: AbortedTxn) -> str:
    """Return the line of an aborted transaction (DumpLogSegments.dumpTxnIndex)."""
    return (
        f"version: {txn.version} producerId: {txn.producer_id} firstOffset: {txn.first_offset}"
        f" lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
    )
