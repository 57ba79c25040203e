"""The state of a set's producers after it, if the set is accepted (UnifiedLog.analyzeAndValidateProducerState)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from klogtool.errors import Refused
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.java_hash import LongHashKeys
from klogtool.format.producers import BatchMetadata
from klogtool.log.entries import Entry
from klogtool.log.producer_state import AppendOrigin, CompletedTxn, ProducerAppendInfo, ProducerStateManager


class Examined(Struct):
    """The result of the check. updates: one for each producer, in the order in which Kafka applies them. completed:
    transactions that the set ends. duplicate: the earlier batch, if the set was sent again; then the rest is empty.
    """

    updates: list[ProducerAppendInfo] = field(default_factory=list)
    completed: list[CompletedTxn] = field(default_factory=list)
    duplicate: BatchMetadata | None = None


def examine_producers(
    producers: ProducerStateManager,
    entries: Iterable[Entry],
    origin: AppendOrigin,
    transaction_version: int,
    *,
    verifies: bool,
) -> Examined:
    """Check all batches of a set; nothing changes. verifies: a transaction must be known to be ongoing
    (transaction.partition.verification.enable).

    Raises Refused or Corrupt, with Kafka's class, for a batch that must not be appended.
    """
    examined, updates, order = Examined(), dict[int, ProducerAppendInfo](), LongHashKeys()
    for batch in entries:
        if not isinstance(batch, RecordBatch) or batch.producer_id <= NO_PRODUCER_ID:
            continue
        producer_id = batch.producer_id
        known = producers.producers.get(producer_id)
        if origin is AppendOrigin.CLIENT and known is not None:
            duplicate = known.find_duplicate(batch)
            if duplicate is not None:
                return Examined(duplicate=duplicate)
        if origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR) and batch.is_transactional:
            _check_is_under_way(producers, batch, verifies=verifies)
        order.compute_if_absent(producer_id)
        if producer_id not in updates:
            updates[producer_id] = producers.prepare_update(producer_id, origin)
        completed = updates[producer_id].append(batch, transaction_version=transaction_version)
        if completed is not None:
            examined.completed.append(completed)
    examined.updates = [updates[producer_id] for producer_id in order.in_order]
    return examined


def _check_is_under_way(producers: ProducerStateManager, batch: RecordBatch, *, verifies: bool) -> None:
    """Raise Refused for an old epoch, and for data of a transaction that was not verified."""
    known = producers.producers.get(batch.producer_id)
    if known is not None:
        is_open = known.current_txn_first_offset is not None
        if is_open and known.producer_epoch == batch.producer_epoch:
            return
        if batch.producer_epoch < known.producer_epoch:
            raise Refused(
                f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, which is smaller than the last seen "
                f"epoch {known.producer_epoch}",
                kafka_class="InvalidProducerEpochException",
            )
    if verifies and not batch.is_control:
        raise Refused("Record was not part of an ongoing transaction", kafka_class="InvalidTxnStateException")
