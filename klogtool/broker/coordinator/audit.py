"""Transactions that the logs show torn, lost or wrongly ended.

Until KIP-890, all transactions of a producer have the same epoch, and nothing in a marker says to which of them it
belongs. A marker or a batch that comes late then counts for a later transaction (Jepsen, Bufstream 0.1.0, 2024). Since
KIP-890 (transaction version 2), a marker's epoch is above that of its data, so each epoch has one transaction.
docs/txns.md defines each kind, its evidence and its limits.

What a coordinator decided, and when, comes from `__transaction_state`, as far as that has it. A coordinator writes
PrepareCommit or PrepareAbort, then the markers, then CompleteCommit or CompleteAbort
(TransactionCoordinator.endTransaction). So each marker is written between two records. Compaction removes them, so only
the last run of offsets without a gap is used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from itertools import islice, takewhile
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.coordinator.coordinators import Coordinators
from klogtool.broker.coordinator.transaction_parts import PartitionParts, TransactionPart
from klogtool.broker.coordinator.transaction_state import TransactionMetadata, TransactionState
from klogtool.broker.unified_log.log_transactions import Status
from klogtool.causes import Cause, Reason, some
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


_Transaction: TypeAlias = tuple[int, int]  # producer id, epoch of the data


class Anomaly(Enum):
    """What is wrong with a transaction."""

    TORN = "torn"
    LATE_MARKER = "late-marker"
    WRONG_FATE = "wrong-fate"
    JOINED = "joined"
    STALE_DATA = "stale-data"
    LOST_END = "lost-end"
    HANGING = "hanging"


class AuditCause(Cause):
    """What shows an anomaly."""

    DATA_AFTER_END, TWO_EPOCHS, LATER_DATA, TWO_FATES, OF_EPOCH_BEFORE, TWO_FATES_AT_ONCE = some(6)
    OPEN, OPEN_AFTER_MARKER, NOT_DECIDED, OTHER_DECISION, MARKER_MISSING = some(5)


class AuditFinding(Struct, frozen=True):
    """An anomaly. parts: the evidence. transactional_id: None if no coordinator at hand knows the producer."""

    anomaly: Anomaly
    detail: Reason
    parts: tuple[TransactionPart, ...]
    producer_id: int
    transactional_id: str | None = None


def audit(partitions: Sequence[PartitionParts], coordinators: Coordinators) -> Iterator[AuditFinding]:
    """Yield what is wrong: first what several partitions show together, then partition after partition."""
    ends = DecidedEnds(coordinators)
    parts = [part for partition in partitions for part in partition.parts]
    late = _late_epochs(parts)
    for finding in (*_torn(parts), *late, *_torn_in_time(parts)):
        yield _named(finding, coordinators)
    reported = {id(part) for finding in late for part in finding.parts}
    for partition in partitions:
        lost = list(_lost_ends(partition, ends))
        reported |= {id(part) for finding in lost for part in finding.parts}
        yield from (_named(finding, coordinators) for finding in lost)
        for part in partition.parts:
            here = [*_of_epochs(part)]
            here += [] if id(part) in reported else [*_hanging(part, coordinators), *_against(part, ends)]
            yield from (_named(finding, coordinators) for finding in here)


def _named(finding: AuditFinding, coordinators: Coordinators) -> AuditFinding:
    known = coordinators.find(finding.producer_id) or coordinators.find_former(finding.producer_id)
    named = None if known is None else known.transactional_id
    return AuditFinding(finding.anomaly, finding.detail, finding.parts, finding.producer_id, named)


def _finding(anomaly: Anomaly, detail: Reason, *parts: TransactionPart) -> AuditFinding:
    return AuditFinding(anomaly, detail, parts, parts[0].producer_id)


# What the logs say by themselves.


def _of_epochs(part: TransactionPart) -> Iterator[AuditFinding]:
    """Yield what the epochs of one part contradict."""
    if part.first_offset is None:
        return
    if part.epoch < part.ended_epoch:
        detail = AuditCause.DATA_AFTER_END(epoch=part.epoch, ended=part.ended_epoch)
        yield _finding(Anomaly.STALE_DATA, detail, part)
    if part.epoch != part.last_epoch:
        detail = AuditCause.TWO_EPOCHS(epoch=part.epoch, last=part.last_epoch)
        yield _finding(Anomaly.JOINED, detail, part)
    if part.marker_epoch is not None and part.marker_epoch < part.last_epoch:
        detail = AuditCause.LATER_DATA(marker=part.marker_epoch, last=part.last_epoch)
        yield _finding(Anomaly.LATE_MARKER, detail, part)


def _torn(parts: Iterable[TransactionPart]) -> Iterator[AuditFinding]:
    """Yield transactions with several fates: same producer, same epoch of data, same higher epoch of the marker. There
    is only one such transaction, in each version: the last one of its epoch."""
    groups: dict[tuple[int, int, int], list[TransactionPart]] = {}
    for part in parts:
        if part.first_offset is not None and part.marker_epoch is not None and part.marker_epoch > part.last_epoch:
            groups.setdefault((part.producer_id, part.last_epoch, part.marker_epoch), []).append(part)
    for (_, epoch, _), group in groups.items():
        if len({part.fate for part in group}) > 1:
            differing = {part.fate: part for part in reversed(group)}.values()
            yield _finding(Anomaly.TORN, AuditCause.TWO_FATES(epoch=epoch), *differing)


def _late_epochs(parts: Iterable[TransactionPart]) -> list[AuditFinding]:
    """Return markers of transaction version 2 that ended the next transaction: a marker of epoch N was for the data of
    epoch N-1, so it ends no data of epoch N."""
    findings: list[AuditFinding] = []
    bumped: dict[_Transaction, TransactionPart] = {}
    for part in parts:
        if part.first_offset is not None and part.fate is Status.COMMITTED and part.marker_epoch == part.last_epoch + 1:
            bumped.setdefault((part.producer_id, part.last_epoch), part)
    for part in parts:
        before = bumped.get((part.producer_id, part.last_epoch - 1))
        if part.first_offset is None or part.marker_epoch != part.last_epoch or before is None:
            continue
        if part.fate is Status.COMMITTED or (part.producer_id, part.last_epoch) in bumped:
            detail = AuditCause.OF_EPOCH_BEFORE(marker=part.marker_epoch, before=before.last_epoch)
            findings.append(_finding(Anomaly.LATE_MARKER, detail, part, before))
    return findings


def _torn_in_time(parts: Iterable[TransactionPart]) -> Iterator[AuditFinding]:
    """Yield parts of one epoch with LogAppendTime of which one was ended while the other was open, with another
    fate."""
    groups: dict[_Transaction, list[TransactionPart]] = {}
    for part in parts:
        if part.first_offset is not None and part.marker_epoch == part.last_epoch:
            groups.setdefault((part.producer_id, part.last_epoch), []).append(part)
    for (_, epoch), group in groups.items():
        ends = sorted(group, key=_marker_ms)
        by_fate = {fate: [part for part in ends if part.fate is fate] for fate in (Status.COMMITTED, Status.ABORTED)}
        for part in group:
            others = by_fate[Status.ABORTED if part.fate is Status.COMMITTED else Status.COMMITTED]
            if (other := _ended_meanwhile(part, others)) is not None:
                yield _finding(Anomaly.TORN, AuditCause.TWO_FATES_AT_ONCE(epoch=epoch), part, other)


def _marker_ms(part: TransactionPart) -> int:
    return -1 if part.marker_ms is None else part.marker_ms


def _ended_meanwhile(part: TransactionPart, others: Sequence[TransactionPart]) -> TransactionPart | None:
    """Return the first of other parts, by marker, that was ended while this one was open, by the brokers' clocks."""
    if part.appended_ms is None:
        return None
    first = bisect_right(others, part.appended_ms + CLOCKS_APART_MS, key=_marker_ms)
    is_meanwhile = first < len(others) and _marker_ms(others[first]) < _marker_ms(part) - CLOCKS_APART_MS
    return others[first] if is_meanwhile else None


