"""The segments of a partition in trouble, as they are on the disk, for a drawing: where each begins.

It reads little: the first header of a segment, and the last entry of its time index. What cannot be read is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from klogtool.doctor.answers import SegmentDrawn
from klogtool.doctor.partitions import Rehearsed
from klogtool.errors import KlogError
from klogtool.format.batch import NO_TIMESTAMP
from klogtool.format.framing import Frame
from klogtool.format.indexes import TIME_ENTRIES, TIME_INDEX_ENTRY_SIZE
from klogtool.format.names import FileKind
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment

MOST_DRAWN = 120  # segments of a partition; of more, neighbours are one


def with_segments(rehearsed: Rehearsed) -> Rehearsed:
    """Return the prospect with its segments, if something is ahead of the partition."""
    if not rehearsed.ahead:
        return rehearsed
    prospect = rehearsed.prospect
    ends = [point.last_offset + 1 for point in rehearsed.ahead if point.last_offset is not None]
    end = max([*ends, *([] if prospect.log_end_offset is None else [prospect.log_end_offset])], default=None)
    return replace(rehearsed, prospect=replace(prospect, segments_drawn=draw_segments(prospect.path, end)))


def draw_segments(path: str, end_offset: int | None) -> tuple[SegmentDrawn, ...]:
    """Return the segments of a partition dir, by base offset; empty if there are none, or if they cannot be read.

    end_offset: where the last one ends; None if unknown.
    """
    try:
        segments = Partition(path).segments
        ends = [segment.base_offset for segment in segments[1:]]
    except KlogError:  # the trouble says so
        return ()
    return tuple(_drawn(run, end) for run, end in _runs(segments, [*ends, end_offset]))


def _runs(segments: Sequence[Segment], ends: Sequence[int | None]) -> list[tuple[Sequence[Segment], int | None]]:
    """Return at most MOST_DRAWN runs of neighbours, of equal length, each with its end offset."""
    count = min(len(segments), MOST_DRAWN)
    cuts = [len(segments) * n // count for n in range(count + 1)] if count else []
    return [(segments[start:stop], ends[stop - 1]) for start, stop in pairwise(cuts)]


def _drawn(run: Sequence[Segment], end_offset: int | None) -> SegmentDrawn:
    first = _first_timestamp(run[0])
    last = _last_timestamp(run[-1])
    return SegmentDrawn(
        run[0].base_offset,
        sum(map(_size, run)),
        end_offset,
        first,
        last if last is None or first is None or last >= first else None,
        len(run),
    )


def _size(segment: Segment) -> int:
    try:
        return segment.size
    except KlogError:
        return 0


def _first_timestamp(segment: Segment) -> int | None:
    """Return the largest timestamp of the first batch, from its header."""
    try:
        with LogFile(segment.path) as file:
            reader = FrameReader(file)
            frame = reader.find(0, file.size)
            timestamp = reader.max_timestamp(frame) if isinstance(frame, Frame) else NO_TIMESTAMP
    except KlogError:
        return None
    return timestamp if timestamp >= 0 else None


def _last_timestamp(segment: Segment) -> int | None:
    """Return the timestamp of the last entry of the time index. It is unknown after a kill: the file ends in zeros."""
    try:
        with LogFile(segment.side_path(FileKind.TIME_INDEX)) as file:
            if file.size < TIME_INDEX_ENTRY_SIZE or file.size % TIME_INDEX_ENTRY_SIZE:
                return None
            data = file.read(file.size - TIME_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE)
    except KlogError:
        return None
    if len(data) < TIME_INDEX_ENTRY_SIZE:
        return None
    entry = TIME_ENTRIES.parse_entry(data, segment.base_offset, 0)
    return entry.timestamp if entry.timestamp > 0 and entry.offset >= segment.base_offset else None
