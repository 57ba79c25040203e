"""The indexes of a segment of a draft, as a broker has them open: mapped, preallocated, appended to, cut.

Opening an index puts it into the draft (a missing one is created at full size); later changes are in the draft after
`write_back`. Sizes and leftover bytes after the entries are exactly those of Kafka's mapped files, because some of them
survive (AbstractIndex, OffsetIndex, TimeIndex, TransactionIndex).

A large file is not read whole to look at a few entries.

The rules of `append` and `maybe_append` stand in kernels/_indexes.pxi, too: change both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import AtPath, Corrupt
from klogtool.format.indexes import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRIES,
    TIME_ENTRIES,
    AbortedTxn,
    IndexLayout,
    OffsetIndexEntry,
    TimeIndexEntry,
    build_txn_index,
    find_aborted_txns,
    find_slot,
    find_slot_above,
    parse_txn_index,
    preallocated_index_size,
    sanity_check_txn_index,
    to_relative_offset,
    walk_txn_index,
)
from klogtool.format.java_numbers import MAX_INT
from klogtool.log.folder import is_fifo, is_full_device

_Found = TypeVar("_Found")

Entry = TypeVar("Entry", OffsetIndexEntry, TimeIndexEntry)

READ_WHOLE_BYTES = 16 << 10  # up to this size, reading the whole file costs no more than reading one entry


class _MappedIndex(Generic[Entry]):
    """What offset and time index share (AbstractIndex). last_entry: its last one, or `IndexLayout.none_below`."""

    layout: IndexLayout[Entry]

    def __init__(self, draft: Draft, name: str, base_offset: int, segment_index_bytes: int) -> None:
        """Raises Refused or Corrupt (IllegalArgumentException) for an index that Kafka could not create or map."""
        self.name, self.path, self.base_offset = name, os.path.join(draft.path, name), base_offset
        self.entry_size = self.layout.entry_size
        self._draft, self._max_bytes = draft, segment_index_bytes
        self._content = draft.files[name].content if name in draft else ()
        self._buffer: bytearray | None = None  # the file's bytes, once they are needed
        self._is_changed = False
        # A FIFO or a device is empty, and has no other size.
        self._is_device, self._is_unmapped = name in draft.devices and name not in draft, False
        if name in draft:
            self.length = draft.size(self.name)
            if self.length > MAX_INT:
                raise self._corrupt("Size exceeds Integer.MAX_VALUE")
            self._held = self.length  # bytes of the file as found that still count; the rest is zeros
            self.entries = self.length // self.entry_size
        else:
            draft.check_opens(name, "FileNotFoundException")
            self.length = 0 if self._is_device else preallocated_index_size(segment_index_bytes, self.entry_size)
            self.entries = 0
            self._held = 0
            self._is_changed = not self._is_device
            if not self._is_device:
                draft.write(name, b"")
        self.max_entries = self.length // self.entry_size
        self.last_entry: Entry = self._last_entry()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return self.entries >= self.max_entries

    @property
    def _data(self) -> bytearray:
        """Return the file's bytes, which stay in memory; from there to its length it is zeros."""
        if self._buffer is None:
            self._buffer = bytearray(read_content(self._content)[: self._held])
        return self._buffer

    @property
    def data(self) -> memoryview:
        """Return the bytes of its entries."""
        return memoryview(self._data)[: self.entries * self.entry_size]

    def _look(self, search: Callable[[Callable[[int], bytes]], _Found]) -> _Found:
        """Search by reading the bytes of some entries, by slot; the slots must exist."""
        self._check_is_mapped()
        size = self.entry_size
        if self._buffer is not None or self._held <= READ_WHOLE_BYTES:
            data = self._data
            return search(lambda n: bytes(data[n * size : (n + 1) * size]))
        with ContentFile(self.path, self._content) as file:
            return search(lambda n: file.read(n * size, size))

    def resize(self, size: int) -> bool:
        """Resize the file to whole entries; return False if it has that size. Raises Corrupt if the entries do not
        fit, or for what is no file: Kafka has unmapped it by then."""
        rounded = size // self.entry_size * self.entry_size
        if rounded == self.length:
            return False
        if self._is_device:
            self._is_unmapped = True
            raise self._corrupt("Illegal seek" if is_fifo(self.path) else "Invalid argument", "IOException")
        position = self.entries * self.entry_size
        if position > rounded:
            raise self._corrupt(f"newPosition > limit: ({position} > {rounded})")
        if self._buffer is not None:
            del self._buffer[rounded:]
        self._held = min(self._held, rounded)
        self.length, self.max_entries = rounded, rounded // self.entry_size
        self._is_changed = True
        return True

    def trim_to_valid_size(self) -> None:
        self.resize(self.entries * self.entry_size)

    def reset(self) -> None:
        """Remove all entries and preallocate the file; old bytes stay after the entries."""
        self._truncate_to_entries(0)
        self.resize(self._max_bytes)

    def resize_to_full(self) -> None:
        """Preallocate the file for the maximum of entries."""
        self.resize(self._max_bytes)

    def keep_entries(self, count: int) -> None:
        """Remove all but the first `count` entries."""
        if count < self.entries:
            self._truncate_to_entries(count)

    def write_back(self) -> None:
        if not self._is_changed:
            return
        self._is_changed = False
        if self._buffer is None and self._held == self.length:
            self._draft.truncate(self.name, self.length)
            return
        data = bytes(self._data) + bytes(self.length - len(self._data))
        if self._draft.read(self.name)[: len(data)] == data:
            self._draft.truncate(self.name, len(data))
        else:
            self._draft.write(self.name, data)

    def extend(self, entries: bytes) -> None:
        """Append entries in file format; each would be accepted by itself."""
        if entries:
            self._put(entries)
            self.last_entry = self._last_entry()

    def lookup(self, target: int) -> Entry:
        """Return the last entry at or before an offset or a timestamp, else `IndexLayout.none_below`."""
        slot = self.find_slot(target)
        return self.layout.none_below(self.base_offset) if slot is None else self.entry(slot)

    def find_slot(self, target: int) -> int | None:
        """Return the slot of that entry, or None."""
        return self._look(
            lambda packed: find_slot(
                lambda n: self.layout.key(self._parse(packed(n))), target, self.entries, self.entry_size
            )
        )

    def entry(self, slot: int) -> Entry:
        return self._look(lambda packed: self._parse(packed(slot)))

    def parse(self) -> list[Entry]:
        return self.layout.parse(self.data, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove entries from this offset on."""
        self._truncate_to_entries(self.layout.entries_below(self.data, self.base_offset, offset))

    def _check_is_mapped(self) -> None:
        if self._is_unmapped:
            raise self._corrupt("the mapping of the index is null", "NullPointerException")

    def _parse(self, packed: bytes) -> Entry:
        return self.layout.parse_entry(packed, self.base_offset, 0)

    def _last_entry(self) -> Entry:
        return self.entry(self.entries - 1) if self.entries else self.layout.none_below(self.base_offset)

    def _truncate_to_entries(self, entries: int) -> None:
        self._check_is_mapped()
        self.entries = entries
        self.last_entry = self._last_entry()

    def _put(self, entries: bytes) -> None:
        at = self.entries * self.entry_size
        if at + len(entries) > self.length:
            raise self._corrupt("no room in the index", "BufferOverflowException")
        self._data[at : at + len(entries)] = entries
        self.entries += len(entries) // self.entry_size
        self._is_changed = True

    def _relative(self, offset: int) -> int:
        relative_offset = to_relative_offset(offset, self.base_offset)
        if relative_offset is None:
            raise self._corrupt(f"Integer overflow for offset: {offset} ({self.name})", "IndexOffsetOverflowException")
        return relative_offset

    def _corrupt(self, reason: str, kafka_class: str = "IllegalArgumentException") -> Corrupt:
        return Corrupt(reason, path=self.path, kafka_class=kafka_class)

    def _check_append(self, what: str, offset: int, last_offset: int, *, is_above: bool, is_full: bool) -> None:
        if is_full:
            raise self._corrupt(f"Attempt to append to a full {what} (size = {self.entries}).")
        if self.entries and not is_above:
            reason = f"Attempt to append an offset {offset} to position {self.entries} no larger than the last offset "
            raise self._corrupt(f"{reason}appended ({last_offset}) to {self.name}", "InvalidOffsetException")


class OffsetIndex(_MappedIndex[OffsetIndexEntry]):
    """An `.index`."""

    layout = OFFSET_ENTRIES

    @property
    def last_offset(self) -> int:
        """The offset of its last entry, or the base offset."""
        return self.last_entry.offset

    def append(self, offset: int, position: int) -> None:
        """Append an entry for the batch at a position. Raises Corrupt if the index is full, or the offset is not above
        the last one."""
        last = self.last_offset
        self._check_append("index", offset, last, is_above=offset > last, is_full=self.is_full)
        self._put(OFFSET_ENTRIES.pack(self._relative(offset), position))
        self.last_entry = OffsetIndexEntry(offset, position)

    def find_upper_bound(self, position: int) -> OffsetIndexEntry | None:
        """Return an entry of a batch that begins at or after this position, or None (fetchUpperBoundOffset)."""
        slot = self._look(
            lambda packed: find_slot_above(
                lambda n: self._parse(packed(n)).position, position, self.entries, self.entry_size
            )
        )
        return None if slot is None else self.entry(slot)


class TimeIndex(_MappedIndex[TimeIndexEntry]):
    """A `.timeindex`."""

    layout = TIME_ENTRIES

    @property
    def is_full(self) -> bool:
        """Whether it is full; the last slot is reserved for the closing of the segment."""
        return self.entries >= self.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Append an entry if its timestamp is above the last one's. Raises Corrupt if the index is full, or the offset
        is below the last one."""
        last, is_full = self.last_entry.offset, not skip_full_check and self.is_full
        self._check_append("time index", offset, last, is_above=offset >= last, is_full=is_full)
        if self.entries and timestamp < self.last_entry.timestamp:
            reason = (
                f"Attempt to append a timestamp ({timestamp}) to slot {self.entries} no larger than the last timestamp "
            )
            raise self._corrupt(
                f"{reason}appended ({self.last_entry.timestamp}) to {self.name}", "IllegalStateException"
            )
        if timestamp > self.last_entry.timestamp:
            self._put(TIME_ENTRIES.pack(timestamp, self._relative(offset)))
            self.last_entry = TimeIndexEntry(timestamp, offset)

    def resize(self, size: int) -> bool:
        """Resize as the others do, then read the last entry again."""
        is_changed = super().resize(size)
        if is_changed:
            self.last_entry = self._last_entry()
        return is_changed


class TransactionIndex:
    """A `.txnindex`: created with its first entry, not preallocated."""

    def __init__(self, draft: Draft, name: str, start_offset: int) -> None:
        self.name, self.path = name, os.path.join(draft.path, name)
        self._draft, self._start_offset = draft, start_offset
        if name not in draft.links:  # Kafka opens a file that exists (TransactionIndex)
            draft.check_has_position(name)
        self._data, self._is_open = bytearray(), False
        # Last entry since it was opened: Kafka does not read it from the file.
        self.last_offset: int | None = None
        self._is_changed = False
        if name in draft:
            self._open()

    @property
    def is_empty(self) -> bool:
        """Return whether it has no entries or no file."""
        return not self._data

    def append(self, aborted: AbortedTxn) -> None:
        """Append an entry. Raises Corrupt (IllegalArgumentException) if its marker is not after that of the one
        before."""
        if self.last_offset is not None and self.last_offset >= aborted.last_offset:
            raise Corrupt(
                "The last offset of appended transactions must increase sequentially, but "
                f"{aborted.last_offset} is not greater than current last offset {self.last_offset} "
                f"of index {self.name}",
                path=self.path,
                kafka_class="IllegalArgumentException",
            )
        if self.name in self._draft.devices and is_full_device(self.path):
            raise Corrupt("No space left on device", path=self.path, kafka_class="IOException")
        self.last_offset = aborted.last_offset
        self._open()
        self._data += build_txn_index([aborted])
        self._is_changed = True

    def take_name(self, name: str) -> None:
        """Use a new name for the file. An index without a file ignores an existing file of that name until its first
        entry, which is appended to that file. So if a split makes a segment again, its entries are there twice."""
        self.name, self.path = name, os.path.join(self._draft.path, name)

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        if self.name in self._draft:
            self._data = bytearray(self._draft.read(self.name))
        elif self.name not in self._draft.devices:
            self._draft.check_opens(self.name)
            self._draft.write(self.name, b"")

    def reset(self) -> None:
        """Remove all entries; an existing file stays."""
        self._cut(0)
        self.last_offset = None

    def truncate_to(self, offset: int) -> None:
        """Remove the first entry with a marker at or after this offset, and all entries after it."""
        last_offset = None
        for n, entry in enumerate(walk_txn_index(bytes(self._data))):
            if entry.last_offset >= offset:
                self._cut(n * ABORTED_TXN_SIZE)
                self.last_offset = last_offset
                return
            last_offset = entry.last_offset

    def mark(self) -> tuple[int, int | None]:
        """Return the current state, for `return_to`."""
        return len(self._data), self.last_offset

    def return_to(self, mark: tuple[int, int | None]) -> None:
        """Remove the entries that were added since then."""
        size, self.last_offset = mark
        self._cut(size)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Return entries that overlap with a fetch, and whether later segments have none (collectAbortedTxns).

        Raises Corrupt (KafkaException) at an entry of a later version.
        """
        with AtPath(self.path):
            return find_aborted_txns(bytes(self._data), fetch_offset, upper_bound_offset)

    def sanity_check(self, *, whole_version: bool) -> None:
        """Raises Corrupt: CorruptIndexException, or KafkaException for an entry of a later version."""
        with AtPath(self.path):
            sanity_check_txn_index(bytes(self._data), self._start_offset, whole_version=whole_version)

    def parse(self) -> list[AbortedTxn]:
        """Return all entries. Raises Corrupt (KafkaException) at an entry of a later version."""
        return parse_txn_index(bytes(self._data))

    @property
    def has_odd_version(self) -> bool:
        """Return whether a byte of a version is not zero: releases differ about it."""
        return any(any(self._data[at : at + 2]) for at in range(0, len(self._data), ABORTED_TXN_SIZE))

    def write_back(self) -> None:
        """Write the file to the draft; a device keeps nothing."""
        if not self._is_changed or self.name not in self._draft:
            return
        if self._draft.read(self.name)[: len(self._data)] == self._data:
            self._draft.truncate(self.name, len(self._data))
        else:
            self._draft.write(self.name, bytes(self._data))
        self._is_changed = False

    def _cut(self, size: int) -> None:
        if size < len(self._data):
            del self._data[size:]
            self._is_changed = True
