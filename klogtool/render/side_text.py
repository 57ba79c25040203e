"""Lines of kafka-dump-log for producer snapshots and transaction indexes."""

from __future__ import annotations

from klogtool.format.indexes import AbortedTxn
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.render.kafka_text import optional_long


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


def aborted_txn_line(txn: AbortedTxn) -> str:
    """Return the line of an aborted transaction (DumpLogSegments.dumpTxnIndex)."""
    return (
        f"version: {txn.version} producerId: {txn.producer_id} firstOffset: {txn.first_offset}"
        f" lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
    )
