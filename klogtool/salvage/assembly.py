"""Builds new segments from runs of batches: which runs go into one file, its name, and the source of its bytes.

A run stays in its own segment; a run that fills a hole goes to the segment where it would have been. So files keep
their names, unless the name would be below the last offset of the segment before, or above the segment's own first
batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from klogtool.broker.content import Content, joined
from klogtool.format.java_numbers import MAX_INT
from klogtool.salvage.holes import Filling, Hole
from klogtool.salvage.stretches import Run, cut_run

NEAR_OFFSETS = 1 << 30  # offsets per part, if a run has more offsets than a segment can have


class NewSegment(Struct):
    """A new segment. source: base offset of the segment that it continues; None if only copies had it. size: bytes of
    its `.log`."""

    base_offset: int
    source: int | None
    runs: list[Run] = field(default_factory=list)
    size: int = 0

    def content(self) -> Content:
        """Return the content of its `.log`; adjacent bytes of one file are one piece."""
        return joined((), tuple(part for run in self.runs for part in run.content()))

    def run_at(self, position: int) -> tuple[Run, int]:
        """Return the run at a byte of its `.log`, and the byte's position in the run's own file. Raises IndexError."""
        for run in self.runs:
            if position < run.size:
                return run, run.start + position
            position -= run.size
        raise IndexError(position)


class Placed(Struct, frozen=True):
    """A run and its segment. source: as in NewSegment. home: the segment's base offset, if it can keep that."""

    run: Run
    home: int
    source: int | None


def place_own(run: Run) -> Placed:
    """Place a run in its own segment."""
    return Placed(run, run.segment, run.segment)


def place_filling(filling: Filling, hole: Hole, own: Sequence[int]) -> Placed:
    """Place batches of a copy. own: base offsets of all segments that existed, ascending.

    They go to the segment whose range contains them. Between segments and after the last one, that may be a new segment
    that begins where the copy has a segment.
    """
    run = filling.run
    n = bisect_right(own, run.first_offset)
    home = own[n - 1] if n else None
    begins_in_hole = not hole.is_within_segment and hole.first <= run.segment <= run.first_offset
    if home is None or (begins_in_hole and run.segment > home):
        return Placed(run, run.segment if begins_in_hole else run.first_offset, None)
    return Placed(run, home, home)


def assemble(placed: Iterable[Placed]) -> list[NewSegment]:
    """Return the segments by base offset; runs come by offset."""
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
    """Add empty segments with these base offsets (ascending), where no batch is at or above them before the next
    segment."""
    results = list(segments)
    for base in bases:
        n = bisect_right([segment.base_offset for segment in results], base)
        before = results[n - 1] if n else None
        if before is None or (before.base_offset < base and (not before.runs or before.runs[-1].last_offset < base)):
            results.insert(n, NewSegment(base, base))
    return results


def _put(segments: list[NewSegment], run: Run, source: int | None) -> None:
    """Add a run to the last segment as far as its file and indexes can hold it, then to new ones."""
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
        for chunk in cut_run(run, [run.first_offset + NEAR_OFFSETS]):
            _put(segments, chunk, source)
