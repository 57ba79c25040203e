"""Whether entries that prove themselves follow each other as a broker writes them: offsets, leader epochs, timestamps,
sequence numbers, and whether the indexes agree.

Entries are taken one after another while nothing is wrong. It stops before the first one that is not plain, and takes
nothing of it. The caller judges that one, corrects it or the remembered state, and continues. The kernel's class of
this name (kernels/_scan.pxi) does the same, fast.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from klogtool.format.batch import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    increment_sequence,
    is_in_sequence,
)
from klogtool.format.batch_proof import FACTS, NOT_TOLD, EntryFacts
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES
from klogtool.format.java_numbers import MAX_INT, MAX_LONG, wrap_long

MOST_PRODUCERS = 1 << 16  # with more, sequence numbers of new ones are not checked
MOST_AT_ONCE = 4096  # entries per call, so that the results have room

# Entries with a timestamp later than now: how many, the first one's position and the last one's end, the first offset
# and the last, and the largest timestamp.
Future: TypeAlias = tuple[int, int, int, int, int, int]
# Where a leader epoch is another than before: the epoch, its first offset, the last offset before, the first entry's
# position, how many entries came before it, and its magic.
EpochStart: TypeAlias = tuple[int, int, int, int, int, int]


class Why(IntEnum):
    """Why it stopped before an entry."""

    DONE = 0
    """It did not stop; or so many were taken that the results have to be fetched."""
    OFFSET = 1
    """Its first offset is not above the last one before it."""
    OVERFLOW = 2
    """Its last offset is too far from the segment's base offset."""
    EPOCH = 3
    """Its leader epoch is lower than the last one, or impossible."""
    INDEX = 4
    """The offset index points to a byte before it, or has an offset for it that is not in it."""
    INDEX_REACH = 5
    """The offset index has, for an entry before it, an offset that is in this one or after it."""
    TIME = 6
    """It raises the largest timestamp, and the time index contradicts that."""
    TIME_REACH = 7
    """The time index has, for a message before it, an offset after that message's set."""
    SEQUENCE = 8
    """Its sequence number does not continue its producer's last one."""


class _ProducerRun(Struct):
    """What is remembered of a producer. gaps: the number of gaps so far at its last batch with records."""

    epoch: int
    last_sequence: int
    gaps: int


