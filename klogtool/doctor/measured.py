"""What is readable in a partition dir before something, and not afterwards; and what stays and is served to nobody.

The two states are compared by bytes first: what is kept of a file was readable and stays so, and is not read again. So
a partition of which everything is kept costs nothing. Only the rest is read. What other files have is not lost;
other records under the same offsets are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.content import Content, FileRange
from klogtool.broker.draft import DraftFile
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.doctor.batch_contents import KnownBatches, in_rows, key_of, offsets_alone, records_of
from klogtool.doctor.claims import HiddenBy
from klogtool.doctor.readable import Readable, walk_each, walk_readable
from klogtool.format.batch import RECORD_BATCH_OVERHEAD
from klogtool.format.framing import CURRENT_MAGIC, Frame, find_frame
from klogtool.format.names import (
    FileKind,
    FileName,
    build_file_name,
    find_renamed_log,
    is_log_name,
    parse_file_name,
)
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.offset_ranges import Offsets
from klogtool.verify.cures import MOST_MAGIC_BYTES, is_packed
from klogtool.verify.header_end import STILL_OPEN
from klogtool.verify.swaps import ReadLogs, explains, find_cleaning

_NO_LIMIT = 1 << 63
_CHUNK_BYTES = 1 << 16
_GZIP, _GZIP_SIZE_BYTES = b"\x1f\x8b", 4  # RFC 1952: ID1, ID2; ISIZE


class After(Struct, frozen=True):
    """A log as it is to become. segments: base offset and content, ascending. start, end: offsets that are served.
    names: of files that stay and are no segment. reaches: behind the highest offset of each segment."""

    segments: tuple[tuple[int, Content], ...]
    start: int
    end: int
    names: frozenset[str]
    reaches: tuple[int, ...]

    def goes_beyond(self, n: int, offset: int) -> bool:
        """Return whether a segment can have an offset, or a higher one."""
        is_last = n + 1 == len(self.segments)
        return is_last or self.segments[n + 1][0] > offset or self.reaches[n] > offset


class Before(Struct, frozen=True):
    """A partition dir as it is. start: below it records were deleted on purpose. replaced: names of files that a
    cleaned segment replaces. is_compacted: such a segment may lack records that have newer ones; None if nobody
    knows. deleted_in_error: `.deleted` logs with offsets that no broker meant to delete, by name."""

    files: Mapping[str, DraftFile]
    start: int = 0
    replaced: frozenset[str] = frozenset()
    is_compacted: bool | None = False
    deleted_in_error: Mapping[str, Offsets] = {}


class Measured(Struct, frozen=True):
    """lost: what is not on the disk any more; hidden: what stays and is not served. lost_bytes: of logs, damaged ones
    too. is_cleaned: a cleaned segment replaces others, and nobody knows whether all that is lost has newer
    records; replaced: what was in those, and is not counted as lost. sure: what of lost has no newer
    records."""

    lost: tuple[Readable, ...] = ()
    hidden: tuple[tuple[HiddenBy, Readable], ...] = ()
    lost_bytes: int = 0
    is_cleaned: bool = False
    replaced: tuple[Readable, ...] = ()
    sure: tuple[Readable, ...] = ()

    @property
    def lost_records(self) -> int:
        """Return how many records are lost."""
        return sum(part.records for part in self.lost)

    @property
    def hidden_records(self) -> int:
        """Return how many records are hidden."""
        return sum(part.records for _, part in self.hidden)


def measure(before: Before, after: After, *, looks_behind_end: bool = False) -> Measured:
    """Compare two states of a partition dir. looks_behind_end: the active segment may go on after the log's end.

    Raises Unreadable.
    """
    served, counted = _Served(after), KnownBatches()
    lost, sure, replaced = list[Readable](), list[Readable](), list[Readable]()
    lost_bytes, is_cleaned = 0, False
    # What stays comes first: what is on the disk is not lost, though it may be hidden.
    hidden = list(_walk_outside(before, after, served, counted, looks_behind_end=looks_behind_end))
    swaps, read = _swaps_of(before), ReadLogs(before.files)
    gone = sorted(_walk_gone(before, after), key=lambda each: each[0] not in after.names)
    for name, spans in gone:
        with ContentFile(name, before.files[name].content) as file:
            parts = [part for start, stop in spans for part in walk_readable(file, start, stop, opened=True)]
            parts = list(_apart(file, list(_from(file, parts, before.start))))
            if name in after.names:
                hidden += [(HiddenBy.NAME, part) for part in served.walk_others(file, parts, counted)]
                continue
            if parse_file_name(name).suffix:
                # What the cleaner removed of it on purpose is not lost.
                meant_to_stay = None if before.is_compacted is False else before.deleted_in_error.get(name)
                alone = list(_within(file, served.walk_gone(file, parts, counted), meant_to_stay))
                lost += alone
                sure += alone
                lost_bytes += sum(part.stop - part.start for part in alone)
                continue
            lost_bytes += sum(stop - start for start, stop in spans)
            cleaned = find_cleaning(read, swaps, name) if name in before.replaced else None
            if cleaned is not None and before.is_compacted:
                end = max(cleaned.last, cleaned.first - 1)
                is_cleaned = is_cleaned or any(part.last_offset > end for part in parts)
                in_it = [log for log in sorted(before.replaced) if is_log_name(log)]
                kept = [content for _, content in after.segments]
                is_cleaned = is_cleaned or not explains(read, swaps, in_it, kept, replace(cleaned, last=end))
                replaced += parts
                parts = _below(file, parts, cleaned.first)
            alone = list(served.walk_gone(file, parts, counted))
            lost += alone
            if cleaned is not None and before.is_compacted is None and cleaned.has_gaps:
                below = [part for part in alone if part.last_offset < cleaned.first]
                is_cleaned, alone = is_cleaned or len(below) < len(alone), below
            sure += alone
    return Measured(tuple(lost), tuple(hidden), lost_bytes, is_cleaned, tuple(replaced), tuple(sure))


def _walk_gone(before: Before, after: After) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield the files of segments of which bytes are in no segment afterwards, by name, with these bytes. What an
    interrupted cleaning or split left, and a start deletes, can be all that is left of a segment."""
    kept: dict[str, Offsets] = {}
    for _, content in after.segments:
        for part in content:
            if isinstance(part, FileRange) and part.start < part.stop:
                kept.setdefault(part.path, Offsets()).add(part.start, part.stop - 1)
    # Of a compacted log the segments that a cleaning replaced are not there, either.
    aside = {} if before.is_compacted else find_set_aside(before.files) | find_emptied(before.files, packed=False)
    for name, file in sorted(before.files.items()):
        if file.size and (name in aside or name in before.deleted_in_error or _counts(parse_file_name(name))):
            paths = [part.path for part in file.content if isinstance(part, FileRange)]
            known = next((kept[path] for path in paths if path in kept), Offsets())
            if spans := [(first, last + 1) for first, last in known.holes(0, file.size - 1)]:
                yield name, spans


