"""A segment of a draft as a broker has it open: its `.log`, its indexes, what it remembers of them (LogSegment).

Side files are opened when they are first needed, and only then come to be, are cut, or get a last entry when the
segment is closed; so which of them a broker's start leaves untouched comes out the same here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import Struct

from klogtool.broker.config import LogConfig
from klogtool.broker.content import Content, joined
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.index_files import OffsetIndex, TimeIndex, TransactionIndex
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format import batch as format_batch
from klogtool.format import message as format_message
from klogtool.format.batch import CODEC_MASK, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD, RecordBatch
from klogtool.format.framing import Frame, Stop, corrupt_length, find_frame, walk_frames
from klogtool.format.indexes import TimeIndexEntry, to_relative_offset
from klogtool.format.java_numbers import MAX_INT, wrap_long
from klogtool.format.message import Message, walk_messages
from klogtool.format.names import FileKind, build_file_name
from klogtool.log.entries import Entry, read_entry
from klogtool.log.frames import FrameReader
from klogtool.log.windows import BufferPool, Window, walk_windows

MAX_MAGIC = 2


class LogSegmentOffsetOverflow(KlogError):
    """Offsets that no index of this segment can hold: it is to be split."""

    def __init__(self, segment: LogSegment, offset: int) -> None:
        super().__init__(
            f"Detected offset overflow at offset {offset} in segment {segment.log_name}",
            path=segment.path,
            kafka_class="LogSegmentOffsetOverflowException",
        )
        self.segment = segment


class BatchPosition(Struct, frozen=True):
    """Where a batch lies (FileRecords.LogOffsetPosition)."""

    base_offset: int
    position: int
    size: int


class BatchMarks(Struct, frozen=True):
    """What indexes want to know of a batch."""

    size: int
    last_offset: int
    max_timestamp: int


class IndexMarks(Struct, frozen=True):
    """What a segment remembers of its indexes at some moment. txn: bytes and last offset of the transaction index."""

    max_timestamp_so_far: TimeIndexEntry | None
    bytes_since_last_index_entry: int
    offset_entries: int
    time_entries: int
    txn: tuple[int, int | None]


class LogSegment:
    """One segment. max_timestamp_so_far: (timestamp, offset), or None as long as nobody has asked. created_ms: when it
    was made, or emptied; None for one that was there when the log was loaded."""

    def __init__(self, draft: Draft, base_offset: int, config: LogConfig, suffix: str = "") -> None:
        """Opens it as a broker does: a `.log` that is not there comes to be, empty.

        Raises Corrupt (KafkaException) for a `.log` of more than 2147483647 bytes.
        """
        self.draft, self.base_offset, self.config, self.suffix = draft, base_offset, config, suffix
        self.max_timestamp_so_far: TimeIndexEntry | None = None
        self.bytes_since_last_index_entry = 0
        self.created_ms: int | None = None
        self._first_timestamp: int | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        if self.log_name not in draft:
            draft.check_is_no_folder(self.log_name)
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
        """The name of its file of a kind."""
        return build_file_name(kind, self.base_offset, self.suffix)

    @property
    def log_name(self) -> str:
        """The name of its `.log`."""
        return self.name_of(FileKind.LOG)

    @property
    def path(self) -> str:
        """Where its `.log` lies."""
        return os.path.join(self.draft.path, self.log_name)

    @property
    def size(self) -> int:
        """Bytes of its `.log`."""
        return self.draft.size(self.log_name)

    @property
    def offset_index(self) -> OffsetIndex:
        """Its `.index`, which comes to be if there is none."""
        if self._offset_index is None:
            name = self.name_of(FileKind.OFFSET_INDEX)
            self._offset_index = OffsetIndex(self.draft, name, self.base_offset, self.config.segment_index_bytes)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """Its `.timeindex`, which comes to be if there is none."""
        if self._time_index is None:
            name = self.name_of(FileKind.TIME_INDEX)
            self._time_index = TimeIndex(self.draft, name, self.base_offset, self.config.segment_index_bytes)
        return self._time_index

    def open_log(self) -> ContentFile:
        """Its `.log`, to be read as it would be. To be closed."""
        return ContentFile(self.path, self.draft.files[self.log_name].content)

    # What the indexes remember.

    def read_max_timestamp_so_far(self) -> TimeIndexEntry:
        """The largest timestamp that is known, and the offset with it; asking opens the time index."""
        if self.max_timestamp_so_far is None:
            self.max_timestamp_so_far = self.time_index.last_entry
        return self.max_timestamp_so_far

    def read_first_timestamp(self) -> int:
        """The largest timestamp of its first batch, or NO_TIMESTAMP (loadFirstBatchTimestamp). Raises Corrupt."""
        if self._first_timestamp is None and self.size:
            with self.open_log() as file:
                reader = FrameReader(file)
                first = next(walk_from(reader, 0), None)
                self._first_timestamp = None if first is None else reader.max_timestamp(first)
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def note_timestamp(self, timestamp: int, offset: int) -> None:
        """A batch's largest timestamp, which counts if it is above all before."""
        if timestamp > self.read_max_timestamp_so_far().timestamp:
            self.max_timestamp_so_far = TimeIndexEntry(timestamp, offset)

    def append_time_entry(self, *, skip_full_check: bool = False) -> None:
        """The largest timestamp so far goes into the time index, if it is not there. Raises Corrupt as that does."""
        latest = self.read_max_timestamp_so_far()
        self.time_index.maybe_append(latest.timestamp, latest.offset, skip_full_check=skip_full_check)

    def ensure_offset_in_range(self, offset: int) -> None:
        """Raises LogSegmentOffsetOverflow for an offset that the indexes cannot hold. As in Kafka it is the `.index`
        that is asked, and so comes to be."""
        if to_relative_offset(offset, self.offset_index.base_offset) is None:
            raise LogSegmentOffsetOverflow(self, offset)

    def resize_indexes(self) -> None:
        """Room for all entries that there may be. Raises Corrupt if there are more already."""
        self.offset_index.resize_to_full()
        self.time_index.resize_to_full()

    def sanity_check(self, *, is_time_index_new: bool) -> bool:
        """Whether its `.index` is there; if so, a missing time index stays empty, and the transaction index is looked
        at (LogSegment.sanityCheck). Raises Corrupt: CorruptIndexException, KafkaException."""
        index = self.name_of(FileKind.OFFSET_INDEX)
        if index not in self.draft and not self.draft.is_folder(index):
            return False
        if is_time_index_new:
            self.time_index.resize(0)
        self.txn_index.sanity_check()
        return True

    # Finding batches.

    def translate_offset(self, offset: int) -> BatchPosition | None:
        """The batch with this offset, or the one that follows it, by index and search; None behind the last one.

        Raises Corrupt or Unsupported where the search meets damage.
        """
        return self.search(offset, max(self.offset_index.lookup(offset).position, 0))

    def search(self, target_offset: int, position: int) -> BatchPosition | None:
        """FileRecords.searchForOffsetFromPosition: first by base offsets, then by the last offset of the one before."""
        with self.open_log() as file:
            reader, previous = FrameReader(file), None
            for frame in walk_from(reader, position):
                found = BatchPosition(base_offset_of(reader, frame), frame.position, frame.size)
                if found.base_offset == target_offset:
                    return found
                if found.base_offset > target_offset:
                    return previous[1] if previous and reader.last_offset(previous[0]) >= target_offset else found
                previous = frame, found
            return previous[1] if previous and reader.last_offset(previous[0]) >= target_offset else None

    def read_next_offset(self) -> int:
        """Behind the last whole batch, from the last index entry on; the base offset if nothing is found there.

        Raises Corrupt or Unsupported where the search meets damage.
        """
        found = self.translate_offset(self.offset_index.last_offset)
        if found is None:
            return self.base_offset
        return self._next_offset_from(found.position)

    def next_offset_by_headers(self) -> int:
        """The same, for a segment whose index is right: no batch is opened, which a broken wrapper would not bear."""
        return self._next_offset_from(self.offset_index.lookup(self.offset_index.last_offset).position)

    def has_overflow(self) -> bool:
        """Whether its last offset is too large for its indexes."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and to_relative_offset(next_offset - 1, self.base_offset) is None

    # Changing it.

    def truncate_log(self, size: int) -> int:
        """Cut the `.log` behind so many bytes; how many went."""
        truncated = self.size - size
        self.draft.truncate(self.log_name, size)
        if not self.size:
            self._first_timestamp = None
        return truncated

    def truncate_to(self, offset: int) -> int:
        """Batches and entries from this offset on go; how many bytes of the `.log` (LogSegment.truncateTo).

        The batch that holds the offset goes whole. Raises Corrupt or Unsupported where the search meets damage.
        """
        found = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.resize_indexes()
        truncated = 0 if found is None else self.truncate_log(found.position)
        self.bytes_since_last_index_entry = 0
        if self.read_max_timestamp_so_far().timestamp >= 0:
            self.max_timestamp_so_far = self._read_largest_timestamp()
        return truncated

    def append(self, content: Content, entries: Iterator[Entry]) -> None:
        """Batches that follow, as content and as entries, with an index entry each `index.interval.bytes` or so."""
        position = self.size
        self.draft.write(self.log_name, joined(self.draft.files[self.log_name].content, content))
        for entry in entries:
            self.note_batch(entry, position)
            position += entry.size

    def note_batch(self, entry: format_batch.RecordBatch | format_message.Message | BatchMarks, position: int) -> None:
        """What appending a batch at a position does to the indexes."""
        self.note_timestamp(entry.max_timestamp, entry.last_offset)
        if self.bytes_since_last_index_entry > self.config.index_interval_bytes:
            self.offset_index.append(entry.last_offset, position)
            self.append_time_entry()
            self.bytes_since_last_index_entry = 0
        self.bytes_since_last_index_entry += entry.size

    def index_marks(self) -> IndexMarks:
        """How far its indexes have come, for `return_to`."""
        return IndexMarks(
            self.max_timestamp_so_far,
            self.bytes_since_last_index_entry,
            self.offset_index.entries,
            self.time_index.entries,
            self.txn_index.mark(),
        )

    def return_to(self, marks: IndexMarks) -> None:
        """Entries that have come since then go."""
        self.max_timestamp_so_far = marks.max_timestamp_so_far
        self.bytes_since_last_index_entry = marks.bytes_since_last_index_entry
        self.offset_index.keep_entries(marks.offset_entries)
        self.time_index.keep_entries(marks.time_entries)
        self.txn_index.return_to(marks.txn)

    def unopened_indexes(self) -> dict[FileKind, bool]:
        """Which of its `.index` and `.timeindex` nobody has asked for, and whether it is there; for `close_again`."""
        opened = {FileKind.OFFSET_INDEX: self._offset_index, FileKind.TIME_INDEX: self._time_index}
        return {kind: self.name_of(kind) in self.draft for kind, index in opened.items() if index is None}

    def close_again(self, unopened: Mapping[FileKind, bool]) -> None:
        """As if nobody had asked for these since then."""
        if FileKind.OFFSET_INDEX in unopened:
            self._offset_index = None
        if FileKind.TIME_INDEX in unopened:
            self._time_index = None
        for kind, was_there in unopened.items():
            if not was_there:
                self.draft.delete(self.name_of(kind))

    def become_inactive(self) -> None:
        """The last time entry, and no room to spare (onBecomeInactiveSegment)."""
        self.append_time_entry(skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()

    def change_suffix(self, suffix: str) -> None:
        """Rename its files, in the order in which a broker does; one that is not there is passed over."""
        self.write_back()
        kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
        for kind in kinds:
            name = self.name_of(kind)
            if name in self.draft:
                self.draft.move(name, build_file_name(kind, self.base_offset, suffix))
        self.suffix = suffix
        self._offset_index = self._time_index = None
        self.txn_index.take_name(self.name_of(FileKind.TXN_INDEX))

    def delete(self) -> None:
        """Its files go (deleteIfExists); nothing is to be done with it any more."""
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
            self.draft.delete(self.name_of(kind))

    def close(self) -> None:
        """The largest timestamp, if it was asked for, goes into the time index; indexes that were opened are cut."""
        if self.max_timestamp_so_far is not None:
            with suppress(Corrupt, Refused):  # Kafka logs it, and goes on closing
                self.append_time_entry(skip_full_check=True)
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.trim_to_valid_size()
        self.write_back()

    def write_back(self) -> None:
        """The draft has its side files as they now are; Kafka's are mapped, and always so."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.write_back()
        self.txn_index.write_back()

    def _next_offset_from(self, position: int) -> int:
        with self.open_log() as file:
            reader, last = FrameReader(file), None
            for last in walk_from(reader, position):  # noqa: B007 - the last one is wanted
                pass
            return self.base_offset if last is None else wrap_long(reader.last_offset(last) + 1)

    def _read_largest_timestamp(self) -> TimeIndexEntry:
        """The last time entry, or a larger timestamp in a batch behind it (readLargestTimestamp)."""
        last_entry = self.time_index.last_entry
        largest = TimeIndexEntry(NO_TIMESTAMP, -1)
        with self.open_log() as file:
            for entry in walk_entries(file, self.offset_index.lookup(last_entry.offset).position):
                if entry.max_timestamp > largest.timestamp:
                    largest = TimeIndexEntry(entry.max_timestamp, entry.last_offset)
        return largest if largest.timestamp > last_entry.timestamp else last_entry


