"""The regular batches of a segment in recovery, by the kernel; each one that it leaves, by the reference.

The kernel's state stands for that of the segment, its indexes and the producers as long as it goes on; what it has
changed is put down in them before the reference takes over, and at the end. With several threads, the others see which
batches match their checksums, ahead; what follows from the headers is one thread's work, in the order of the batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from klogtool import kernels
from klogtool.errors import Corrupt
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from klogtool.format.indexes import CURRENT_ABORTED_TXN_VERSION, AbortedTxn, TimeIndexEntry
from klogtool.log.leader_epochs import UNDEFINED_EPOCH
from klogtool.log.mapped import MappedReads, should_map
from klogtool.log.producer_state import BatchMetadata, ProducerState, TxnMetadata
from klogtool.log.spans import Span, find_start, walk_spans
from klogtool.log.windows import BEHIND_BYTES, BufferPool, Reads

if TYPE_CHECKING:
    from klogtool.repair.content_file import ContentFile
    from klogtool.repair.recovery import SegmentRecovery

SPAN_BYTES = 8 << 20
LARGEST_ENTRY_BYTES = 16 << 20  # a larger one is the reference's, as is most of what only looks like one
MOST_IN_TURN = 64  # entries for the reference at a time, where the kernel finds nothing regular between them
ENDED_FIELDS = 5  # longs of a row, see native.Recovery.take_txns_ended


class Piece:
    """The entries of a span, in memory from byte `base` of the log on. To be closed.

    start, reached, last: see log.spans. stop: entries that begin from here on are another piece's. checked: checksums
    are known to match up to here.
    """

    def __init__(self, file: ContentFile, span: Span, reads: Reads) -> None:
        self._file, self._reads = file, reads
        self.start = find_start(file, span, file.size)
        self.base = self.reached = self.checked = span.start if self.start is None else self.start
        self.stop, self.last = span.stop, False
        self.data = self._read()

    def check(self) -> None:
        """See how far checksums match."""
        self.checked = self.base + kernels.native.check_batches(self.data, 0, self.stop - self.base)

    def fits_another(self) -> bool:
        """Whether the entry that is reached, and is not whole here, would be in a piece that begins with it."""
        at = self.reached - self.base
        return 0 < at <= len(self.data) - HEADER_SIZE_UP_TO_MAGIC and self._size_at(at) <= self._most(self.reached)

    def close(self) -> None:
        """Let go of the memory. Raises KlogError if the file has not what was read of it any more."""
        self._reads.give_back(self.data)
        if isinstance(self._reads, MappedReads) and self._reads.hit:
            self._file.read(self.base, len(self.data))  # what is wrong shows there, mostly
            raise Corrupt("the file has become shorter while it was read", path=self._file.path, position=self.base)

    def _read(self) -> memoryview:
        """What is read of the log: all of the span's entries, mostly; the first one in any case."""
        self.data = self._reads.read(self.base, max(0, min(self.stop + BEHIND_BYTES, self._file.size) - self.base))
        needed = self._size_at(0) if len(self.data) > HEADER_SIZE_UP_TO_MAGIC else 0
        if not len(self.data) < needed <= self._most(self.base):
            return self.data
        self._reads.give_back(self.data)
        return self._reads.read(self.base, needed)

    def _size_at(self, at: int) -> int:
        return LOG_OVERHEAD + int.from_bytes(self.data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)

    def _most(self, position: int) -> int:
        return min(LARGEST_ENTRY_BYTES, self._file.size - position)


