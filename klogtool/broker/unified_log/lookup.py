"""Finds an offset, a timestamp or a leader epoch in a log as a broker does: segment, index, short scan.

LocalLog.read, UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp, UnifiedLog.endOffsetForEpoch. The
steps of each search are recorded: which file, which entry, which bytes were scanned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.decompressed_sizes import walk_limited
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment, base_offset_of, walk_from
from klogtool.broker.unified_log.reading import fetch
from klogtool.broker.unified_log.segment_age import age_of
from klogtool.errors import AtPath, KlogError, Refused
from klogtool.format.batch import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, Record, RecordBatch, stream_records
from klogtool.format.framing import Frame
from klogtool.format.indexes import OffsetIndexEntry, TimeIndexEntry
from klogtool.format.message import Message, walk_messages
from klogtool.format.names import FileKind
from klogtool.log.entries import Entry
from klogtool.log.frames import FrameReader
from klogtool.log.leader_epochs import UNDEFINED_EPOCH_OFFSET

# ListOffsetsRequest
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
WORDS = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "max": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
    "latest-tiered": LATEST_TIERED_TIMESTAMP,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD_TIMESTAMP,
}
NO_OFFSET = -1


# Steps of a search.


class SegmentStep(Struct, frozen=True):
    """A chosen segment: number `number` of `segments`, counted from the first. largest_timestamp: its largest
    timestamp, if that decided. by_mtime: that is the mtime of its `.log`, because no index has a timestamp."""

    file: str
    segment: int
    number: int
    segments: int
    largest_timestamp: int | None = None
    by_mtime: bool = False


class IndexLookup(Struct, frozen=True):
    """Entry `slot` (from 0) of `entries` of an `.index`; None: all are above, or there are none, so the scan begins at
    the segment's start."""

    file: str
    slot: int | None
    entries: int
    offset: int
    position: int


class TimeIndexLookup(Struct, frozen=True):
    """Entry `slot` (from 0) of `entries` of a `.timeindex`; None: all are later, or there are none."""

    file: str
    slot: int | None
    entries: int
    timestamp: int
    offset: int


class Scan(Struct, frozen=True):
    """Scanned batches of a `.log`, from byte `start` on. record: the number, from 1, of the record found in the last of
    them; None if none was found."""

    file: str
    start: int
    batches: int
    bytes: int
    record: int | None = None


Step: TypeAlias = SegmentStep | IndexLookup | TimeIndexLookup | Scan


# Results.


class OffsetFound(Struct, frozen=True):
    """The batch that contains an offset or follows it; all None at the end of the log.

    record: the first record in it from the offset on, if it was searched and can be read. floor_segment, index_entry:
    where the search began.
    """

    offset: int
    segment: int | None = None
    position: int | None = None
    size: int | None = None
    base_offset: int | None = None
    last_offset: int | None = None
    record: TimestampAndOffset | None = None
    floor_segment: int | None = None
    index_entry: OffsetIndexEntry | None = None
    steps: tuple[Step, ...] = ()

    @property
    def is_end(self) -> bool:
        """Whether nothing is there: the offset is the log's end, or everything after it is gone."""
        return self.segment is None