def find_set_aside(files: Mapping[str, DraftFile], *, packed: bool = False) -> dict[str, str]:
    """Return the files that may be segments which somebody gave another name, by name, with the name that each had.
    packed: those that are compressed, of which nobody knows what they have; else the others.

    files: all of a partition dir. A segment that is there is none. Below the first segment it may be a copy of
    one that retention deleted; that deletes the index as well.
    """
    first, names = min(filter(is_log_name, files), default=""), {name.lower() for name in files}

    def is_missing(plain: str) -> bool:
        index = plain.removesuffix(FileKind.LOG.value) + FileKind.OFFSET_INDEX.value
        return plain not in files and (index in names or first < plain)

    renamed = ((name, find_renamed_log(name) or _log_that_was_deleted(name, files[name])) for name in sorted(files))
    aside = {name: plain for name, plain in renamed if plain and is_missing(plain)}
    return {name: plain for name, plain in aside.items() if _is_packed(name, files[name]) is packed}


def _log_that_was_deleted(name: str, file: DraftFile) -> str | None:
    """Return the name that a log had which a client of NFS or FUSE keeps under one of its own, because it was deleted
    while a broker had it open; None if it is none. Its first batch says the name, but for what a cleaning took away."""
    if not name.startswith(STILL_OPEN):
        return None
    with ContentFile(name, file.content) as opened:
        frame = find_frame(opened.read(0, RECORD_BATCH_OVERHEAD), 0, file.size)
    if not isinstance(frame, Frame) or frame.offset < 0 or frame.magic > CURRENT_MAGIC:
        return None
    return build_file_name(FileKind.LOG, frame.offset)


