"""Which segment serves which offset: RemoteLogMetadataCache, RemoteLogLeaderEpochState, and the lineage that decides
about deletion (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs).

A broker chooses by leader epochs, never by name, size or date. It does not look for a second segment: a newer short one
hides an older long one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState

# RemoteLogSegmentState.isValidTransition; the same state again is always fine.
_NEXT = {
    SegmentState.COPY_STARTED: (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED),
    SegmentState.COPY_FINISHED: (SegmentState.DELETE_STARTED,),
    SegmentState.DELETE_STARTED: (SegmentState.DELETE_FINISHED,),
    SegmentState.DELETE_FINISHED: (),
}


class _EpochState(Struct):
    """Segments of one leader epoch by their start offset in it, and the highest offset that was ever copied."""

    starts: list[int] = field(default_factory=list)
    keys: dict[int, SegmentKey] = field(default_factory=dict)
    highest: int = -1

    def put(self, start: int, last: int, key: SegmentKey) -> None:
        """Put a finished segment. Those that it covers are in the list no more, nor is one with the same start."""
        while self.starts and self.starts[-1] >= start and self.highest <= last:
            del self.keys[self.starts.pop()]
        if start not in self.keys:
            insort(self.starts, start)
        self.keys[start] = key
        self.highest = max(self.highest, last)

    def drop(self, start: int, key: SegmentKey) -> None:
        """Take a segment out that is being deleted."""
        if self.keys.get(start) == key:
            del self.keys[start]
            del self.starts[bisect_left(self.starts, start)]


class RemoteLogCache:
    """The segments of one partition, after a history of events. segments: all but those whose deletion is finished."""

    def __init__(self) -> None:
        self.segments: dict[SegmentKey, RemoteSegment] = {}
        self._epochs: dict[int, _EpochState] = {}

    def add(self, segment: RemoteSegment) -> bool:
        """Take the event that a copy begins. False: Kafka drops it."""
        known = self.segments.get(segment.key)
        if segment.state is not SegmentState.COPY_STARTED or (known and known.state is not SegmentState.COPY_STARTED):
            return False
        self.segments[segment.key] = segment
        for epoch, _ in segment.epochs:
            self._epochs.setdefault(epoch, _EpochState())
        return True

    def update(self, key: SegmentKey, state: SegmentState, event_ms: int = 0) -> bool:
        """Take the event of another state. False: Kafka drops it."""
        known = self.segments.get(key)
        if known is None or state is SegmentState.COPY_STARTED:
            return False
        if state is not known.state and state not in _NEXT[known.state]:
            return False
        self.segments[key] = segment = replace(known, state=state, event_ms=event_ms)
        for epoch, start in segment.epochs:
            if state is SegmentState.COPY_FINISHED:
                self._epochs[epoch].put(start, segment.last_offset_in(epoch), key)
            elif state is SegmentState.DELETE_STARTED:
                self._epochs[epoch].drop(start, key)
        if state is SegmentState.DELETE_FINISHED:
            del self.segments[key]
        return True

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the segment that serves an offset of a leader epoch. None: OFFSET_OUT_OF_RANGE."""
        state = self._epochs.get(epoch, _EpochState())
        n = bisect_right(state.starts, offset)
        segment = self.segments.get(state.keys[state.starts[n - 1]]) if n else None
        return segment if segment is not None and offset <= segment.last_offset_in(epoch) else None

    def highest_offset(self, epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied (highestOffsetForEpoch)."""
        highest = self._epochs.get(epoch, _EpochState()).highest
        return None if highest < 0 else highest

    def listed(self) -> set[SegmentKey]:
        """Return the segments that some epoch still lists: retention finds no others."""
        return {key for state in self._epochs.values() for key in state.keys.values()}

    def walk_served(self, epochs: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[Served]:
        """Yield who serves [start, end), by the epochs of leader-epoch-checkpoint: (epoch, start offset), ascending."""
        at = start
        for n, (epoch, first) in enumerate(epochs):
            stop = min(end, epochs[n + 1][1] if n + 1 < len(epochs) else end)
            if at < first:
                yield Served(at, min(first, end), None)
            at = max(at, first)
            while at < stop:
                segment = self.find(epoch, at)
                reached = self._next_start(epoch, at, stop) if segment is None else segment.last_offset_in(epoch) + 1
                # A segment that begins later hides the rest of one that it overlaps.
                reached = min(reached, self._next_start(epoch, at, stop), stop)
                yield Served(at, reached, segment)
                at = reached
        if at < end:
            yield Served(at, end, None)

    def _next_start(self, epoch: int, offset: int, stop: int) -> int:
        starts = self._epochs.get(epoch, _EpochState()).starts
        n = bisect_right(starts, offset)
        return min(starts[n], stop) if n < len(starts) else stop


class Served(Struct, frozen=True):
    """Offsets [start, end), and the segment that a broker reads them from; None: they are out of range."""

    start: int
    end: int
    segment: RemoteSegment | None


def joined_gaps(served: Iterable[Served]) -> list[tuple[int, int]]:
    """Return the offsets, first and last, that nobody serves; ranges that touch become one."""
    gaps: list[tuple[int, int]] = []
    for one in served:
        if one.segment is not None or one.start >= one.end:
            continue
        begun = gaps.pop()[0] if gaps and gaps[-1][1] + 1 == one.start else one.start
        gaps.append((begun, one.end - 1))
    return gaps


def lost_gaps(
    cache: RemoteLogCache | None, epochs: Sequence[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int]]:
    """Return the offsets of [start, end), first and last, that no segment serves. cache: None if nobody knows of a
    segment. Else those at the begin are left out: retention may have deleted them since the log start was written."""
    gaps = joined_gaps((cache or RemoteLogCache()).walk_served(epochs, start, end))
    return [gap for gap in gaps if cache is None or gap[0] > start]


def is_within_lineage(segment: RemoteSegment, log_end: int, epochs: Mapping[int, int]) -> bool:
    """Return whether a segment belongs to the log with these leader epochs. Only then retention deletes it, unless all
    its epochs are older (isRemoteSegmentWithinLeaderEpochs)."""
    leader, own = _with_records(epochs), _with_records(dict(segment.epochs))
    last, lowest = max(own), min(leader, default=-1)
    if not leader or not lowest <= last <= max(leader):
        return False
    shared = [epoch for epoch in sorted(own) if epoch >= lowest]
    for epoch in shared:
        if epoch not in leader or (epoch == shared[0] != lowest and own[epoch] < leader[epoch]):
            return False
        behind = _next(leader, epoch)
        if epoch == last:
            if behind is not None and segment.end_offset >= behind[1]:
                return False
        elif behind != _next(own, epoch):
            return False
    return segment.end_offset < log_end


def _with_records(epochs: Mapping[int, int]) -> dict[int, int]:
    """Leave out epochs in which nothing was written (buildFilteredLeaderEpochMap)."""
    entries = sorted(epochs.items())
    return {
        epoch: start for n, (epoch, start) in enumerate(entries) if n + 1 == len(entries) or entries[n + 1][1] != start
    }


def _next(epochs: Mapping[int, int], epoch: int) -> tuple[int, int] | None:
    return next(((other, epochs[other]) for other in sorted(epochs) if other > epoch), None)
