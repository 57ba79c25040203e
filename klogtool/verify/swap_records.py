"""Whether a `.log.swap` has the records of the segment that it replaces, or others under the same offsets.

A cleaning and a split only leave records out. A file with others is of another partition, or of another history: after
a restore, say. What it replaces is lost then, whatever has the same offsets, and whether the topic is compacted or not.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import astuple

from klogtool.errors import Corrupt, Unsupported
from klogtool.format.batch import Header
from klogtool.format.batch_proof import FACTS, NOT_TOLD
from klogtool.format.framing import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, Frame
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.log.probing import Probe
from klogtool.log.proving import RowPool, walk_proved


class _Entry(Struct, frozen=True):
    first_offset: int
    last_offset: int
    position: int
    size: int


_WIDTH = len(FACTS)
_COLUMNS = [FACTS.index(name) for name in _Entry.__struct_fields__]
_FIRST, _LAST = (_Entry.__struct_fields__.index(name) for name in ("first_offset", "last_offset"))
_CRC_AT, _CRC_AT_SINCE_2 = 12, 17

_Content = tuple[int, bytes | None, bytes | None, tuple[Header, ...]]  # what a cleaning leaves of a record as it is


class LogEntries:
    """The places of the readable entries of a log, by their offsets."""

    def __init__(self, file: LogFile) -> None:
        columns = [array("q") for _ in _COLUMNS]
        for rows, stop, _ in walk_rows(file):
            for column, n in zip(columns, _COLUMNS, strict=True):
                column.extend(rows[n:stop:_WIDTH])
        self._lasts = columns[_LAST]
        if any(one > other for one, other in pairwise(self._lasts)):
            order = sorted(range(len(self._lasts)), key=self._lasts.__getitem__)
            columns = [array("q", map(column.__getitem__, order)) for column in columns]
        self._columns, self._lasts = columns, columns[_LAST]

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest offset, 0 and -1 if there is no entry. Where the first entry is a wrapper that was
        not opened, the lowest is 0."""
        firsts = self._columns[_FIRST]
        return max(0, min(firsts, default=0)), self._lasts[-1] if self._lasts else -1

    def walk(self, first: int, last: int) -> Iterator[_Entry]:
        """Yield those that have offsets of a range. A wrapper that was not opened begins behind the entry before it."""
        at = bisect_left(self._lasts, first)
        below = self._lasts[at - 1] if at else -1
        for n in range(at, len(self._lasts)):
            entry = _Entry(*(column[n] for column in self._columns))
            start = below + 1 if entry.first_offset == NOT_TOLD else entry.first_offset
            if start > last:
                return
            yield _Entry(start, entry.last_offset, entry.position, entry.size)
            below = entry.last_offset


class SwapRecords(Struct, frozen=True):
    """What a swapped segment has under the offsets of the one that it replaces. others: where it has another record.
    is_part: it has nothing there but what that one has. shares: both have a record."""

    others: Offsets
    is_part: bool
    shares: bool


def compare_records(swap: LogFile, its: LogEntries, segment: LogFile, theirs: LogEntries) -> SwapRecords:
    """Compare a swapped segment with one that it replaces, by what both say of an offset. Raises Unreadable."""
    others, is_part, shares = Offsets(), True, False
    for entry in its.walk(*theirs.span):
        near = list(theirs.walk(entry.first_offset, entry.last_offset))
        if not near or (len(near) == 1 and _key(swap, entry) == _key(segment, near[0])):
            shares = shares or bool(near)
            continue
        known = {record for each in near for record in _records(segment, each)}
        offsets = {offset for offset, _ in known}
        for offset, content in _records(swap, entry):
            is_inside = any(each.first_offset <= offset <= each.last_offset for each in near)
            shares = shares or (offset, content) in known
            if is_inside and (offset, content) not in known:
                is_part = False
                if offset in offsets:
                    others.add(offset, offset)
    return SwapRecords(others, is_part, shares)


def walk_rows(file: LogFile) -> Iterator[tuple[array[int], int, bool]]:
    """Yield the facts of the readable entries of a log, also behind damage: rows, where they stop, and whether nothing
    else is between these and the ones before. The rows are used again. Raises Unreadable."""
    probe, pool, at = Probe(file, end=file.size, lowest=0), RowPool(), 0
    while at < file.size:
        for proved in walk_proved(file, at, pool, end=file.size):
            for rows, count in proved.rows:
                yield rows, count * _WIDTH, True
            at = proved.reached
        if at >= file.size:
            break
        judged = probe.judge(at, deep=True)
        is_readable = judged is not None and judged.is_readable
        facts = array("q", astuple(judged.facts) if judged is not None and is_readable else ())
        yield facts, len(facts), judged is not None and judged.is_sound
        following = probe.next_readable(at) if judged is None else judged.facts.end
        at = file.size if following is None else following


def _key(file: LogFile, entry: _Entry) -> tuple[_Entry, int]:
    """Return what an exact copy has, too: offsets, size and checksum."""
    head = file.read(entry.position, HEADER_SIZE_UP_TO_MAGIC + 4)
    at = _CRC_AT if head[HEADER_SIZE_UP_TO_MAGIC - 1] < CURRENT_MAGIC else _CRC_AT_SINCE_2
    moved = _Entry(entry.first_offset, entry.last_offset, 0, entry.size)
    return moved, int.from_bytes(head[at : at + 4], "big")


def _records(file: LogFile, entry: _Entry) -> Iterator[tuple[int, _Content]]:
    reader = FrameReader(file)
    frame = reader.find(entry.position, file.size)
    if not isinstance(frame, Frame):
        return
    try:
        for record in reader.read(frame).records():
            yield record.offset, (record.timestamp, record.key, record.value, record.headers)
    except (Corrupt, Unsupported):  # nobody reads on in it
        return
