"""A segment of a draft as a broker has it open: its `.log`, its indexes, and what is cached of them (LogSegment).

Side files are opened at first use. Only then are they created, cut, or given a last entry when the segment is closed.
So a start leaves the same side files untouched here as in a broker.

`LogSegment.index_batch` and the indexes that it appends to are the reference of kernels/_indexes.pxi: change both.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from itertools import compress

from msgspec import Struct

from klogtool import kernels
from klogtool.broker.config import LogConfig
from klogtool.broker.content import Content, joined
from klogtool.broker.draft import Draft
from klogtool.broker.releases import REFERENCE_RULES, Rules
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.index_files import OffsetIndex, TimeIndex, TransactionIndex
from klogtool.errors import Corrupt, KlogError, Refused, became_shorter
from klogtool.format import batch as format_batch
from klogtool.format import message as format_message
from klogtool.format.batch import CODEC_MASK, HEAD_COLUMNS, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD, RecordBatch
from klogtool.format.framing import CURRENT_MAGIC, Frame, FrameStop, corrupt_length, find_frame, walk_frames
from klogtool.format.indexes import TimeIndexEntry, is_entry_due, to_relative_offset
from klogtool.format.java_numbers import MAX_INT, wrap_long
from klogtool.format.message import Message, walk_messages
from klogtool.format.names import SEGMENT_KINDS, FileKind, build_file_name
from klogtool.log.entries import Entry, read_entry
from klogtool.log.frames import FrameReader
from klogtool.log.mapped import walk_header_windows
from klogtool.log.windows import BufferPool, Window, walk_windows

HEADS_AT_ONCE = 1 << 9


class LogSegmentOffsetOverflow(KlogError):
    """Offsets that no index of this segment can hold: the segment has to be split."""

    def __init__(self, segment: LogSegment, offset: int) -> None:
        super().__init__(
            f"Detected offset overflow at offset {offset} in segment {segment.log_name}",
            path=segment.path,
            kafka_class="LogSegmentOffsetOverflowException",
        )
        self.segment = segment


class BatchPosition(Struct, frozen=True):
    """The place of a batch (FileRecords.LogOffsetPosition). base_offset: before 4.0 its last offset."""

    base_offset: int
    position: int
    size: int


class BatchMarks(Struct, frozen=True):
    """The fields of a batch that indexes need."""

    size: int
    last_offset: int
    max_timestamp: int


Indexed = format_batch.RecordBatch | format_message.Message | BatchMarks
_INDEXES = {FileKind.OFFSET_INDEX: "offset_index", FileKind.TIME_INDEX: "time_index"}  # opened at first use


class IndexMarks(Struct, frozen=True):
    """The state of a segment's indexes at some moment. txn: size and last offset of the transaction index."""

    max_timestamp_so_far: TimeIndexEntry | None
    bytes_since_last_index_entry: int
    offset_entries: int
    time_entries: int
    txn: tuple[int, int | None]


