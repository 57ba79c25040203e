"""The segments of a log in order of their base offsets (LogSegments)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.errors import Corrupt

DELETED = ".deleted"


class LogSegments:
    """A sorted map of base offset to segment."""

    def __init__(self) -> None:
        self._by_base: dict[int, LogSegment] = {}
        self.base_offsets: list[int] = []

    def __len__(self) -> int:
        return len(self.base_offsets)

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._by_base

    def __getitem__(self, base_offset: int) -> LogSegment:
        return self._by_base[base_offset]

    def add(self, segment: LogSegment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        if segment.base_offset not in self._by_base:
            insort(self.base_offsets, segment.base_offset)
        self._by_base[segment.base_offset] = segment

    def remove(self, base_offset: int) -> None:
        """Remove this segment, if it exists."""
        if self._by_base.pop(base_offset, None) is not None:
            del self.base_offsets[bisect_left(self.base_offsets, base_offset)]

    def delete(self, segments: Iterable[LogSegment]) -> None:
        """Remove segments, and rename their files; a broker deletes them a minute later (removeAndDeleteSegments)."""
        removed = list(segments)
        for segment in removed:
            self.remove(segment.base_offset)
        for segment in removed:
            segment.change_suffix(DELETED)

    def clear(self) -> None:
        """Remove all segments."""
        self._by_base.clear()
        self.base_offsets.clear()

    @property
    def all(self) -> list[LogSegment]:
        """Return all segments in order."""
        return [self._by_base[base] for base in self.base_offsets]

    @property
    def first(self) -> LogSegment:
        """The segment with the lowest base offset; there must be one."""
        return self._by_base[self.base_offsets[0]]

    @property
    def last(self) -> LogSegment:
        """The active segment; there must be one."""
        return self._by_base[self.base_offsets[-1]]

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment whose base offset is not above the offset."""
        n = bisect_right(self.base_offsets, offset)
        return self._by_base[self.base_offsets[n - 1]] if n else None

    def lower(self, base_offset: int) -> LogSegment | None:
        """Return the segment before this base offset."""
        n = bisect_left(self.base_offsets, base_offset)
        return self._by_base[self.base_offsets[n - 1]] if n else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """Return the segment after this base offset."""
        n = bisect_right(self.base_offsets, base_offset)
        return self._by_base[self.base_offsets[n]] if n < len(self.base_offsets) else None

    def values(self, start: int, end: int | None = None) -> list[LogSegment]:
        """Return the segments from the one that contains `start` up to those with a base offset below `end` (None:
        all).

        Raises Corrupt (IllegalArgumentException) if the end is before the start.
        """
        if end is not None and end <= start:
            if end == start:
                return []
            raise Corrupt(
                f"Invalid log segment range: from offset {start} which is greater than limit offset {end}",
                kafka_class="IllegalArgumentException",
            )
        first = max(0, bisect_right(self.base_offsets, start) - 1)
        last = len(self.base_offsets) if end is None else bisect_left(self.base_offsets, end)
        return [self._by_base[base] for base in self.base_offsets[first:last]]
