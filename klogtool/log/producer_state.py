"""What a broker remembers of the producers of a partition (ProducerStateManager, ProducerAppendInfo). Opens no file.

A batch is first checked (`ProducerAppendInfo.append`), then applied (`update`), and a transaction that it ends is
completed last (`complete_txn`), as in UnifiedLog.append. `apply` does all three for one batch, as recovery and loading
do. Transaction markers that are read from the log are accepted unchecked; only a client's batches are checked.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct, field

from klogtool.errors import Corrupt, Refused
from klogtool.format.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, RecordBatch, is_in_sequence
from klogtool.format.control import EndTransactionMarker, parse_end_transaction_marker
from klogtool.format.hash_order import LongHashKeys, UpdatedProducers
from klogtool.format.indexes import CURRENT_ABORTED_TXN_VERSION, AbortedTxn
from klogtool.format.java_numbers import MAX_SHORT, wrap_int, wrap_long
from klogtool.format.message import Message
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.format.producers import BatchMetadata, ProducerState, last_stable_offset_at

TV_UNKNOWN = -1  # TransactionVersion: not given
TV_0 = 0
TV_2 = 2  # from this version on a marker's epoch is above that of its data (KIP-890)


class AppendOrigin(Enum):
    """The source of a batch, which decides what is checked (AppendOrigin)."""

    REPLICATION = "replication"
    COORDINATOR = "coordinator"
    CLIENT = "client"
    RAFT_LEADER = "raft_leader"


class CompletedTxn(Struct, frozen=True):
    """A transaction that was ended by its marker (at last_offset)."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class TxnMetadata(Struct, frozen=True):
    """A transaction of a producer. last_offset: its marker's, or None while it is open."""

    producer_id: int
    first_offset: int
    last_offset: int | None = None


