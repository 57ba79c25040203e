"""Headers of batches in order, with as few bytes read as possible.

If batches are small, whole ranges of a file are read; if they are large, only the beginning of each.

This is the reference of kernels/_heads.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch
from klogtool.format.control import parse_end_transaction_marker
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, Frame, FrameStop, corrupt_length, find_frame
from klogtool.format.indexes import OFFSET_ENTRIES, OFFSET_INDEX_ENTRY_SIZE, OffsetIndexEntry, entries_before_zero_tail
from klogtool.format.java_numbers import MAX_LONG
from klogtool.log.entries import Entry, read_entry
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.probing import ends_in_zeros
from klogtool.log.resync import find_next_batch
from klogtool.log.storage import Storage, Stored
from klogtool.log.windows import Window

HEAD_BYTES = 128
FAR_BYTES = 32 << 10  # if batches are larger on average, the reader jumps from header to header
NEAR_PIECE_BYTES = 256 << 10
FAR_PIECE_BYTES = 4 << 10
MOST_MARKER_BYTES = 1 << 16


class Head(Struct, frozen=True):
    """The header of an entry. entry: its fields, without its records; size: its bytes in the file."""

    position: int
    size: int
    entry: Entry

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.position + self.size

    @property
    def first_offset(self) -> int:
        """Its lowest offset, as far as a header says it: a wrapper message names only its last one."""
        first = self.entry.base_offset
        return self.entry.last_offset if first is None else first

    def may_hold(self, first: int, last: int) -> bool:
        """Return whether it has offsets from first to last, inclusive; a wrapper message names only its last one."""
        begin = self.entry.base_offset
        return self.entry.last_offset >= first and (begin is None or begin <= last)


def walk_heads(file: LogFile, start: int, end: int, *, may_be_preallocated: bool = False) -> Iterator[Head]:
    """Yield the header of each complete entry in [start, end) of a log file; an entry begins at `start`.

    Raises Corrupt at an impossible length, as a full read would. may_be_preallocated: the walk ends where only zeros
    follow up to the end of the file.
    """
    at, base, chunk, count = start, start, b"", 0
    while True:
        if base + len(chunk) - at < HEAD_BYTES and base + len(chunk) < end:
            far = count == 0 or at - start > count * FAR_BYTES  # nothing is known of the first one
            base, chunk = at, file.read(at, min(FAR_PIECE_BYTES if far else NEAR_PIECE_BYTES, end - at))
        result = (
            find_frame(chunk, at - base, end - base)
            if len(chunk) > at - base + HEADER_SIZE_UP_TO_MAGIC
            else FrameStop.END
        )
        if result is FrameStop.LENGTH:
            if may_be_preallocated and ends_in_zeros(file, at):
                return
            raise corrupt_length(chunk, at - base, base).at_path(file.path)
        if not isinstance(result, Frame):
            return
        window = Window(base, memoryview(chunk), len(chunk), last=False)
        yield Head(at, result.size, read_entry(window, result, file.path))
        at, count = at + result.size, count + 1


def read_marker(file: LogFile, head: Head) -> bool | None:
    """Return whether a control batch aborts a transaction; None if it does not end a transaction."""
    if head.size > MOST_MARKER_BYTES or not isinstance(head.entry, RecordBatch):
        return None
    frame = Frame(0, head.entry.base_offset, head.size, head.entry.magic)
    window = Window(head.position, memoryview(file.read(head.position, head.size)), head.size, last=False)
    try:
        record = next(read_entry(window, frame, file.path).records())
        return parse_end_transaction_marker(record.key, record.value).is_abort
    except (KlogError, StopIteration):
        return None


def find_position(storage: Storage, log: Stored, index: Stored | None, base_offset: int, offset: int) -> int:
    """Return where to begin to read for an offset: a batch that begins at or before it, from the index if that is
    right."""
    if index is None or offset <= base_offset:
        return 0
    data = storage.read(index)
    data = data[: entries_before_zero_tail(data, OFFSET_INDEX_ENTRY_SIZE) * OFFSET_INDEX_ENTRY_SIZE]
    entry = OFFSET_ENTRIES.lookup(data, base_offset, offset)
    return entry.position if entry.position and is_batch_of(storage, log, entry) else 0


def is_batch_of(storage: Storage, log: Stored, entry: OffsetIndexEntry, *, first_offset: int | None = None) -> bool:
    """Return whether a sound batch is at the position of an offset index entry and may be the one meant.

    Kafka's entry has the last offset of an append, and the position where the append begins. first_offset: the batch
    must not begin below it.
    """
    if not 0 <= entry.position < log.size:
        return False
    with storage.open(log, ahead_bytes=HEAD_BYTES) as file:
        data = file.read(entry.position, HEAD_BYTES)
        frame = find_frame(data, 0, log.size - entry.position)
        if not isinstance(frame, Frame):
            return False
        try:
            window = Window(entry.position, memoryview(file.read(entry.position, frame.size)), frame.size, last=False)
            batch = read_entry(window, replace(frame, position=0), file.path)
            first = batch.last_offset if batch.base_offset is None else batch.base_offset
            return (first_offset or 0) <= first <= entry.offset and batch.crc_valid
        except KlogError:
            return False


def log_end_offset(storage: Storage, log: Stored, index: Stored | None, base_offset: int) -> int | None:
    """Return the offset after the last complete batch of a segment, also of one behind damage: who reads tells that.
    None if there is none. Raises Unreadable."""
    last: int | None = None
    at: int | None = find_position(storage, log, index, base_offset, MAX_LONG)
    with storage.open(log, ahead_bytes=FAR_PIECE_BYTES) as file:
        while at is not None:
            try:
                for head in walk_heads(file, at, log.size):
                    at, last = head.end, max(head.entry.last_offset, last or 0)
            except Unreadable:  # an unreadable log is not a short one
                raise
            except KlogError:
                pass
            # A stream asks again and again: it must not look at all zeros that a broker has preallocated.
            is_blank = not any(file.read(at, min(LOG_OVERHEAD, log.size - at)))
            at = None if is_blank else find_next_batch(file, at + 1, end=log.size, lowest=base_offset)
    return None if last is None else last + 1


def walk_index(storage: Storage, index: Stored, base_offset: int) -> Iterator[OffsetIndexEntry]:
    """Yield the entries of an offset index, without preallocated zeros."""
    data = storage.read(index)
    for n in range(entries_before_zero_tail(data, OFFSET_INDEX_ENTRY_SIZE)):
        yield OFFSET_ENTRIES.parse_entry(data, base_offset, n)