class LogSegment:
    """One segment. max_timestamp_so_far: (timestamp, offset), or None until it is first used. created_ms: when it was
    created or emptied; None if it existed when the log was loaded."""

    def __init__(
        self,
        draft: Draft,
        base_offset: int,
        config: LogConfig,
        suffix: str = "",
        *,
        rules: Rules = REFERENCE_RULES,
    ) -> None:
        """Open it as a broker does: a missing `.log` is created empty.

        Raises Corrupt (KafkaException) for a `.log` of more than 2147483647 bytes.
        """
        self.draft, self.base_offset, self.config, self.suffix = draft, base_offset, config, suffix
        self.rules = rules
        self.max_timestamp_so_far: TimeIndexEntry | None = None
        self.bytes_since_last_index_entry = 0
        self.created_ms: int | None = None
        self._first_timestamp: int | None = None
        if self.log_name not in draft:
            draft.check_has_position(self.log_name)
            draft.write(self.log_name, b"")
        if self.size > MAX_INT:
            raise Corrupt(
                f"The size of segment {self.log_name} ({self.size}) is larger than the maximum allowed segment size "
                f"of {MAX_INT}",
                path=self.path,
                kafka_class="KafkaException",
            )
        self.txn_index = TransactionIndex(draft, self.name_of(FileKind.TXN_INDEX), base_offset)

    # Names and sizes.

    def name_of(self, kind: FileKind) -> str:
        """Return the name of its file of a kind."""
        return build_file_name(kind, self.base_offset, self.suffix)

    @property
    def log_name(self) -> str:
        """The name of its `.log`."""
        return self.name_of(FileKind.LOG)

    @property
    def path(self) -> str:
        """The path of its `.log`."""
        return os.path.join(self.draft.path, self.log_name)

    @property
    def size(self) -> int:
        """Bytes of its `.log`."""
        return self.draft.size(self.log_name)

    @cached_property
    def offset_index(self) -> OffsetIndex:
        """Its `.index`, created if missing."""
        name = self.name_of(FileKind.OFFSET_INDEX)
        return OffsetIndex(self.draft, name, self.base_offset, self.config.segment_index_bytes)

    @cached_property
    def time_index(self) -> TimeIndex:
        """Its `.timeindex`, created if missing."""
        name = self.name_of(FileKind.TIME_INDEX)
        return TimeIndex(self.draft, name, self.base_offset, self.config.segment_index_bytes)

    def _opened(self) -> dict[FileKind, OffsetIndex | TimeIndex]:
        return {kind: self.__dict__[name] for kind, name in _INDEXES.items() if name in self.__dict__}

    def open_log(self) -> ContentFile:
        """Open its `.log` as it is in the draft; the caller closes it."""
        return ContentFile(self.path, self.draft.files[self.log_name].content)

    # Cached values.

    def read_max_timestamp_so_far(self) -> TimeIndexEntry:
        """Return the largest known timestamp and its offset; this opens the time index."""
        if self.max_timestamp_so_far is None:
            self.max_timestamp_so_far = self.time_index.last_entry
        return self.max_timestamp_so_far

    def read_first_timestamp(self) -> int:
        """Return the largest timestamp of its first batch, or NO_TIMESTAMP (loadFirstBatchTimestamp). Raises
        Corrupt."""
        if self._first_timestamp is None and self.size:
            with self.open_log() as file:
                reader = FrameReader(file)
                first = next(walk_from(reader, 0), None)
                self._first_timestamp = None if first is None else reader.max_timestamp(first)
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def note_timestamp(self, timestamp: int, offset: int) -> None:
        """Take a batch's largest timestamp if it is above all before."""
        if timestamp > self.read_max_timestamp_so_far().timestamp:
            self.max_timestamp_so_far = TimeIndexEntry(timestamp, offset)

    def append_time_entry(self, *, skip_full_check: bool = False) -> None:
        """Append the largest timestamp so far to the time index, if it is not there. Raises Corrupt as
        `maybe_append`."""
        latest = self.read_max_timestamp_so_far()
        self.time_index.maybe_append(latest.timestamp, latest.offset, skip_full_check=skip_full_check)

    def ensure_offset_in_range(self, offset: int) -> None:
        """Raises LogSegmentOffsetOverflow for an offset that the indexes cannot hold. As in Kafka this opens the
        `.index`, which creates it."""
        if to_relative_offset(offset, self.offset_index.base_offset) is None:
            raise LogSegmentOffsetOverflow(self, offset)

    def resize_indexes(self) -> None:
        """Preallocate both indexes. Raises Corrupt if they already have more entries."""
        self.offset_index.resize_to_full()
        self.time_index.resize_to_full()

    def sanity_check(self, *, is_time_index_new: bool, whole_version: bool) -> bool:
        """Return whether its `.index` exists. If so, a missing time index stays empty, and the transaction index is
        checked (LogSegment.sanityCheck). whole_version: as for `walk_txn_index`.

        Raises Corrupt: CorruptIndexException, KafkaException.
        """
        index = self.name_of(FileKind.OFFSET_INDEX)
        if index not in self.draft and index not in self.draft.folders | self.draft.devices:
            return False
        if is_time_index_new:
            self.time_index.resize(0)
        self.txn_index.sanity_check(whole_version=whole_version)
        return True

    # Finding batches.

    def translate_offset(self, offset: int) -> BatchPosition | None:
        """Return the batch with this offset or the next one, by index and search; None after the last one.

        Raises Corrupt or Unsupported if the search meets damage.
        """
        return self.search(offset, max(self.offset_index.lookup(offset).position, 0))

    def search(self, target_offset: int, position: int) -> BatchPosition | None:
        """Search as FileRecords.searchForOffsetFromPosition: first by base offsets, then by the last offset of the
        batch before. Older releases go by last offsets (searchForOffsetWithSize); those before 4.0 answer with that,
        and open no wrapper."""
        with self.open_log() as file:
            reader, previous = FrameReader(file), None
            if not self.rules.finds_batch_by_base:
                reaching = (one for one in walk_from(reader, position) if reader.last_offset(one) >= target_offset)
                reached = next(reaching, None)
                if reached is None:
                    return None
                is_opened = self.rules.moves_watermark_to_batch
                offset = base_offset_of(reader, reached) if is_opened else reader.last_offset(reached)
                return BatchPosition(offset, reached.position, reached.size)
            for frame in walk_from(reader, position):
                batch = BatchPosition(base_offset_of(reader, frame), frame.position, frame.size)
                if batch.base_offset == target_offset:
                    return batch
                if batch.base_offset > target_offset:
                    return previous[1] if previous and reader.last_offset(previous[0]) >= target_offset else batch
                previous = frame, batch
            return previous[1] if previous and reader.last_offset(previous[0]) >= target_offset else None

    def read_next_offset(self) -> int:
        """Return the offset after the last complete batch, reading from the last index entry; the base offset if there
        is none.

        Raises Corrupt or Unsupported if the search meets damage.
        """
        batch = self.translate_offset(self.offset_index.last_offset)
        if batch is None:
            return self.base_offset
        return self._next_offset_from(batch.position)

    def next_offset_by_headers(self) -> int:
        """Return the offset after the last batch, of a segment with a sound index. No batch is opened, because
        that fails for a damaged wrapper."""
        return self._next_offset_from(self.offset_index.lookup(self.offset_index.last_offset).position)

    def has_overflow(self) -> bool:
        """Return whether its last offset is too large for its indexes."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and to_relative_offset(next_offset - 1, self.base_offset) is None

    # Changes.

    def truncate_log(self, size: int) -> int:
        """Cut the `.log` to `size` bytes; return how many bytes were cut."""
        truncated = self.size - size
        self.draft.truncate(self.log_name, size)
        if not self.size:
            self._first_timestamp = None
        return truncated

    def truncate_to(self, offset: int) -> int:
        """Remove batches and entries from this offset on; return how many bytes of the `.log` were cut
        (LogSegment.truncateTo).

        The batch that contains the offset is removed whole. Raises Corrupt or Unsupported if the search meets damage.
        """
        batch = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.resize_indexes()
        truncated = 0 if batch is None else self.truncate_log(batch.position)
        self.bytes_since_last_index_entry = 0
        if self.read_max_timestamp_so_far().timestamp >= 0:
            self.max_timestamp_so_far = self._read_largest_timestamp()
        return truncated

    def append(self, content: Content, entries: Iterator[Entry]) -> None:
        """Append batches, as content and as entries, with an index entry about every `index.interval.bytes`."""
        position = self.size
        self.draft.write(self.log_name, joined(self.draft.files[self.log_name].content, content))
        for entry in entries:
            self.note_batch(entry, position)
            position += entry.size

    def note_batch(self, entry: Indexed, position: int) -> None:
        """Update the indexes as appending a batch at a position does."""
        self.bytes_since_last_index_entry = self.index_batch(entry, position, self.bytes_since_last_index_entry)

    def note_write(self, batches: Iterable[BatchMarks], position: int, last_offset: int) -> None:
        """Update the indexes as a write of several batches does in releases that make at most one index entry for it.

        position: of the first batch; last_offset: the largest offset of the write. Raises Corrupt as the indexes do.
        """
        size, latest = 0, BatchMarks(0, last_offset, NO_TIMESTAMP)
        for batch in batches:
            size += batch.size
            latest = batch if batch.max_timestamp > latest.max_timestamp else latest
        self.note_timestamp(latest.max_timestamp, latest.last_offset)
        self.note_batch(BatchMarks(size, last_offset, latest.max_timestamp), position)

    def index_batch(self, entry: Indexed, position: int, bytes_since: int) -> int:
        """Note the largest timestamp of a batch at a position, and append its index entries if they are due.

        bytes_since: from the start of the batch with the last index entry to this position. Returns the same for the
        batch that follows. Append and recovery use the same rule with a counter each: an append after a recovery starts
        from 0, as in Kafka. Raises Corrupt as the indexes do.
        """
        self.note_timestamp(entry.max_timestamp, entry.last_offset)
        if is_entry_due(bytes_since, self.config.index_interval_bytes):
            self.offset_index.append(entry.last_offset, position)
            self.append_time_entry()
            bytes_since = 0
        return bytes_since + entry.size

    def index_marks(self) -> IndexMarks:
        """Return the state of its indexes, for `return_to`."""
        return IndexMarks(
            self.max_timestamp_so_far,
            self.bytes_since_last_index_entry,
            self.offset_index.entries,
            self.time_index.entries,
            self.txn_index.mark(),
        )

    def return_to(self, marks: IndexMarks) -> None:
        """Remove the entries that were added since then."""
        self.max_timestamp_so_far = marks.max_timestamp_so_far
        self.bytes_since_last_index_entry = marks.bytes_since_last_index_entry
        self.offset_index.keep_entries(marks.offset_entries)
        self.time_index.keep_entries(marks.time_entries)
        self.txn_index.return_to(marks.txn)

    def unopened_indexes(self) -> dict[FileKind, bool]:
        """Return which of `.index` and `.timeindex` are not open yet, and whether each exists; for `close_again`."""
        return {kind: self.name_of(kind) in self.draft for kind in _INDEXES.keys() - self._opened().keys()}

    def close_again(self, unopened: Mapping[FileKind, bool]) -> None:
        """Forget that these were opened since then."""
        for kind, was_there in unopened.items():
            self.__dict__.pop(_INDEXES[kind], None)
            if not was_there:
                self.draft.delete(self.name_of(kind))

    def become_inactive(self) -> None:
        """Append the last time entry, and cut the indexes (onBecomeInactiveSegment)."""
        self.append_time_entry(skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()

    def change_suffix(self, suffix: str) -> None:
        """Rename its files in a broker's order; a missing file is skipped."""
        self.write_back()
        for kind in SEGMENT_KINDS:
            name = self.name_of(kind)
            if name in self.draft:
                self.draft.move(name, build_file_name(kind, self.base_offset, suffix))
        self.suffix = suffix
        for name in _INDEXES.values():
            self.__dict__.pop(name, None)
        self.txn_index.take_name(self.name_of(FileKind.TXN_INDEX))

    def delete(self) -> None:
        """Delete its files (deleteIfExists); the segment must not be used afterwards."""
        for kind in SEGMENT_KINDS:
            self.draft.delete(self.name_of(kind))

    def close(self) -> None:
        """Append the largest timestamp, if it was read, to the time index; cut the indexes that were opened."""
        if self.max_timestamp_so_far is not None:
            with suppress(Corrupt, Refused):  # Kafka logs it and continues to close
                self.append_time_entry(skip_full_check=True)
        for index in self._opened().values():
            index.trim_to_valid_size()
        self.write_back()

    def write_back(self) -> None:
        """Write its side files to the draft. (Kafka's are mapped, so they are always current.)"""
        for index in self._opened().values():
            index.write_back()
        self.txn_index.write_back()

    def _next_offset_from(self, position: int) -> int:
        with self.open_log() as file:
            reader, last = FrameReader(file), None
            for last in walk_from(reader, position):  # noqa: B007 - the last one is wanted
                pass
            return self.base_offset if last is None else wrap_long(reader.last_offset(last) + 1)

    def _read_largest_timestamp(self) -> TimeIndexEntry:
        """Return the last time entry, or a larger timestamp from a batch after it (readLargestTimestamp)."""
        last_entry = self.time_index.last_entry
        largest = TimeIndexEntry(NO_TIMESTAMP, -1)
        with self.open_log() as file:
            for entry in walk_entries(file, self.offset_index.lookup(last_entry.offset).position):
                if entry.max_timestamp > largest.timestamp:
                    largest = TimeIndexEntry(entry.max_timestamp, entry.last_offset)
        return largest if largest.timestamp > last_entry.timestamp else last_entry