class ProducerAppendInfo:
    """Collects what batches of one producer would change; `append` changes nothing yet.

    updated: the producer as it would be, with the new batches only. started: transactions that begin in them.
    """

    def __init__(self, current: ProducerState, origin: AppendOrigin = AppendOrigin.REPLICATION) -> None:
        self.producer_id = current.producer_id
        self.updated = current.without_batches()
        self.started: list[TxnMetadata] = []
        self._current, self._origin = current, origin

    def append(
        self, batch: RecordBatch, first_offset: int | None = None, transaction_version: int = TV_UNKNOWN
    ) -> CompletedTxn | None:
        """Check a batch; return the transaction that it ends, if it is a marker and one was open.

        first_offset: where the append begins, if not at the batch's base offset. Raises Corrupt: a marker that cannot
        be read (InvalidRecordException and others), data outside its transaction (InvalidTxnStateException); Refused:
        what a leader rejects (InvalidProducerEpochException, OutOfOrderSequenceException, ...).
        """
        if not batch.is_control:
            self._append_data(batch, batch.base_offset if first_offset is None else first_offset)
            return None
        record = next(iter(batch.records()), None)
        if record is None:  # the whole transaction has been compacted away
            return None
        marker = parse_end_transaction_marker(record.key, record.value)
        return self._append_marker(marker, batch, record.timestamp, transaction_version)

    def _append_data(self, batch: RecordBatch, first_offset: int) -> None:
        self._check_epoch(batch.producer_epoch, first_offset, TV_UNKNOWN)
        if self._origin is AppendOrigin.CLIENT:
            self.check_sequence(batch.producer_epoch, batch.base_sequence, first_offset)
        last_offset = batch.last_offset
        offset_delta = wrap_int(last_offset - first_offset)
        self.updated.add_batch(
            batch.producer_epoch, BatchMetadata(batch.last_sequence, last_offset, offset_delta, batch.max_timestamp)
        )
        is_open = self.updated.current_txn_first_offset is not None
        if is_open and not batch.is_transactional:
            raise Corrupt(
                f"Expected transactional write from producer {self.producer_id} at offset {first_offset}",
                position=batch.position,
                kafka_class="InvalidTxnStateException",
            )
        if batch.is_transactional and not is_open:
            self.updated.current_txn_first_offset = first_offset
            self.started.append(TxnMetadata(self.producer_id, first_offset))

    def _append_marker(
        self, marker: EndTransactionMarker, batch: RecordBatch, timestamp: int, transaction_version: int
    ) -> CompletedTxn | None:
        if transaction_version == TV_UNKNOWN:
            if self._origin is not AppendOrigin.REPLICATION:
                raise _refused(
                    "transactionVersion must be explicitly specified, "
                    f"cannot use default value TV_UNKNOWN for origin {self._origin.name}",
                    "IllegalArgumentException",
                )
            transaction_version = TV_0
        self._check_epoch(batch.producer_epoch, batch.base_offset, transaction_version)
        self._check_coordinator_epoch(marker, batch.base_offset)
        first_offset = self.updated.current_txn_first_offset
        self.updated.end_txn(batch.producer_epoch, marker.coordinator_epoch, timestamp)
        if first_offset is None:
            return None
        return CompletedTxn(self.producer_id, first_offset, batch.base_offset, marker.is_abort)

    def _check_epoch(self, producer_epoch: int, offset: int, transaction_version: int) -> None:
        if self._origin is AppendOrigin.REPLICATION:  # a follower only logs a stale epoch
            return
        current, is_tv2 = self.updated.producer_epoch, transaction_version >= TV_2
        if producer_epoch > current or (producer_epoch == current and not is_tv2):
            return
        # KAFKA-19999: a marker that is written again after its transaction has ended does no harm.
        is_over = self.updated.current_txn_first_offset is None or producer_epoch == MAX_SHORT
        if is_tv2 and producer_epoch == current and is_over:
            return
        raise _refused(
            f"Epoch of producer {self.producer_id} at offset {offset} is {producer_epoch}, which is "
            f"{'<=' if is_tv2 else '<'} the last seen epoch {current} (TV{transaction_version})",
            "InvalidProducerEpochException",
        )

    def check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        """Raise Refused if a leader rejects a batch that begins with this sequence (OutOfOrderSequenceException)."""
        if producer_epoch == self.updated.producer_epoch:
            is_same_epoch = producer_epoch == self._current.producer_epoch
            before = self.updated if self.updated.batches else self._current if is_same_epoch else None
            last_sequence = NO_SEQUENCE if before is None else before.last_sequence
            is_known = self._current.producer_epoch != NO_PRODUCER_EPOCH
            if is_known and not is_in_sequence(last_sequence, first_sequence):
                raise _refused(
                    f"Out of order sequence number for producer {self.producer_id} at offset {offset}: "
                    f"{first_sequence} (incoming seq. number), {last_sequence} (current end sequence number)",
                    "OutOfOrderSequenceException",
                )
        elif first_sequence != 0 and self.updated.producer_epoch != NO_PRODUCER_EPOCH:
            raise _refused(
                f"Invalid sequence number for new epoch of producer {self.producer_id} at offset {offset}: "
                f"{first_sequence} (incoming seq. number): {producer_epoch} (request epoch), "
                f"{self.updated.producer_epoch} (current producer epoch)",
                "OutOfOrderSequenceException",
            )

    def _check_coordinator_epoch(self, marker: EndTransactionMarker, offset: int) -> None:
        current = self.updated.coordinator_epoch
        if current > marker.coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise _refused(
                f"Invalid coordinator epoch for producerId {self.producer_id} at offset {offset}: "
                f"{marker.coordinator_epoch} (zombie), {current} (current)",
                "TransactionCoordinatorFencedException",
            )


