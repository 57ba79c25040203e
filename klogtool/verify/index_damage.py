"""What is wrong with the offset and the time index beside a log: by themselves, and against the log.

A sparse index is fine, a false entry is not. Brokers up to 3.9.0, and 4.0.0, made one entry for a set of batches:
its last offset (up to 1.1 its first), at the position where the set begins. So an entry is false only if no batch
begins at its position, if its offset is below that batch's, or if it reaches into the batch of the next entry.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from klogtool import kernels
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
from klogtool.verify.findings import Finding, Kind

MOST_RUNS = 1000  # of wrong entries that are told one by one
PIECE_BYTES = 1 << 20


class Ranges:
    """Ranges of numbers, both ends inclusive, added in ascending order; those that touch become one."""

    def __init__(self) -> None:
        self._firsts, self._lasts = array("q"), array("q")

    def add(self, first: int, last: int) -> None:
        """One more, none of the former begins behind it."""
        if self._lasts and first <= self._lasts[-1] + 1:
            self._lasts[-1] = max(last, self._lasts[-1])
        else:
            self._firsts.append(first)
            self._lasts.append(last)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]


Pair: TypeAlias = tuple[int, int]


class IndexKind(Struct, frozen=True):
    """What the two indexes differ in: their findings, their entries, and how these are told."""

    file_kind: FileKind
    is_missing: Kind
    has_wrong_size: Kind
    has_wrong_order: Kind
    has_wrong_entry: Kind
    layout: IndexLayout[OffsetIndexEntry] | IndexLayout[TimeIndexEntry]
    words: Callable[[Pair, int], str]


OFFSETS = IndexKind(
    FileKind.OFFSET_INDEX,
    Kind.INDEX_MISSING,
    Kind.INDEX_SIZE,
    Kind.INDEX_ORDER,
    Kind.INDEX_ENTRY,
    OFFSET_ENTRIES,
    lambda entry, base: f"offset {base + entry[0]} at byte {entry[1]}",
)
TIMES = IndexKind(
    FileKind.TIME_INDEX,
    Kind.TIMEINDEX_MISSING,
    Kind.TIMEINDEX_SIZE,
    Kind.TIMEINDEX_ORDER,
    Kind.TIMEINDEX_ENTRY,
    TIME_ENTRIES,
    lambda entry, base: f"timestamp {entry[0]} at offset {base + entry[1]}",
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
        count = _entries_before_zeros(file, size)
        self.count, self.too_many = min(count, most_entries), count > most_entries
        self.data = file.read(0, self.count * size)
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
                self._disordered.add(kept.pop(), "")
                kept.append(number)
            else:
                self._disordered.add(number, "")
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

    def note_false(self, kept: int, why: str) -> None:
        """An entry that the log contradicts, by its number in `data`."""
        self._false.add(kept if self._numbers is None else self._numbers[kept], why)

    def findings(self) -> Iterator[Finding]:
        """All of them; the cure is for who knows the segment."""
        kind, size = self.kind, self.kind.layout.entry_size
        for first, last, _ in sorted(self._disordered.found):
            yield self._entries(kind.has_wrong_order, first, last, "not in ascending order with the entries around")
        for first, last, why in sorted(self._false.found):
            yield self._entries(kind.has_wrong_entry, first, last, why)
        if self.too_many:
            detail = "more entries than the log can have batches"
            yield Finding(kind.has_wrong_entry, self.path, detail, start=self.count * size, end=self.whole * size)
        elif self.count < self.whole:
            detail = f"{self.whole - self.count} entries of zeros at the end: preallocated and not used"
            yield Finding(Kind.INDEX_UNTRIMMED, self.path, detail, start=self.count * size, end=self.whole * size)
        if self.size > self.whole * size:
            detail = f"{self.size} bytes are not a multiple of an entry's {size}"
            yield Finding(kind.has_wrong_size, self.path, detail, start=self.whole * size, end=self.size)

    def _entries(self, kind: Kind, first: int, last: int, why: str) -> Finding:
        size = self.kind.layout.entry_size
        count = "an entry" if first == last else f"{last - first + 1} entries"
        return Finding(kind, self.path, f"{count}: {why}", start=first * size, end=(last + 1) * size)


class _Runs:
    """Numbers of entries, each with a reason: (first, last, reason of the first) for those that lie together."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, str]] = []

    def add(self, number: int, why: str) -> None:
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