class TimestampAndOffset(Struct, frozen=True):
    """A record, or an end of the log (timestamp NO_TIMESTAMP). leader_epoch None: unknown."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class TimestampFound(Struct, frozen=True):
    """timestamp: as asked for; for a word, Kafka's number. found: None if there is no such record, or if only remote
    storage tells: then at_least is an offset that the answer is not below, -1 if there may be none. not_searched: the
    first and last offset that are in remote storage only, where a broker looks first."""

    timestamp: int
    found: TimestampAndOffset | None
    steps: tuple[Step, ...] = ()
    at_least: int | None = None
    not_searched: tuple[int, int] | None = None


class EpochEnd(Struct, frozen=True):
    """Where a leader epoch ended: found_epoch is the largest epoch up to leader_epoch, end_offset where the next one
    began. Both None if the log does not know."""

    leader_epoch: int
    found_epoch: int | None
    end_offset: int | None


_Picked: TypeAlias = tuple[int | None, TimestampAndOffset | None]  # number of a record in its batch, from 1, and place

# By offset.


def lookup_offset(log: LoadedLog, offset: int, *, explain: bool = False) -> OffsetFound:
    """Return the batch that a reader of this offset gets. explain: also the record in it, and the steps.

    Raises Refused (OffsetOutOfRangeException) for an offset outside the log; Corrupt or Unsupported if the search meets
    damage.
    """
    fetched = fetch(log, offset, 1, min_one_message=True)
    if not fetched.size:
        return OffsetFound(offset)
    segment = log.segments[fetched.segment]
    floor = log.segments.floor(offset) or segment
    with _opened(segment) as reader:
        frame = next(walk_from(reader, fetched.position))
        base_offset, last_offset = base_offset_of(reader, frame), reader.last_offset(frame)
        number, record = _record_from(reader.read(frame), offset) if explain else (None, None)
    return OffsetFound(
        offset,
        segment.base_offset,
        frame.position,
        frame.size,
        base_offset,
        last_offset,
        record,
        floor.base_offset,
        floor.offset_index.lookup(offset),
        tuple(_steps_to(log, floor, segment, offset, frame, number)) if explain else (),
    )


def _record_from(entry: Entry, offset: int) -> _Picked:
    """Return number (from 1) and place of the first record from an offset on; None if the batch cannot be read that
    far."""
    try:
        for number, record in enumerate(entry.records(), 1):
            if record.offset >= offset:
                return number, _place(entry, record)
    except KlogError:  # a broker does not open the batch, so the answer stands
        pass
    return None, None


def _steps_to(
    log: LoadedLog, floor: LogSegment, last: LogSegment, offset: int, frame: Frame, record: int | None
) -> Iterator[Step]:
    """Yield the steps of the search. It begins in the segment whose range contains the offset, and goes on to the next
    one if that has no batch at or after the offset."""
    for segment in log.segments.values(floor.base_offset, last.base_offset + 1):
        yield _segment_step(log, segment)
        lookup = _index_lookup(segment, offset)
        yield lookup
        start = max(lookup.position, 0)
        with _opened(segment) as reader:
            end = frame.position if segment is last else segment.size
            # Do not read further than the batch that was found: there may be damage.
            batches = int(segment is last)
            for one in walk_from(reader, start):
                if one.position >= end:
                    break
                batches += 1
        yield Scan(segment.log_name, start, batches, end - start + (frame.size if segment is last else 0), record)


# By timestamp.


def lookup_timestamp(log: LoadedLog, timestamp: int) -> TimestampFound:
    """Return the first record, in log order, with this timestamp or a later one; for Kafka's negative numbers (see
    WORDS), their meaning.

    As in a broker, only the first segment whose largest timestamp is not lower is searched. Raises Corrupt or
    Unsupported if the search meets damage, Refused for a number that the release does not know.
    """
    if timestamp == EARLIEST_LOCAL_TIMESTAMP and log.log_start_offset < log.local_log_start_offset:
        start = log.local_log_start_offset
        return TimestampFound(timestamp, TimestampAndOffset(NO_TIMESTAMP, start, log.epochs.epoch_for_offset(start)))
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        first = next(iter(log.epochs.entries), None)
        epoch = first.epoch if first is not None and first.start_offset <= log.log_start_offset else None
        return TimestampFound(timestamp, TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, epoch))
    if timestamp == LATEST_TIMESTAMP:
        latest = TimestampAndOffset(NO_TIMESTAMP, log.log_end_offset, log.epochs.latest_epoch)
        return TimestampFound(timestamp, latest)
    if timestamp == LATEST_TIERED_TIMESTAMP and not log.terms.rules.knows_latest_tiered:
        raise Refused(
            f"Kafka {log.terms.rules.release} does not know latest-tiered",
            path=log.draft.path,
            kafka_class="UnsupportedVersionException",
        )
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return _find_tiered(log, timestamp)
    # A broker asks remote storage for a time, and never for the largest one.
    return _find_max(log) if timestamp == MAX_TIMESTAMP else _find_from(log, timestamp)


def _find_tiered(log: LoadedLog, timestamp: int) -> TimestampFound:
    """Return what the disk tells of the upload (highestOffsetInRemoteStorage), which a broker learns from
    RemoteLogManager: of segments that were deleted here it was sure that they are there."""
    if log.terms.is_tiered is False:
        return TimestampFound(timestamp, TimestampAndOffset(NO_TIMESTAMP, NO_OFFSET, NO_PARTITION_LEADER_EPOCH))
    local = log.local_log_start_offset
    if timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP:
        return TimestampFound(timestamp, None, at_least=local)
    return TimestampFound(timestamp, None, at_least=local - 1 if log.log_start_offset < local else NO_OFFSET)


def _find_from(log: LoadedLog, timestamp: int) -> TimestampFound:
    start, local = log.log_start_offset, log.local_log_start_offset
    not_searched = (start, local - 1) if start < local else None
    for segment in log.segments.all:
        age = age_of(log, segment)
        if age.timestamp >= timestamp:
            segment_step = _segment_step(log, segment, age.timestamp, by_mtime=age.is_file_time)
            record, steps = _search_segment(log, segment, timestamp)
            return TimestampFound(timestamp, record, (segment_step, *steps), not_searched=not_searched)
    return TimestampFound(timestamp, None, not_searched=not_searched)


def _search_segment(
    log: LoadedLog, segment: LogSegment, timestamp: int
) -> tuple[TimestampAndOffset | None, tuple[Step, ...]]:
    """Find the record in this segment (findOffsetByTimestamp)."""
    slot = segment.time_index.find_slot(timestamp)
    entry = TimeIndexEntry(NO_TIMESTAMP, segment.base_offset) if slot is None else segment.time_index.entry(slot)
    in_time_index = TimeIndexLookup(
        segment.name_of(FileKind.TIME_INDEX), slot, segment.time_index.entries, entry.timestamp, entry.offset
    )
    in_index = _index_lookup(segment, max(entry.offset, log.log_start_offset))
    record, scan = _search_log(log, segment, in_index.position, timestamp)
    return record, (in_time_index, in_index, scan)


def search_without_index(log: LoadedLog, segment: LogSegment, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record of a segment with this timestamp or a later one, whatever its indexes say. Raises as
    `lookup_timestamp`."""
    return _search_log(log, segment, 0, timestamp)[0]


