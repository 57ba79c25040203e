"""Offset, time and transaction index files: bytes, entries, lookup.

Knows nothing of segments or disks: callers hand in a buffer and a base offset. An index carries no checksum, because
a broker can always rebuild it; so whatever looks wrong here is repaired by rebuilding from the log, never by patching
entries. Offsets in values are absolute; the bytes hold signed differences from the base offset.

Bytes after the last whole entry are no entry. Zeros that a broker preallocated are entries to Kafka, and so here.
For millions of entries `unpack_` gives bare tuples. The order of entries is also checked by kernels/_scan.pxi; when
an entry is due stands in kernels/_indexes.pxi, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from klogtool.errors import Corrupt, Refused
from klogtool.format.buffers import Buffer
from klogtool.format.fields import numbers, unpack_entries
from klogtool.format.java_numbers import MAX_INT, wrap_long
from klogtool.format.layouts import ABORTED_TXN, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

_ABORTED_TXN = numbers(ABORTED_TXN)
ABORTED_TXN_SIZE = _ABORTED_TXN.size

NO_TIMESTAMP = -1
BEFORE_ALL = (-1, -1)  # any entry may stand behind it
CURRENT_ABORTED_TXN_VERSION = 0
WARM_SECTION_BYTES = 8192  # AbstractIndex.warmEntries: where a lookup looks first


class OffsetIndexEntry(Struct, frozen=True):
    """The batch that begins at byte `position` of the segment holds (or follows) `offset`, which is absolute."""

    offset: int
    position: int


class TimeIndexEntry(Struct, frozen=True):
    """No record up to `offset`, which is absolute, has a later timestamp (ms) than this one."""

    timestamp: int
    offset: int


class AbortedTxn(Struct, frozen=True):
    """One aborted transaction; last_offset is that of its ABORT marker.

    version is what Kafka reads: the first of its two bytes, signed (AbortedTxn.version); the second is not looked at.
    """

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def __str__(self) -> str:
        return (
            f"AbortedTxn(version={self.version}, producerId={self.producer_id}, firstOffset={self.first_offset}, "
            f"lastOffset={self.last_offset}, lastStableOffset={self.last_stable_offset})"
        )


Entry = TypeVar("Entry", bound="OffsetIndexEntry | TimeIndexEntry")


# Sizes, common to the kinds.


def index_entries_count(data: Buffer, entry_size: int) -> int:
    """Whole entries in an index file as Kafka counts them when it opens one."""
    return len(data) // entry_size


def entries_before_zero_tail(data: Buffer, entry_size: int) -> int:
    """Entries before the run of all-zero entries that an index ends with, if it was not trimmed (a broker was killed).

    An index of one entry that is zero throughout cannot be told from an untrimmed empty one: 0.
    """
    with memoryview(data) as view:
        whole = bytes(view[: index_entries_count(data, entry_size) * entry_size])
    return -(-len(whole.rstrip(b"\0")) // entry_size)


def preallocated_index_size(segment_index_bytes: int, entry_size: int) -> int:
    """Bytes of a new offset or time index (AbstractIndex.createAndAssignMmap)."""
    if segment_index_bytes < entry_size:
        raise Refused(f"Invalid max index size: {segment_index_bytes}", kafka_class="IllegalArgumentException")
    return segment_index_bytes // entry_size * entry_size


def is_entry_due(bytes_since: int, interval_bytes: int) -> bool:
    """Whether a batch gets an entry in the offset index and, if it has a new largest timestamp, in the time index.

    bytes_since: from the start of the batch that got the last one, or of the log, to the start of this one.
    """
    return bytes_since > interval_bytes


def to_relative_offset(offset: int, base_offset: int) -> int | None:
    """`offset` as an index of that base offset stores it, or None if it does not fit (AbstractIndex.toRelative)."""
    relative_offset = wrap_long(offset - base_offset)
    return relative_offset if 0 <= relative_offset <= MAX_INT else None


def _relative_or_refused(offset: int, base_offset: int) -> int:
    relative_offset = to_relative_offset(offset, base_offset)
    if relative_offset is None:
        raise Refused(
            f"Integer overflow for offset: {offset} (base offset {base_offset})",
            kafka_class="IndexOffsetOverflowException",
        )
    return relative_offset


# Offset and time index.


class IndexLayout(Generic[Entry]):
    """The entries of an offset or of a time index: two numbers, one of which is an offset, stored as the difference
    from the base offset of the segment."""

    def __init__(
        self, numbers: struct.Struct, make: Callable[[int, int], Entry], key: Callable[[Entry], int], *, times: bool
    ) -> None:
        self.entry_size, self._numbers = numbers.size, numbers
        self._make, self.key, self._column = make, key, 1 if times else 0
        self.follows = time_entry_follows if times else offset_entry_follows

    def parse_entry(self, data: Buffer, base_offset: int, n: int) -> Entry:
        """Entry `n`, which must be there."""
        one, other = self._numbers.unpack_from(data, n * self.entry_size)
        if self._column:
            return self._make(one, wrap_long(base_offset + other))
        return self._make(wrap_long(base_offset + one), other)

    def parse(self, data: Buffer, base_offset: int) -> list[Entry]:
        """All whole entries, in file order."""
        pairs = self.unpack(data)
        if self._column:
            return [self._make(one, wrap_long(base_offset + other)) for one, other in pairs]
        return [self._make(wrap_long(base_offset + one), other) for one, other in pairs]

    def last(self, data: Buffer, base_offset: int) -> Entry:
        """The last whole entry, else `none_below`."""
        count = len(data) // self.entry_size
        return self.parse_entry(data, base_offset, count - 1) if count else self.none_below(base_offset)

    def unpack(self, data: Buffer) -> Iterator[tuple[int, int]]:
        """The stored numbers of each whole entry, fast; keeps the buffer in use until exhausted."""
        return unpack_entries(self._numbers, data)

    def pack(self, one: int, other: int) -> bytes:
        """The bytes of one entry by its stored numbers, fast."""
        return self._numbers.pack(one, other)

    def build(self, entries: Iterable[Entry], base_offset: int) -> bytes:
        """The bytes of an index, trimmed; an offset that does not fit is Refused (IndexOffsetOverflowException)."""
        built = []
        for entry in entries:
            fields = [getattr(entry, name) for name in entry.__struct_fields__]
            fields[self._column] = _relative_or_refused(fields[self._column], base_offset)
            built.append(self._numbers.pack(*fields))
        return b"".join(built)

    def none_below(self, base_offset: int) -> Entry:
        """The entry that stands for those below the first: base offset and position 0, or NO_TIMESTAMP."""
        return self._make(NO_TIMESTAMP, base_offset) if self._column else self._make(base_offset, 0)

    def lookup(self, data: Buffer, base_offset: int, target: int) -> Entry:
        """The last entry at or before an offset or a timestamp, else `none_below` (OffsetIndex.lookup,
        TimeIndex.lookup).

        On an index that is not in order the answer is the one that Kafka's search happens to end at.
        """
        slot = find_slot(
            lambda n: self.key(self.parse_entry(data, base_offset, n)),
            target,
            index_entries_count(data, self.entry_size),
            self.entry_size,
        )
        return self.none_below(base_offset) if slot is None else self.parse_entry(data, base_offset, slot)

    def entries_below(self, data: Buffer, base_offset: int, offset: int) -> int:
        """How many entries, from the first on, truncateTo leaves: those before the one that Kafka's search for this
        offset ends at; in a sound index, those of lower offsets."""
        size, column, unpack_from = self.entry_size, self._column, self._numbers.unpack_from
        slot = find_slot(
            lambda n: wrap_long(base_offset + unpack_from(data, n * size)[column]), offset, len(data) // size, size
        )
        if slot is None:
            return 0
        return slot if unpack_from(data, slot * size)[column] == wrap_long(offset - base_offset) else slot + 1

    def in_order(self, data: Buffer) -> bool:
        """Whether the entries are in ascending order (the reference of entries_in_order in kernels/_scan.pxi)."""
        entries = list(self.unpack(data))
        return all(map(self.follows, entries, [BEFORE_ALL, *entries]))


def offset_entry_follows(entry: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether an offset index may have this (relative_offset, position) behind the other."""
    return entry[0] > before[0] and entry[1] > before[1]