# What the coordinators say beside.


def _hanging(part: TransactionPart, coordinators: Coordinators) -> Iterator[AuditFinding]:
    if part.fate is not Status.OPEN:
        return
    known = coordinators.find(part.producer_id)
    if known is None and not coordinators.is_whole:
        return
    if known is None or part.partition not in known.partitions:
        cause = AuditCause.OPEN if part.ended_epoch < part.epoch else AuditCause.OPEN_AFTER_MARKER
        yield _finding(Anomaly.HANGING, cause(epoch=part.epoch, ended=part.ended_epoch), part)


def _against(part: TransactionPart, ends: DecidedEnds) -> Iterator[AuditFinding]:
    """Yield a marker that is not what the coordinator decided. A marker without data does no harm."""
    known_from_ms = ends.known_from_ms(part.producer_id)
    if part.marker_ms is None or part.first_offset is None or known_from_ms is None:
        return
    if part.marker_ms - CLOCKS_APART_MS < known_from_ms:
        return
    fitting = ends.fitting(part.producer_id, part.partition, part.marker_ms)
    if not fitting:
        marker = "abort" if part.fate is Status.ABORTED else "commit"
        yield _finding(Anomaly.LATE_MARKER, AuditCause.NOT_DECIDED(marker=marker), part)
    elif all(end.fate is not part.fate for end in fitting):
        decided = fitting[0].record
        detail = AuditCause.OTHER_DECISION(fate=part.fate.value, state=decided.state.told, offset=decided.offset)
        yield _finding(Anomaly.WRONG_FATE, detail, part)


def _lost_ends(partition: PartitionParts, ends: DecidedEnds) -> Iterator[AuditFinding]:
    """Yield the open transactions of a partition whose end a coordinator completed, though no marker is there."""
    for part in partition.parts:
        if part.fate is Status.OPEN and ends.of_producer.get(part.producer_id):
            markers = sorted(
                other.marker_ms
                for other in partition.parts
                if other.producer_id == part.producer_id and other.marker_ms is not None
            )
            decided = (end for end in ends.of_producer[part.producer_id] if _is_lost(end, part, markers))
            if (end := next(decided, None)) is not None:
                detail = AuditCause.MARKER_MISSING(state=end.record.state.told, offset=end.record.offset)
                yield _finding(Anomaly.LOST_END, detail, part)


def _is_lost(end: DecidedEnd, part: TransactionPart, markers: Sequence[int]) -> bool:
    """Return whether a decision was about this data, was completed, and none of the markers can be its own."""
    if end.prepared is None or end.completed is None or part.partition not in end.prepared.partitions:
        return False
    is_of_its_epoch = end.prepared.producer_epoch - part.last_epoch in (0, 1)
    next_marker = bisect_left(markers, end.since_ms)
    return is_of_its_epoch and (next_marker == len(markers) or markers[next_marker] > end.until_ms)
