"""Which task reads what: files are listed once, their ends are fixed, and they are cut where batches begin.

Knows nothing of Spark: a split is a list of ranges of files. Large segments are cut by their offset index if its batch
is sound, else by the headers before it; small ones are joined.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import Changed, Corrupt, KlogError
from klogtool.format.indexes import OffsetIndexEntry
from klogtool.format.names import FileKind
from klogtool.format.tiered.objects import parse_object_name
from klogtool.log.cores import usable_cores
from klogtool.log.file import LogFile
from klogtool.log.storage import AHEAD_BYTES, Place, Stored
from klogtool.render.selection import LARGEST, SMALLEST
from klogtool.spark.causes import LogCause
from klogtool.spark.copies import Copy, SegmentFiles, choose, find_copies
from klogtool.spark.filters import Bounds
from klogtool.spark.heads import FAR_PIECE_BYTES, Head, find_position, is_batch_of, walk_heads, walk_index
from klogtool.spark.offsets import Wanted, largest_timestamp, resolve
from klogtool.spark.options import Query
from klogtool.spark.owners import Owner, owner_of
from klogtool.spark.read_committed import AbortedRange
from klogtool.spark.tiered import storage_of

OPEN_COST_BYTES = 1 << 18  # added for each file, beside its bytes
LEAST_SPLIT_BYTES = 8 << 20  # for less, one more task costs more than it saves
FEW_PARTS = 1000  # of a segment: so many are believed, however small its batches are
LEAST_RECORD_BYTES = 7  # DefaultRecord: length, attributes, two deltas, two lengths, number of headers


class SegmentRange(Struct, frozen=True):
    """A range of a log file. start, end: bytes; first_offset, last_offset: of the wanted records, inclusive.

    next_base_offset: of the next segment, None for the last one, which may still grow. beside: the sizes of its
    indexes. identity: meta.properties of its log dir. flanks: bytes before and behind it that have none of the wanted
    offsets by the offset index, which the headers there have to confirm. is_flank: whether it is such bytes.
    """

    place: Place
    log: Stored
    topic: str | None
    partition: int | None
    start: int
    end: int
    first_offset: int = SMALLEST
    last_offset: int = LARGEST
    next_base_offset: int | None = None
    base_offset: int = 0
    beside: tuple[tuple[FileKind, int], ...] = ()
    aborted: tuple[AbortedRange, ...] = ()
    identity: Stored | None = None
    flanks: tuple[tuple[int, int], ...] = ()
    is_flank: bool = False

    def open(self, *, upto: int | None = None, ahead_bytes: int = AHEAD_BYTES) -> LogFile:
        """Open its file, or only that many bytes of it.

        Raises Unreadable; Changed if the broker has cleaned or truncated the segment since the query was planned, so
        that the positions are of bytes that are no more. A whole segment has no such positions: if the cleaner has put
        another file in its place, that one is read.
        """
        stored = self.log if upto is None else replace(self.log, size=upto)
        file = storage_of(self.place, stored).open(stored, ahead_bytes=ahead_bytes)
        is_replaced = self.log.is_replaced_by(file)
        if (is_replaced or file.size < self.end) and not (is_replaced and self.is_whole):
            file.close()
            raise Changed(LogCause.CHANGED(), path=file.path)
        return file

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a segment that is closed: nothing may follow its last batch."""
        return self.start == 0 and self.next_base_offset is not None and self.end == self.log.size

    def owner(self, path: str) -> Owner:
        """Return whose its file is, by the path that users see. Raises Unreadable."""
        return owner_of(self.place, self.identity, os.path.dirname(path))

    @property
    def is_cut(self) -> bool:
        """Whether the segment goes on behind it: then it ends where a batch begins."""
        return self.end < self.log.size

    @property
    def offsets(self) -> tuple[int, int]:
        """The lowest and the highest offset of its segment. In remote storage, one may go on behind the next one's
        beginning."""
        is_open = self.next_base_offset is None or parse_object_name(self.log.path) is not None
        return self.base_offset, LARGEST if is_open else (self.next_base_offset or 0) - 1

    @property
    def is_active(self) -> bool:
        """Whether it is of the last segment, which a broker may have preallocated."""
        return self.next_base_offset is None

    @property
    def ends_before_the_segment(self) -> bool:
        """Whether a query wants no more than a part of the segment's offsets."""
        return self.last_offset < (LARGEST if self.next_base_offset is None else self.next_base_offset - 1)

    @property
    def cost(self) -> int:
        """The bytes, plus the cost of opening the file."""
        return self.end - self.start + OPEN_COST_BYTES