class RegularBatches:
    """A SegmentRecovery's walk over a log from its beginning, with the kernel."""

    def __init__(self, recovery: SegmentRecovery) -> None:
        self._recovery, self._segment, self._producers = recovery, recovery.segment, recovery.producers
        self._kernel = kernels.native.Recovery()
        self._in_turn = 1
        self._pick_up()
        self._kernel.keeps_ended = self._producers.keeps_ended
        for producer_id in self._producers.producers:
            self._pick_up_producer(producer_id)
        for txn in self._producers.ongoing_txns:
            self._kernel.set_txn(txn.first_offset, txn.producer_id)

    def walk(self, file: ContentFile, jobs: int) -> None:
        """All that is valid, in order; jobs: threads. Raises what SegmentRecovery.take and walk_valid do."""
        pool = BufferPool()

        def read(span: Span) -> Piece:
            piece = Piece(file, span, MappedReads(file, pool) if should_map(file) else Reads(file, pool))
            if jobs > 1:
                piece.check()
            return piece

        for piece in walk_spans(file, lambda: read, start=0, end=file.size, span_bytes=SPAN_BYTES, jobs=jobs):
            with closing(piece):
                self._take(file, piece)
        self._put_down()

    def _take(self, file: ContentFile, piece: Piece) -> None:
        """The entries of a piece, as far as they are in it."""
        native = kernels.native
        while not piece.last and piece.reached < piece.stop and piece.reached - piece.base <= len(piece.data):
            at = piece.reached - piece.base
            to, why = self._kernel.take(piece.data, at, piece.stop - piece.base, piece.checked - piece.base)
            self._in_turn = 1 if to > at else min(2 * self._in_turn, MOST_IN_TURN)
            piece.reached = piece.base + to
            if why == native.DONE or (why == native.CUT_OFF and piece.fits_another()):
                return
            self._by_reference(file, piece)

    def _by_reference(self, file: ContentFile, piece: Piece) -> None:
        self._put_down()
        count = 0
        for entry in islice(self._recovery.walk_valid(file, piece.reached), self._in_turn):
            count += 1
            piece.reached += entry.size
            if isinstance(entry, RecordBatch) and entry.producer_id > NO_PRODUCER_ID:
                known = self._producers.producers.get(entry.producer_id)
                before = None if known is None else known.current_txn_first_offset
                self._recovery.take(entry)
                self._pick_up_producer(entry.producer_id)
                self._pick_up_txns({entry.base_offset} if before is None else {entry.base_offset, before})
            else:
                self._recovery.take(entry)
        piece.last = count < self._in_turn
        self._pick_up()

    # From the segment to the kernel.

    def _pick_up(self) -> None:
        kernel, recovery, segment = self._kernel, self._recovery, self._segment
        kernel.base_offset, kernel.index_interval_bytes = segment.base_offset, recovery.index_interval_bytes
        kernel.valid_bytes, kernel.last_indexed = recovery.valid_bytes, recovery.last_indexed
        latest = segment.max_timestamp_so_far or segment.time_index.last_entry
        kernel.max_timestamp, kernel.offset_of_max_timestamp = latest.timestamp, latest.offset
        epoch = recovery.epochs.latest_epoch
        kernel.latest_epoch = UNDEFINED_EPOCH if epoch is None else epoch
        kernel.map_end_offset = self._producers.map_end_offset
        index, times = segment.offset_index, segment.time_index
        kernel.offset_entries, kernel.most_offset_entries = index.entries, index.max_entries
        kernel.last_offset = index.last_offset
        kernel.time_entries, kernel.most_time_entries = times.entries, times.max_entries
        kernel.last_timestamp, kernel.last_timestamp_offset = times.last_entry.timestamp, times.last_entry.offset
        last_aborted = segment.txn_index.last_offset
        kernel.has_aborted, kernel.last_aborted_offset = last_aborted is not None, last_aborted or 0

    def _pick_up_producer(self, producer_id: int) -> None:
        known = self._producers.producers[producer_id]
        self._kernel.set_producer(
            producer_id,
            known.producer_epoch,
            known.coordinator_epoch,
            known.last_timestamp,
            known.current_txn_first_offset,
            [(b.last_sequence, b.last_offset, b.offset_delta, b.timestamp) for b in known.batches],
        )

    def _pick_up_txns(self, first_offsets: Iterable[int]) -> None:
        for first_offset in first_offsets:
            self._kernel.set_txn(first_offset, self._producers.producer_of_txn(first_offset))

    # And back.

    def _put_down(self) -> None:
        kernel, recovery, segment = self._kernel, self._recovery, self._segment
        if kernel.valid_bytes == recovery.valid_bytes:
            return
        recovery.valid_bytes, recovery.last_indexed = kernel.valid_bytes, kernel.last_indexed
        segment.max_timestamp_so_far = TimeIndexEntry(kernel.max_timestamp, kernel.offset_of_max_timestamp)
        segment.offset_index.extend(kernel.take_offset_entries())
        segment.time_index.extend(kernel.take_time_entries())
        self._put_down_producers()

    def _put_down_producers(self) -> None:
        kernel, ended = self._kernel, array("q")
        ended.frombytes(kernel.take_txns_ended())
        rows = [ended[n : n + ENDED_FIELDS] for n in range(0, len(ended), ENDED_FIELDS)]
        self._producers.map_end_offset = kernel.map_end_offset
        self._producers.take_over(
            [_producer(*fields) for fields in kernel.take_producers_changed()],
            [TxnMetadata(*row[:3]) for row in rows],
            [TxnMetadata(*fields) for fields in kernel.take_txns_begun()],
        )
        for producer_id, first_offset, last_offset, is_aborted, last_stable_offset in rows:
            if is_aborted:
                self._segment.txn_index.append(
                    AbortedTxn(CURRENT_ABORTED_TXN_VERSION, producer_id, first_offset, last_offset, last_stable_offset)
                )


def _producer(
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    last_timestamp: int,
    txn_first_offset: int | None,
    batches: list[tuple[int, int, int, int]],
) -> ProducerState:
    producer = ProducerState(producer_id, producer_epoch, coordinator_epoch, last_timestamp, txn_first_offset)
    producer.batches.extend(BatchMetadata(*fields) for fields in batches)
    return producer