# Walking a `.log`, as FileLogInputStream does.


def walk_windows_of(file: ContentFile, start: int = 0, end: int | None = None) -> Iterator[tuple[Window, Frame]]:
    """Each whole batch of [start, end) of a log: its frame (relative to the window) and the window it lies in.

    A window is good until the next one is asked for. Raises Corrupt (CorruptRecordException) at a length that cannot
    be, after all batches before it; ends silently at a tail.
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
        if window.last and find_frame(window.data, window.cut, end - window.base) is Stop.LENGTH:
            raise corrupt_length(window.data, window.cut, window.base).at_path(file.path)
        pool.give_back(window.data)


def walk_entries(file: ContentFile, start: int = 0, end: int | None = None) -> Iterator[Entry]:
    """The same as entries, each good until the next one is asked for. Raises Corrupt also where the file ends inside
    the header of a batch."""
    for window, frame in walk_windows_of(file, start, end):
        yield read_entry(window, frame, file.path)


def base_offset_of(reader: FrameReader, frame: Frame) -> int:
    """A batch's base offset; of a compressed message of magic 0 or 1, that of its first inner message.

    Raises Corrupt or Unsupported if such a one cannot be opened (AbstractLegacyRecordBatch.baseOffset).
    """
    if frame.magic >= MAX_MAGIC:
        return frame.offset
    entry = reader.read(frame)
    if isinstance(entry, RecordBatch) or not entry.attributes & CODEC_MASK:
        return frame.offset
    return first_inner_offset(entry)


def first_inner_offset(wrapper: Message) -> int:
    """The offset of a wrapper's first inner message. Raises Corrupt or Unsupported."""
    # Kafka asks first whether it is compressed, and fails if the codec is none that it knows.
    if wrapper.codec != "none" and wrapper.magic not in (0, 1):
        raise Corrupt(
            f"Invalid wrapper magic found in legacy deep record iterator {wrapper.magic}",
            position=wrapper.position,
            kafka_class="InvalidRecordException",
        )
    return next(walk_messages(wrapper)).offset


