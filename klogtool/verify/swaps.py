"""What a `.log.swap` costs: the offsets of the segments that a start replaces by it, and that it does not have.

A broker leaves such a file when a cleaning or a split is interrupted. A split has all offsets. A cleaning leaves some
out, because their keys have newer records: so where nobody knows whether the topic is compacted, nobody knows whether
they are lost.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from msgspec import UNSET, Struct, UnsetType, field

from klogtool.broker.config import LogConfig
from klogtool.broker.content import Content, FileRange
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.releases import Rules
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.left_overs import LeftOvers, settle_left_overs
from klogtool.broker.unified_log.overflow_split import SWAP
from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.batch import CONTROL_BIT
from klogtool.format.batch_proof import FACTS, NOT_TOLD
from klogtool.format.framing import CURRENT_MAGIC, Frame
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, build_file_name, parse_file_name
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.verify.newer_records import has_newer_records
from klogtool.verify.swap_records import LogEntries, SwapRecords, compare_records, walk_rows

_WIDTH = len(FACTS)
_COLUMNS = [
    FACTS.index(name) for name in ("magic", "first_offset", "last_offset", "records_count", "attributes", "position")
]


class SwapLoss(Struct, frozen=True, omit_defaults=True):
    """Offsets, both ends inclusive. unless_compacted: a cleaning may have left them out, so nobody knows whether they
    are lost."""

    first_offset: int
    last_offset: int
    unless_compacted: bool | UnsetType = UNSET


class LostBySwap(Struct, frozen=True):
    """Offsets in ranges, ascending. unknown: a cleaning may have left them out."""

    certain: tuple[tuple[int, int], ...] = ()
    unknown: tuple[tuple[int, int], ...] = ()

    def within(self, first: int, last: int) -> SwapLoss | None:
        """Return from where to where in [first, last] offsets are lost; where none are for sure, from where to where
        they may be; None if none are."""
        for spans, doubt in ((self.certain, UNSET), (self.unknown, True)):
            matches = [span for span in spans if span[0] <= last and first <= span[1]]
            if matches:
                return SwapLoss(min(matches)[0], max(end for _, end in matches), doubt)
        return None

    @property
    def whole(self) -> SwapLoss | None:
        """Return from where to where offsets are lost, or may be."""
        return self.within(-MAX_LONG, MAX_LONG)


class Cleaning(Struct, frozen=True):
    """A swapped segment that a cleaning can have made. first: below it, it replaces nothing; last: its last offset, -1
    if it is damaged, so that nobody knows what it had. has_gaps: offsets are missing inside of it, as after a
    cleaning."""

    first: int
    last: int
    has_gaps: bool


class SwapTerms(Struct, frozen=True):
    """What decides on the swaps of a partition: its settings, the release, whether it is compacted (None: nobody
    knows)."""

    config: LogConfig
    rules: Rules
    is_compacted: bool | None
    log_start_offset: int


class JudgedSwaps(Struct, frozen=True):
    """What a start makes of the swaps of a partition dir. renamed: the names of logs that become segments. stopped_by:
    the error at which it ends before it completes them."""

    lost: LostBySwap = LostBySwap()
    renamed: tuple[str, ...] = ()
    stopped_by: KlogError | None = None


def judge_swaps(path: str, terms: SwapTerms) -> JudgedSwaps:
    """Try the swaps of a partition dir in memory. Raises Unreadable if another process changes the files."""
    draft = Draft.of(path)
    try:
        left_overs = settle_left_overs(draft, terms.config, terms.rules)
    except (Corrupt, Unsupported) as error:
        return JudgedSwaps(stopped_by=error)
    lost = find_lost_by_swap(draft.before, left_overs, terms.is_compacted, terms.log_start_offset)
    return JudgedSwaps(lost, tuple(name for name in left_overs.swapped if name in draft.before and _is_log(name, SWAP)))


def find_lost_by_swap(
    files: Mapping[str, DraftFile], left_overs: LeftOvers, is_compacted: bool | None, log_start_offset: int
) -> LostBySwap:
    """Return what the swaps of a start cost. files: a partition dir before it; left_overs: what becomes of them.
    is_compacted: None if nobody knows. Raises Unreadable."""
    replaced, swapped = left_overs.replaced, left_overs.swapped
    logs = {name.removesuffix(SWAP): name for name in swapped if name in files and _is_log(name, SWAP)}
    # Of a name with other than 20 digits Kafka makes an empty segment, and never reads the file.
    proper = {final: build_file_name(FileKind.LOG, parse_file_name(final).base_offset or 0) for final in logs}
    unread = [name for final, name in logs.items() if final != proper[final]]
    logs = {final: name for final, name in logs.items() if name not in unread}
    # One that is torn spans nothing for a broker, and takes the place of a file of its name all the same.
    gone = dict.fromkeys(name for name in (*replaced, *logs) if name in files and _is_log(name, ""))
    gone |= dict.fromkeys(unread)
    if not gone or not swapped:
        return LostBySwap()
    there, data, sure, doubtful = Offsets(), Offsets(), Offsets(), Offsets()
    read = ReadLogs(files)
    for name in logs.values():
        there.add_all(read[name].all)
    left = [name for name in files if _is_log(name, "") and name not in gone]
    swaps = sorted((base, name) for name in logs.values() if (base := parse_file_name(name).base_offset) is not None)
    kept = [files[name].content for name in (*logs.values(), *left)]
    for name in gone:
        own = read[name]
        data.add_all(own.data)
        holes = _lacking(read, logs.values(), there, name, log_start_offset).ranges
        holes = list(_not_in(read, left, holes)) if holes else holes
        cleaning = find_cleaning(read, swaps, name) if holes and name in replaced else None
        is_known = bool(cleaning and is_compacted and explains(read, swaps, list(gone), kept, cleaning))
        _share(holes, cleaning, sure, doubtful, is_compacted=is_compacted, is_known=is_known)
    if not any(data.overlaps(*span) for span in (*sure.ranges, *doubtful.ranges)):
        return LostBySwap()  # a marker alone is no record
    return LostBySwap(tuple(sure.ranges), tuple(doubtful.ranges))


def _lacking(read: ReadLogs, swaps: Iterable[str], there: Offsets, name: str, log_start_offset: int) -> Offsets:
    """Return the offsets of a replaced segment that no swap has, or under which one has another record."""
    result, own = Offsets(), read[name].all
    for first, last in own.ranges:
        for hole in there.holes(max(first, log_start_offset), last):
            result.add(*hole)
    for swap in swaps:
        if any(own.overlaps(*span) for span in read[swap].all.ranges):
            for first, last in read.compare(swap, name).others.ranges:
                if log_start_offset <= last:
                    result.add(max(first, log_start_offset), last)
    return result


def _is_log(name: str, suffix: str) -> bool:
    file = parse_file_name(name)
    return file.kind is FileKind.LOG and file.suffix == suffix and file.base_offset is not None


def _share(
    holes: Iterable[tuple[int, int]],
    cleaning: Cleaning | None,
    sure: Offsets,
    doubtful: Offsets,
    *,
    is_compacted: bool | None,
    is_known: bool,
) -> None:
    """Add what a replaced segment has alone to what is lost for sure, or to what nobody knows of. is_known: what the
    cleaning leaves out has newer records."""
    is_cleaned = cleaning is not None and (is_compacted or (is_compacted is None and cleaning.has_gaps))
    for first, last in holes:
        if cleaning is None or not is_cleaned:
            sure.add(first, last)
            continue
        if first < cleaning.first:
            sure.add(first, min(last, cleaning.first - 1))
        known = cleaning.last + 1 if is_known else 0
        if max(first, cleaning.first, known) <= last:
            doubtful.add(max(first, cleaning.first, known), last)


def _not_in(read: ReadLogs, names: Iterable[str], holes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the offsets that none of these segments has."""
    lowest, highest = holes[0][0], holes[-1][1]
    bases = sorted((base, name) for name in names if (base := parse_file_name(name).base_offset) is not None)
    start = max(0, bisect_right(bases, lowest, key=itemgetter(0)) - 1)
    elsewhere = Offsets()
    for base, name in bases[start:]:
        if base > highest:
            break
        elsewhere.add_all(read[name].all)
    for first, last in holes:
        yield from elsewhere.holes(first, last)


