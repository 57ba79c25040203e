"""Index files as kafka-dump-log prints them, compared with the log beside them; and what it reports at its end.

Source: DumpLogSegments.dumpIndex and dumpTimeIndex.

For each entry of a time index, Kafka walks the whole rest of the log again. klogtool does not walk a part again that it
found sound before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from klogtool.errors import Corrupt, KlogError
from klogtool.format.framing import Frame, FrameStop
from klogtool.format.indexes import (
    OFFSET_ENTRIES,
    OFFSET_INDEX_ENTRY_SIZE,
    TIME_ENTRIES,
    index_entries_count,
    sanity_check_offset_index,
    sanity_check_time_index,
)
from klogtool.format.java_numbers import wrap_long
from klogtool.format.message import Message, walk_messages
from klogtool.log.file import LogFile, read_whole
from klogtool.log.frames import FrameReader
from klogtool.render.kafka_options import KafkaOptions

MOST_INDEX_BYTES = 2**31 - 1
NO_TIMESTAMP = -1

Write = Callable[[bytes | memoryview], None]


def dump_offset_index(
    path: str, base_offset: int, log: LogFile, options: KafkaOptions, reports: Reports, write: Write
) -> None:
    """Print the entries of an `.index`. Raises KlogError where Kafka's tool dies."""
    data = read_whole(path, limit=MOST_INDEX_BYTES)
    if index_entries_count(data, OFFSET_INDEX_ENTRY_SIZE) == 0:
        write(f"{path} is empty.\n".encode(errors="surrogateescape"))
        return
    if options.sanity_only:
        sanity_check_offset_index(data, base_offset)
        write(f"{path} passed sanity check.\n".encode(errors="surrogateescape"))
        return
    frames, max_message_size = FrameReader(log), options.max_message_size()
    for n, (relative_offset, position) in enumerate(OFFSET_ENTRIES.unpack(data)):
        if n > 0 and relative_offset == 0:
            return  # zeros that a broker preallocated
        offset = wrap_long(base_offset + relative_offset)
        try:
            check_slice(frames.file, position, max_message_size)
            result = frames.find(position, position + max_message_size)
            if result is FrameStop.LENGTH:
                raise frames.corrupt_length(position)
            if not isinstance(result, Frame):
                raise Corrupt(
                    f"no batch at byte {position} of the log, where the index points to",
                    kafka_class="NoSuchElementException",
                )
            last_offset = frames.last_offset(result)
        except KlogError as error:
            raise _of_index(error) from None
        if last_offset != offset:
            reports.index_mismatches.setdefault(os.path.abspath(path), {})[offset] = last_offset
        if not options.verify_only:
            write(b"offset: %d position: %d\n" % (offset, position))


def _of_index(error: KlogError) -> KlogError:
    """Turn an error about the log into one about the index. Its position is a byte of the log, so it goes into the
    reason."""
    if error.path is None and error.position is not None:
        error.reason = f"the log beside it, at byte {error.position}: {error.reason}"
        error.position = None
    return error


def check_slice(log: LogFile, position: int, size: int) -> None:
    """Raise Corrupt where FileRecords.slice throws."""
    if not 0 <= position <= log.size:
        raise Corrupt(f"position {position} is outside of {log.path}", kafka_class="IllegalArgumentException")
    if size < 0:
        raise Corrupt(f"invalid size: {size}", kafka_class="IllegalArgumentException")


def dump_time_index(
    path: str, base_offset: int, log: LogFile, index: bytes, options: KafkaOptions, reports: Reports, write: Write
) -> None:
    """Print the entries of a `.timeindex`. index: the bytes of the `.index` beside it.

    Raises KlogError where Kafka's tool dies.
    """
    data = read_whole(path, limit=MOST_INDEX_BYTES)
    if options.sanity_only:
        sanity_check_time_index(data, base_offset)
        write(f"{path} passed sanity check.\n".encode(errors="surrogateescape"))
        return
    check = TimeIndexCheck(os.path.abspath(path), log, reports)
    for n, (timestamp, relative_offset) in enumerate(TIME_ENTRIES.unpack(data)):
        if n > 0 and relative_offset == 0:
            return
        offset = wrap_long(base_offset + relative_offset)
        try:
            check.entry(timestamp, offset, OFFSET_ENTRIES.lookup(index, base_offset, offset).position)
        except KlogError as error:
            raise _of_index(error) from None
        if not options.verify_only:
            write(b"timestamp: %d offset: %d\n" % (timestamp, offset))


