"""The bytes of a `.log` or of a KRaft snapshot without keys and values, piece by piece.

`verify --deep` says where the log is damaged. Between the damages all checksums are right, and stay right. Damaged
bytes keep what looks like a header, so that they are judged in the same way; a wrong checksum stays wrong, and records
that cannot be read stay unreadable. Where a broker looks for a header and finds other bytes, a length and a magic of
the same kind stay.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from klogtool import kernels
from klogtool.broker.config import is_harmless
from klogtool.errors import KlogError
from klogtool.format.batch import CODEC_MASK, RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.batch_proof import judge_entry
from klogtool.format.blanking import (
    BlankValue,
    blank_batch,
    blank_bytes,
    blank_contradicted,
    blank_damaged,
    blank_entry,
    blank_message,
    blank_stream,
    fill_in,
    head_spans,
    header_of_blank_batch,
    is_head_of_log,
    outline,
    torn_head,
)
from klogtool.format.entry_fields import put_field
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, Frame, find_frame, walk_frames
from klogtool.format.indexes import OFFSET_ENTRIES
from klogtool.format.internal.blanked_metadata import Replacing, blank_metadata_value
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, parse_file_name
from klogtool.format.resync import LARGEST_SOUGHT_BYTES, Sought, is_plausible
from klogtool.log.file import LogFile, read_whole
from klogtool.log.folder import own_name
from klogtool.log.probing import CHUNK_BYTES, Probe
from klogtool.log.side_file import MOST_INDEX_BYTES
from klogtool.log.windows import SLACK_BYTES, BufferPool, Reads, Window, walk_windows
from klogtool.plans.image_names import TopicNames
from klogtool.verify.findings import Kind
from klogtool.verify.log_damage import MOST_STEPS, Damage
from klogtool.verify.log_walk import LogWalk
from klogtool.verify.segment_report import SegmentContext, SegmentReport

BlankedChunk: TypeAlias = bytes | memoryview | int  # bytes of a file; a number stands for so many zeros
Kept: TypeAlias = tuple[int, bytes]  # bytes that stay, or what stands for them, at a position
ALL_OFFSETS = 1 << 32  # of a segment, and of damage that is told as an overflow
MOST_SMALL_OFFSET = (1 << 37) - 1  # no text reads as a smaller number
NO_ENTRIES = frozenset({Kind.BATCH_CRC, Kind.BATCH_HEADER, Kind.TORN_BATCH, Kind.ZERO_TAIL, Kind.FOREIGN_BYTES})
OF_RECORDS = frozenset({Kind.RECORDS_INVALID, Kind.BATCH_ATTRIBUTES, Kind.UNREADABLE})  # inside a proved batch
MOST_MISLED = 1000  # limit of entries of an index that point to no batch


def walk_blanked(file: LogFile, names: TopicNames | None, on_hole: Callable[[int], None]) -> Iterator[BlankedChunk]:
    """Yield the file without keys and values, in pieces; each is valid until the next one. There are as many bytes as
    the file has.

    names: if these are records of `__cluster_metadata`, the names of topics in them. on_hole: gets the number of bytes
    that belong to no entry, or cannot be opened, and are left out. Raises KlogError if the file cannot be read, or
    becomes shorter.
    """
    return _LogImage(file, names, on_hole).walk()


class _HeadReads(Reads):
    """Reads only the beginning of an entry that is too large for memory."""

    def read_entry(self, at: int, size: int) -> memoryview:
        size = size if size <= LARGEST_SOUGHT_BYTES + SLACK_BYTES else RECORD_BATCH_OVERHEAD
        return self.file.read_into(bytearray(size), at, size)


class _LogImage:
    """One file."""

    def __init__(self, file: LogFile, names: TopicNames | None, on_hole: Callable[[int], None]) -> None:
        name = parse_file_name(own_name(file.path))
        self._base_offset = max(name.base_offset or 0, 0) if name.kind is FileKind.LOG else 0
        self._on_hole = on_hole
        self._most_offset = min(max(self._base_offset + ALL_OFFSETS, MOST_SMALL_OFFSET), MAX_LONG)
        self._file, self._probe = file, Probe(file, end=file.size, lowest=self._base_offset)
        self._blank_value = None if names is None else _metadata_blanker(names, on_hole)
        self._open_from_ms = MAX_LONG if name.kind is not FileKind.LOG else self._largest_timestamp()
        self._kept = sorted(_misled_by_index(self._probe)) if name.kind is FileKind.LOG else list[Kept]()

    def walk(self) -> Iterator[BlankedChunk]:
        """Yield all pieces."""
        at = 0
        for damage in self._log_walk(deep=True).walk():
            if damage.start >= at and self._is_contradicted(damage):
                yield from self._sound(at, damage.start)
                yield self._contradicted(damage)
                at = damage.end
            elif damage.start >= at and self._is_no_entry(damage):
                yield from self._sound(at, damage.start)
                self._kept += _misled_from(self._probe, damage.start, damage.end)
                self._kept.sort()
                yield from self._damaged(damage)
                at = damage.end
                self._kept = [(first, data) for first, data in self._kept if first + len(data) > at]
        yield from self._sound(at, self._file.size)

    def _is_no_entry(self, damage: Damage) -> bool:
        """Return whether the bytes are not an entry with a right checksum. Offsets and epochs are reported for such
        entries, too."""
        return damage.id in NO_ENTRIES and (damage.entry is not None or self._probe.judge(damage.start) is None)

    def _is_contradicted(self, damage: Damage) -> bool:
        """Return whether it is a batch with a right checksum whose records are not as its header says, or inflate to
        more than klogtool takes: zeros would not tell that."""
        if damage.id not in OF_RECORDS or damage.size > LARGEST_SOUGHT_BYTES:
            return False
        judged = self._probe.judge(damage.start)
        return judged is not None and judged.facts.magic == 2

    def _contradicted(self, damage: Damage) -> BlankedChunk:
        entry = memoryview(bytearray(self._probe.read(damage.start, damage.size)))
        before = bytes(entry[:LOG_OVERHEAD])
        if not blank_contradicted(entry, self._blank_value, self._most_offset):
            self._on_hole(damage.size - RECORD_BATCH_OVERHEAD)
        self._on_hole(changed_bytes(before, entry[:LOG_OVERHEAD]))
        kept = [(at, data) for at, data in self._kept if at < damage.end and at + len(data) > damage.start]
        fill_in(entry, [(at - damage.start, data, self._probe.read(at, len(data))) for at, data in kept])
        return entry

    def _log_walk(self, *, deep: bool = False) -> LogWalk:
        return LogWalk(self._file, self._base_offset, SegmentContext(now_ms=MAX_LONG), (None, None), deep=deep)

    def _largest_timestamp(self) -> int:
        """Return the largest timestamp before the first damage. Retention names the record that has it, and a broker
        may cut the log at the damage; so the records of such a batch stay readable."""
        walk, report = self._log_walk(), SegmentReport(self._file.path, self._base_offset, self._base_offset)
        next(walk.walk(), None)
        walk.fill(report)
        return report.largest_timestamp

    # Entries one after another, whose checksums are right.

    def _sound(self, at: int, end: int) -> Iterator[BlankedChunk]:
        pool = BufferPool()
        reads = _HeadReads(self._file, pool)
        while at < end:
            for window in walk_windows(self._file, start=at, end=end, reads=reads):
                if window.cut:
                    kept = self._kept_in(window)
                    self._blank_window(window)
                    _fill_in(window, kept)
                    yield window.data[: window.cut]
                    at += window.cut
                pool.give_back(window.data)
            if at < end:
                size = yield from self._large_batch(at, end)
                at += size

    def _kept_in(self, window: Window) -> list[tuple[int, bytes, bytes]]:
        """Return what stays of a window: its position there, the bytes, and those of the original."""
        start, stop = window.base, window.base + window.cut
        kept = ((max(at, start), data[max(0, start - at) : stop - at]) for at, data in self._kept)
        kept_here = ((at - start, data) for at, data in kept if at < stop and data)
        return [(at, data, bytes(window.data[at : at + len(data)])) for at, data in kept_here]

    def _blank_window(self, window: Window) -> None:
        at, stop = 0, window.cut
        while at < stop:
            if self._blank_value is None:
                at, _ = kernels.native.blank_batches(window.data, at, stop, self._open_from_ms, self._most_offset)
            if at < stop:
                at += self._blank_frame(window, at)

    def _blank_frame(self, window: Window, at: int) -> int:
        """Blank one entry by the reference; return its size."""
        frame = next(walk_frames(window.data, at, window.cut, base=window.base))
        entry = window.data[at : at + frame.size]
        if judge_entry(entry, Frame(0, frame.offset, frame.size, frame.magic)) is not None:
            # Of a control batch nothing is a key or value of a user.
            is_control = frame.magic >= 2 and parse_batch(entry).is_control
            before = bytes(entry)
            is_closed = is_wrapper(frame, entry) and not self._is_readable(window.base + frame.position)
            stays = blank_entry(entry, self._open_from_ms, self._blank_value, self._most_offset)
            if is_closed:  # a verify without --deep opens wrappers, too: nobody opens this one after, either
                blank_stream(entry)
            size = len(entry) if is_control or is_closed or not stays else LOG_OVERHEAD
            self._on_hole(changed_bytes(before[:size], entry[:size]))
        else:  # the file changed meanwhile
            blank_bytes(entry, ())
        return frame.size

    def _is_readable(self, at: int) -> bool:
        judged = self._probe.judge(at, deep=True)
        return judged is None or judged.is_readable

    def _large_batch(self, at: int, end: int) -> Generator[BlankedChunk, None, int]:
        """Yield a batch that is too large for memory; of what is no such batch, nothing stays. Return its size."""
        head = self._probe.head(at)
        frame = find_frame(head, 0, end - at)
        if not isinstance(frame, Frame) or frame.magic != 2 or frame.size <= RECORD_BATCH_OVERHEAD:
            self._on_hole(end - at)
            yield end - at
            return end - at
        self._on_hole(frame.size - RECORD_BATCH_OVERHEAD)
        yield header_of_blank_batch(head, frame.size, crc_of_zeros)
        yield frame.size - RECORD_BATCH_OVERHEAD - 1
        yield b"\x01"
        return frame.size

    # Damaged bytes.

    def _damaged(self, damage: Damage) -> Iterator[BlankedChunk]:
        if damage.id == Kind.ZERO_TAIL:
            yield damage.size
        elif damage.entry is not None and damage.size <= LARGEST_SOUGHT_BYTES:
            entry = memoryview(bytearray(self._probe.read(damage.start, damage.size)))
            before = bytes(entry)
            if damage.entry.facts.magic == 2:
                stays = blank_batch(entry, self._open_from_ms, self._blank_value, self._most_offset)
            else:
                stays = blank_message(entry, self._most_offset)
            counted = LOG_OVERHEAD if stays else len(entry)
            self._on_hole(changed_bytes(before[:counted], entry[:counted]))
            yield entry
        else:
            at = damage.start
            while (size := self._size_of_whole(at, damage.end)) is not None:
                entry = memoryview(bytearray(self._probe.read(at, size)))
                head = bytes(entry[:RECORD_BATCH_OVERHEAD])
                blank_damaged(entry, self._most_offset)
                self._on_hole(changed_bytes(head, entry[: len(head)]) if head[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2 else 0)
                yield entry
                at += size
            yield from self._no_entry(at, damage.end)

    def _size_of_whole(self, at: int, end: int) -> int | None:
        """Return the size of a damaged entry that ends by `end`; None for anything else."""
        frame = self._probe.frame(at) if at < end else None
        if not isinstance(frame, Frame) or frame.size > min(end - at, LARGEST_SOUGHT_BYTES):
            return None
        if frame.magic not in (0, 1, 2) or (frame.magic == 2 and frame.size < RECORD_BATCH_OVERHEAD):
            return None
        is_misleading = any(first < at + frame.size and first + len(data) > at for first, data in self._kept)
        return None if is_misleading else frame.size

    def _no_entry(self, start: int, end: int) -> Iterator[BlankedChunk]:
        following, kept = self._walk_kept(start, end), list[Kept]()
        coming = next(following, None)
        for at in range(start, end, CHUNK_BYTES):
            before = self._probe.read(at, min(CHUNK_BYTES, end - at))
            chunk = memoryview(bytearray(before))
            stop = at + len(chunk)
            while coming is not None and coming[0] < stop:
                kept.append(coming)
                coming = next(following, None)
            blank_bytes(chunk, [(first - at, data) for first, data in kept])
            self._on_hole(changed_bytes(before, chunk))
            yield chunk
            kept = [(first, data) for first, data in kept if first + len(data) > stop]

    def _walk_kept(self, start: int, end: int) -> Iterator[Kept]:
        """Yield the bytes that stay, by their start."""
        heads = heapq.merge(self._frames_from(start, end), self._probe.heads(start, end))
        judged = (item for at in heads for item in _judged(self._probe, at))
        kept = ((at, data) for at, data in self._kept if at + len(data) > start)
        return (item for item in heapq.merge(judged, kept) if item[0] < end)

    def _frames_from(self, at: int, end: int) -> Iterator[int]:
        """Yield where frames begin if one follows the other from here on."""
        for _ in range(MOST_STEPS):
            yield at
            frame = self._probe.frame(at)
            if not isinstance(frame, Frame) or at + frame.size + HEADER_SIZE_UP_TO_MAGIC > end:
                return
            at += frame.size


def _fill_in(window: Window, kept: list[tuple[int, bytes, bytes]]) -> None:
    """Put bytes into the records of the entries of a window; their headers stayed. Of an entry that is there twice both
    get them: verify says that it is the same again."""
    frames = list(walk_frames(window.data, 0, window.cut, base=window.base)) if kept else []
    entries = [window.data[frame.position : frame.position + frame.size] for frame in frames]
    inside: dict[bytes, set[tuple[int, bytes, bytes]]] = {}
    for frame, entry in zip(frames, entries, strict=True):
        start, stop = frame.position, frame.position + frame.size
        for at, data, before in kept:
            # Readers open a wrapper: it must stay whole.
            if at < stop and at + len(data) > start and not is_wrapper(frame, entry):
                inside.setdefault(bytes(entry), set()).add((at - start, data, before))
    for entry in entries if inside else ():
        if (changes := inside.get(bytes(entry))) is not None:
            fill_in(entry, sorted(changes))


def is_wrapper(frame: Frame, entry: memoryview) -> bool:
    """Return whether the entry is a message whose value are compressed messages."""
    return frame.magic < 2 and bool(entry[HEADER_SIZE_UP_TO_MAGIC] & CODEC_MASK)


def _judged(probe: Probe, at: int) -> Iterator[Kept]:
    """Yield what stays at a position where a broker looks for a header: all of it if it is one but for its length and
    its magic; else what makes a broker judge it in the same way."""
    head = probe.head(at)
    if len(head) < RECORD_BATCH_OVERHEAD and (torn := torn_head(head, probe.lowest)):
        yield at, torn
        yield at + HEADER_SIZE_UP_TO_MAGIC - 1, head[HEADER_SIZE_UP_TO_MAGIC - 1 : HEADER_SIZE_UP_TO_MAGIC]
    elif is_head_of_log(head, probe.lowest + ALL_OFFSETS) and (
        probe.looks_like_entry(at, even_torn=True) or _is_header_but_for_its_frame(head, probe.lowest)
    ):
        yield from ((at + first, head[first:last]) for first, last in head_spans(head))
    else:
        yield from ((at + first, data) for first, data in outline(head, probe.end - at))


def _is_header_but_for_its_frame(head: bytes, lowest: int) -> bool:
    """Return whether the bytes are the header of a batch with a wrong length or magic."""
    if len(head) < RECORD_BATCH_OVERHEAD:
        return False
    mended = bytearray(head)
    mended[HEADER_SIZE_UP_TO_MAGIC - 1] = 2
    size = LARGEST_SOUGHT_BYTES if parse_batch(head).records_count else RECORD_BATCH_OVERHEAD
    put_field(memoryview(mended), "length", size - LOG_OVERHEAD)
    frame = find_frame(mended, 0, size)
    return isinstance(frame, Frame) and is_plausible(mended, frame, Sought(lowest, size))


def _misled_from(probe: Probe, start: int, end: int) -> Iterator[Kept]:
    """Yield what stays where a broker's walk finds headers behind damage, if they are none: a wrong length leads there.
    The walk begins at `start`; the damage ends at `end`."""
    at = start
    for _ in range(MOST_STEPS):
        if at >= end:
            if at >= probe.end or probe.judge(at) is not None:
                return
            yield from _judged(probe, at)
        frame = probe.frame(at)
        if not isinstance(frame, Frame):
            return
        at += frame.size


def _misled_by_index(probe: Probe) -> Iterator[Kept]:
    """Yield what stays where entries of the offset index point to no batch. A missing index misleads nobody."""
    path = probe.file.path
    stem, _, rest = own_name(path).partition(FileKind.LOG.value)
    beside = os.path.join(os.path.dirname(path), stem + FileKind.OFFSET_INDEX.value + rest)
    try:
        index = read_whole(beside, limit=MOST_INDEX_BYTES)
    except KlogError:
        return
    misled = 0
    for _, position in OFFSET_ENTRIES.unpack(index):
        if 0 < position < probe.end and not probe.looks_like_entry(position):
            misled += 1
            if misled > MOST_MISLED:
                return
            yield from _misled_from(probe, position, position)


def _metadata_blanker(names: TopicNames, on_hole: Callable[[int], None]) -> BlankValue:
    replacing = Replacing(names.of, names.hidden, is_harmless)

    def blank(value: memoryview) -> None:
        if value and not blank_metadata_value(value, replacing):
            on_hole(len(value))

    return blank


def changed_bytes(before: bytes, after: bytes | memoryview) -> int:
    """Return how many bytes are other ones in the image."""
    if before == after:
        return 0
    different = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
    return len(before) - different.to_bytes(len(before), "big").count(0)


def crc_of_zeros(count: int, so_far: int) -> int:
    """Return the CRC-32C of bytes that end with so many zeros. so_far: that of the bytes before the zeros."""
    zeros = bytes(CHUNK_BYTES)
    for done in range(0, count, CHUNK_BYTES):
        so_far = kernels.native.crc32c(zeros[: min(CHUNK_BYTES, count - done)], so_far)
    return so_far