class Succession:
    """The entries of one segment so far.

    last_offset: of the last entry. epoch: the next entry's must not be lower. latest_epoch: the last entry's own, which
    may be none. before_offset, before_epoch: last_offset and epoch before the last entry. previous: the facts of the
    last entry. largest_timestamp: so far. index_at, time_at: numbers of the next index entries. index_noted,
    time_noted: relative offsets of the index entries before, -1 if there is none; the following entries must be after
    them (for time: the next entry with a larger timestamp). gaps: of offsets between entries. sparse: whether an entry
    has fewer records than offsets. magics: bit n for magic n. Callers may correct all of them.
    """

    def __init__(self, base_offset: int, now_ms: int, offset_index: bytes, time_index: bytes) -> None:
        """base_offset: not below 0. The indexes must be in order, and without zeros at their ends."""
        self.base_offset, self.now_ms = base_offset, now_ms
        self.highest_offset = min(base_offset + MAX_INT, MAX_LONG)
        self.last_offset = self.before_offset = base_offset - 1
        self.epoch = self.before_epoch = self.latest_epoch = -1
        self.largest_timestamp = -1
        self.batches = self.records = self.bytes = self.gaps = self.magics = 0
        self.first_offset = NOT_TOLD
        self.sparse = self.has_producers = self.has_transactions = False
        self.index_at = self.time_at = 0
        self.index_noted = self.time_noted = -1
        self.future: Future = (0, 0, 0, 0, 0, 0)
        self.previous: tuple[int, ...] = ()
        self._offset_index = list(OFFSET_ENTRIES.unpack(offset_index))
        self._time_index = list(TIME_ENTRIES.unpack(time_index))
        self._producers: dict[int, _ProducerRun] = {}
        self._epochs: list[EpochStart] = []

    def follow(self, rows: array[int] | memoryview, at: int, count: int) -> tuple[int, int]:
        """Take entries from number `at` on, of `count` entries whose facts are consecutive in `rows`.

        Returns (the number of the first that was not taken, why).
        """
        for number in range(at, min(count, at + MOST_AT_ONCE)):
            why = self._take(facts_at(rows, number))
            if why:
                return number, why
        return min(count, at + MOST_AT_ONCE), Why.DONE

    def last_sequence(self, producer_id: int) -> int:
        """Return the last sequence number of a producer in its epoch; NO_SEQUENCE if unknown."""
        producer = self._producers.get(producer_id)
        return NO_SEQUENCE if producer is None else producer.last_sequence

    def forget_producer(self, producer_id: int) -> None:
        """Accept any next sequence number of this producer."""
        if producer_id in self._producers:
            self._producers[producer_id].last_sequence = NO_SEQUENCE

    def fetch_epochs(self) -> list[EpochStart]:
        """Return every change of the leader epoch since the last call."""
        epochs, self._epochs = self._epochs, []
        return epochs

    # One entry.

    def _take(self, entry: EntryFacts) -> Why:
        first = entry.first_offset if entry.tells_first_offset else wrap_long(self.last_offset + 1)
        why = self._check(entry, first)
        if why:
            return why
        # The first entry may begin above the base offset without a gap: a cleaner keeps the name of the segment.
        gaps = self.gaps + (self.batches > 0 and first != wrap_long(self.last_offset + 1))
        if entry.producer_id > NO_PRODUCER_ID and not self._take_producer(entry, gaps):
            return Why.SEQUENCE
        self._commit(entry, first, gaps)
        return Why.DONE

    def _check(self, entry: EntryFacts, first: int) -> Why:
        # Offsets first: epochs and indexes are reckoned by them, and one wrong offset would accuse all of those.
        if first <= self.last_offset or entry.last_offset < first:
            return Why.OFFSET
        if entry.last_offset > self.highest_offset:
            return Why.OVERFLOW
        # -1 is no epoch (old formats have none), so it does not go back.
        if entry.partition_leader_epoch < self.epoch and entry.partition_leader_epoch != -1:
            return Why.EPOCH
        return self._check_index(entry, first) or self._check_time(entry, first)

    def _check_index(self, entry: EntryFacts, first: int) -> Why:
        if self.index_at >= len(self._offset_index):
            return Why.DONE
        relative_offset, position = self._offset_index[self.index_at]
        # Its turn comes: an index has an entry for every few batches only (index.interval.bytes).
        if position > entry.position:
            return Why.DONE
        # LogSegment.append notes where a batch begins, with its last offset; before KAFKA-806 with the last one of
        # all that was appended at once. So the offset is never below the batch.
        if position < entry.position or relative_offset < first - self.base_offset:
            return Why.INDEX
        # The offset noted before may be any of its batch: only the next batch shows that it is too high.
        return Why.INDEX_REACH if self.index_noted >= max(0, first - self.base_offset) else Why.DONE

    def _check_time(self, entry: EntryFacts, first: int) -> Why:
        # LogSegment.append offers the largest timestamp so far, and TimeIndex.maybeAppend takes only a larger one: so
        # only an entry that raises it can be in the index.
        if entry.max_timestamp <= self.largest_timestamp:
            return Why.DONE
        if self.time_noted > max(-1, self.last_offset - self.base_offset):
            return Why.TIME_REACH
        if self.time_at >= len(self._time_index):
            return Why.DONE
        timestamp, relative_offset = self._time_index[self.time_at]
        if timestamp > entry.max_timestamp:
            return Why.DONE
        lowest, highest = first - self.base_offset, entry.last_offset - self.base_offset
        # A set of messages (magic 0, 1) has one time for all of them, and the entry may have any of their offsets.
        fits = lowest <= relative_offset and (relative_offset <= highest or entry.magic < 2)
        return Why.DONE if timestamp == entry.max_timestamp and fits else Why.TIME

    def _commit(self, entry: EntryFacts, first: int, gaps: int) -> None:
        self.before_offset, self.before_epoch = self.last_offset, self.epoch
        self.last_offset, self.gaps = entry.last_offset, gaps
        self.previous = tuple(getattr(entry, name) for name in FACTS)
        if not self.batches or entry.partition_leader_epoch != self.latest_epoch:
            self.latest_epoch = entry.partition_leader_epoch
            start = self.latest_epoch, first, self.before_offset, entry.position, self.batches, entry.magic
            self._epochs.append(start)
        # A -1 in between must not let a lower epoch pass after it.
        self.epoch = max(self.epoch, entry.partition_leader_epoch)
        if self.index_at < len(self._offset_index):
            relative_offset, position = self._offset_index[self.index_at]
            if position == entry.position:
                self.index_at, self.index_noted = self.index_at + 1, relative_offset
        if entry.max_timestamp > self.largest_timestamp:
            self.largest_timestamp = entry.max_timestamp
            if self.time_at < len(self._time_index):
                timestamp, relative_offset = self._time_index[self.time_at]
                if timestamp == entry.max_timestamp:
                    self.time_at, self.time_noted = self.time_at + 1, relative_offset
        if entry.max_timestamp > self.now_ms:
            entries, position, _, first_offset, _, timestamp = self.future
            since = (position, first_offset) if entries else (entry.position, first)
            timestamp = max(timestamp, entry.max_timestamp)
            self.future = entries + 1, since[0], entry.end, since[1], entry.last_offset, timestamp
        if not self.batches:
            self.first_offset = first
        self.magics |= 1 << entry.magic
        delta = wrap_long(entry.last_offset - entry.first_offset)
        # Fewer records than offsets: a cleaner took some out of the batch, and kept its last offset.
        self.sparse |= entry.magic == 2 and entry.records_count <= delta
        self.has_producers |= entry.producer_id > NO_PRODUCER_ID
        self.has_transactions |= entry.producer_id > NO_PRODUCER_ID and bool(entry.attributes & TRANSACTIONAL_BIT)
        self.batches, self.bytes = self.batches + 1, self.bytes + entry.size
        self.records += entry.records_count

    # Producers.

    def _take_producer(self, entry: EntryFacts, gaps: int) -> bool:
        """Return False, and take nothing, if its sequence number does not continue the last one.

        That is certain only if no offset is missing since the producer's last batch. A sequence number of 0 starts
        again: producers that had expired do that, and coordinators always do. ProducerAppendInfo.checkSequence is
        another rule: it refuses a client's batch, where no batch can be missing.
        """
        producer = self._producers.get(entry.producer_id)
        if producer is None:
            if len(self._producers) >= MOST_PRODUCERS:
                return True
            producer = self._producers[entry.producer_id] = _ProducerRun(entry.producer_epoch, NO_SEQUENCE, gaps)
        if entry.producer_epoch != producer.epoch:
            producer.epoch, producer.last_sequence = entry.producer_epoch, NO_SEQUENCE
        if not entry.is_control:
            known = producer.last_sequence != NO_SEQUENCE and producer.gaps == gaps and entry.base_sequence > 0
            if known and not is_in_sequence(producer.last_sequence, entry.base_sequence):
                return False
            delta = wrap_long(entry.last_offset - entry.first_offset)
            producer.last_sequence = increment_sequence(entry.base_sequence, delta) if entry.base_sequence >= 0 else -1
            producer.gaps = gaps
        return True


def facts_at(rows: array[int] | memoryview | Sequence[int], number: int) -> EntryFacts:
    """Return the facts of one entry out of many."""
    width = len(FACTS)
    return EntryFacts(*rows[number * width : (number + 1) * width])