class TimeIndexCheck:
    """Compares time index entries with the log, in the order of the index."""

    def __init__(self, path: str, log: LogFile, reports: Reports) -> None:
        self.path, self.log, self.reports = path, log, reports
        self.frames = FrameReader(log)
        self.previous = NO_TIMESTAMP
        self._sound_from: int | None = None  # from this position, entries follow each other to the end of the log
        self._reached = 0  # the position of one of these entries

    def entry(self, timestamp: int, offset: int, position: int) -> None:
        """Check the next entry. position: where the offset index sends a reader for this offset."""
        check_slice(self.log, position, MOST_INDEX_BYTES)
        self._check_rest_of_log(position)
        result = self._first_reaching(offset, position)
        if result is None:
            self._not_found(offset, -1)
        elif (last_offset := self.frames.last_offset(result)) != offset:
            self._not_found(offset, last_offset)
        else:
            log_timestamp = largest_timestamp(self.frames, result)
            if log_timestamp != timestamp:
                self.reports.timestamp_mismatches.setdefault(self.path, []).append((timestamp, log_timestamp))
            if self.previous >= timestamp:
                self.reports.timestamps_out_of_order.setdefault(self.path, []).append((timestamp, self.previous))
        self.previous = timestamp

    def _not_found(self, offset: int, log_offset: int) -> None:
        self.reports.offsets_not_found.setdefault(self.path, []).append((offset, log_offset))

    def _first_reaching(self, offset: int, position: int) -> Frame | None:
        while isinstance(result := self.frames.find(position, self.log.size), Frame):
            if self.frames.last_offset(result) >= offset:
                return result
            position += result.size
        return None

    def _check_rest_of_log(self, position: int) -> None:
        """Raise the error of an impossible length between `position` and the end of the log.

        Kafka lists all batches up to the end, and its tool dies on such a length.
        """
        if self._sound_from is not None and self._sound_from <= position:
            if self._reached > position:
                self._reached = self._sound_from
            self._reached = self._walk(self._reached, position)
            if self._reached == position:
                return
        self._walk(position, self.log.size)
        self._sound_from = self._reached = position

    def _walk(self, at: int, stop: int) -> int:
        """Walk from entry to entry up to `stop`, and return the position reached."""
        while at < stop and isinstance(result := self.frames.find(at, self.log.size), Frame):
            at += result.size
        if at < stop and result is FrameStop.LENGTH:
            raise self.frames.corrupt_length(at)
        return at


def largest_timestamp(frames: FrameReader, frame: Frame) -> int:
    """Return the largest timestamp of an entry's records, -1 without records. Raises KlogError if they cannot be
    read."""
    entry = frames.read(frame)
    if isinstance(entry, Message):
        return max([NO_TIMESTAMP, *(m.timestamp for m in walk_messages(entry))])
    return max([NO_TIMESTAMP, *(r.timestamp for r in entry.records())])


# The reports, in the words and the order of Kafka's tool. None of it is damage by itself: gaps are normal after
# compaction, and mismatches are normal in indexes that brokers before 3.9.1 and 4.1 wrote.

Pairs = dict[str, list[tuple[int, int]]]


class Reports:
    """What was found during the dump, by absolute path of the file. as_scala: told as the tool in Scala did."""

    def __init__(self, *, as_scala: bool = False) -> None:
        self._as_scala = as_scala
        self.index_mismatches: dict[str, dict[int, int]] = {}
        self.timestamp_mismatches: Pairs = {}
        self.timestamps_out_of_order: Pairs = {}
        self.offsets_not_found: Pairs = {}
        self.gaps: dict[str, dict[int, int]] = {}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report. Files are in order of path; Kafka has the order of a hash map."""
        for path, mismatches in sorted(self.index_mismatches.items()):
            yield f"Mismatches in :{path}"
            for index_offset, log_offset in sorted(mismatches.items(), reverse=True):
                yield f"  Index offset: {index_offset}, log offset: {log_offset}"
        yield from _pairs("Found timestamp mismatch in :", self.timestamp_mismatches, TIMESTAMP_MISMATCH)
        yield from _pairs("Found out of order timestamp in :", self.timestamps_out_of_order, OUT_OF_ORDER)
        yield from self._not_found()
        for path, gaps in sorted(self.gaps.items()):
            # The gaps of a file in their order. The tool in Scala told the last one first, and none
            # before the first record.
            pairs = sorted(gaps.items())
            pairs = [pair for pair in reversed(pairs) if pair[0] != BEFORE_ALL] if self._as_scala else pairs
            if pairs:
                yield f"Non-consecutive offsets in {path}"
            for before, after in pairs:
                yield f"  {before} is followed by {after}"

    def _not_found(self) -> Iterator[str]:
        if not self._as_scala:
            yield from _pairs("The following indexed offsets are not found in :", self.offsets_not_found, NOT_FOUND)
            return
        for pairs in self.offsets_not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (NOT_FOUND.format(*pair) for pair in pairs)


BEFORE_ALL = -1  # the offset before the first record
TIMESTAMP_MISMATCH = "  Index timestamp: {}, log timestamp: {}"
OUT_OF_ORDER = "  Index timestamp: {}, Previously indexed timestamp: {}"
NOT_FOUND = "Indexed offset: {}, found log offset: {}"


def _pairs(heading: str, result: Pairs, line: str) -> Iterator[str]:
    for path, pairs in sorted(result.items()):
        yield heading + path
        for pair in pairs:
            yield line.format(*pair)
