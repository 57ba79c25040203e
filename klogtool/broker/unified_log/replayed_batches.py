"""Producers after batches that a broker reads again at its start (loadProducersFromRecords), by the headers alone.

A broker reads all of the batches before it applies any; then it begins all transactions, and only then it ends those
that have ended. The kernel applies batch after batch, which has the same result if no epoch and no offset decreases. If
one does, or at anything unusual, the reference starts again from the beginning.
"""

from __future__ import annotations

from itertools import islice

from klogtool import kernels
from klogtool.broker.draft import span_of
from klogtool.broker.releases import new_map_of_updates
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.kernel_recovery import set_producer, take_by, take_changed, take_over
from klogtool.broker.unified_log.log_segment import LogSegment, walk_entries
from klogtool.broker.unified_log.log_segments import LogSegments
from klogtool.broker.unified_log.mapped_windows import MappedWindow, walk_mapped
from klogtool.broker.unified_log.producer_snapshots import SnapshottedProducers
from klogtool.errors import AtPath, Corrupt, KlogError
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.producers import ProducerState
from klogtool.log.producer_state import ProducerStateManager, examine_producers


def replay_batches(producers: ProducerStateManager, segment: LogSegment, start: int, end: int) -> None:
    """Apply the batches in bytes [start, end) of a segment's log.

    Raises Corrupt or Unsupported at a batch that cannot be read.
    """
    content = span_of(segment.draft.files[segment.log_name].content, start, end - start)
    if not _StateReplay(producers, segment).takes_over(ContentFile(segment.path, content)):
        with segment.open_log() as file:
            updated = new_map_of_updates(segment.rules)
            examined = examine_producers(producers, walk_entries(file, start, end), updated=updated)
        for _ in examined.apply_to(producers):
            pass


class _UnusualError(Exception):
    """The reference has to start again from the beginning."""


class _StateReplay:
    """The batches of one run (a mapped_windows.Reader)."""

    def __init__(self, producers: ProducerStateManager, segment: LogSegment) -> None:
        self._producers = producers
        self._order = new_map_of_updates(segment.rules)
        self._changed: dict[int, ProducerState] = {}
        self._kernel = kernel = kernels.native.Recovery()
        kernel.indexes.base_offset, kernel.keeps_ended = segment.base_offset, producers.keeps_ended
        kernel.indexes.interval_bytes = kernel.latest_epoch = MAX_LONG  # no index entry is due, no epoch begins
        for known in producers.producers.values():
            set_producer(kernel, known)
        for txn in producers.ongoing_txns:
            kernel.set_txn(txn.first_offset, txn.producer_id)

    def takes_over(self, file: ContentFile) -> bool:
        try:
            with file:
                walk_mapped(file, self)
        except (_UnusualError, KlogError):
            return False
        if self._kernel.goes_back:
            return False
        self._note_changed()
        take_over(self._producers, self._kernel, [self._changed[producer_id] for producer_id in self._order.in_order])
        return True

    def take(self, window: MappedWindow) -> int:
        """Let the kernel take batches. Checksums are not checked again."""
        return take_by(self._kernel, window, window.base + len(window.data))

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        """Take empty control batches, which compaction leaves where a transaction ended. Others start the reference."""
        count = size = 0
        for entry in islice(walk_entries(file, position), most):
            count, size = count + 1, size + entry.size
            if not isinstance(entry, RecordBatch) or entry.producer_id <= NO_PRODUCER_ID:
                continue
            if not entry.is_control or next(entry.records(), None) is not None:
                raise _UnusualError
            self._note_changed()
            self._order.compute_if_absent(entry.producer_id)
            known = self._producers.producers.get(entry.producer_id)
            self._changed.setdefault(entry.producer_id, known or ProducerState(entry.producer_id))
        return count, size

    def _note_changed(self) -> None:
        """Note the changed producers in the order of their first batches: the order in a snapshot depends on it."""
        for producer in take_changed(self._kernel, self._order):
            self._changed[producer.producer_id] = producer


def rebuild_producer_state(
    producers: SnapshottedProducers, segments: LogSegments, log_start_offset: int, end_offset: int, *, is_clean: bool
) -> None:
    """Rebuild the state up to end_offset. Snapshots out of range are deleted; new ones are written at some segments'
    bases and at the end.

    After a clean stop without any snapshot nothing is read: a broker takes that for an upgrade, and forgets all
    producers. Raises Corrupt or Unsupported if a batch cannot be applied, or a search meets damage.
    """
    marks = [*segments.base_offsets[-2:], end_offset]
    if producers.latest_snapshot_offset is None and is_clean:
        for mark in marks:
            producers.map_end_offset = mark
            producers.take_snapshot()
        return
    is_trivial = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset)
    if end_offset > producers.map_end_offset and not is_trivial:
        last = segments.floor(end_offset)
        for segment in segments.values(producers.map_end_offset, end_offset):
            start_offset = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start_offset
            if segment.base_offset in marks:
                producers.take_snapshot()
            _load_segment(producers, segment, start_offset, end_offset if segment is last else None)
    producers.map_end_offset = end_offset
    producers.take_snapshot()


def _load_segment(producers: ProducerStateManager, segment: LogSegment, start_offset: int, end: int | None) -> None:
    """Apply batches of a segment from an offset on, up to (without) the one that contains the end."""
    end_position = segment.size
    if end is not None and (batch := segment.translate_offset(end)) is not None:
        end_position = batch.position
    start = segment.translate_offset(start_offset)
    if start is None:
        return
    if end_position < start.position:
        raise Corrupt(
            f"Invalid size: {end_position - start.position} in read from {segment.log_name}",
            path=segment.path,
            position=start.position,
            kafka_class="IllegalArgumentException",
        )
    with AtPath(segment.path):
        replay_batches(producers, segment, start.position, end_position)