def find_cleaning(read: ReadLogs, swaps: Sequence[tuple[int, str]], name: str) -> Cleaning | None:
    """Return the cleaned segment that replaces the segment `name`. swaps: base offset and name of each, ascending.

    None: there is no such segment, it is only a part of this one, which no cleaner makes, or it has other records.
    """
    following = bisect_right(swaps, parse_file_name(name).base_offset or 0, key=itemgetter(0))
    if not following:
        return None
    base, swapped = swaps[following - 1]
    contents = read.files[swapped].content, read.files[name].content
    with ContentFile("", contents[0]) as swap, ContentFile("", contents[1]) as replaced:
        if replaced.begins_with(swap):
            return None
    if not read.compare(swapped, name).is_part:
        return None
    offsets = read[swapped]
    if not offsets.is_whole:
        return Cleaning(base, -1, has_gaps=False)
    ranges = offsets.all.ranges
    return Cleaning(base, ranges[-1][1], has_gaps=len(ranges) > 1) if ranges else None


def explains(
    read: ReadLogs,
    swaps: Iterable[tuple[int, str]],
    replaced: Sequence[str],
    kept: Iterable[Content],
    cleaning: Cleaning,
) -> bool:
    """Return whether all that a cleaned segment leaves out of the logs `replaced` has newer records in what is kept, or
    went for another reason of a cleaner. A swapped segment that has no record of theirs is none of their cleaning, so
    its records tell nothing. Raises Unreadable."""
    strange = {
        part.path
        for _, swap in swaps
        if not any(read.compare(swap, name).shares for name in replaced)
        for part in read.files[swap].content
        if isinstance(part, FileRange)
    }
    own = [
        content for content in kept if not any(isinstance(part, FileRange) and part.path in strange for part in content)
    ]
    gone = [read.files[name].content for name in replaced]
    return bool(has_newer_records(gone, own, cleaning.first, cleaning.last))


