"""Which offsets of a partition are read: the options, compared with the log."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from klogtool import kernels
from klogtool.causes import Reason
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.framing import Frame
from klogtool.format.indexes import TIME_ENTRIES, TIME_INDEX_ENTRY_SIZE, TimeIndexEntry, entries_before_zero_tail
from klogtool.format.names import FileKind
from klogtool.log.entries import read_entry
from klogtool.log.file import LogFile
from klogtool.log.windows import Window
from klogtool.spark.causes import LogCause, OptionCause, SparkCure
from klogtool.spark.copies import Copy, SegmentFiles, end_of
from klogtool.spark.heads import FAR_PIECE_BYTES, Head, find_position, walk_heads
from klogtool.spark.options import EARLIEST, LATEST, Bound, Query
from klogtool.spark.read_committed import AbortedRange, Committed, find_committed


class Wanted(Struct, frozen=True):
    """What is read of a partition. start, end: offsets, end exclusive, None for all. aborted: ranges to leave out."""

    copy: Copy
    start: int
    end: int | None
    aborted: tuple[AbortedRange, ...] = ()


def name_of(copy: Copy) -> str:
    """Return topic and partition, or the folder if its name does not have them."""
    return copy.folder if copy.topic is None else f"{copy.topic}-{copy.partition}"


def resolve(query: Query, copies: Iterable[Copy], notes: list[str]) -> list[Wanted]:
    """Return what is wanted of each partition. notes: gets a line for lost data if that is not an error.

    Raises Refused if the options do not fit the partitions, or ask for offsets that do not exist.
    """
    copies = list(copies)
    for option, bound in (("startingOffsets", query.starting), ("endingOffsets", query.ending)):
        _check_all_named(option, bound, copies)
    return [_resolved(query, copy, notes) for copy in copies]


def _check_all_named(option: str, bound: Bound, copies: list[Copy]) -> None:
    if bound.each is None:
        return
    named = {key for key, _ in bound.each}
    there = {(copy.topic or "", -1 if copy.partition is None else copy.partition) for copy in copies}
    if named != there:
        raise Refused(OptionCause.NOT_ALL_PARTITIONS(option=option, named=_names(named), there=_names(there)))


def _names(partitions: set[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in sorted(partitions))


def _resolved(query: Query, copy: Copy, notes: list[str]) -> Wanted:
    # The other tables also show what is before the log start offset.
    first = copy.log_start_offset if query.shape.table in ("records", "left_out") else copy.segments[0].base_offset
    committed = find_committed(copy) if query.is_committed_only else Committed(None, ())
    stable = committed.last_stable_offset
    start = _start_of(query, copy, first, stable, notes)
    end = _end_of(query, copy, first, stable, notes)
    if query.starting.is_time or query.starting.each is not None:
        last = end_of(copy) if end is None else end
        if start > last and not _is_reached_for(query.ending, copy, start):
            raise Refused(OptionCause.START_ABOVE_END(partition=name_of(copy), start=start, end=last))
    return Wanted(copy, start, end, committed.aborted)


def _is_reached_for(ending: Bound, copy: Copy, start: int) -> bool:
    """Return whether the given end is after a start, but the log does not reach that far: the data is lost."""
    wanted = None if ending.is_time else ending.of(copy.topic, copy.partition)
    return wanted is not None and wanted >= start


def _start_of(query: Query, copy: Copy, first: int, stable: int | None, notes: list[str]) -> int:
    """first: the log start offset; stable: the last stable offset, where a consumer's view ends."""
    bound = query.starting
    wanted = bound.of(copy.topic, copy.partition)
    if bound.is_time and wanted is not None:
        by_time = _below(find_offset_by_time(copy, wanted, first), stable)
        if by_time is None and query.fails_without_later_time:
            raise Refused(OptionCause.NO_OFFSET_OF_TIME(partition=name_of(copy), timestamp=wanted))
        return by_time if by_time is not None else end_of(copy) if stable is None else stable
    if wanted is None or wanted == EARLIEST:
        return first
    if wanted == LATEST:
        return end_of(copy) if stable is None else stable
    if wanted < first:
        _lose(query, LogCause.BEGINS_LATER(partition=name_of(copy), first=first, wanted=wanted), notes)
    return max(wanted, first)


def _below(offset: int | None, stable: int | None) -> int | None:
    return None if offset is None or (stable is not None and offset >= stable) else offset


def _end_of(query: Query, copy: Copy, first: int, stable: int | None, notes: list[str]) -> int | None:
    bound = query.ending
    wanted = bound.of(copy.topic, copy.partition)
    if bound.is_time and wanted is not None:
        by_time = _below(find_offset_by_time(copy, wanted, first), stable)
        return stable if by_time is None else by_time
    if wanted is None or wanted == LATEST:
        return stable
    end = end_of(copy) if stable is None else stable
    if wanted > end:
        _lose(query, LogCause.ENDS_EARLIER(partition=name_of(copy), end=end, wanted=wanted), notes)
    return min(wanted, end)


