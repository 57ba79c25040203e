"""Recovery of a segment: the kernel takes the regular batches, the reference takes the others.

While the kernel runs, its state replaces that of the segment, its indexes and the producers. Its changes are written
back before the reference takes over, and at the end. With several threads, the other threads check the checksums in
advance; one thread does the rest, in the order of the batches.
"""

from __future__ import annotations

from array import array
from itertools import islice
from typing import Protocol

from klogtool import kernels
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import LogSegment, walk_valid
from klogtool.broker.unified_log.mapped_windows import MappedWindow, walk_mapped
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.hash_order import UpdatedProducers
from klogtool.format.indexes import CURRENT_ABORTED_TXN_VERSION, AbortedTxn, TimeIndexEntry
from klogtool.format.producers import BatchMetadata, ProducerState
from klogtool.log.entries import Entry
from klogtool.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochFileCache
from klogtool.log.producer_state import ProducerStateManager, TxnMetadata


class Indexing(Protocol):
    """What goes on batch by batch; most often a SegmentRecovery. valid_bytes: position of the next batch.
    bytes_since_entry: bytes from the batch of the last index entry to there. previous_offset, needs_order: as of a
    SegmentRecovery."""

    segment: LogSegment
    epochs: LeaderEpochFileCache
    producers: ProducerStateManager
    valid_bytes: int
    bytes_since_entry: int
    previous_offset: int
    needs_order: bool

    def take(self, entry: Entry) -> None:
        """Take one more batch, whose checksum matches."""


NO_OFFSET = -1
ENDED_FIELDS = 5  # longs of a row, see native.Recovery.take_txns_ended


def take_by(kernel: kernels.native.Recovery, window: MappedWindow, checked: int) -> int:
    """Let the kernel take entries of a piece. Return why it stopped. checked: checksums match up to this byte."""
    base = window.base
    to, why = kernel.take(window.data, window.reached - base, window.stop - base, checked - base)
    window.reached = base + to
    return why


def pick_up_indexes(indexes: kernels.native.SegmentIndexes, segment: LogSegment, bytes_since: int) -> None:
    """Copy the state of a segment's indexes to the kernel's. bytes_since: see LogSegment.index_batch."""
    indexes.base_offset, indexes.interval_bytes = segment.base_offset, segment.config.index_interval_bytes
    indexes.bytes_since = bytes_since
    index, times = segment.offset_index, segment.time_index
    latest = segment.max_timestamp_so_far or times.last_entry
    indexes.max_timestamp, indexes.offset_of_max_timestamp = latest.timestamp, latest.offset
    indexes.offset_entries, indexes.most_offset_entries = index.entries, index.max_entries
    indexes.last_offset = index.last_offset
    indexes.time_entries, indexes.most_time_entries = times.entries, times.max_entries
    indexes.last_timestamp, indexes.last_timestamp_offset = times.last_entry.timestamp, times.last_entry.offset


def put_down_entries(indexes: kernels.native.SegmentIndexes, segment: LogSegment) -> None:
    """Append the kernel's new entries to the segment's indexes."""
    segment.offset_index.extend(indexes.take_offset_entries())
    segment.time_index.extend(indexes.take_time_entries())


def latest_of(indexes: kernels.native.SegmentIndexes) -> TimeIndexEntry:
    """Return the largest timestamp so far, and its offset."""
    return TimeIndexEntry(indexes.max_timestamp, indexes.offset_of_max_timestamp)