def _search_log(
    log: LoadedLog, segment: LogSegment, start: int, timestamp: int
) -> tuple[TimestampAndOffset | None, Scan]:
    """Search as searchForTimestamp does: batches with a lower largest timestamp are skipped unopened. Keys and values
    of messages are not checked."""

    def pick(entry: Entry) -> _Picked | None:
        records: Iterator[Record | Message] = (
            entry.records() if isinstance(entry, RecordBatch) else walk_messages(entry)
        )
        for number, record in enumerate(walk_limited(entry, records, log.terms.max_record_size), 1):
            if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                return number, _place(entry, record)
        return None

    return _scan(segment, start, lambda largest: largest >= timestamp, pick)


def _scan(
    segment: LogSegment, start: int, may_have: Callable[[int], bool], pick: Callable[[Entry], _Picked | None]
) -> tuple[TimestampAndOffset | None, Scan]:
    """Look into the batches from a position on whose largest timestamp says that they may have it, up to the first of
    which `pick` takes something."""
    batches, end = 0, start
    with _opened(segment) as reader:
        for frame in walk_from(reader, start):
            batches, end = batches + 1, frame.position + frame.size
            if may_have(reader.max_timestamp(frame)) and (picked := pick(reader.read(frame))) is not None:
                number, record = picked
                return record, Scan(segment.log_name, start, batches, end - start, number)
    return None, Scan(segment.log_name, start, batches, end - start)


