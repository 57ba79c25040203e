"""Transactions of a log: JSON rows of the contract (docs/contract.md), and text; what limits readers comes first."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator

from msgspec import to_builtins

from klogtool.broker.coordinator.audit import Anomaly, AuditFinding
from klogtool.broker.coordinator.coordinators import Coordinators
from klogtool.broker.coordinator.open_transactions import MAX_TIMEOUT_MS, Data, OpenTransaction, TransactionVerdict
from klogtool.broker.coordinator.transaction_parts import TransactionPart
from klogtool.broker.timestamps import duration_text, time_text
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.log_transactions import LogTransactions, Status, Transaction
from klogtool.escape import as_paragraph, joined, quoted
from klogtool.format.names import TRANSACTIONS_TOPIC, TopicPartition
from klogtool.format.producers import ProducerState
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.render.lookup import exact_time_text, named_row
from klogtool.render.terminal import columns
from klogtool.render.words import Row, count_text, words

_BELOW = " " * 4


def transaction_row(txn: Transaction) -> Row:
    """Return a row for JSON."""
    return {"type": "transaction", **to_builtins(txn)}


def state_row(state: LogTransactions) -> Row:
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


@as_paragraph
def state_text(state: LogTransactions) -> Iterator[str]:
    """Show up to which offset read_committed readers can read, and what limits them."""
    held = [producer for producer in state.producers if producer.current_txn_first_offset is not None]
    yield f"last stable offset {state.last_stable_offset:,}, high watermark {state.high_watermark:,}"
    for producer in held:
        yield (
            f"  open since offset {producer.current_txn_first_offset:,}: producer {producer.producer_id} epoch "
            f"{producer.producer_epoch}, last write {time_text(producer.last_timestamp)}"
        )
    if not held and state.last_stable_offset < state.high_watermark:
        yield "  limited by a transaction that ended above the high watermark"


def partition_of(loaded: LoadedPartition) -> TopicPartition | None:
    """Return which partition it is, by the name of its folder; None if that does not say."""
    name = find_partition_dir_name(own_name(loaded.path))
    return None if name is None else TopicPartition(name.topic, name.partition)


def open_row(one: OpenTransaction, partition: TopicPartition | None) -> Row:
    """Return a row for JSON: that of the transaction, and beside it who will end it."""
    known = one.metadata
    return transaction_row(one.transaction) | {
        "data": one.data.value,
        "held_from": one.held_from,
        "verdict": one.verdict.value,
        "transactional_id": None if known is None else known.transactional_id,
        "state": None if known is None else known.state.told,
        "timeout_ms": None if known is None else known.timeout_ms,
        "coordinator": None if known is None else f"{TRANSACTIONS_TOPIC}-{known.coordinator}",
        "abort": abort_line(partition, one.held_from) if one.is_to_abort else None,
    }


def open_text(one: OpenTransaction, partition: TopicPartition | None, coordinators: Coordinators) -> str:
    """Return its line, and below it who will end it, and how to abort it."""
    text = ". ".join(_sentences_of(one, coordinators)) + "."
    lines = textwrap.wrap(text, columns(), initial_indent=_BELOW, subsequent_indent=_BELOW, break_on_hyphens=False)
    abort = [f"  →  {abort_line(partition, one.held_from)}"] if one.is_to_abort else []
    return joined(["  " + transaction_text(one.transaction), *lines, *abort])


def abort_line(partition: TopicPartition | None, start_offset: int | None) -> str:
    """Return the command of Kafka that ends an open transaction."""
    where = "--topic ... --partition ..."
    if partition is not None:
        where = f"--topic {quoted(partition.topic)} --partition {partition.partition}"
    return f"kafka-transactions.sh --bootstrap-server ... abort {where} --start-offset {start_offset}"


def _sentences_of(one: OpenTransaction, coordinators: Coordinators) -> Iterator[str]:
    if one.data is Data.GONE:
        yield "Its data are gone, only the producer state remembers it"
    elif one.data is Data.PARTLY_GONE:
        yield f"It began at offset {one.held_from:,}, but the log has its data only from the offset above on"
    known = one.metadata
    if known is not None:
        text = (
            f"{known.state.told}, timeout {duration_text(known.timeout_ms)}, {TRANSACTIONS_TOPIC}-{known.coordinator}"
        )
        yield f"Transactional id {known.transactional_id} ({text})"
    match one.verdict:
        case TransactionVerdict.FORGOTTEN:
            yield "Forgotten: a broker does not know that it is open, so readers do not wait for it"
        case TransactionVerdict.ONGOING:
            late = ", which aborts it as soon as it runs, by its timeout" if one.is_late else ""
            yield f"Ongoing: its coordinator will end it{late}"
        case TransactionVerdict.HANGING if known is None:
            yield "Hanging: no transactional id has this producer id, so nobody will end it"
        case TransactionVerdict.HANGING:
            yield "Hanging: the coordinator has no transaction on this partition, so nobody will end it"
        case TransactionVerdict.SUSPECT:
            idle = f"its last write is older than {duration_text(MAX_TIMEOUT_MS)}, the longest timeout by default"
            yield f"Suspect: {_at_hand(coordinators)}, and {idle}"
            yield "Ask `kafka-transactions.sh find-hanging` before you abort it"
        case TransactionVerdict.UNKNOWN:
            yield f"Unknown: {_at_hand(coordinators)}"


def _at_hand(coordinators: Coordinators) -> str:
    count = len(coordinators.partitions)
    at_hand = f"{count:,} of {count_text(coordinators.expected, 'partition')} of {TRANSACTIONS_TOPIC}"
    return f"no transactional id at hand has its producer id ({at_hand})"


def transaction_text(txn: Transaction) -> str:
    """Return a line."""
    if txn.first_offset is None:
        where = "no data"
    elif txn.last_offset is None:
        where = f"since offset {txn.first_offset:,}"
    else:
        where = f"offsets {txn.first_offset:,} to {txn.last_offset:,}"
    marker = "" if txn.marker_offset is None else f", marker {txn.marker_offset:,}"
    since = "" if txn.first_timestamp is None else f"   {time_text(txn.first_timestamp)}"
    return f"{txn.status.value:<10} producer {txn.producer_id} epoch {txn.producer_epoch}   {where}{marker}{since}"


def closing_text(counts: Counter[Status], producers: int) -> str:
    """Return how many transactions have each status, and how many producers are known."""
    text = ", ".join(f"{counts[status]:,} {status.value}" for status in Status)
    return f"{text}; {count_text(producers, 'producer')} known"


SEEN = {
    Anomaly.TORN: "Readers with read_committed see a part of the transaction, and the rest is lost.",
    Anomaly.LATE_MARKER: "Records were committed or aborted before their producer decided it. Aborted, they are lost; "
    "committed, readers see records that the producer may have aborted. What the producer wrote afterwards had another "
    "fate.",
    Anomaly.WRONG_FATE: "Readers see records that were aborted, or do not see records that were committed.",
    Anomaly.JOINED: "The older data share the fate of the later transaction, whatever their own was.",
    Anomaly.STALE_DATA: "These records came late, from a transaction that had ended. They hang, or share the fate of a "
    "later transaction.",
    Anomaly.LOST_END: "Readers with read_committed wait for this transaction, and the log is not compacted behind it. "
    "If another replica has the marker, this copy is behind, or was cut.",
    Anomaly.HANGING: "Readers with read_committed wait for this transaction, and the log is not compacted behind it.",
}


def audit_row(result: AuditFinding) -> Row:
    """Return a row for JSON."""
    return {
        "type": "audit",
        "id": result.anomaly.value,
        "detail": words(result.detail),
        "producer_id": result.producer_id,
        "transactional_id": result.transactional_id,
        "parts": [_part_row(part) for part in result.parts],
    }


def audit_text(result: AuditFinding) -> str:
    """Return a paragraph: what is wrong, the evidence, what users see."""
    named = "" if result.transactional_id is None else f" ({result.transactional_id})"
    head = f"{result.anomaly.value}: producer {result.producer_id}{named}: {words(result.detail)}"
    seen = textwrap.wrap(SEEN[result.anomaly], columns(), initial_indent="  ", subsequent_indent="  ")
    lines = textwrap.wrap(head, columns(), subsequent_indent="  ", break_on_hyphens=False)
    return joined([*lines, *(f"    {line}" for part in result.parts for line in _part_lines(part)), *seen])


def audit_closing(findings: int, partitions: int, transactions: int, at_hand: str) -> str:
    """Return the last line."""
    result = count_text(findings, "finding") if findings else "nothing wrong was found"
    return f"{result}; {count_text(partitions, 'partition')}, {count_text(transactions, 'transaction')}, {at_hand}"


def _part_lines(part: TransactionPart) -> Iterator[str]:
    yield f"{part.path}:"
    data = "no data" if part.first_offset is None else f"offsets {part.first_offset:,} to {part.last_offset:,}"
    epochs = f"epoch {part.epoch}" if part.epoch == part.last_epoch else f"epochs {part.epoch} and {part.last_epoch}"
    if part.fate is Status.OPEN or part.marker_offset is None:
        yield f"  {data} of {epochs}, open"
    else:
        when = exact_time_text(part.marker_ms or 0)
        yield f"  {data} of {epochs}, {part.fate.value} by the marker of epoch {part.marker_epoch}"
        yield f"  at {part.marker_offset:,}, {when}"


def _part_row(part: TransactionPart) -> Row:
    return {
        "path": part.path,
        **named_row(part.partition),
        "producer_epoch": part.epoch,
        "last_producer_epoch": part.last_epoch,
        "first_offset": part.first_offset,
        "last_offset": part.last_offset,
        "status": part.fate.value,
        "marker_offset": part.marker_offset,
        "marker_epoch": part.marker_epoch,
        "marker_timestamp": part.marker_ms,
    }