# Walking a `.log`, as FileLogInputStream does.


def walk_windows_of(file: ContentFile, start: int = 0, end: int | None = None) -> Iterator[tuple[Window, Frame]]:
    """Yield each complete batch of [start, end) of a log: its frame (relative to the window) and its window.

    A window is valid until the next one. Raises Corrupt (CorruptRecordException) at an impossible length, after all
    batches before it; ends without an error at an incomplete batch.
    """
    end = file.size if end is None else min(end, file.size)
    if start < 0:
        raise _negative_position(file, start)
    if start >= end:
        return
    pool = BufferPool()
    for window in walk_windows(file, start=start, end=end, pool=pool):
        for frame in walk_frames(window.data, 0, window.cut, base=window.base):
            yield window, frame
        if window.last and (error := window.length_error(end)) is not None:
            raise error.at_path(file.path)
        pool.give_back(window.data)


def walk_entries(file: ContentFile, start: int = 0, end: int | None = None) -> Iterator[Entry]:
    """Yield the entries in these bytes, each valid until the next one. Raises Corrupt also if the file ends inside the
    header of a batch."""
    for window, frame in walk_windows_of(file, start, end):
        yield read_entry(window, frame, file.path)


def walk_entries_with(file: ContentFile, bits: int) -> Iterator[Entry]:
    """Yield what walk_entries does, without most of the batches that have none of these bits in their attributes: of
    those only headers are read. Raises Changed if the file was cut meanwhile."""
    heads = array("q", bytes(8 * HEADS_AT_ONCE * len(HEAD_COLUMNS)))
    for window in walk_header_windows(file):
        try:
            yield from _walk_window_with(window, bits, heads, file.path)
            if window.last and (error := window.length_error(file.size)) is not None:
                raise error.at_path(file.path)
        except Corrupt as error:
            if file.size_now() < file.size:  # where a mapped file was cut, zeros are seen
                raise became_shorter(file.path) from error
            raise


