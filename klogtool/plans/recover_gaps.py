"""Offsets that are missing between the segments of a log, or before the first: a segment's `.log` is gone.

To a broker a gap is legal, because cleaning leaves gaps, so it reports nothing. Here gaps count only if the log is not
compacted, judged by its settings, then the cleaner's checkpoint, then gaps inside segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.framing import CURRENT_MAGIC, Frame
from klogtool.format.indexes import OFFSET_ENTRIES, OFFSET_INDEX_ENTRY_SIZE
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.plans.recover_reach import claimed_end, walk_evidence
from klogtool.salvage.holes import shows_cleaning
from klogtool.salvage.stretches import Run, walk_stretches
from klogtool.verify.lost_start import find_lost_start
from klogtool.verify.only_copies import KnownLog, find_orphans, not_meant_to_go
from klogtool.verify.swaps import ReadLogs, offsets_in_log

_LEFT_OVERS = tuple(f"{FileKind.LOG.value}{suffix}" for suffix in (CLEANED, SWAP, DELETED))


class Gap(Struct, frozen=True):
    """Offsets [first_offset, last_offset] that no segment has. before, behind: base offsets of the neighbours, the same
    if the gap is inside of a segment; before is None if it is before the first segment, behind if only a left-over
    reaches behind the last. told_by: the
    name of what is left of the missing segment: a log of an interrupted cleaning, split or deletion that a start
    deletes and that has records of the gap, or an index; or None. erased: nothing tells of it after the plan."""

    first_offset: int
    last_offset: int
    before: int | None
    behind: int | None
    told_by: str | None = None
    erased: bool = False

    @property
    def is_left_over(self) -> bool:
        """Return whether records are left in a file that a start deletes."""
        return self.told_by is not None and parse_file_name(self.told_by).kind is FileKind.LOG


def find_gaps(log: LoadedLog, compaction: Reason | None) -> list[Gap]:
    """Return the offsets that are missing from a loaded log, from its log start on; empty if cleaning explains them.
    compaction: evidence of it outside of the log. Raises KlogError if a file cannot be read."""
    if any(segment.log_name not in log.draft for segment in log.segments.all):
        return []  # the file has a name that no broker gives
    orphans, left = find_orphans(log.draft.before), _left_overs(log)
    inside = [*_before_first(log, orphans, left), *_between(log, orphans, left)]
    alone = list(_only_left(log, inside, left))
    inside += [gap for gap in alone if gap.behind is not None]
    # A cleaner leaves the segments that it replaced as `.deleted` files.
    unexplained = [gap for gap in inside if gap.told_by is None or gap.told_by.endswith(DELETED)]
    if unexplained and (compaction is not None or _is_cleaned(log, unexplained)):
        inside = [gap for gap in inside if gap not in unexplained]
    return sorted([*inside, *(gap for gap in alone if gap.behind is None)], key=lambda gap: gap.first_offset)


def with_erased(
    log: LoadedLog, gaps: Sequence[Gap], compaction: Reason | None, *, is_cleaned: bool = False
) -> list[Gap]:
    """Return the gaps that a log had, with whether the log that its draft becomes tells of them. compaction: as in
    `find_gaps`. is_cleaned: it was cleaned, which explains all gaps."""
    known = Offsets()
    with suppress(KlogError):  # then nobody can tell
        for gap in find_gaps(_loaded_again(log), compaction) if gaps and not is_cleaned else ():
            known.add(gap.first_offset, gap.last_offset)
    return [replace(gap, erased=not known.covers(gap.first_offset, gap.last_offset)) for gap in gaps]


def _loaded_again(log: LoadedLog) -> LoadedLog:
    draft = Draft(log.draft.path, dict(log.draft.files), log.draft.folders, log.draft.devices)
    return LoadedLog(draft, replace(log.terms, is_clean=True), jobs=log.jobs)


def find_perhaps_missing(log: LoadedLog, gaps: Sequence[Gap], compaction: Reason | None) -> list[tuple[int, int]]:
    """Return the offsets before the first segment that retention deleted, or somebody, without these gaps. compaction:
    as in `find_gaps`. Raises Unreadable."""
    if log.report.below_start:
        return []
    first, known = log.segments.first, Offsets()
    spans = find_lost_start(log.draft.before, replace(log.terms, compaction=compaction), first.base_offset)
    for gap in gaps:
        known.add(gap.first_offset, gap.last_offset)
    if spans and (begins := _first_offset(first)) < first.base_offset:
        known.add(begins, first.base_offset - 1)
    return [hole for span in spans for hole in known.holes(*span)]


def find_deleted_in_error(log: LoadedLog, gaps: Sequence[Gap]) -> dict[str, Offsets]:
    """Return the `.deleted` logs that have records of these gaps, by name, with the offsets of those gaps: no broker
    meant to delete them there. What else they have, retention or the cleaner removed."""
    in_error = dict[str, Offsets]()
    left = _left_overs(log) if any(gap.is_left_over for gap in gaps) else {}
    for name, offsets in left.items():
        for gap in gaps if name.endswith(DELETED) else ():
            if offsets.overlaps(gap.first_offset, gap.last_offset):
                in_error.setdefault(name, Offsets()).add(gap.first_offset, gap.last_offset)
    return in_error


def _before_first(log: LoadedLog, orphans: dict[int, str], left: dict[str, Offsets]) -> Iterator[Gap]:
    first, lowest = log.segments.first.base_offset, log.terms.log_start_offset
    base = min(orphans, default=first)
    begins, left_over = _left_of(left, lowest, first - 1) or (first, None)
    start = max(min(base, begins), lowest)
    if start < first:
        yield Gap(start, first - 1, None, first, left_over or orphans[base])


def _between(log: LoadedLog, orphans: dict[int, str], left: dict[str, Offsets]) -> Iterator[Gap]:
    reaches: list[tuple[int, str]] = []  # those that go beyond the next segment: their end and name
    read = ReadLogs(log.draft.files)
    for before, behind in pairwise(log.segments.all):
        next_offset = next_offset_of(before)
        end = _claimed_end(before) if next_offset is None else next_offset
        if end > behind.base_offset:
            reaches.append((end, before.log_name))
        if end >= behind.base_offset:
            continue
        first, last = max(end, log.log_start_offset), min(behind.base_offset, _first_offset(behind)) - 1
        below = [read[name].all for end, name in reaches if end > first] if first <= last else []
        for low, high in _in_none(below, first, last):
            orphan = next((name for base, name in orphans.items() if low <= base <= high), None)
            _, left_over = _left_of(left, low, high) or (None, None)
            yield Gap(low, high, before.base_offset, behind.base_offset, left_over or orphan)


def _only_left(log: LoadedLog, known: Sequence[Gap], left: dict[str, Offsets]) -> Iterator[Gap]:
    """Yield the offsets that only left-overs have, beside gaps between segments: a segment is damaged there, or ends
    before them."""
    read, there, alone = ReadLogs(log.draft.files), Offsets(), Offsets()
    for gap in known:
        there.add(gap.first_offset, gap.last_offset)
    for offsets in left.values():
        alone.add_all(offsets)
    # First those that should have them: segments are read as far as they are needed. One that was made has no file if
    # only indexes are rebuilt.
    for is_near in (True, False):
        for segment in log.segments.all if alone.ranges else ():
            if segment.log_name in log.draft and is_near is _is_near(log, segment, alone):
                there.add_all(read[segment.log_name].all)
        alone = _without(alone, there, log.log_start_offset)
    for first, last in _joined(alone.ranges, there):
        for low, high in ((first, min(last, log.log_end_offset - 1)), (max(first, log.log_end_offset), last)):
            if low <= high and (left_part := _left_of(left, low, high)) is not None:
                base = max((each for each in log.segments.base_offsets if each <= low), default=None)
                yield Gap(low, high, base, base if high < log.log_end_offset else None, left_part[1])


def _is_near(log: LoadedLog, segment: LogSegment, wanted: Offsets) -> bool:
    """Return whether some of these offsets are a segment's, by the names."""
    following = log.segments.higher(segment.base_offset)
    return wanted.overlaps(segment.base_offset, MAX_LONG if following is None else following.base_offset - 1)