def find_doubtful_copies(files: Mapping[str, DraftFile], *, is_compacted: bool | None) -> dict[str, str]:
    """Return the files that may have what is missing, and into which nobody looked: compressed segments, those beside
    a file of their name that has something, and renamed ones of a compacted log, which a cleaning may have replaced.
    By name, with the segment's name."""
    renamed = {name: plain for name in sorted(files) if files[name].size and (plain := find_renamed_log(name))}
    return {
        name: plain
        for name, plain in renamed.items()
        if is_compacted or (plain in files and files[plain].size) or _is_packed(name, files[name])
    }


def find_emptied(files: Mapping[str, DraftFile], *, packed: bool | None = None) -> dict[str, str]:
    """Return the files beside an empty segment of their name, with that name: logrotate with `copytruncate` or `create`
    leaves both. packed: only those that are compressed, or only the others."""
    renamed = ((name, plain) for name in sorted(files) if (plain := find_renamed_log(name)))
    emptied = {name: plain for name, plain in renamed if plain in files and files[name].size > files[plain].size == 0}
    return {name: plain for name, plain in emptied.items() if packed is None or _is_packed(name, files[name]) is packed}


def find_blanked(files: Mapping[str, DraftFile]) -> dict[str, str]:
    """Return the files beside a segment of their name that has zeros in place of all that they have, with that name:
    logrotate with `copytruncate` leaves both under a running broker, which writes on at the byte where it was. Of
    several of one segment the largest is first, and what an earlier rotation copied comes after it."""
    renamed = [(name, plain) for name in files if (plain := find_renamed_log(name)) and plain in files]
    renamed.sort(key=lambda pair: (pair[1], -unpacked_size(pair[0], files[pair[0]])))
    return {name: plain for name, plain in renamed if _is_blank(plain, files[plain], unpacked_size(name, files[name]))}


def unpacked_size(name: str, file: DraftFile) -> int:
    """Return the size of what is in a file, of one that gzip made by its last bytes; 0 if that is unknown."""
    if not _is_packed(name, file):
        return file.size
    with ContentFile(name, file.content) as opened:
        is_gzip = opened.read(0, len(_GZIP)) == _GZIP and file.size > _GZIP_SIZE_BYTES
        return int.from_bytes(opened.read(file.size - _GZIP_SIZE_BYTES, _GZIP_SIZE_BYTES), "little") if is_gzip else 0


def _is_blank(name: str, file: DraftFile, size: int) -> bool:
    """Return whether a file begins with so many zeros."""
    if not 0 < size <= file.size:
        return False
    with ContentFile(name, file.content) as opened:
        starts = range(0, size, _CHUNK_BYTES)
        return not any(opened.read(at, min(_CHUNK_BYTES, size - at)).strip(b"\0") for at in starts)


def _is_packed(name: str, file: DraftFile) -> bool:
    with ContentFile(name, file.content) as opened:
        return is_packed(opened.read(0, MOST_MAGIC_BYTES))


def _counts(log: FileName) -> bool:
    """Return whether what a file has was to be kept, by its name. What a broker names `.deleted`, it deletes on
    purpose: retention, a truncation or the cleaner said so, and it is only the time that has not come."""
    return log.kind is FileKind.LOG and log.base_offset is not None and log.suffix in ("", SWAP, CLEANED)


