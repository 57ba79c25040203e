"""The findings of txns --audit: text with what users see, and JSON rows of the contract (docs/contract.md)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from klogtool.broker.coordinator.audit import Anomaly, AuditFinding
from klogtool.broker.coordinator.transaction_parts import TransactionPart
from klogtool.broker.timestamps import time_text
from klogtool.broker.unified_log.log_transactions import Status
from klogtool.escape import joined
from klogtool.render.counts import count_text
from klogtool.render.lookup import named_row
from klogtool.render.terminal import columns

Row = dict[str, object]
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
        "detail": result.detail,
        "producer_id": result.producer_id,
        "transactional_id": result.transactional_id,
        "parts": [_part_row(part) for part in result.parts],
    }


def audit_text(result: AuditFinding) -> str:
    """Return a paragraph: what is wrong, the evidence, what users see."""
    named = "" if result.transactional_id is None else f" ({result.transactional_id})"
    head = f"{result.anomaly.value}: producer {result.producer_id}{named}: {result.detail}"
    seen = textwrap.wrap(SEEN[result.anomaly], columns(), initial_indent="  ", subsequent_indent="  ")
    lines = textwrap.wrap(head, columns(), subsequent_indent="  ", break_on_hyphens=False)
    return joined([*lines, *(f"    {line}" for part in result.parts for line in _part_lines(part)), *seen])


def audit_closing(findings: int, partitions: int, transactions: int, at_hand: str) -> str:
    """Return the last line."""
    result = f"{count_text(findings, 'finding')}" if findings else "nothing wrong was found"
    return f"{result}; {count_text(partitions, 'partition')}, {count_text(transactions, 'transaction')}, {at_hand}"


def _part_lines(part: TransactionPart) -> Iterator[str]:
    yield f"{part.path}:"
    data = "no data" if part.first_offset is None else f"offsets {part.first_offset:,} to {part.last_offset:,}"
    epochs = f"epoch {part.epoch}" if part.epoch == part.last_epoch else f"epochs {part.epoch} and {part.last_epoch}"
    if part.fate is Status.OPEN or part.marker_offset is None:
        yield f"  {data} of {epochs}, open"
    else:
        when = time_text(part.marker_ms or 0)
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