def _walk_window_with(window: Window, bits: int, heads: array[int], path: str) -> Iterator[Entry]:
    positions, attributes = (HEAD_COLUMNS.index(name) * HEADS_AT_ONCE for name in ("position", "attributes"))
    at = 0
    while at < window.cut:
        until, count = kernels.native.batch_heads(window.data, at, window.cut, 0, heads, HEADS_AT_ONCE)
        has_bits = (flags & bits for flags in heads[attributes : attributes + count])
        wanted = list(compress(heads[positions : positions + count], has_bits))
        if until == at:  # it is not plain
            wanted = [at]
        for position in wanted:
            frame = find_frame(window.data, position, window.cut)
            if not isinstance(frame, Frame):  # windows have whole entries, so somebody has written over this one
                raise corrupt_length(window.data, position, window.base)
            yield read_entry(window, frame, path)
            until = max(until, position + frame.size)
        at = until


def base_offset_of(reader: FrameReader, frame: Frame) -> int:
    """Return a batch's base offset; for a compressed message of magic 0 or 1, that of its first inner message.

    Raises Corrupt or Unsupported if such a message cannot be opened (AbstractLegacyRecordBatch.baseOffset).
    """
    if frame.magic >= CURRENT_MAGIC:
        return frame.offset
    entry = reader.read(frame)
    if isinstance(entry, RecordBatch) or not entry.attributes & CODEC_MASK:
        return frame.offset
    return first_inner_offset(entry)