def _from(file: LogFile, parts: Iterable[Readable], start: int) -> Iterator[Readable]:
    """Yield the batches that do not end below the log start."""
    for part in parts:
        if part.first_offset >= start:
            yield part
        elif part.last_offset >= start:
            yield from (each for each in walk_each(file, part) if each.last_offset >= start)


def _apart(file: LogFile, parts: list[Readable]) -> Iterator[Readable]:
    """Yield batches of a file that end where the next one begins, if the last offset in a header is too high. A batch
    that is there again is none of these."""
    for part, following in zip_longest(parts, parts[1:]):
        if following is None or not part.first_offset < following.first_offset <= part.last_offset:
            yield part
            continue
        for each in walk_each(file, part):
            is_over = each.first_offset < following.first_offset <= each.last_offset
            yield replace(each, last_offset=following.first_offset - 1) if is_over else each


def _within(file: ContentFile, parts: Iterable[Readable], offsets: Offsets | None) -> Iterator[Readable]:
    """Yield what parts have at these offsets, and markers; all of them if there is no limit."""
    for part in parts:
        if offsets is None or offsets.covers(part.first_offset, max(part.first_offset, part.last_offset)):
            yield part
            continue
        for each in walk_each(file, part):
            there = (one.offset for one in records_of(file, each) if one.offset in offsets)
            inside = [offset for offset in there if part.first_offset <= offset <= part.last_offset]
            yield from in_rows(each, inside) if each.records else (each,)


class _Served:
    """The batches that are served, at least in part. Segments are read when they are needed, each once."""

    def __init__(self, after: After) -> None:
        self._after = after
        self._read: dict[int, KnownBatches] = {}
        bases = [*(base for base, _ in after.segments[1:]), _NO_LIMIT]
        beyond = (max(base, reach) for base, reach in zip(bases, after.reaches, strict=True))
        self._highest = list(accumulate(beyond, max))  # up to each segment: offsets below it can be in one of them

    def walk_others(self, file: ContentFile, parts: Iterable[Readable], counted: KnownBatches) -> Iterator[Readable]:
        """Yield the batches that nothing has that is served, each once. counted: those that were yielded."""
        for part in parts:
            for alone in self._walk_alone(file, part, counted):
                counted.offsets.add(alone.first_offset, max(alone.first_offset, alone.last_offset))
                counted.add(file, alone)
                yield alone

    def _walk_alone(self, file: ContentFile, part: Readable, counted: KnownBatches) -> Iterator[Readable]:
        first, last = part.first_offset, max(part.first_offset, part.last_offset)
        if not any(batches.offsets.overlaps(first, last) for batches in (*self._of(first, last), counted)):
            yield part
            return
        for each in walk_each(file, part):
            first, last = each.first_offset, max(each.first_offset, min(each.last_offset, part.last_offset))
            known = [*self._of(first, last), counted]
            if not any(batches.offsets.covers(first, last) for batches in known):
                yield each
            elif each.records:
                yield from in_rows(each, offsets_alone(file, each, known))

    def walk_gone(self, file: ContentFile, parts: Sequence[Readable], counted: KnownBatches) -> Iterator[Readable]:
        """As `walk_others`, without exact copies of batches that stay in a segment, though beyond the log's end."""
        for part in self.walk_others(file, parts, counted):
            first, last = part.first_offset, max(part.first_offset, part.last_offset)
            if first < self._after.end or not self._beyond_end.offsets.overlaps(first, last):
                yield part
                continue
            for each in walk_each(file, part):
                if not self._beyond_end.has_twin(key_of(file, each)):
                    yield each

    @cached_property
    def _beyond_end(self) -> KnownBatches:
        beyond = KnownBatches()
        for n, (_, content) in enumerate(self._after.segments):
            if self._after.reaches[n] > self._after.end:
                with ContentFile("", content) as file:
                    for part in _outside(file, walk_readable(file, 0, file.size), self._after):
                        beyond.offsets.add(part.first_offset, max(part.first_offset, part.last_offset))
                        beyond.add(file, part)
        return beyond

    def _of(self, first: int, last: int) -> list[KnownBatches]:
        """Return the batches of the segments that can have some of a range."""
        if first >= self._after.end or last < self._after.start:
            return []
        near = range(bisect_right(self._highest, first), bisect_right(self._lowest, last))
        return [self._of_segment(n) for n in near if self._after.goes_beyond(n, first)]

    @cached_property
    def _lowest(self) -> list[int]:
        """From each segment on, the lowest offset: a first batch may be below the name of its segment."""
        lowest = []
        for base, content in self._after.segments:
            with ContentFile("", content) as file:
                first = first_offset_of(file)
            lowest.append(base if first is None else min(base, first))
        return list(accumulate(reversed(lowest), min))[::-1]

    def _of_segment(self, n: int) -> KnownBatches:
        if n not in self._read:
            result, after = KnownBatches(), self._after
            with ContentFile("", after.segments[n][1]) as file:
                for part in _apart(file, list(walk_readable(file, 0, file.size))):
                    is_inside = after.start <= part.first_offset and part.last_offset < after.end
                    for each in (part,) if is_inside else walk_each(file, part):
                        if each.last_offset >= after.start and each.first_offset < after.end:
                            result.offsets.add(each.first_offset, min(each.last_offset, part.last_offset))
                            result.add(file, each)
            self._read[n] = result
        return self._read[n]


