"""What a log loses between two of its ends: how many records, how many bytes, and how much time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from msgspec import Struct

from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import KlogError
from klogtool.format.batch_proof import FACTS
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import LogFile
from klogtool.log.proving import RowPool, walk_proved
from klogtool.plans.recover_damage import claimed_end
from klogtool.salvage.stretches import Run, Stretch, walk_stretches


class LostRecords(Struct, frozen=True):
    """records: of sound batches, by their headers, and those that a damaged header claims. timestamp: the largest of
    the lost ones, epoch ms; None if no sound batch is lost. bytes: of logs."""

    records: int = 0
    bytes: int = 0
    timestamp: int | None = None


def count_lost(log: LoadedLog, first_offset: int) -> LostRecords:
    """Count what a loaded log had from an offset on, in its segments as they were found. It reads them.

    Raises KlogError if a file cannot be read.
    """
    found = [_count_in(file, base, first_offset, log.jobs) for file, base in _logs(log, first_offset)]
    timestamps = [lost.timestamp for lost in found if lost.timestamp is not None]
    return LostRecords(
        sum(lost.records for lost in found), sum(lost.bytes for lost in found), max(timestamps, default=None)
    )


def _logs(log: LoadedLog, first_offset: int) -> Iterator[tuple[LogFile, int]]:
    """Yield the files that can have such offsets, opened, with their base offsets; each is closed afterwards."""
    parsed = map(parse_file_name, log.draft.before)
    found = [found for found in parsed if found.kind is FileKind.LOG and not found.suffix]
    named = [(each.base_offset, each.name) for each in found if each.base_offset is not None]
    bases = sorted(base for base, _ in named)
    lowest = max([base for base in bases if base <= first_offset], default=0)
    for base, name in sorted(named):
        if base >= lowest:
            with ContentFile(name, log.draft.before[name].content) as file:
                yield file, base


def _count_in(file: LogFile, base_offset: int, first_offset: int, jobs: int) -> LostRecords:
    return _sum(_lost_in(part, file, first_offset) for part in walk_stretches(file, base_offset, jobs=jobs))


def _sum(parts: Iterable[LostRecords]) -> LostRecords:
    records = size = 0
    timestamp: int | None = None
    for part in parts:
        records, size = records + part.records, size + part.bytes
        timestamp = max((found for found in (timestamp, part.timestamp) if found is not None), default=None)
    return LostRecords(records, size, timestamp)


def _lost_in(part: Stretch, file: LogFile, first_offset: int) -> LostRecords:
    """Return what a stretch has from the offset on. Damaged bytes count if they do not end before it."""
    if isinstance(part, Run) and part.mends:  # salvage reads it with other bytes in its header
        return _NO if part.last_offset < first_offset else LostRecords(part.records, part.stop - part.start)
    if isinstance(part, Run):
        return _sum(_walk_sound(file, part.start, part.stop, first_offset)) if part.last_offset >= first_offset else _NO
    if part.last_offset is not None and part.last_offset < first_offset:
        return _NO
    end = claimed_end(part, file)
    return LostRecords(0 if end is None or part.first_offset is None else max(0, end - part.first_offset), part.size)


_NO = LostRecords()


def _walk_sound(file: LogFile, start: int, stop: int, first_offset: int) -> Iterator[LostRecords]:
    """Yield what sound batches in bytes [start, stop) have from the offset on, many batches at a time."""
    for proved in walk_proved(file, start, RowPool(), end=file.size):
        for rows, count in proved.rows:
            low = bisect_left(_column(rows, "last_offset", count), first_offset)
            high = bisect_left(_column(rows, "position", count), stop)
            if low < high:
                yield LostRecords(
                    sum(_column(rows, "records_count", high)[low:]),
                    sum(_column(rows, "size", high)[low:]),
                    max(_column(rows, "max_timestamp", high)[low:]),
                )
            if high < count:
                return


def _column(rows: array[int], name: str, count: int) -> array[int]:
    return rows[FACTS.index(name) : count * len(FACTS) : len(FACTS)]


def last_timestamp(log: LoadedLog) -> int | None:
    """Return the largest timestamp from the last index entry to the end of a loaded log; None if the log is empty or
    cannot be read."""
    segment = next((segment for segment in reversed(log.segments.all) if segment.size), None)
    if segment is None:
        return None
    try:
        start = segment.offset_index.lookup(segment.offset_index.last_offset).position
        with segment.open_log() as file:
            start = start if 0 <= start < file.size else 0  # an index can be wrong
            return _sum(_walk_sound(file, start, file.size, segment.base_offset)).timestamp
    except KlogError:  # the log ends in damage that this start does not see
        return None