def first_inner_offset(wrapper: Message) -> int:
    """Return the offset of a wrapper's first inner message. Raises Corrupt or Unsupported."""
    # Kafka first checks whether it is compressed, and fails if it does not know the codec.
    if wrapper.codec != "none" and wrapper.magic not in (0, 1):
        raise Corrupt(
            f"Invalid wrapper magic found in legacy deep record iterator {wrapper.magic}",
            position=wrapper.position,
            kafka_class="InvalidRecordException",
        )
    return next(walk_messages(wrapper)).offset


def ensure_valid(window: Window, frame: Frame, path: str) -> Entry:
    """Return the batch of a frame after a check of its CRC (RecordBatch.ensureValid). Raises Corrupt
    (CorruptRecordException).

    The size is checked before the header, because the file may end inside the header.
    """
    position = window.base + frame.position
    corrupt = partial(Corrupt, path=path, position=position, kafka_class="CorruptRecordException")
    if frame.magic >= CURRENT_MAGIC and frame.size < RECORD_BATCH_OVERHEAD:
        raise corrupt(
            f"Record batch is corrupted (the size {frame.size} is smaller than the minimum allowed overhead "
            f"{RECORD_BATCH_OVERHEAD})"
        )
    entry = read_entry(window, frame, path)
    if not entry.crc_valid:
        raise corrupt(f"Record is corrupt (stored crc = {entry.crc})")
    return entry


def walk_valid(file: ContentFile, start: int = 0) -> Iterator[Entry]:
    """Yield the entries of a log from `start` on, each valid until the next one; ends without an error at an incomplete
    batch.

    Raises Corrupt, mostly CorruptRecordException, at a damaged one.
    """
    for window, frame in walk_windows_of(file, start):
        yield ensure_valid(window, frame, file.path)


def walk_from(reader: FrameReader, position: int) -> Iterator[Frame]:
    """Yield frames from a position that an index gave, where no batch may begin. Ends and raises as FileLogInputStream
    does: without an error at an incomplete batch, with Corrupt (CorruptRecordException) at an impossible length."""
    if position < 0:
        raise _negative_position(reader.file, position)
    end = reader.file.size
    while isinstance(frame := reader.find(position, end), Frame):
        yield frame
        position += frame.size
    if frame is FrameStop.LENGTH:
        raise reader.corrupt_length(position).at_path(reader.file.path)


def _negative_position(file: object, position: int) -> Corrupt:
    return Corrupt(
        f"The file channel position cannot be negative, but it is {position}",
        path=getattr(file, "path", None),
        kafka_class="IllegalArgumentException",
    )
