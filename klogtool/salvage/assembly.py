"""New segments out of runs of batches: which of them go into one file, what that is called, where its bytes come from.

A run stays in its own segment; what fills a hole goes where it would have been. So files keep their names, unless a
name would lie in front of what is in the segment before, or behind the segment's own first batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from klogtool.broker.content import Content, FileRange, Part
from klogtool.format.java_numbers import MAX_INT
from klogtool.salvage.holes import Filling, Hole
from klogtool.salvage.stretches import Run, cut_run

NEAR_OFFSETS = 1 << 30  # of a run that goes over more offsets than a segment can, one gets so many


class NewSegment(Struct):
    """A segment to be. source: base offset of the segment that it goes on as; None for one that only copies had.
    size: bytes of its `.log`."""

    base_offset: int
    source: int | None
    runs: list[Run] = field(default_factory=list)
    size: int = 0

    def content(self) -> Content:
        """Its `.log`; bytes that lie behind each other in one file are one piece."""
        joined: list[Part] = []
        for part in (part for run in self.runs for part in run.content()):
            before = joined[-1] if joined else None
            if isinstance(before, FileRange) and isinstance(part, FileRange) and _follows(before, part):
                joined[-1] = FileRange(before.path, before.start, part.stop)
            else:
                joined.append(part)
        return tuple(joined)

    def run_at(self, position: int) -> tuple[Run, int]:
        """The run that lies at a byte of its `.log`, and the byte in the run's own file. Raises IndexError."""
        for run in self.runs:
            if position < run.size:
                return run, run.start + position
            position -= run.size
        raise IndexError(position)


def _follows(before: FileRange, part: FileRange) -> bool:
    return (before.path, before.stop) == (part.path, part.start)


class Placed(Struct, frozen=True):
    """A run and the segment that it belongs to: source as in NewSegment, home: what that is called if it may be."""

    run: Run
    home: int
    source: int | None


def place_own(run: Run) -> Placed:
    """A run that stays where it is."""
    return Placed(run, run.segment, run.segment)


def place_filling(filling: Filling, hole: Hole, own: Sequence[int]) -> Placed:
    """Where a copy's batches go. own: base offsets of all segments there were, ascending.

    That is the segment whose name says so; between segments, and behind the last, also one that is new here, where the
    copy has a segment begin.
    """
    run = filling.run
    n = bisect_right(own, run.first_offset)
    home = own[n - 1] if n else None
    begins_in_hole = not hole.is_within_segment and hole.first <= run.segment <= run.first_offset
    if home is None or (begins_in_hole and run.segment > home):
        return Placed(run, run.segment if begins_in_hole else run.first_offset, None)
    return Placed(run, home, home)


def assemble(placed: Iterable[Placed]) -> list[NewSegment]:
    """The segments, by base offset; runs come by offset."""
    segments: list[NewSegment] = []
    home, end = None, 0
    for part in placed:
        run = part.run
        if part.home != home:
            base_offset = part.home if end <= part.home <= run.first_offset else run.first_offset
            segments.append(NewSegment(base_offset, part.source))
            home = part.home
        _put(segments, run, part.source)
        end = run.last_offset + 1
    return segments


def with_empty(segments: Sequence[NewSegment], bases: Sequence[int]) -> list[NewSegment]:
    """The same, and empty ones with these base offsets (ascending), wherever no batch lies at or behind them before
    the next segment begins."""
    found = list(segments)
    for base in bases:
        n = bisect_right([segment.base_offset for segment in found], base)
        before = found[n - 1] if n else None
        if before is None or (before.base_offset < base and (not before.runs or before.runs[-1].last_offset < base)):
            found.insert(n, NewSegment(base, base))
    return found


def _put(segments: list[NewSegment], run: Run, source: int | None) -> None:
    """Into the last segment as far as its file and its indexes can hold it, else into new ones."""
    last = segments[-1]
    is_near = run.last_offset - last.base_offset <= MAX_INT
    if is_near and last.size + run.size <= MAX_INT:
        last.runs.append(run)
        last.size += run.size
    elif last.runs:
        segments.append(NewSegment(run.first_offset, source))
        _put(segments, run, source)
    elif last.base_offset < run.first_offset:
        last.base_offset = run.first_offset
        _put(segments, run, source)
    else:
        for piece in cut_run(run, [run.first_offset + NEAR_OFFSETS]):
            _put(segments, piece, source)