class ProducerStateManager:
    """The producers of a partition up to map_end_offset (exclusive), their open transactions, and those that ended
    above the high watermark. last_snapshot_offset: no snapshot is due until map_end_offset is above it. keeps_ended:
    whether to remember ended transactions; there can be many, and recovery never needs them."""

    def __init__(self) -> None:
        self.producers: dict[int, ProducerState] = {}
        self.map_end_offset = 0
        self.last_snapshot_offset = 0
        self.keeps_ended = True
        self._ongoing: dict[int, TxnMetadata] = {}  # by first offset
        self._unreplicated: dict[int, TxnMetadata] = {}
        self._first_offsets: list[int] = []  # of ongoing transactions, sorted
        self._order = LongHashKeys()

    @property
    def is_empty(self) -> bool:
        """Whether neither a producer nor a transaction above the high watermark is known."""
        return not self.producers and not self._unreplicated

    @property
    def ongoing_txns(self) -> list[TxnMetadata]:
        """Open transactions by first offset."""
        return [self._ongoing[offset] for offset in self._first_offsets]

    @property
    def unreplicated_txns(self) -> list[TxnMetadata]:
        """Transactions, by first offset, whose markers are not known to be below the high watermark."""
        return [self._unreplicated[offset] for offset in sorted(self._unreplicated)]

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or ended above the high watermark."""
        return min((*self._first_offsets[:1], *self._unreplicated), default=None)

    def prepare_update(self, producer_id: int, origin: AppendOrigin = AppendOrigin.REPLICATION) -> ProducerAppendInfo:
        """Return an object that checks batches of one producer before they are applied."""
        return ProducerAppendInfo(self.producers.get(producer_id) or ProducerState(producer_id), origin)

    def update(self, append_info: ProducerAppendInfo) -> None:
        """Apply what was checked."""
        current = self.producers.get(append_info.producer_id)
        if current is None:
            self._put(append_info.updated)
        else:
            current.update(append_info.updated)
        for txn in append_info.started:
            self._put_ongoing(txn)

    def complete_txn(self, completed: CompletedTxn) -> AbortedTxn | None:
        """End a transaction; return its entry for the transaction index if it was aborted.

        Raises Corrupt (IllegalArgumentException) if it was never open. In Kafka the entry has been written by then
        (LogSegment.updateProducerState), but nobody sees it, because the load fails there.
        """
        open_txns = ((offset, self._ongoing[offset].producer_id) for offset in self._first_offsets)
        last_stable_offset = last_stable_offset_at(completed.last_offset, completed.producer_id, open_txns)
        if self._ongoing.pop(completed.first_offset, None) is None:
            raise Corrupt(
                f"Attempted to complete transaction {completed} which was not started",
                kafka_class="IllegalArgumentException",
            )
        self._forget_ongoing(completed.first_offset)
        if self.keeps_ended:
            self._unreplicated[completed.first_offset] = TxnMetadata(
                completed.producer_id, completed.first_offset, completed.last_offset
            )
        if not completed.is_aborted:
            return None
        return AbortedTxn(
            CURRENT_ABORTED_TXN_VERSION,
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            last_stable_offset,
        )

    def apply(self, batch: RecordBatch) -> AbortedTxn | None:
        """Apply a batch of the log (LogSegment.updateProducerState); return an entry for the transaction index, or
        None.

        Raises Corrupt: see `ProducerAppendInfo.append` and `complete_txn`.
        """
        aborted = None
        if batch.producer_id > NO_PRODUCER_ID:
            append_info = self.prepare_update(batch.producer_id)
            completed = append_info.append(batch)
            self.update(append_info)
            if completed is not None:
                aborted = self.complete_txn(completed)
        self.map_end_offset = wrap_long(batch.last_offset + 1)
        return aborted

    def take_over(
        self, producers: Iterable[ProducerState], ended: Iterable[TxnMetadata], begun: Iterable[TxnMetadata]
    ) -> None:
        """Take over the result of another replay: producers as they are now, new ones in order of appearance;
        transactions that have ended; and new open ones."""
        for producer in producers:
            self._put(producer)
        for txn in ended:
            if self._ongoing.pop(txn.first_offset, None) is not None:
                self._forget_ongoing(txn.first_offset)
            if self.keeps_ended:
                self._unreplicated[txn.first_offset] = txn
        for txn in begun:
            self._put_ongoing(txn)

    def reorder(self, producer_ids: Iterable[int]) -> None:
        """Order the producers as if they had been added in this order."""
        self._order.clear()
        for producer_id in producer_ids:
            self._order.put(producer_id)

    @property
    def in_order(self) -> list[int]:
        """The ids of the producers, in the order of a snapshot."""
        return self._order.in_order

    def copied(self) -> ProducerStateManager:
        """Return a copy of producers and transactions, for `return_to`."""
        kept = ProducerStateManager()
        kept.return_to(self)
        return kept

    def return_to(self, kept: ProducerStateManager) -> None:
        """Restore producers and transactions; offsets of snapshots stay."""
        self.clear()
        for producer_id in kept.in_order:
            self._put(kept.producers[producer_id].copied())
        self.map_end_offset = kept.map_end_offset
        self._unreplicated.update(kept._unreplicated)
        for txn in kept.ongoing_txns:
            self._put_ongoing(txn)

    def state(self) -> object:
        """Return everything that decides the effect of further batches: managers with equal states behave the same."""
        producers = {producer_id: known.copied() for producer_id, known in self.producers.items()}
        return self.map_end_offset, producers, dict(self._ongoing), dict(self._unreplicated), self._order.buckets

    def share(self, other: ProducerStateManager) -> None:
        """Share producers, transactions and end offset with `other` from now on; offsets of snapshots stay."""
        self.producers, self._order, self.map_end_offset = other.producers, other._order, other.map_end_offset
        self._ongoing, self._first_offsets = other._ongoing, other._first_offsets
        self._unreplicated = other._unreplicated

    def producer_of_txn(self, first_offset: int) -> int | None:
        """Return the producer whose transaction is open from this offset on, or None."""
        txn = self._ongoing.get(first_offset)
        return None if txn is None else txn.producer_id

    def load(self, entries: Iterable[ProducerStateEntry], now_ms: int, producer_id_expiration_ms: int) -> None:
        """Load the producers of a snapshot, without those that have expired and have no open transaction
        (loadFromSnapshot)."""
        for entry in entries:
            open_since = entry.current_txn_first_offset
            if open_since is None and wrap_long(now_ms - entry.timestamp) >= producer_id_expiration_ms:
                continue
            self._put(ProducerState.of_snapshot(entry))
            if open_since is not None:
                self._put_ongoing(TxnMetadata(entry.producer_id, open_since))

    def snapshot_entries(self) -> list[ProducerStateEntry]:
        """Return the entries of a snapshot, in the order in which a broker writes them."""
        return [self.producers[producer_id].as_snapshot_entry() for producer_id in self.in_order]

    def clear(self) -> None:
        """Forget producers and transactions; offsets stay."""
        self.producers.clear()
        self._order.clear()
        self._ongoing.clear()
        self._first_offsets.clear()
        self._unreplicated.clear()

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Settle transactions whose marker is below this offset."""
        settled = [
            first
            for first, txn in self._unreplicated.items()
            if txn.last_offset is not None and txn.last_offset < high_watermark
        ]
        for first_offset in settled:
            del self._unreplicated[first_offset]

    def _put(self, producer: ProducerState) -> None:
        self.producers[producer.producer_id] = producer
        self._order.put(producer.producer_id)

    def _put_ongoing(self, txn: TxnMetadata) -> None:
        if txn.first_offset not in self._ongoing:
            insort(self._first_offsets, txn.first_offset)
        self._ongoing[txn.first_offset] = txn

    def _forget_ongoing(self, first_offset: int) -> None:
        del self._first_offsets[bisect_left(self._first_offsets, first_offset)]


