"""The records of two copies that differ in a stretch of offsets, one after another.

Control records and records that both copies have alike are left out. Leader epochs and batches do not count here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from msgspec import Struct

from klogtool.errors import FileCause, KlogError, Unsupported
from klogtool.format.batch import Record
from klogtool.format.names import PartitionDirState, TopicPartition
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment

MOST_RECORDS = 10  # of a stretch
MOST_LOOKED_AT = 100_000


class Difference(Struct, frozen=True):
    """An offset at which two copies differ. a, b: the record of each copy; None if it has none there."""

    offset: int
    a: Record | None
    b: Record | None


class Differences(Struct, frozen=True):
    """is_all: no further record of the stretch differs; else the list ends early, at damage or because it is long."""

    records: tuple[Difference, ...]
    is_all: bool


def find_differences(path_a: str, path_b: str, first: int, last: int) -> Differences:
    """Return records that differ between two offsets, both included. Records that cannot be read end the list."""
    results: list[Difference] = []
    try:
        for n, pair in enumerate(_walk_pairs(path_a, path_b, first, last)):
            if len(results) == MOST_RECORDS or n == MOST_LOOKED_AT:
                return Differences(tuple(results), is_all=False)
            if not _are_alike(pair.a, pair.b):
                results.append(pair)
    except KlogError:
        return Differences(tuple(results), is_all=False)
    return Differences(tuple(results), is_all=True)


def _are_alike(a: Record | None, b: Record | None) -> bool:
    if a is None or b is None:
        return a is b
    return (a.timestamp, a.key, a.value, a.headers) == (b.timestamp, b.key, b.value, b.headers)


def _walk_pairs(path_a: str, path_b: str, first: int, last: int) -> Iterator[Difference]:
    """Yield each offset that at least one copy has, in order."""
    sides = [_walk_records(Partition(path), first, last) for path in (path_a, path_b)]
    a, b = (next(side, None) for side in sides)
    while a is not None or b is not None:
        offset = min(record.offset for record in (a, b) if record is not None)
        of_a, of_b = (record if record is not None and record.offset == offset else None for record in (a, b))
        yield Difference(offset, of_a, of_b)
        a = next(sides[0], None) if of_a is not None else a
        b = next(sides[1], None) if of_b is not None else b


def _walk_records(partition: Partition, first: int, last: int) -> Iterator[Record]:
    """Yield records that are no control records."""
    segments = sorted(partition.segments, key=lambda segment: segment.base_offset)
    for segment, behind in itertools.zip_longest(segments, segments[1:]):
        if segment.base_offset > last:
            return
        if behind is None or behind.base_offset > first:
            for entry in segment.batches(_start_of(segment, first)):
                if entry.base_offset is not None and entry.base_offset > last:
                    return
                if entry.last_offset >= first and not entry.is_control:
                    yield from (record for record in entry.records() if first <= record.offset <= last)


def _start_of(segment: Segment, first: int) -> int:
    """Return the position of an entry before an offset, by the index if that is right there."""
    try:
        entries = [entry for entry in segment.offset_index or () if entry.offset <= first and entry.position > 0]
        if not entries:
            return 0
        entry = next(segment.batches(entries[-1].position), None)
    except KlogError:
        return 0
    # An entry of the index has the last offset of all batches of an append, and the position of the first one.
    is_right = entry is not None and segment.base_offset <= entry.last_offset <= entries[-1].offset
    return entries[-1].position if is_right else 0


class Pair(Struct, frozen=True):
    """Two partition dirs to compare; None: only the other log dir has it."""

    topic_partition: TopicPartition | None
    a: str | None
    b: str | None


def find_pairs(path_a: str, path_b: str) -> Iterator[Pair]:
    """Yield the pairs of two partition dirs, or of two log dirs: those of A in its order, then those that only B has.

    Folders of topics that are deleted (-delete) and of moves to another disk (-future) are left out. Raises KlogError
    if one path is a partition dir and the other a log dir, or if one is neither.
    """
    one, other = _opened(path_a), _opened(path_b)
    if isinstance(one, Partition) and isinstance(other, Partition):
        yield Pair(one.topic_partition, path_a, path_b)
        return
    if not (isinstance(one, LogDir) and isinstance(other, LogDir)):
        raise KlogError(FileCause.OF_TWO_KINDS(), path=path_b)
    of_a, of_b = _partitions(one), _partitions(other)
    for key in (*of_a, *(key for key in of_b if key not in of_a)):
        yield Pair(key, of_a.get(key), of_b.get(key))


def _opened(path: str) -> LogDir | Partition:
    opened = open_path(path)
    if isinstance(opened, LogDir | Partition):
        return opened
    raise Unsupported(FileCause.NEEDS_DIR(), path=path)


def _partitions(log_dir: LogDir) -> dict[TopicPartition, str]:
    kept = (PartitionDirState.CURRENT, PartitionDirState.STRAY)
    results = [one for one in log_dir.partitions if one.state in kept and one.topic_partition is not None]
    return {one.topic_partition: one.path for one in results if one.topic_partition is not None}
