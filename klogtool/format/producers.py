"""What is remembered of one producer of a partition (ProducerStateEntry), and which offset is stable.

The ProducerStateManager in log/producer_state uses it, and so does the replay of a log in format/producer_replay. The
kernel is kernels/_transactions.pxi.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.format.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, RecordBatch
from klogtool.format.java_numbers import wrap_long
from klogtool.format.producer_snapshot import NO_OFFSET, ProducerStateEntry, decrement_sequence

NUM_BATCHES_TO_RETAIN = 5  # ProducerStateEntry
NO_COORDINATOR_EPOCH = -1


class BatchMetadata(Struct, frozen=True):
    """A batch among the last five of a producer, as the broker remembers it (BatchMetadata)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, batch: RecordBatch) -> BatchMetadata:
        """What is remembered of a batch of data."""
        return cls(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)

    @property
    def first_sequence(self) -> int:
        """Sequence of its first record."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of its first record."""
        return wrap_long(self.last_offset - self.offset_delta)


class ProducerState(Struct):
    """One producer: its epochs, the start of its open transaction, its last five batches."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    batches: deque[BatchMetadata] = field(default_factory=partial(deque, maxlen=NUM_BATCHES_TO_RETAIN))

    @classmethod
    def of_snapshot(cls, entry: ProducerStateEntry) -> ProducerState:
        """Make a producer from a snapshot, which has only the last batch (ProducerStateManager.readSnapshot)."""
        producer = cls(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            entry.current_txn_first_offset,
        )
        if entry.has_batch:
            producer.batches.append(
                BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            )
        return producer

    @property
    def last_sequence(self) -> int:
        """Last sequence of the last batch, or NO_SEQUENCE."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Last offset of the last batch, or NO_OFFSET."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def as_snapshot_entry(self) -> ProducerStateEntry:
        """Return the producer as a snapshot has it (ProducerStateManager.writeSnapshot)."""
        return ProducerStateEntry(
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_data_offset,
            self.batches[-1].offset_delta if self.batches else 0,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )

    def copied(self) -> ProducerState:
        """Return a copy."""
        return replace(self, batches=self.batches.copy())

    def without_batches(self) -> ProducerState:
        """Return a copy without any batch (ProducerStateEntry.withProducerId)."""
        return replace(self, batches=deque(maxlen=NUM_BATCHES_TO_RETAIN))

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Add a batch; batches of another epoch are forgotten."""
        self._set_epoch(producer_epoch)
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def end_txn(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """End the open transaction with a marker."""
        self._set_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.current_txn_first_offset = None

    def update(self, later: ProducerState) -> None:
        """Apply what came after this (ProducerStateEntry.update)."""
        self._set_epoch(later.producer_epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.current_txn_first_offset = later.current_txn_first_offset
        self.last_timestamp = later.last_timestamp

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the kept batch with exactly this one's epoch and sequences: it was sent twice (findDuplicateBatch)."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        sequences = batch.base_sequence, batch.last_sequence
        return next((b for b in self.batches if (b.first_sequence, b.last_sequence) == sequences), None)

    def _set_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


def last_stable_offset_at(marker_offset: int, producer_id: int, open_txns: Iterable[tuple[int, int]]) -> int:
    """Return the last stable offset once this producer's transaction has ended at its marker: the start of the first
    open transaction of another producer, else the offset after the marker (ProducerStateManager.lastStableOffset).

    open_txns: (first offset, producer id), ascending.
    """
    others = (first_offset for first_offset, owner in open_txns if owner != producer_id)
    return next(others, wrap_long(marker_offset + 1))