def _lose(query: Query, what: Reason, notes: list[str]) -> None:
    if query.fails_on_data_loss:
        raise Refused(what, cure=SparkCure.WITHOUT_LOST())
    notes.append(str(what))


# By time.


def largest_timestamp(copy: Copy, segment: SegmentFiles) -> int | None:
    """Return the largest timestamp of a segment that is not the last one, by its time index; None if unknown.

    The log has to confirm it, because a segment that is left out is not read again: the batch of the last entry has
    this timestamp, and none behind it has a larger one, as if the index had lost its end.
    """
    data = _time_index(copy, segment)
    if segment.next_base_offset is None or not data:
        return None
    if len(data) != segment.indexes[FileKind.TIME_INDEX].size:  # not as the roll of a segment leaves it
        return None
    last = TIME_ENTRIES.parse_entry(data, segment.base_offset, len(data) // TIME_INDEX_ENTRY_SIZE - 1)
    return last.timestamp if _is_true(copy, segment, last, largest=True) else None


def _time_index(copy: Copy, segment: SegmentFiles) -> bytes:
    """Return the entries of a segment's time index; none if it is missing, or not in order."""
    index = segment.indexes.get(FileKind.TIME_INDEX)
    if index is None or index.size < TIME_INDEX_ENTRY_SIZE:
        return b""
    data = copy.storage.read(index)
    data = data[: entries_before_zero_tail(data, TIME_INDEX_ENTRY_SIZE) * TIME_INDEX_ENTRY_SIZE]
    return data if kernels.native.entries_in_order(data, True) else b""


def _is_true(copy: Copy, segment: SegmentFiles, entry: TimeIndexEntry, *, largest: bool = False) -> bool:
    """Return whether the batch with an entry's offset has its timestamp. largest: and no batch behind it has a larger
    one."""
    index = segment.indexes.get(FileKind.OFFSET_INDEX)
    start = find_position(copy.storage, segment.log, index, segment.base_offset, entry.offset)
    with copy.storage.open(segment.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            heads = (head.entry for head in walk_heads(file, start, segment.size))
            reaching = next((head for head in heads if head.last_offset >= entry.offset), None)
            if reaching is None or reaching.max_timestamp != entry.timestamp:
                return False
            return not largest or all(head.max_timestamp <= entry.timestamp for head in heads)
        except Corrupt:
            return False


def find_offset_by_time(copy: Copy, timestamp: int, first: int) -> int | None:
    """Return the offset of the first record that is not older (UnifiedLog.fetchOffsetByTimestamp); None if all are.

    first: lower offsets are not read. Damage ends the search in a segment.
    """
    for segment in copy.segments:
        largest = largest_timestamp(copy, segment)
        is_below = segment.next_base_offset is not None and segment.next_base_offset <= first
        if (largest is None or largest >= timestamp) and not is_below:
            offset = _search(copy, segment, timestamp, first)
            if offset is not None:
                return offset
    return None


def _search(copy: Copy, segment: SegmentFiles, timestamp: int, first: int) -> int | None:
    start = max(first, segment.base_offset, _search_from(copy, segment, timestamp))
    offsets = segment.indexes.get(FileKind.OFFSET_INDEX)
    position = find_position(copy.storage, segment.log, offsets, segment.base_offset, start)
    with copy.storage.open(segment.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            for head in walk_heads(file, position, segment.size):
                if head.entry.max_timestamp >= timestamp and head.entry.last_offset >= first:
                    offset = _search_batch(file, head, timestamp, first)
                    if offset is not None:
                        return offset
        except Corrupt:
            return None
    return None


def _search_from(copy: Copy, segment: SegmentFiles, timestamp: int) -> int:
    """Return an offset before which no record is so late, by the time index if the log confirms it.

    The search begins one entry earlier than Kafka's: that entry has an earlier timestamp, so nothing is missed if the
    offset of the next one is wrong.
    """
    data, base = _time_index(copy, segment), segment.base_offset
    before = TIME_ENTRIES.lookup(data, base, timestamp) if data else None
    before = TIME_ENTRIES.lookup(data, base, before.timestamp - 1) if before is not None else None
    if before is None or before.timestamp < 0 or not _is_true(copy, segment, before):
        return base
    return before.offset


def _search_batch(file: LogFile, head: Head, timestamp: int, first: int) -> int | None:
    window = Window(head.position, memoryview(file.read(head.position, head.size)), head.size, last=False)
    frame = Frame(0, head.entry.last_offset, head.size, head.entry.magic)
    try:
        for record in read_entry(window, frame, file.path).records():
            if record.timestamp >= timestamp and record.offset >= first:
                return record.offset
    except KlogError:
        return None
    return None