def _refused(reason: str, kafka_class: str) -> Refused:
    return Refused(reason, kafka_class=kafka_class)


# The batches of a set, or of a log that is loaded (UnifiedLog.analyzeAndValidateProducerState).


class Examined(Struct):
    """The result of the check. updates: one for each producer, in the order in which Kafka applies them. completed:
    transactions that the set ends. duplicate: the earlier batch, if the set was sent again; then the rest is empty.
    """

    updates: list[ProducerAppendInfo] = field(default_factory=list)
    completed: list[CompletedTxn] = field(default_factory=list)
    duplicate: BatchMetadata | None = None

    def apply_to(self, producers: ProducerStateManager) -> Iterator[AbortedTxn]:
        """Apply what was checked, as entries are taken; yield those of the transaction index."""
        for update in self.updates:
            producers.update(update)
        for completed in self.completed:
            if (aborted := producers.complete_txn(completed)) is not None:
                yield aborted


def examine_producers(
    producers: ProducerStateManager,
    entries: Iterable[RecordBatch | Message],
    origin: AppendOrigin = AppendOrigin.REPLICATION,
    transaction_version: int = TV_UNKNOWN,
    *,
    verifies: bool = False,
    updated: UpdatedProducers | None = None,
) -> Examined:
    """Check all batches of a set; nothing changes. verifies: a transaction must be known to be ongoing
    (transaction.partition.verification.enable). updated: the empty map of the updated producers, Java's by default.

    Raises Refused or Corrupt, with Kafka's class, for a batch that must not be appended.
    """
    examined, updates, order = Examined(), dict[int, ProducerAppendInfo](), updated or LongHashKeys()
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
