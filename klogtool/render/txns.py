"""Transactions of a log: JSON rows of the contract (docs/contract.md), and text; what limits readers comes first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from klogtool.broker.unified_log.log_transactions import Status, Transaction, TransactionState
from klogtool.escape import joined
from klogtool.render.counts import count_text
from klogtool.render.lookup import time_text

if TYPE_CHECKING:
    from klogtool.format.producers import ProducerState

Row = dict[str, Any]


def transaction_row(txn: Transaction) -> Row:
    """Return a row for JSON."""
    row: Row = {"type": "transaction"} | {name: getattr(txn, name) for name in txn.__struct_fields__}
    return row | {"status": txn.status.value}


def state_row(state: TransactionState) -> Row:
    """Return the contract's answer (docs/contract.md)."""
    return {
        "producers": [_producer_row(producer) for producer in state.producers],
        "high_watermark": state.high_watermark,
        "last_stable_offset": state.last_stable_offset,
        "first_unstable_offset": state.first_unstable_offset,
        "aborted": [
            [txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset] for txn in state.aborted
        ],
    }


def _producer_row(producer: ProducerState) -> Row:
    return {
        "producer_id": producer.producer_id,
        "epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_timestamp": producer.last_timestamp,
        "txn_first_offset": producer.current_txn_first_offset,
        "batches": [
            [batch.first_sequence, batch.last_sequence, batch.first_offset, batch.last_offset, batch.timestamp]
            for batch in producer.batches
        ],
    }


def state_text(state: TransactionState) -> str:
    """Show up to which offset read_committed readers can read, and what limits them."""
    held = [producer for producer in state.producers if producer.current_txn_first_offset is not None]
    lines = [f"last stable offset {state.last_stable_offset:,}, high watermark {state.high_watermark:,}"]
    for producer in held:
        lines.append(
            f"  open since offset {producer.current_txn_first_offset:,}: producer {producer.producer_id} epoch "
            f"{producer.producer_epoch}, last write {time_text(producer.last_timestamp)}"
        )
    if not held and state.last_stable_offset < state.high_watermark:
        lines.append("  limited by a transaction that ended above the high watermark")
    return joined(lines)


def transaction_text(txn: Transaction) -> str:
    """Return a line."""
    where = "no data" if txn.first_offset is None else f"offsets {txn.first_offset:,} to {txn.last_offset:,}"
    marker = "" if txn.marker_offset is None else f", marker {txn.marker_offset:,}"
    since = "" if txn.first_timestamp is None else f"   {time_text(txn.first_timestamp)}"
    return f"{txn.status.value:<10} producer {txn.producer_id} epoch {txn.producer_epoch}   {where}{marker}{since}"


def closing_text(counts: Counter[Status], producers: int) -> str:
    """Return how many transactions have each status, and how many producers are known."""
    told = ", ".join(f"{counts[status]:,} {status.value}" for status in Status)
    return f"{told}; {count_text(producers, 'producer')} known"