class Split(Struct, frozen=True):
    """What one task reads, in this order."""

    parts: tuple[SegmentRange, ...]

    @property
    def bytes(self) -> int:
        """The bytes of its files."""
        return sum(part.end - part.start for part in self.parts)


def wanted_copies(query: Query, notes: list[str], *, may_be_gone: bool = False) -> list[Copy]:
    """Return the copies of the partitions that a query wants: one of each, or all.

    Raises KlogError if there is none, or topics are missing, unless they may be gone.
    """
    copies = query.select(find_copies(query.places, may_be_gone=may_be_gone), notes, may_be_gone=may_be_gone)
    return copies if query.all_copies else choose(copies, notes)


def plan_splits(query: Query, bounds: Bounds, notes: list[str]) -> list[Split]:
    """Return the splits of a query, by topic, partition and offset. notes: what a user should know.

    Raises KlogError if something does not exist, or the options are wrong.
    """
    wanted = resolve(query, wanted_copies(query, notes), notes)
    held = [narrowed(w, bounds) for w in wanted if bounds.may_hold(w.copy.topic, w.copy.partition)]
    return split(query, held, bounds, has_flanks=True)


def narrowed(wanted: Wanted, bounds: Bounds) -> Wanted:
    """Reduce what is read of a partition to the bounds."""
    last = bounds.offsets[1]
    end = wanted.end if last == LARGEST else last + 1 if wanted.end is None else min(wanted.end, last + 1)
    return replace(wanted, start=max(wanted.start, bounds.offsets[0]), end=end)


def split(query: Query, wanted: Sequence[Wanted], bounds: Bounds, *, has_flanks: bool = False) -> list[Split]:
    """Return the splits that read all that is wanted.

    has_flanks: tasks also look at the headers of what an offset index leaves out. Who goes on where an earlier reading
    ended has no need of that: what lies before was read.
    """
    is_strict = query.mode == "FAILFAST"
    segments = [(w, segment) for w in wanted for segment in _segments(w, bounds, is_strict=is_strict)]
    if query.shape.table == "segments":
        parts = [whole_segment(w.copy, segment) for w, segment in segments]
    else:
        target = _target_bytes(query, sum(segment.size for _, segment in segments))
        parts = [part for w, segment in segments for part in _parts(query, w, segment, target, has_flanks)]
    alone = query.most_records > 0 and query.shape.table != "segments"
    return list(_packed(parts, _target_bytes(query, sum(part.cost for part in parts)), alone=alone))