def _without(wanted: Offsets, there: Offsets, lowest: int) -> Offsets:
    left = Offsets()
    for first, last in wanted.ranges:
        for hole in there.holes(max(first, lowest), last):
            left.add(*hole)
    return left


def _joined(ranges: Sequence[tuple[int, int]], there: Offsets) -> Iterator[tuple[int, int]]:
    """Yield ranges, of which those are one that have nothing between them but what is not there."""
    first = last = None
    for low, high in ranges:
        if first is None or last is None:
            first, last = low, high
        elif there.overlaps(last + 1, low - 1):
            yield first, last
            first, last = low, high
        else:
            last = high
    if first is not None and last is not None:
        yield first, last


def _in_none(segments: Sequence[Offsets], first: int, last: int) -> list[tuple[int, int]]:
    """Return the offsets of a range that none of these lower segments has, as after a `.swap` that replaces not all of
    what it has."""
    holes = [(first, last)] if first <= last else []
    for offsets in segments:
        holes = [hole for span in holes for hole in offsets.holes(*span)]
    return holes


def _left_overs(log: LoadedLog) -> dict[str, Offsets]:
    """Return the offsets of the records that logs of an interrupted cleaning, split or deletion have, which a start
    deletes, by name. The name alone shows nothing: it may be empty, or have others."""
    left_overs = {}
    reached = tuple(each.offset for each in walk_evidence(log))
    span = KnownLog(log.segments.first.base_offset, log.log_end_offset, reached)
    for name in log.report.removed:
        if name.endswith(_LEFT_OVERS) and name in log.draft.before:
            with suppress(KlogError):  # a start deletes it unread, so this is no reason to fail
                offsets = offsets_in_log(log.draft.before[name].content).data
                left_overs[name] = not_meant_to_go(offsets, span) if name.endswith(DELETED) else offsets
    return left_overs