# The offsets that a `.log` has.


class ReadLogs:
    """The offsets of the logs of a partition dir, by their names, and two of them compared. Each is read once, when it
    is needed."""

    def __init__(self, files: Mapping[str, DraftFile]) -> None:
        self.files = files
        self._read: dict[str, LogOffsets] = {}
        self._entries: dict[str, LogEntries] = {}
        self._compared: dict[tuple[str, str], SwapRecords] = {}

    def __getitem__(self, name: str) -> LogOffsets:
        """Return the offsets of a log. Raises Unreadable."""
        if name not in self._read:
            self._read[name] = offsets_in_log(self.files[name].content)
        return self._read[name]

    def compare(self, swapped: str, name: str) -> SwapRecords:
        """Compare what a swapped segment has with what a segment has that it replaces. Raises Unreadable."""
        contents = self.files[swapped].content, self.files[name].content
        if (swapped, name) not in self._compared:
            with ContentFile("", contents[0]) as swap, ContentFile("", contents[1]) as replaced:
                for each, file in ((swapped, swap), (name, replaced)):
                    if each not in self._entries:
                        self._entries[each] = LogEntries(file)
                its, theirs = self._entries[swapped], self._entries[name]
                self._compared[swapped, name] = compare_records(swap, its, replaced, theirs)
        return self._compared[swapped, name]


class LogOffsets(Struct):
    """The offsets of a log's sound batches, data: of records only, not of markers. is_whole: it has no other bytes."""

    all: Offsets = field(default_factory=Offsets)
    data: Offsets = field(default_factory=Offsets)
    is_whole: bool = True

    def add(self, first: int, last: int, *, is_control: bool) -> None:
        """Add a range."""
        self.all.add(first, max(first, last))
        if not is_control:
            self.data.add(first, max(first, last))


def offsets_in_log(content: Content) -> LogOffsets:
    """Return the offsets of a log, also behind damage. Raises Unreadable."""
    result = LogOffsets()
    with ContentFile("", content) as file:
        for rows, stop, is_sound in walk_rows(file):
            _add_rows(file, rows[:stop], result)
            result.is_whole = result.is_whole and is_sound
    return result


def _add_rows(file: LogFile, rows: array[int], offsets_of_log: LogOffsets) -> None:
    """Add entries in a row. Those of the same kind whose offsets follow one another are added as one."""
    start = end = 0  # of what waits
    was_control = False
    for magic, first, last, count, attributes, position in zip(*(rows[n::_WIDTH] for n in _COLUMNS), strict=True):
        is_wrapper = magic < CURRENT_MAGIC and first == NOT_TOLD  # perhaps of several messages
        first = last if is_wrapper else first
        is_control = magic >= CURRENT_MAGIC and bool(attributes & CONTROL_BIT)
        has_gaps = magic >= CURRENT_MAGIC and count != last - first + 1
        if (is_wrapper or has_gaps) and (offsets := _record_offsets(file, position)):
            for offset in offsets:
                offsets_of_log.add(offset, offset, is_control=is_control)
        elif first == end and is_control is was_control and start < end:
            end = max(first, last) + 1
        else:
            if start < end:
                offsets_of_log.add(start, end - 1, is_control=was_control)
            start, end, was_control = first, max(first, last) + 1, is_control
    if start < end:
        offsets_of_log.add(start, end - 1, is_control=was_control)


def _record_offsets(file: LogFile, position: int) -> list[int]:
    """Return the offsets of a batch's records, which a cleaning leaves apart from each other; none if they cannot be
    read."""
    reader = FrameReader(file)
    frame = reader.find(position, file.size)
    try:
        return [record.offset for record in reader.read(frame).records()] if isinstance(frame, Frame) else []
    except (Corrupt, Unsupported):
        return []