def _target_bytes(query: Query, total: int) -> int:
    """Return the given size; less if there would be fewer splits than cores or than requested.

    total: bytes if a file is cut; if splits are filled, also the cost of opening each file.
    """
    even = max(total // max(usable_cores(), 1), LEAST_SPLIT_BYTES)
    wanted = total // query.least_splits if query.least_splits else LARGEST
    return max(1, min(query.split_bytes, even, wanted))


def _segments(wanted: Wanted, bounds: Bounds, *, is_strict: bool) -> Iterator[SegmentFiles]:
    """Yield the segments that may have rows, by their names and time indexes."""
    end = LARGEST if wanted.end is None else wanted.end
    for segment in wanted.copy.segments if wanted.start < end else ():
        after = segment.next_base_offset
        if segment.base_offset >= end or (after is not None and after <= wanted.start):
            continue
        if bounds.timestamps[0] > SMALLEST and is_strict:  # times of damaged batches are in no index
            largest = largest_timestamp(wanted.copy, segment)
            if largest is not None and largest < bounds.timestamps[0]:
                continue
        yield segment


# The ranges of a segment.


def _parts(
    query: Query, wanted: Wanted, segment: SegmentFiles, target: int, has_flanks: bool
) -> Iterator[SegmentRange]:
    if not segment.size:
        return
    # All that is wanted of a segment; to the end of the last one, because damage may hide where it ends.
    after = segment.next_base_offset
    end = min(LARGEST if after is None else after, LARGEST if wanted.end is None else wanted.end)
    first, last = max(segment.base_offset, wanted.start), end - 1 if end < LARGEST else LARGEST
    whole = _SegmentPart(*_byte_range(wanted.copy, segment, first, last), first, last)
    for part in _parts_of(query, wanted.copy, segment, whole) if query.most_records else [whole]:
        cuts = [part.start, *find_cuts(wanted.copy, segment, part.start, part.end, target), part.end]
        for positions in pairwise(cuts):
            segment_range = _part(wanted, segment, positions, (part.first_offset, part.last_offset))
            yield _with_flanks(segment_range, whole) if has_flanks else segment_range


def _part(wanted: Wanted, segment: SegmentFiles, positions: tuple[int, int], offsets: tuple[int, int]) -> SegmentRange:
    aborted = (a for a in wanted.aborted if a.first_offset <= offsets[1] and a.last_offset >= offsets[0])
    start, end = positions
    first, last = offsets
    whole = whole_segment(wanted.copy, segment)
    return replace(whole, start=start, end=end, first_offset=first, last_offset=last, aborted=tuple(aborted))


def _with_flanks(part: SegmentRange, whole: _SegmentPart) -> SegmentRange:
    """Name what the index leaves out of the segment, in the range that is next to it."""
    before = ((0, part.start),) if 0 < part.start == whole.start else ()
    behind = ((part.end, part.log.size),) if part.log.size > part.end == whole.end else ()
    return replace(part, flanks=before + behind)


def whole_segment(copy: Copy, segment: SegmentFiles) -> SegmentRange:
    """Return the range of all bytes and offsets of a segment."""
    return SegmentRange(
        copy.place,
        segment.log,
        copy.topic,
        copy.partition,
        0,
        segment.size,
        next_base_offset=segment.next_base_offset,
        base_offset=segment.base_offset,
        beside=tuple((kind, stored.size) for kind, stored in segment.indexes.items()),
        identity=copy.identity,
    )


class _SegmentPart(Struct, frozen=True):
    """A part of a segment. start, end: bytes; first_offset, last_offset: of the wanted records, inclusive."""

    start: int
    end: int
    first_offset: int
    last_offset: int

    def count_in(self, first: int, last: int) -> int:
        """Return how many offsets from first to last are wanted."""
        return max(0, min(last, self.last_offset) - max(first, self.first_offset) + 1)


def _parts_of(query: Query, copy: Copy, segment: SegmentFiles, whole: _SegmentPart) -> Iterator[_SegmentPart]:
    """Yield parts that have at most as many offsets as a task may have: cut where sound batches begin.

    Offsets do not say where a part is, because damage may have put a record out of order. Only inside a batch that has
    too many, parts share its bytes; together they are all wanted offsets, so that no record is in none of them.
    """
    begin, count, next_offset = whole.start, 0, whole.first_offset
    inner: list[int] = []  # offsets inside batches where another part begins
    # A wrong offset makes billions of parts.
    spare = FEW_PARTS + (whole.end - whole.start) // LEAST_RECORD_BYTES if query.shape.table == "records" else 0
    with copy.storage.open(segment.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            for head in walk_heads(file, whole.start, whole.end):
                last = head.entry.last_offset
                first = head.entry.base_offset
                if first is None:  # of a wrapper message: the one before says it
                    first = min(next_offset, last)
                held = whole.count_in(first, last)
                if count and count + held > query.most_records and _is_sound(copy, segment, head):
                    yield from _shared(whole, begin, head.position, inner)
                    begin, count, inner = head.position, 0, []
                if held > query.most_records:
                    start = max(first, whole.first_offset)
                    more = min((held - 1) // query.most_records, spare)
                    inner += (start + n * query.most_records for n in range(1, more + 1))
                    spare -= more
                count, next_offset = count + held, last + 1
        except Corrupt:
            pass
    yield from _shared(whole, begin, whole.end, inner)


def _shared(whole: _SegmentPart, start: int, end: int, inner: Iterable[int]) -> Iterator[_SegmentPart]:
    """Yield parts of the same bytes, which begin at the wanted offsets, and at some inside them."""
    starts = [whole.first_offset, *sorted(set(inner))]
    for first, after in pairwise([*starts, whole.last_offset + 1]):
        yield _SegmentPart(start, end, first, after - 1)


def _is_sound(copy: Copy, segment: SegmentFiles, head: Head) -> bool:
    return is_batch_of(copy.storage, segment.log, OffsetIndexEntry(head.entry.last_offset, head.position))


def _byte_range(copy: Copy, segment: SegmentFiles, first: int, last: int) -> tuple[int, int]:
    """Return where the batches with these offsets are: a little more than that at most, and never less."""
    index = segment.indexes.get(FileKind.OFFSET_INDEX)
    start = find_position(copy.storage, segment.log, index, segment.base_offset, first)
    if last >= (LARGEST if segment.next_base_offset is None else segment.next_base_offset - 1) or index is None:
        return start, segment.size
    return start, _stop_behind(copy, segment, index, last, start)


def _stop_behind(copy: Copy, segment: SegmentFiles, index: Stored, last: int, start: int) -> int:
    """Return where a batch begins after all that have the offset; an index entry has its batch's last offset."""
    behind = 0
    for entry in walk_index(copy.storage, index, segment.base_offset):
        behind += entry.offset > last
        if behind > 1 and entry.position > start:
            return (
                entry.position if is_batch_of(copy.storage, segment.log, entry, first_offset=last + 1) else segment.size
            )
    return segment.size


def find_cuts(copy: Copy, segment: SegmentFiles, start: int, stop: int, target: int) -> list[int]:
    """Return positions in (start, stop) where batches begin, so that the pieces have about the target size.

    There are fewer after an impossible length: nothing is known of what follows it.
    """
    parts = round((stop - start) / target)
    if parts < 2:
        return []
    index, cuts = segment.indexes.get(FileKind.OFFSET_INDEX), [start]
    entries = list(walk_index(copy.storage, index, segment.base_offset)) if index is not None else []
    for n in range(1, parts):
        aim = start + (stop - start) * n // parts
        cut = _cut_by_index(copy, segment, entries, aim) or _cut_by_heads(copy, segment, cuts[-1], aim)
        if cut is None:
            break
        if cuts[-1] < cut < stop:
            cuts.append(cut)
    return cuts[1:]


def _cut_by_index(copy: Copy, segment: SegmentFiles, entries: list[OffsetIndexEntry], aim: int) -> int | None:
    n = bisect_left(entries, aim, key=lambda entry: entry.position)
    if n == len(entries) or not is_batch_of(copy.storage, segment.log, entries[n]):
        return None
    return entries[n].position


def _cut_by_heads(copy: Copy, segment: SegmentFiles, start: int, aim: int) -> int | None:
    """Return the first sound batch from byte `aim` on: after a wrong length there may be no batch."""
    with copy.storage.open(segment.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            for head in walk_heads(file, start, segment.size):
                if head.position >= aim and _is_sound(copy, segment, head):
                    return head.position
            return segment.size
        except KlogError:
            return None


def _packed(parts: Iterable[SegmentRange], target: int, *, alone: bool) -> Iterator[Split]:
    """Yield splits of as many consecutive ranges as fit. alone: one range each."""
    taken: list[SegmentRange] = []
    cost = 0
    for part in parts:
        if taken and (alone or cost + part.cost > target + OPEN_COST_BYTES):
            yield Split(tuple(taken))
            taken, cost = [], 0
        taken.append(part)
        cost += part.cost
    if taken:
        yield Split(tuple(taken))