def _find_max(log: LoadedLog) -> TimestampFound:
    """Return the record with the largest timestamp, by the indexes; None in messages of magic 0, or if it was
    compacted. Older releases return the last offset of its batch, with the latest epoch, and do not look there."""
    segment = max(log.segments.all, key=lambda one: one.read_max_timestamp_so_far().timestamp)
    largest = segment.read_max_timestamp_so_far()
    if not log.terms.rules.finds_record_of_max:
        last = TimestampAndOffset(largest.timestamp, largest.offset, log.epochs.latest_epoch)
        return TimestampFound(MAX_TIMESTAMP, last, (_segment_step(log, segment, largest.timestamp),))
    in_index = _index_lookup(segment, largest.offset)
    segment_step = _segment_step(log, segment, largest.timestamp)
    pick = partial(_record_at, timestamp=largest.timestamp, limit=log.terms.max_record_size)
    record, scan = _scan(segment, in_index.position, lambda timestamp: timestamp == largest.timestamp, pick)
    return TimestampFound(MAX_TIMESTAMP, record, (segment_step, in_index, scan))


def _record_at(entry: Entry, timestamp: int, limit: int | None) -> _Picked:
    """Return the first record with exactly this timestamp (offsetOfMaxTimestamp)."""
    if entry.magic == 0:
        return None, None
    records: Iterator[Record | Message] = (
        stream_records(entry) if isinstance(entry, RecordBatch) else walk_messages(entry)
    )
    for number, record in enumerate(walk_limited(entry, records, limit), 1):
        if record.timestamp == timestamp:
            epoch = entry.partition_leader_epoch
            return number, TimestampAndOffset(timestamp, record.offset, epoch if epoch >= 0 else None)
    return None, None


# By leader epoch.


def end_offset_for_epoch(log: LoadedLog, leader_epoch: int) -> EpochEnd:
    """Return where a leader epoch ended, by leader-epoch-checkpoint and the log's end."""
    found_epoch, end_offset = log.epochs.end_offset_for(leader_epoch, log.log_end_offset)
    if end_offset == UNDEFINED_EPOCH_OFFSET:
        return EpochEnd(leader_epoch, None, None)
    return EpochEnd(leader_epoch, found_epoch, end_offset)


# Shared by the searches.


@contextmanager
def _opened(segment: LogSegment) -> Iterator[FrameReader]:
    """Open a segment's `.log` for reading; errors get its path."""
    with segment.open_log() as file, AtPath(file.path):
        yield FrameReader(file)


def _segment_step(log: LoadedLog, segment: LogSegment, largest: int | None = None, *, by_mtime: bool = False) -> Step:
    bases = log.segments.base_offsets
    number = bisect_right(bases, segment.base_offset)
    return SegmentStep(segment.log_name, segment.base_offset, number, len(bases), largest, by_mtime)


def _index_lookup(segment: LogSegment, offset: int) -> IndexLookup:
    slot = segment.offset_index.find_slot(offset)
    entry = OffsetIndexEntry(segment.base_offset, 0) if slot is None else segment.offset_index.entry(slot)
    name = segment.name_of(FileKind.OFFSET_INDEX)
    return IndexLookup(name, slot, segment.offset_index.entries, entry.offset, entry.position)


def _place(entry: Entry, record: Record | Message) -> TimestampAndOffset:
    epoch = entry.partition_leader_epoch
    return TimestampAndOffset(record.timestamp, record.offset, None if epoch == NO_PARTITION_LEADER_EPOCH else epoch)