# What stays, and is not served.


def _walk_outside(
    before: Before, after: After, served: _Served, counted: KnownBatches, *, looks_behind_end: bool
) -> Iterator[tuple[HiddenBy, Readable]]:
    """Yield the batches of segments that are below the log start, though nobody deleted them, or behind the end."""
    for n, (base, content) in enumerate(after.segments):
        is_last = n + 1 == len(after.segments)
        with ContentFile("", content) as file:
            first = first_offset_of(file)
            is_odd = first is not None and (first >= after.end or (not n and first < base))
            is_odd = is_odd or (not is_last and after.reaches[n] > after.end)
            if not is_odd and not (is_last and looks_behind_end):
                continue
            parts = list(_from(file, walk_readable(file, 0, file.size), before.start))
            for part in _outside(file, parts, after):
                why = HiddenBy.BELOW_START if part.last_offset < after.start else HiddenBy.BEYOND_END
                yield from ((why, each) for each in served.walk_others(file, [part], counted))


def first_offset_of(file: LogFile) -> int | None:
    """Return the offset in the header of the first batch of a segment; None if there is none."""
    frame = FrameReader(file).find(0, file.size)
    return frame.offset if isinstance(frame, Frame) and frame.offset >= 0 else None


def _outside(file: LogFile, parts: Iterable[Readable], after: After) -> Iterator[Readable]:
    """Yield the batches that are not within the offsets that are served."""
    for part in parts:
        if after.start <= part.first_offset and part.last_offset < after.end:
            continue
        if part.last_offset < after.start or part.first_offset >= after.end:
            yield part
            continue
        yield from (
            each for each in walk_each(file, part) if each.last_offset < after.start or each.last_offset >= after.end
        )


# Cleaned segments.


def _swaps_of(before: Before) -> list[tuple[int, str]]:
    """Return the base offsets and names of cleaned segments that replace others, ascending."""
    if before.is_compacted is False:
        return []
    files = [parse_file_name(name) for name in before.files if name.endswith(SWAP)]
    return sorted(
        (file.base_offset, file.name) for file in files if file.kind is FileKind.LOG and file.base_offset is not None
    )


def _below(file: LogFile, parts: Iterable[Readable], offset: int) -> list[Readable]:
    """Return the batches that end below an offset."""
    below = (part for part in parts if part.first_offset < offset)
    return [each for part in below for each in walk_each(file, part) if each.last_offset < offset]