def time_entry_follows(entry: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether a time index may have this (timestamp, relative_offset) behind the other."""
    return entry[0] > before[0] and entry[1] >= before[1]


OFFSET_ENTRIES = IndexLayout(numbers(OFFSET_INDEX_ENTRY), OffsetIndexEntry, lambda entry: entry.offset, times=False)
TIME_ENTRIES = IndexLayout(numbers(TIME_INDEX_ENTRY), TimeIndexEntry, lambda entry: entry.timestamp, times=True)
OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE = OFFSET_ENTRIES.entry_size, TIME_ENTRIES.entry_size


def sanity_check_offset_index(data: Buffer, base_offset: int) -> None:
    """OffsetIndex.sanityCheck: the last entry only, then the length. Raises Corrupt (CorruptIndexException)."""
    count = index_entries_count(data, OFFSET_INDEX_ENTRY_SIZE)
    if count:
        last_offset = OFFSET_ENTRIES.parse_entry(data, base_offset, count - 1).offset
        if last_offset < base_offset:
            raise _corrupt_index(
                f"Corrupt index found, index file has non-zero size but the last offset is {last_offset} "
                f"which is less than the base offset {base_offset}",
                position=(count - 1) * OFFSET_INDEX_ENTRY_SIZE,
            )
    _check_whole_entries("Index file", data, OFFSET_INDEX_ENTRY_SIZE)


def sanity_check_time_index(data: Buffer, base_offset: int) -> None:
    """TimeIndex.sanityCheck: last entry against first and base, then the length. Corrupt (CorruptIndexException)."""
    count = index_entries_count(data, TIME_INDEX_ENTRY_SIZE)
    if count:
        first = TIME_ENTRIES.parse_entry(data, base_offset, 0)
        last = TIME_ENTRIES.parse_entry(data, base_offset, count - 1)
        position = (count - 1) * TIME_INDEX_ENTRY_SIZE
        if last.timestamp < first.timestamp:
            raise _corrupt_index(
                "Corrupt time index found, time index file has non-zero size but the last timestamp is "
                f"{last.timestamp} which is less than the first timestamp {first.timestamp}",
                position=position,
            )
        if last.offset < base_offset:
            raise _corrupt_index(
                f"Corrupt time index found, time index file has non-zero size but the last offset is {last.offset} "
                f"which is less than the first offset {base_offset}",
                position=position,
            )
    _check_whole_entries("Time index file", data, TIME_INDEX_ENTRY_SIZE)


# Transaction index.


def walk_txn_index(data: Buffer, *, whole_version: bool = False) -> Iterator[AbortedTxn]:
    """Each whole entry of a transaction index, in file order. whole_version: its version has two bytes, as for 4.4.

    Raises Corrupt (KafkaException) at an entry of a later version, as TransactionIndex does when it comes to it.
    """
    for n, (two_bytes, *fields) in enumerate(unpack_entries(_ABORTED_TXN, data)):
        version = two_bytes >> 8  # AbortedTxn.version reads one byte, the high one
        if whole_version and two_bytes:
            raise Corrupt(
                f"Unexpected aborted transaction version {two_bytes} in transaction index, "
                f"supported version range is 0 to {CURRENT_ABORTED_TXN_VERSION}",
                position=n * ABORTED_TXN_SIZE,
                kafka_class="KafkaException",
            )
        if version > CURRENT_ABORTED_TXN_VERSION:
            raise Corrupt(
                f"Unexpected aborted transaction version {version} in transaction index, "
                f"current version is {CURRENT_ABORTED_TXN_VERSION}",
                position=n * ABORTED_TXN_SIZE,
                kafka_class="KafkaException",
            )
        yield AbortedTxn(version, *fields)


def parse_txn_index(data: Buffer) -> list[AbortedTxn]:
    """All whole entries of a transaction index (TransactionIndex.allAbortedTxns): errors as in `walk_txn_index`."""
    return list(walk_txn_index(data))


def build_txn_index(entries: Iterable[AbortedTxn]) -> bytes:
    """The bytes of a transaction index; the byte of the version that Kafka does not read is zero."""
    return b"".join(
        _ABORTED_TXN.pack(
            entry.version << 8, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


def sanity_check_txn_index(data: Buffer, start_offset: int, *, whole_version: bool = False) -> None:
    """TransactionIndex.sanityCheck: no marker below the segment's base offset. whole_version: as for `walk_txn_index`.

    Raises Corrupt: CorruptIndexException, or KafkaException where an entry's version is too new. A partial entry at
    the end is sound to Kafka.
    """
    for n, entry in enumerate(walk_txn_index(data, whole_version=whole_version)):
        if entry.last_offset < start_offset:
            raise _corrupt_index(
                f"Last offset of aborted transaction {entry} in index is less than start offset {start_offset}",
                position=n * ABORTED_TXN_SIZE,
            )


def find_aborted_txns(data: Buffer, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
    """TransactionIndex.collectAbortedTxns: the entries that overlap a fetch, and whether the search is complete.

    upper_bound_offset is exclusive. Not complete means that later segments may add to it.
    """
    entries = []
    for entry in walk_txn_index(data):
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
            entries.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return entries, True
    return entries, False


# What the kinds share.


def _corrupt_index(reason: str, *, position: int) -> Corrupt:
    return Corrupt(reason, position=position, kafka_class="CorruptIndexException")


def _check_whole_entries(kind: str, data: Buffer, entry_size: int) -> None:
    rest = len(data) % entry_size
    if rest:
        raise _corrupt_index(
            f"{kind} is corrupt, found {len(data)} bytes which is neither positive nor a multiple of {entry_size}",
            position=len(data) - rest,
        )


def find_slot(key_of: Callable[[int], int], target: int, count: int, entry_size: int) -> int | None:
    """The slot of the last key at or below the target (AbstractIndex.largestLowerBoundSlotFor); None if all are above.

    key_of: the key in a slot; count: slots. Kafka looks at the warm end of the index first. In a sound index that
    changes nothing; in a damaged one it decides where the search ends, so it is done the same way here.
    """
    slots = _slot_range(key_of, target, count, entry_size)
    return slots[0] if slots else None


def find_slot_above(key_of: Callable[[int], int], target: int, count: int, entry_size: int) -> int | None:
    """The first slot whose key is not below the target, or the next one (AbstractIndex.smallestUpperBoundSlotFor).

    None if there is none. Kafka's search may pass over an equal key in the first slot it could end at.
    """
    if count == 0:
        return None
    slots = _slot_range(key_of, target, count, entry_size)
    if slots is None:
        return 0
    slot, is_met = slots
    if is_met:
        return slot
    return slot + 1 if slot < count - 1 else None


def _slot_range(key_of: Callable[[int], int], target: int, count: int, entry_size: int) -> tuple[int, bool] | None:
    """AbstractIndex.indexSlotRangeFor: where the search ends, and whether it met an equal key on its way."""
    if count == 0:
        return None
    first_warm = max(0, count - 1 - WARM_SECTION_BYTES // entry_size)
    if key_of(first_warm) < target:
        return _search(key_of, target, first_warm, count - 1)
    if key_of(0) > target:
        return None
    return _search(key_of, target, 0, first_warm)


def _search(key_of: Callable[[int], int], target: int, first: int, last: int) -> tuple[int, bool]:
    """AbstractIndex.binarySearch: ends at an equal key at once, else at the last below (as the halving finds it)."""
    while first < last:
        middle = (first + last + 1) // 2
        key = key_of(middle)
        if key == target:
            return middle, True
        if key > target:
            last = middle - 1
        else:
            first = middle
    return first, False
