"""Producers and transactions as the batches of a log tell them, in one walk over their headers.

A replay remembers of a producer what ProducerStateManager would remember if it recovered the log. It also remembers
what the check of transaction indexes needs: what readers see of a transaction, and what its producer did before. The
kernel's class of this name (kernels/_producers.pxi) does the same, and is fast.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import IntEnum

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.batch import NO_PRODUCER_ID, RECORD_BATCH_OVERHEAD, RecordBatch, parse_batch
from klogtool.format.control import parse_end_transaction_marker
from klogtool.format.framing import Frame, find_frame
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.format.producers import BatchMetadata, ProducerState, last_stable_offset_at

MOST_PRODUCERS = 1 << 18
MOST_OPEN_TXNS = 1 << 16
MOST_ENDED_AT_ONCE = 1 << 16
NOTHING = -1  # no such offset


class ReplayStop(IntEnum):
    """Why a replay stopped in front of an entry."""

    DONE = 0
    """There is none."""
    MARK = 1
    """It begins at or behind the offset that was asked for."""
    IMPOSSIBLE = 2
    """Kafka would refuse it: a marker that cannot be read, or data without transaction amid a transaction."""
    FULL = 3
    """More producers, or open transactions, than are kept track of; or what was found is to be fetched first."""
    UNSURE = 4
    """Only of the kernel: a marker that the reference is to read (`end_txn`)."""


class Aborted(Struct, frozen=True):
    """An aborted transaction. NOTHING stands for an offset that does not exist.

    first_offset, last_offset (its marker's), last_stable_offset: as its index entry would have them. visible_from,
    visible_to: of its first batch that a reader would see. before: the last offset that its producer wrote or marked
    before it. open_from: where the first transaction of another producer that was open then has something to see.
    is_known: whether all of the log was there since it began.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    visible_from: int
    visible_to: int
    before: int
    open_from: int
    is_known: bool


class _Producer(ProducerState):
    """One producer. before, visible_*: of its open transaction. last: the last offset it wrote or marked outside of
    that. doubtful: part of the log was missing since that began."""

    before: int = NOTHING
    last: int = NOTHING
    last_marker: int = NOTHING
    visible_from: int = NOTHING
    visible_to: int = NOTHING
    doubtful: bool = False


class ProducerReplay:
    """The producers of a log, batch by batch. log_start_offset: below it nobody reads."""

    def __init__(self, log_start_offset: int) -> None:
        self.log_start_offset = log_start_offset
        self._producers: dict[int, _Producer] = {}
        self._open: list[tuple[int, int]] = []  # (first offset, producer id), ascending
        self._aborted: list[Aborted] = []
        self._lone_aborts: list[tuple[int, int, int]] = []

    def take(self, data: memoryview, at: int, cut: int, mark: int | None) -> tuple[int, int]:
        """Take the entries of data[at:cut], which are whole and sound. Return where the replay stopped, and why.

        mark: an offset. The replay stops before the first batch that does not begin below it. None: no mark.
        """
        while isinstance(frame := find_frame(data, at, cut), Frame):
            if frame.magic == 2 and frame.size >= RECORD_BATCH_OVERHEAD:
                batch = parse_batch(data, at)
                if mark is not None and batch.base_offset >= mark:
                    return at, ReplayStop.MARK
                why = self._take(batch) if batch.producer_id > NO_PRODUCER_ID else ReplayStop.DONE
                if why:
                    return at, why
            at += frame.size
        return at, ReplayStop.DONE

    def end_txn(
        self,
        producer_id: int,
        epoch: int,
        base_offset: int,
        last_offset: int,
        is_abort: bool,
        coordinator_epoch: int,
        timestamp: int,
    ) -> None:
        """Apply a transaction marker of this producer, which has these offsets in the log."""
        producer = self._producers.setdefault(producer_id, _Producer(producer_id))
        self._end_open_txn(producer, base_offset, is_abort=is_abort)
        producer.end_txn(epoch, coordinator_epoch, timestamp)
        producer.last = producer.last_marker = last_offset

    def lose_track(self) -> None:
        """Note that part of the log is missing here: open transactions may have ended in it."""
        for _, producer_id in self._open:
            self._producers[producer_id].doubtful = True

    def fetch_aborted(self) -> list[Aborted]:
        """Return the transactions that were aborted since the last call."""
        taken, self._aborted = self._aborted, []
        return taken

    def fetch_lone_aborts(self) -> list[tuple[int, int, int]]:
        """Return (offset, producer id, last offset before) of ABORT markers without a transaction, likewise."""
        taken, self._lone_aborts = self._lone_aborts, []
        return taken

    def find(self, producer_id: int) -> tuple[ProducerStateEntry, int] | None:
        """Return a producer as a snapshot would have it, and the offset of its last marker; None if it is unknown."""
        p = self._producers.get(producer_id)
        return None if p is None else (p.as_snapshot_entry(), p.last_marker)

    def open_txns(self) -> list[tuple[int, int]]:
        """Return (first offset, producer id) of the open transactions, ascending."""
        return list(self._open)

    # One batch.

    def _take(self, batch: RecordBatch) -> ReplayStop:
        if batch.producer_id not in self._producers and len(self._producers) >= MOST_PRODUCERS:
            return ReplayStop.FULL
        if not batch.is_control:
            return self._take_data(batch)
        if batch.records_count == 0:  # all of its transaction was compacted away
            return ReplayStop.DONE
        if len(self._aborted) + len(self._lone_aborts) >= MOST_ENDED_AT_ONCE:
            return ReplayStop.FULL
        return take_marker(self, batch)

    def _take_data(self, batch: RecordBatch) -> ReplayStop:
        producer = self._producers.get(batch.producer_id) or _Producer(batch.producer_id)
        is_open = producer.current_txn_first_offset is not None
        if is_open and not batch.is_transactional:
            return ReplayStop.IMPOSSIBLE
        if batch.is_transactional and not is_open:
            if len(self._open) >= MOST_OPEN_TXNS:
                return ReplayStop.FULL
            insort(self._open, (batch.base_offset, batch.producer_id))
            producer.current_txn_first_offset, producer.before = batch.base_offset, producer.last
            producer.visible_from = producer.visible_to = NOTHING
        self._producers[batch.producer_id] = producer
        producer.add_batch(batch.producer_epoch, BatchMetadata.of(batch))
        if not batch.is_transactional:
            producer.last = batch.last_offset
        elif producer.visible_to == NOTHING and batch.records_count > 0 and batch.last_offset >= self.log_start_offset:
            producer.visible_from, producer.visible_to = batch.base_offset, batch.last_offset
        return ReplayStop.DONE

    def _end_open_txn(self, producer: _Producer, offset: int, *, is_abort: bool) -> None:
        producer_id, first_offset = producer.producer_id, producer.current_txn_first_offset
        if first_offset is None:
            if is_abort:
                self._lone_aborts.append((offset, producer_id, producer.last))
            return
        del self._open[bisect_left(self._open, (first_offset, producer_id))]
        if is_abort:
            stable = last_stable_offset_at(offset, producer_id, self._open)
            visible, is_known = (producer.visible_from, producer.visible_to), not producer.doubtful
            fields = (first_offset, offset, stable, *visible, producer.before, self._open_from(), is_known)
            self._aborted.append(Aborted(producer_id, *fields))
        producer.current_txn_first_offset, producer.doubtful = None, False

    def _open_from(self) -> int:
        """Return where the first open transaction begins that readers can see something of."""
        earliest = NOTHING
        for first_offset, producer_id in self._open:
            if earliest != NOTHING and first_offset > earliest:
                break
            visible_from = self._producers[producer_id].visible_from
            if visible_from != NOTHING and (earliest == NOTHING or visible_from < earliest):
                earliest = visible_from
        return earliest


def take_marker(replay: ProducerReplay, batch: RecordBatch) -> ReplayStop:
    """Take a control batch of a producer: the end of a transaction, by its first record (EndTransactionMarker)."""
    try:
        record = next(batch.records())
        marker = parse_end_transaction_marker(record.key, record.value)
    except KlogError:
        return ReplayStop.IMPOSSIBLE
    offsets, is_abort = (batch.base_offset, batch.last_offset), marker.is_abort
    replay.end_txn(
        batch.producer_id, batch.producer_epoch, *offsets, is_abort, marker.coordinator_epoch, record.timestamp
    )
    return ReplayStop.DONE