def ensure_valid(window: Window, frame: Frame, path: str) -> Entry:
    """The batch of a frame, whose checksum is right (RecordBatch.ensureValid). Raises Corrupt (CorruptRecordException).

    Its size is looked at before its header is, which may be more than the file has.
    """
    position = window.base + frame.position
    if frame.magic >= MAX_MAGIC and frame.size < RECORD_BATCH_OVERHEAD:
        raise Corrupt(
            f"Record batch is corrupted (the size {frame.size} is smaller than the minimum allowed overhead "
            f"{RECORD_BATCH_OVERHEAD})",
            path=path,
            position=position,
            kafka_class="CorruptRecordException",
        )
    entry = read_entry(window, frame, path)
    if not entry.crc_valid:
        raise Corrupt(
            f"Record is corrupt (stored crc = {entry.crc})",
            path=path,
            position=position,
            kafka_class="CorruptRecordException",
        )
    return entry


def walk_valid(file: ContentFile, start: int = 0) -> Iterator[Entry]:
    """The entries of a log from `start` on, each good until the next one is asked for; ends silently at a tail.

    Raises Corrupt at one that is damaged, CorruptRecordException mostly.
    """
    for window, frame in walk_windows_of(file, start):
        yield ensure_valid(window, frame, file.path)


def walk_from(reader: FrameReader, position: int) -> Iterator[Frame]:
    """Frames from a position on that an index gave, and that may be no batch's. Ends and raises as FileLogInputStream
    does: silently at a tail, with Corrupt (CorruptRecordException) at a length that cannot be."""
    if position < 0:
        raise _negative_position(reader.file, position)
    end = reader.file.size
    while isinstance(found := reader.find(position, end), Frame):
        yield found
        position += found.size
    if found is Stop.LENGTH:
        raise reader.corrupt_length(position).at_path(reader.file.path)


def _negative_position(file: object, position: int) -> Corrupt:
    return Corrupt(
        f"The file channel position cannot be negative, but it is {position}",
        path=getattr(file, "path", None),
        kafka_class="IllegalArgumentException",
    )