class RegularBatches:
    """A SegmentRecovery's walk over a log from its beginning, with the kernel (a pieces.Reader)."""

    def __init__(self, recovery: Indexing) -> None:
        self._recovery, self._segment, self._producers = recovery, recovery.segment, recovery.producers
        self._kernel = kernels.native.Recovery()
        self._pick_up()
        self._kernel.keeps_ended = self._producers.keeps_ended
        for producer_id in self._producers.producers:
            self._pick_up_producer(producer_id)
        for txn in self._producers.ongoing_txns:
            self._kernel.set_txn(txn.first_offset, txn.producer_id)

    def walk(self, file: ContentFile, jobs: int) -> None:
        """Walk the valid entries, in order; jobs: threads. Raises the errors of SegmentRecovery.take and walk_valid."""
        walk_mapped(file, self, jobs=jobs, are_checked=jobs > 1)
        self._put_down()

    def take(self, window: MappedWindow) -> int:
        """Let the kernel take entries."""
        return take_by(self._kernel, window, window.checked)

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        """Take entries by the reference."""
        self._put_down()
        count = size = 0
        for entry in islice(walk_valid(file, position), most):
            count, size = count + 1, size + entry.size
            self._take_entry(entry)
        self._pick_up()
        return count, size

    def _take_entry(self, entry: Entry) -> None:
        if not isinstance(entry, RecordBatch) or entry.producer_id <= NO_PRODUCER_ID:
            self._recovery.take(entry)
            return
        known = self._producers.producers.get(entry.producer_id)
        before = None if known is None else known.current_txn_first_offset
        self._recovery.take(entry)
        self._pick_up_producer(entry.producer_id)
        for first_offset in {entry.base_offset} if before is None else {entry.base_offset, before}:
            self._kernel.set_txn(first_offset, self._producers.producer_of_txn(first_offset))

    # From the segment to the kernel.

    def _pick_up(self) -> None:
        kernel, recovery, segment = self._kernel, self._recovery, self._segment
        kernel.valid_bytes = recovery.valid_bytes
        kernel.indexes.previous_offset, kernel.indexes.needs_order = recovery.previous_offset, recovery.needs_order
        pick_up_indexes(kernel.indexes, segment, recovery.bytes_since_entry)
        epoch = recovery.epochs.latest_epoch
        kernel.latest_epoch = UNDEFINED_EPOCH if epoch is None else epoch
        kernel.map_end_offset = self._producers.map_end_offset
        last_aborted = segment.txn_index.last_offset
        kernel.has_aborted, kernel.last_aborted_offset = last_aborted is not None, last_aborted or 0

    def _pick_up_producer(self, producer_id: int) -> None:
        set_producer(self._kernel, self._producers.producers[producer_id])

    # And back.

    def _put_down(self) -> None:
        kernel, recovery, segment = self._kernel, self._recovery, self._segment
        if kernel.valid_bytes == recovery.valid_bytes:
            return
        recovery.valid_bytes, recovery.bytes_since_entry = kernel.valid_bytes, kernel.indexes.bytes_since
        recovery.previous_offset, recovery.needs_order = kernel.indexes.previous_offset, kernel.indexes.needs_order
        segment.max_timestamp_so_far = latest_of(kernel.indexes)
        put_down_entries(kernel.indexes, segment)
        self._put_down_producers()

    def _put_down_producers(self) -> None:
        kernel = self._kernel
        self._producers.map_end_offset = kernel.map_end_offset
        ended = take_over(self._producers, kernel, [producer_of(*fields) for fields in kernel.take_producers_changed()])
        for producer_id, first_offset, last_offset, is_aborted, last_stable_offset in ended:
            if is_aborted:
                self._segment.txn_index.append(
                    AbortedTxn(CURRENT_ABORTED_TXN_VERSION, producer_id, first_offset, last_offset, last_stable_offset)
                )


def set_producer(kernel: kernels.native.Recovery, known: ProducerState) -> None:
    """Tell a kernel what is known of a producer."""
    kernel.set_producer(
        known.producer_id,
        known.producer_epoch,
        known.coordinator_epoch,
        known.last_timestamp,
        known.current_txn_first_offset,
        [(b.last_sequence, b.last_offset, b.offset_delta, b.timestamp) for b in known.batches],
    )


def take_changed(kernel: kernels.native.Recovery, updated: UpdatedProducers) -> list[ProducerState]:
    """Return the producers that a kernel changed since the last call, in the order of their first batches, and add them
    to UnifiedLog's map of the updated producers."""
    changed = [producer_of(*fields) for fields in kernel.take_producers_changed()]
    for producer in changed:
        updated.compute_if_absent(producer.producer_id)
    return changed


def take_over(
    producers: ProducerStateManager, kernel: kernels.native.Recovery, changed: list[ProducerState]
) -> list[array[int]]:
    """Take over what a kernel has found. changed: producers, in the order for the snapshot. Return the transactions
    that have ended, each as ENDED_FIELDS numbers."""
    numbers = array("q")
    numbers.frombytes(kernel.take_txns_ended())
    ended = [numbers[n : n + ENDED_FIELDS] for n in range(0, len(numbers), ENDED_FIELDS)]
    begun = [TxnMetadata(*fields) for fields in kernel.take_txns_begun()]
    producers.take_over(changed, [TxnMetadata(*row[:3]) for row in ended], begun)
    return ended


def producer_of(
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    last_timestamp: int,
    txn_first_offset: int | None,
    batches: list[tuple[int, int, int, int]],
) -> ProducerState:
    """Return a producer from the fields of native.Recovery."""
    producer = ProducerState(producer_id, producer_epoch, coordinator_epoch, last_timestamp, txn_first_offset)
    producer.batches.extend(BatchMetadata(*fields) for fields in batches)
    return producer
