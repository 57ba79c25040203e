"""Entries that are sound by themselves but do not fit their neighbours: which one is wrong?

The CRC does not cover base offset and leader epoch, so either may be damaged in a batch that is otherwise sound. A
damaged one differs from the batches before and after it. If a log goes back and continues from there, the order is
wrong instead.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.format.batch import NO_PARTITION_LEADER_EPOCH, NO_SEQUENCE, increment_sequence
from klogtool.format.batch_proof import DELTA, FACTS, EntryFacts
from klogtool.format.java_numbers import MAX_INT, MAX_LONG, to_signed
from klogtool.format.succession import EpochStart, Succession, Why, facts_at
from klogtool.log.probing import Probe
from klogtool.verify.causes import EpochCause, OrderCause
from klogtool.verify.findings import Kind
from klogtool.verify.log_damage import Damage

NEAR_OFFSETS = 1 << 20  # gaps from compaction are mostly smaller
_LONG_MASK = (1 << 64) - 1
_FIRST, _LAST = FACTS.index("first_offset"), FACTS.index("last_offset")
_EPOCH = FACTS.index("partition_leader_epoch")


class OrderJudge:
    """Judges the entries at which a succession stopped, and corrects what the succession knows, or their facts, so that
    it can continue.

    next_base: the base offset of the next segment, if there is one. epochs: those taken from the succession so far.
    """

    def __init__(self, succession: Succession, probe: Probe, next_base: int | None, epochs: list[EpochStart]) -> None:
        self._succession, self._probe, self._next_base, self._epochs = succession, probe, next_base, epochs
        self._overflowing: EntryFacts | None = None

    def judge(self, why: int, rows: array[int], number: int) -> list[Damage]:
        """Return what is wrong with the entry whose facts have this number in `rows`, or with the one before it.

        INDEX: the index contradicts its offset.
        """
        entry = facts_at(rows, number)
        start = number * len(FACTS)
        if why == Why.OFFSET:
            return [self._offset(entry, rows, start)]
        if why == Why.OVERFLOW:  # its own offset is wrong, or all from here on are too far from the base offset
            mine = self._better_offset(entry)
            if mine.likelihood:
                return [self._correct(entry, mine.offset, rows, start)]
            self._overflowing, self._succession.highest_offset = entry, MAX_LONG
            return []
        if why == Why.INDEX:
            return [self._correct(entry, self._succession.last_offset + 1, rows, start)]
        if why == Why.EPOCH:
            return [self._epoch(entry, rows, start)]
        return [self._sequence(entry)]

    def finish(self) -> list[Damage]:
        """Return what can only be judged at the end of the log: how far it goes."""
        previous = self._previous()
        end = None if previous is None or self._next_base is None else self._end_by_records(previous, self._next_base)
        if previous is not None and end is not None:
            self._succession.last_offset = end
            return [_wrong_end(previous, end, OrderCause.NEXT_SEGMENT(start=self._next_base or 0))]
        entry, succession = self._overflowing, self._succession
        if entry is None:
            return []
        reason = OrderCause.OVERFLOW(base_offset=succession.base_offset)
        last = max(entry.last_offset, succession.last_offset)  # the log may go back after it
        end_of_log = EntryFacts(*succession.previous).end
        return [Damage(Kind.OFFSET_OVERFLOW, entry.position, end_of_log, reason, entry.lowest_offset, last)]

    def _previous(self) -> EntryFacts | None:
        return EntryFacts(*self._succession.previous) if self._succession.batches else None

    def _after(self, entry: EntryFacts) -> EntryFacts | None:
        """Return the next entry, if it is sound."""
        if entry.end >= self._probe.end:
            return None
        judged = self._probe.judge(entry.end)
        return None if judged is None else judged.facts

    # Offsets.

    def _offset(self, entry: EntryFacts, rows: array[int], start: int) -> Damage:
        """Judge an offset: this entry's is wrong, or that of the one before, or neither: the log goes back.

        An offset that wraps around, so that the entry ends below its start, is wrong in any case.
        """
        succession, previous = self._succession, self._previous()
        lowest, before = entry.lowest_offset, succession.last_offset
        end = None if previous is None else self._end_by_records(previous, lowest)
        if previous is not None and end is not None and end + 1 == lowest:
            return self._correct_end(previous, end, lowest)
        mine = self._better_offset(entry)
        is_copy = previous is not None and self._is_copy(entry, previous)
        if previous is not None and not is_copy and entry.last_offset >= lowest:
            theirs = _guess(previous, succession.before_offset + 1, lowest - _span(previous))
            if theirs.likelihood > mine.likelihood:
                return self._correct_previous(previous, theirs.offset)
            if mine.likelihood:
                return self._correct(entry, mine.offset, rows, start)
            if end is not None:
                return self._correct_end(previous, end, lowest)
        elif previous is None and mine.likelihood:
            return self._correct(entry, mine.offset, rows, start)
        lowest = max(lowest, -MAX_LONG)  # so that a Java long can be below it
        succession.last_offset = lowest - 1
        succession.gaps += 1
        if entry.tells_first_offset:
            rows[start + _FIRST] = lowest
        rows[start + _LAST] = max(lowest, entry.last_offset)
        if is_copy and entry.last_offset >= lowest >= succession.base_offset:
            return _damage(Kind.OFFSET_ORDER, entry, OrderCause.COPY(offset=lowest, before=before))
        after = self._after(entry)
        return _offset_order(entry, before, succession.base_offset, None if after is None else after.lowest_offset)

    def _is_copy(self, entry: EntryFacts, previous: EntryFacts) -> bool:
        """Return whether it is the entry before once more: one of the same size and times has another checksum."""
        head = self._probe.head
        return entry.is_copy_of(previous) and head(entry.position) == head(previous.position)

    def _better_offset(self, entry: EntryFacts) -> _Guess:
        """Return what an entry's first offset would be if it is wrong.

        It is after the entry before and ahead of the next one. If no next entry helps, its offset counts as wrong only
        if a right one is likely: the next offset, or in a log with gaps one nearby.
        """
        succession, after = self._succession, self._offset_after(entry)
        least, most = succession.last_offset + 1, succession.highest_offset + 1 - _span(entry)
        if after is not None:
            return _guess(entry, least, min(after - _span(entry), most))
        if succession.gaps or not entry.tells_first_offset:
            guess = _guess(entry, least, min(least + NEAR_OFFSETS, most))
            return _Guess(_SOME_BIT if guess.likelihood >= _BIT else _NO_ROOM, guess.offset)
        guess = _guess(entry, least, min(least, most))
        return guess if guess.likelihood == _ONLY_ONE_BY_BYTE else _Guess(_NO_ROOM, least)

    def _correct_previous(self, previous: EntryFacts, first: int) -> Damage:
        succession = self._succession
        succession.last_offset = first + _span(previous) - 1
        if self._epochs and self._epochs[-1][1] == previous.first_offset:
            epoch, _, *others = self._epochs[-1]
            self._epochs[-1] = epoch, first, *others  # type: ignore[assignment]
        if succession.batches == 1:
            succession.first_offset = first
        return _wrong_offset(previous, first)

    def _end_by_records(self, previous: EntryFacts, following: int) -> int | None:
        """Return the last offset of the entry before by its records, if only its header reaches up to the next offset.

        Such a header comes from a faulty producer or proxy, and a follower does not check it. Only one that reaches
        too far is surely wrong: a cleaner keeps the last offset of a batch whose last records it drops.
        """
        if not previous.first_offset < following <= previous.last_offset == self._succession.last_offset:
            return None
        last = self._probe.last_record(previous)
        return last if last is not None and last < following else None

    def _correct_end(self, previous: EntryFacts, end: int, following: int) -> Damage:
        self._succession.last_offset = end
        return _wrong_end(previous, end, OrderCause.NEXT_BATCH(start=following))

    def _correct(self, entry: EntryFacts, first: int, rows: array[int], start: int) -> Damage:
        if entry.tells_first_offset:
            rows[start + _FIRST] = first
        else:
            first = self._succession.last_offset + 1  # the smallest possible one, so that the next entry fits
        rows[start + _LAST] = min(first + _span(entry) - 1, MAX_LONG)
        return _wrong_offset(entry, first)

    def _offset_after(self, entry: EntryFacts) -> int | None:
        """Return the first offset of the next entry; None if unknown."""
        if entry.end >= self._probe.end:
            return self._next_base
        after = self._after(entry)
        return None if after is None else after.lowest_offset

    # Leader epochs.

    def _epoch(self, entry: EntryFacts, rows: array[int], start: int) -> Damage:
        succession, previous, epoch = self._succession, self._previous(), entry.partition_leader_epoch
        if epoch < NO_PARTITION_LEADER_EPOCH:
            rows[start + _EPOCH] = NO_PARTITION_LEADER_EPOCH
            return _wrong_epoch(entry, EpochCause.BELOW_ALL())
        after = self._after(entry)
        if after is not None and after.partition_leader_epoch >= succession.epoch:
            rows[start + _EPOCH] = succession.epoch
            around = EpochCause.AROUND(before=succession.epoch, after=after.partition_leader_epoch)
            return _wrong_epoch(entry, around)
        if (
            previous is not None
            and previous.partition_leader_epoch == succession.epoch > succession.before_epoch
            and epoch >= succession.before_epoch
        ):
            succession.epoch = succession.latest_epoch = succession.before_epoch
            if self._epochs:
                self._epochs.pop()
            return _wrong_epoch(previous, EpochCause.AROUND(before=succession.before_epoch, after=epoch))
        reason = EpochCause.FOLLOWS(epoch=epoch, before=succession.epoch)
        succession.epoch = epoch
        return _damage(Kind.EPOCH_ORDER, entry, reason)

    # Sequence numbers.

    def _sequence(self, entry: EntryFacts) -> Damage:
        last = self._succession.last_sequence(entry.producer_id)
        self._succession.forget_producer(entry.producer_id)
        reason = OrderCause.SEQUENCE(
            producer_id=entry.producer_id,
            epoch=entry.producer_epoch,
            sequence=entry.base_sequence,
            expected=increment_sequence(last, 1) if last != NO_SEQUENCE else 0,
        )
        return _damage(Kind.SEQUENCE_GAP, entry, reason)


def _span(entry: EntryFacts) -> int:
    """Return how many offsets an entry takes; unknown for a wrapper."""
    delta = to_signed(entry.last_offset - entry.first_offset, 64) if entry.tells_first_offset else 0
    return min(max(0, delta), MAX_INT) + 1


class _Guess(Struct, frozen=True):
    """A possible right offset, and how likely it is that damage turned it into the other one."""

    likelihood: int
    offset: int


_NO_ROOM, _ROOM, _BYTE, _SOME_BIT, _BIT, _ONLY_ONE, _ONLY_ONE_BY_BYTE = range(7)


def _guess(entry: EntryFacts, lowest: int, highest: int) -> _Guess:
    """Return the first offset in [lowest, highest] that differs from the entry's in a bit, else in a byte, else in any
    way."""
    if lowest > highest:
        return _Guess(_NO_ROOM, lowest)
    stated = entry.lowest_offset
    by_bit = [offset for bit in range(64) if lowest <= (offset := to_signed(stated ^ 1 << bit, 64)) <= highest]
    by_byte = [offset for at in range(0, 64, 8) if (offset := _with_byte(stated, at, lowest)) <= highest]
    if lowest == highest:
        return _Guess(_ONLY_ONE_BY_BYTE if by_byte else _ONLY_ONE, lowest)
    if by_bit:
        return _Guess(_BIT, min(by_bit))
    return _Guess(_BYTE, min(by_byte)) if by_byte else _Guess(_ROOM, lowest)


def _with_byte(offset: int, at: int, lowest: int) -> int:
    """Return the smallest number from `lowest` on that differs only in the byte at this bit; 2^64 if there is none."""
    rest = (offset & _LONG_MASK) & ~(0xFF << at)
    byte = max(0, -((rest - lowest) >> at))
    return rest | byte << at if byte <= 0xFF else _LONG_MASK + 1


def _wrong_offset(entry: EntryFacts, first: int) -> Damage:
    reason = OrderCause.WRONG_OFFSET(offset=entry.lowest_offset, right=first)
    last = first + _span(entry) - 1
    return Damage(Kind.BATCH_HEADER, entry.position, entry.end, reason, first, last, "base_offset")


def _wrong_end(entry: EntryFacts, end: int, follows: Reason) -> Damage:
    reason = OrderCause.WRONG_END(last_offset=entry.last_offset, last_record=end, follows=follows)
    return Damage(Kind.BATCH_ATTRIBUTES, entry.position, entry.end, reason, entry.first_offset, end, DELTA)


def _wrong_epoch(entry: EntryFacts, why: Reason) -> Damage:
    reason = EpochCause.WRONG(epoch=entry.partition_leader_epoch, why=why)
    return _damage(Kind.BATCH_HEADER, entry, reason, "partition_leader_epoch")


def _offset_order(entry: EntryFacts, before: int, base_offset: int, following: int | None) -> Damage:
    """following: the offset of the next entry, if that is sound."""
    lowest = entry.lowest_offset
    if lowest < base_offset:
        return _damage(Kind.OFFSET_ORDER, entry, OrderCause.BELOW_BASE(offset=lowest, base_offset=base_offset))
    if entry.last_offset < lowest:
        reason = OrderCause.BEYOND_LARGEST(offset=lowest, largest=MAX_LONG)
        return Damage(Kind.OFFSET_ORDER, entry.position, entry.end, reason, lowest, MAX_LONG)
    if lowest > before or not entry.records_count:
        return _damage(Kind.OFFSET_ORDER, entry, OrderCause.FOLLOWS(offset=lowest, before=before))
    # A consumer goes on behind the largest offset that it has seen (CompletedFetch.nextFetchOffset).
    last = min(max(lowest, entry.last_offset), before)
    count = min(entry.records_count, last - lowest + 1)
    cause = OrderCause.BEHIND if following is None or following > before else OrderCause.MORE_BEHIND
    return _damage(Kind.OFFSET_ORDER, entry, cause(offset=lowest, before=before, count=count, last=last))


def _damage(kind: Kind, entry: EntryFacts, reason: Reason, field: str | None = None) -> Damage:
    return Damage(kind, entry.position, entry.end, reason, entry.lowest_offset, entry.last_offset, field)