def _left_of(left: dict[str, Offsets], first: int, last: int) -> tuple[int, str] | None:
    """Return the lowest of these offsets that a left-over has, and its name; None if there is none."""
    firsts = ((offsets.first_in(first, last), name) for name, offsets in left.items())
    return min(((offset, name) for offset, name in firsts if offset is not None), default=None)


def next_offset_of(segment: LogSegment) -> int | None:
    """Return the offset after the last batch, reading from the last index entry; None if the segment's end is
    damaged."""
    if not segment.size:
        return segment.base_offset
    with segment.open_log() as file:
        reader = FrameReader(file)
        for start in dict.fromkeys((_last_indexed(segment), 0)):
            end = _end_of_frames(reader, start)
            if end is not None:
                return end
    return None


def _claimed_end(segment: LogSegment) -> int:
    """Return the offset after the last sound batch of a segment whose end is damaged, or after the last one that a
    damaged header behind it claims."""
    end = segment.base_offset
    with segment.open_log() as file:
        for part in walk_stretches(file, segment.base_offset):
            end = part.last_offset + 1 if isinstance(part, Run) else max(end, claimed_end(part, file) or end)
    return end


def _last_indexed(segment: LogSegment) -> int:
    """Return the position in the last index entry; 0 if there is none, or no batch can begin there. The index is only
    read here, because opening an index creates the file."""
    name, draft = segment.name_of(FileKind.OFFSET_INDEX), segment.draft
    entries = draft.size(name) // OFFSET_INDEX_ENTRY_SIZE if name in draft else 0
    if not entries:
        return 0
    with ContentFile(name, draft.files[name].content) as file:
        packed = file.read((entries - 1) * OFFSET_INDEX_ENTRY_SIZE, OFFSET_INDEX_ENTRY_SIZE)
    position = OFFSET_ENTRIES.parse_entry(packed, segment.base_offset, 0).position
    return position if 0 <= position < segment.size else 0


def _end_of_frames(reader: FrameReader, position: int) -> int | None:
    """Return the offset after the last entry, if entries follow one another from a position to the end of the file."""
    last_offset, end = None, reader.file.size
    try:
        for frame in reader.walk(position, end):
            last_offset, position = reader.last_offset(frame), frame.position + frame.size
    except KlogError:
        return None
    return None if last_offset is None or position < end else last_offset + 1


def _first_offset(segment: LogSegment) -> int:
    """Return the first batch's offset, or the base offset if that is unknown. (A name that is too high hides no
    records.)"""
    with segment.open_log() as file:
        frame = FrameReader(file).find(0, file.size)
    return frame.offset if isinstance(frame, Frame) and frame.magic >= CURRENT_MAGIC else segment.base_offset


def _is_cleaned(log: LoadedLog, gaps: list[Gap]) -> bool:
    """Return whether there are gaps inside segments as well. The segments beside the gaps are checked first; one such
    segment is enough."""
    beside = [base for gap in gaps for base in (gap.before, gap.behind) if base is not None]
    for base in dict.fromkeys([*beside, *log.segments.base_offsets]):
        segment = log.segments[base]
        with segment.open_log() as file:
            if shows_cleaning(list(walk_stretches(file, base, jobs=log.jobs))):
                return True
    return False
