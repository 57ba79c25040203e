"""Large sets of a follower: index entries and producers by the kernel of recovery, which does the same for each batch.

Kafka checks all batches of a set before it applies any of them. So a refused batch leaves everything unchanged, and
when a transaction of the set is aborted, all transactions of the set have begun already.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from klogtool.broker.releases import new_map_of_updates
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.kernel_recovery import NO_OFFSET, RegularBatches, take_by, take_changed, take_over
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.mapped_windows import MappedWindow, walk_mapped
from klogtool.errors import KlogError
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.indexes import CURRENT_ABORTED_TXN_VERSION, AbortedTxn
from klogtool.format.producers import last_stable_offset_at
from klogtool.log.entries import Entry
from klogtool.log.producer_state import ProducerStateManager


def append_by_kernel(log: LoadedLog, segment: LogSegment, file: ContentFile) -> list[int]:
    """Update indexes and producers of the log for an appended set, whose checksums have been checked.

    The caller appends the bytes. Returns the first offsets of the transactions that begin in the set. Raises Corrupt or
    Refused, with Kafka's class; then nothing has changed.
    """
    marks, kept = segment.index_marks(), log.producers.copied()
    run = _AppendRun(log, segment)
    try:
        return run.walk_set(file)
    except KlogError:
        segment.return_to(marks)
        log.producers.return_to(kept)
        raise


class _Indexing:
    """What RegularBatches needs of a recovery: the segment that is appended to, and the position of the next batch."""

    def __init__(self, log: LoadedLog, segment: LogSegment) -> None:
        self.segment, self.epochs = segment, log.epochs
        self.producers: ProducerStateManager = log.producers
        self.valid_bytes, self.bytes_since_entry = segment.size, segment.bytes_since_last_index_entry
        self.previous_offset, self.needs_order = NO_OFFSET, False
        self.ended: list[tuple[int, int, int, bool]] = []

    def take(self, entry: Entry) -> None:
        self.bytes_since_entry = self.segment.index_batch(entry, self.valid_bytes, self.bytes_since_entry)
        self.valid_bytes += entry.size
        if isinstance(entry, RecordBatch):
            self._apply(entry)

    def _apply(self, batch: RecordBatch) -> None:
        known = self.producers.producers.get(batch.producer_id) if batch.producer_id > NO_PRODUCER_ID else None
        first_offset = None if known is None else known.current_txn_first_offset
        aborted = self.producers.apply(batch)
        is_over = first_offset is not None and self.producers.producer_of_txn(first_offset) is None
        if is_over and first_offset is not None:
            self.ended.append((batch.producer_id, first_offset, batch.base_offset, aborted is not None))


class _AppendRun(RegularBatches):
    def __init__(self, log: LoadedLog, segment: LogSegment) -> None:
        segment.read_max_timestamp_so_far()
        self._indexing = _Indexing(log, segment)
        self._open_before = {txn.first_offset: txn.producer_id for txn in log.producers.ongoing_txns}
        self._updated = new_map_of_updates(log.terms.rules)
        super().__init__(self._indexing)

    def walk_set(self, file: ContentFile) -> list[int]:
        """Take the whole set. Returns the first offsets of the transactions that begin in it."""
        known_before = self._producers.in_order
        walk_mapped(file, self, jobs=1, are_checked=False)
        self._put_down()
        self._producers.reorder([*known_before, *self._updated.in_order])  # new ones: as in Kafka's map of the set
        self._segment.bytes_since_last_index_entry = self._indexing.bytes_since_entry
        return self._append_aborted()

    def _take_entry(self, entry: Entry) -> None:
        if isinstance(entry, RecordBatch) and entry.producer_id > NO_PRODUCER_ID:
            self._updated.compute_if_absent(entry.producer_id)
        super()._take_entry(entry)

    def take(self, window: MappedWindow) -> int:
        """Let the kernel take entries; their checksums have been checked."""
        return take_by(self._kernel, window, window.base + len(window.data))

    def _put_down_producers(self) -> None:
        """Note the updated producers; aborted transactions wait for the end of the set."""
        self._producers.map_end_offset = self._kernel.map_end_offset
        ended = take_over(self._producers, self._kernel, take_changed(self._kernel, self._updated))
        self._indexing.ended += [(row[0], row[1], row[2], bool(row[3])) for row in ended]

    def _append_aborted(self) -> list[int]:
        """Append entries to the transaction index, each with the last stable offset after the whole set. Returns the
        first offsets of the transactions that begin in the set."""
        owners = dict(self._open_before)
        owners |= {txn.first_offset: txn.producer_id for txn in self._producers.ongoing_txns}
        owners |= {first_offset: producer_id for producer_id, first_offset, _, _ in self._indexing.ended}
        still_open: list[int] = []
        for first_offset in owners:
            insort(still_open, first_offset)
        for producer_id, first_offset, last_offset, is_aborted in self._indexing.ended:
            if is_aborted:
                open_txns = ((offset, owners[offset]) for offset in still_open)
                stable = last_stable_offset_at(last_offset, producer_id, open_txns)
                self._segment.txn_index.append(
                    AbortedTxn(CURRENT_ABORTED_TXN_VERSION, producer_id, first_offset, last_offset, stable)
                )
            del still_open[bisect_left(still_open, first_offset)]
        return [first_offset for first_offset in owners if first_offset not in self._open_before]
