"""What coordinators decided, and when, as far as `__transaction_state` still has it.

A coordinator writes PrepareCommit or PrepareAbort, then the markers, then CompleteCommit or CompleteAbort
(TransactionCoordinator.endTransaction). So each marker is written between two records. Compaction removes them, so only
the last run of offsets without a gap is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, takewhile

from msgspec import Struct

from klogtool.broker.coordinator.coordinators import Coordinators
from klogtool.broker.coordinator.transaction_state import TransactionMetadata, TransactionState
from klogtool.broker.unified_log.log_transactions import Status
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import TopicPartition

CLOCKS_APART_MS = 1000  # how far the clocks of two brokers of a cluster may differ
_FATES = {
    TransactionState.PREPARE_COMMIT: Status.COMMITTED,
    TransactionState.COMPLETE_COMMIT: Status.COMMITTED,
    TransactionState.PREPARE_ABORT: Status.ABORTED,
    TransactionState.COMPLETE_ABORT: Status.ABORTED,
}
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class DecidedEnd(Struct, frozen=True):
    """A decision. prepared: its first record, None if that is not known any more; then `partitions` is not, either.
    completed: its last record, None if the markers may still be written."""

    fate: Status
    prepared: TransactionMetadata | None
    completed: TransactionMetadata | None

    @property
    def record(self) -> TransactionMetadata:
        """A record of the decision."""
        decided = self.prepared or self.completed
        assert decided is not None
        return decided

    @property
    def since_ms(self) -> int:
        """No marker of it is older."""
        return -MAX_LONG if self.prepared is None else self.prepared.timestamp - CLOCKS_APART_MS

    @property
    def until_ms(self) -> int:
        """No marker of it is younger."""
        return MAX_LONG if self.completed is None else self.completed.timestamp + CLOCKS_APART_MS

    def concerns(self, partition: TopicPartition | None) -> bool:
        """Whether it has a marker on a partition; True if that is not known any more."""
        return self.prepared is None or partition in self.prepared.partitions


class DecidedEnds:
    """All decisions of the coordinators at hand."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    def known_from_ms(self, producer_id: int) -> int | None:
        """Return the time from which on every decision about a producer is known; None if none is."""
        metadata = self._coordinators.find(producer_id)
        ends = self.of_producer.get(producer_id)
        if metadata is None and not ends:
            return None
        number = metadata.coordinator if metadata is not None else ends[0].record.coordinator if ends else 0
        return self._coordinators.partitions[number].whole_from_ms

    def fitting(self, producer_id: int, partition: TopicPartition | None, time_ms: int) -> list[DecidedEnd]:
        """Return the decisions of which a marker on this partition with this time may be."""
        ends = self.of_producer.get(producer_id, [])
        first = bisect_left(ends, time_ms, key=lambda end: end.until_ms)
        in_time = takewhile(lambda end: end.since_ms <= time_ms, islice(ends, first, None))
        return [end for end in in_time if end.concerns(partition)]

    @cached_property
    def of_producer(self) -> dict[int, list[DecidedEnd]]:
        """The decisions by producer id, in their order."""
        by_producer: dict[int, list[DecidedEnd]] = {}
        for partition in self._coordinators.partitions.values():
            for end in _paired(partition.ends):
                by_producer.setdefault(end.record.producer_id, []).append(end)
        return by_producer


def _paired(records: Iterable[TransactionMetadata]) -> Iterator[DecidedEnd]:
    """Put the first and the last record of each decision together."""
    pending: dict[str, TransactionMetadata] = {}
    for record in records:
        if record.state in _PREPARED:
            pending[record.transactional_id] = record
            continue
        prepared = pending.pop(record.transactional_id, None)
        yield DecidedEnd(_FATES[record.state], prepared, record)
    yield from (DecidedEnd(_FATES[record.state], record, None) for record in pending.values())
