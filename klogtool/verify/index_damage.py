"""What is wrong with the offset and the time index beside a log: by themselves, and against the log.

A sparse index is fine, a false entry is not. Brokers up to 3.9.0, and 4.0.0, made one entry for a set of batches:
its last offset (up to 1.1 its first), at the position where the set begins. So an entry is false only if no batch
begins at its position, if its offset is below that batch's, or if it reaches into the batch of the next entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from klogtool import kernels
from klogtool.causes import Reason
from klogtool.format.indexes import (
    BEFORE_ALL,
    OFFSET_ENTRIES,
    TIME_ENTRIES,
    IndexLayout,
    OffsetIndexEntry,
    TimeIndexEntry,
    entries_before_zero_tail,
)
from klogtool.format.names import FileKind
from klogtool.log.file import LogFile
from klogtool.verify.causes import IndexCause
from klogtool.verify.findings import Finding, Kind

MOST_RUNS = 1000  # of wrong entries that are told one by one
PIECE_BYTES = 1 << 20
Pair: TypeAlias = tuple[int, int]


class IndexKind(Struct, frozen=True):
    """What the two indexes differ in: their findings, their entries, and what contradicts one (entry, base offset,
    why)."""

    file_kind: FileKind
    is_missing: Kind
    has_wrong_size: Kind
    has_wrong_order: Kind
    has_wrong_entry: Kind
    layout: IndexLayout[OffsetIndexEntry] | IndexLayout[TimeIndexEntry]
    contradicted: Callable[[Pair, int, Reason], Reason]


OFFSETS = IndexKind(
    FileKind.OFFSET_INDEX,
    Kind.INDEX_MISSING,
    Kind.INDEX_SIZE,
    Kind.INDEX_ORDER,
    Kind.INDEX_ENTRY,
    OFFSET_ENTRIES,
    lambda entry, base, why: IndexCause.OFFSET_AT(offset=base + entry[0], position=entry[1], why=why),
)
TIMES = IndexKind(
    FileKind.TIME_INDEX,
    Kind.TIMEINDEX_MISSING,
    Kind.TIMEINDEX_SIZE,
    Kind.TIMEINDEX_ORDER,
    Kind.TIMEINDEX_ENTRY,
    TIME_ENTRIES,
    lambda entry, base, why: IndexCause.TIME_AT(timestamp=entry[0], offset=base + entry[1], why=why),
)


class IndexFile:
    """One index of a segment, and what is found wrong with it.

    data: the entries that are in order, as bytes. Whole entries behind `count` are zeros. most_entries: more than the
    log can have batches are not read.
    """

    def __init__(self, file: LogFile, kind: IndexKind, base_offset: int, most_entries: int) -> None:
        self.path, self.kind, self.base_offset = file.path, kind, base_offset
        size = kind.layout.entry_size
        self.size, self.whole = file.size, file.size // size
        whole = file.read(0, self.whole * size) if file.size <= PIECE_BYTES else None
        count = _entries_before_zeros(file, size) if whole is None else entries_before_zero_tail(whole, size)
        self.count, self.too_many = min(count, most_entries), count > most_entries
        self.data = file.read(0, self.count * size) if whole is None else whole[: self.count * size]
        self._last = self.data[-size:]
        self._numbers: array[int] | None = None
        self._disordered, self._false = _Runs(), _Runs()
        if not kernels.native.entries_in_order(self.data, kind is TIMES):
            self._leave_out_disorder()

    def __len__(self) -> int:
        return len(self.data) // self.kind.layout.entry_size

    def entry(self, number: int) -> Pair:
        """An entry of `data`: the numbers it holds."""
        size = self.kind.layout.entry_size
        return next(self.kind.layout.unpack(self.data[number * size : (number + 1) * size]))

    def last_with(self, column: int, value: int, before: int) -> int:
        """The last entry before number `before` that has this value in a column (one has)."""
        return next(n for n in range(before - 1, -1, -1) if self.entry(n)[column] == value)

    def _leave_out_disorder(self) -> None:
        """Entries that do not fit between their neighbours are left out of `data`."""
        kind, entries = self.kind, list(self.kind.layout.unpack(self.data))
        kept: list[int] = []
        for number, entry in enumerate(entries):
            if kind.layout.follows(entry, entries[kept[-1]] if kept else BEFORE_ALL):
                kept.append(number)
            elif self._is_odd(entries, kept, number):
                self._disordered.add(kept.pop(), IndexCause.DISORDER())
                kept.append(number)
            else:
                self._disordered.add(number, IndexCause.DISORDER())
        size = kind.layout.entry_size
        self._numbers = array("q", kept)
        self.data = b"".join(self.data[number * size : (number + 1) * size] for number in kept)

    def _is_odd(self, entries: list[Pair], kept: list[int], number: int) -> bool:
        """Whether it is rather the entry before this one that is wrong: this one goes with those around it."""
        follows, entry = self.kind.layout.follows, entries[number]
        if not kept or not follows(entry, entries[kept[-2]] if len(kept) > 1 else BEFORE_ALL):
            return False
        if number + 1 == len(entries):
            return False
        after = entries[number + 1]
        return follows(after, entry) and not follows(after, entries[kept[-1]])

    def last_as_read(self) -> Pair | None:
        """The last whole entry as a broker reads it, zeros included; None if there is none."""
        if self.whole > self.count:
            return (0, 0)
        return next(self.kind.layout.unpack(self._last), None)

    def note_false(self, kept: int, why: Reason) -> None:
        """An entry that the log contradicts, by its number in `data`."""
        reason = self.kind.contradicted(self.entry(kept), self.base_offset, why)
        self._false.add(kept if self._numbers is None else self._numbers[kept], reason)

    def findings(self) -> Iterator[Finding]:
        """All of them; the cure is for who knows the segment."""
        kind, size = self.kind, self.kind.layout.entry_size
        for wrong, runs in ((kind.has_wrong_order, self._disordered), (kind.has_wrong_entry, self._false)):
            for first, last, why in sorted(runs.found, key=itemgetter(0, 1)):
                count = last - first + 1
                reason = IndexCause.ENTRY(why=why) if count == 1 else IndexCause.ENTRIES(count=count, why=why)
                yield Finding(wrong, self.path, reason, start=first * size, end=(last + 1) * size)
        start, end = self.count * size, self.whole * size
        if self.too_many:
            yield Finding(kind.has_wrong_entry, self.path, IndexCause.TOO_MANY(), start, end)
        elif self.count < self.whole:
            reason = IndexCause.ZEROS(count=self.whole - self.count)
            yield Finding(Kind.INDEX_UNTRIMMED, self.path, reason, start, end)
        if self.size > end:
            reason = IndexCause.SIZE(size=self.size, entry_size=size)
            yield Finding(kind.has_wrong_size, self.path, reason, end, self.size)


class _Runs:
    """Numbers of entries, each with a reason: (first, last, reason of the first) for those that lie together."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, Reason]] = []

    def add(self, number: int, why: Reason) -> None:
        """One more, mostly behind all others."""
        if self.found:
            first, last, reason = self.found[-1]
            if first - 1 <= number <= last + 1 or len(self.found) >= MOST_RUNS:
                self.found[-1] = min(first, number), max(last, number), reason
                return
        self.found.append((number, number, why))


def _entries_before_zeros(file: LogFile, entry_size: int) -> int:
    """Entries before the run of zeros that an index may end with: of one that was not trimmed, most of it."""
    at = file.size // entry_size * entry_size
    step = PIECE_BYTES // entry_size * entry_size
    zeros = bytes(min(at, step))
    while at > 0:
        start = max(0, at - step)
        chunk = file.read(start, at - start)
        from_zeros = 0 if chunk == zeros[: len(chunk)] else entries_before_zero_tail(chunk, entry_size)
        if from_zeros:
            return start // entry_size + from_zeros
        at = start
    return 0
