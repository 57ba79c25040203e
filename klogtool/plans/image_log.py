"""The bytes of a `.log` or of a KRaft snapshot without keys and values, piece by piece.

`verify` says where the log is damaged. Between the damages all checksums are right, and stay right. Damaged bytes keep
what looks like a header, so that they are judged in the same way; a wrong checksum stays wrong.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Generator, Iterator
from typing import TypeAlias

from klogtool import kernels
from klogtool.broker.config import BROKER_NAMES, KNOWN_NAMES
from klogtool.errors import KlogError
from klogtool.format.batch import RECORD_BATCH_OVERHEAD
from klogtool.format.batch_proof import judge_entry
from klogtool.format.blanking import (
    BlankValue,
    Span,
    blank_batch,
    blank_bytes,
    blank_damaged,
    blank_entry,
    blank_message,
    head_spans,
    header_of_blank_batch,
    restore,
)
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, Frame, find_frame, walk_frames
from klogtool.format.indexes import unpack_offset_index
from klogtool.format.internal.blanked_metadata import blank_metadata_value
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, parse_file_name
from klogtool.format.resync import LARGEST_SOUGHT_BYTES
from klogtool.log.file import LogFile, read_whole
from klogtool.log.folder import own_name
from klogtool.log.probing import PIECE_BYTES, Probe
from klogtool.log.side_file import MOST_INDEX_BYTES
from klogtool.log.windows import SLACK_BYTES, BufferPool, Reads, Window, walk_windows
from klogtool.plans.image_names import TopicNames
from klogtool.verify.log_damage import MOST_STEPS, Damage
from klogtool.verify.log_walk import LogWalk
from klogtool.verify.segment_report import SegmentContext, SegmentReport

Piece: TypeAlias = bytes | memoryview | int  # bytes of a file; a number stands for so many zeros
NO_ENTRIES = frozenset({"batch-crc", "batch-header", "torn-batch", "zero-tail", "foreign-bytes"})
MOST_MISLED = 1000  # limit of entries of an index that point to no batch
KNOWN_SETTINGS = KNOWN_NAMES | BROKER_NAMES


def walk_blanked(file: LogFile, names: TopicNames | None) -> Iterator[Piece]:
    """Yield the file without keys and values, in pieces; each is valid until the next one. There are as many bytes as
    the file has.

    names: if these are records of `__cluster_metadata`, the names of topics in them. Raises KlogError if the file
    cannot be read, or becomes shorter.
    """
    return _LogImage(file, names).walk()


class _HeadReads(Reads):
    """Reads only the beginning of an entry that is too large for memory."""

    def read_entry(self, at: int, size: int) -> memoryview:
        size = size if size <= LARGEST_SOUGHT_BYTES + SLACK_BYTES else RECORD_BATCH_OVERHEAD
        return self.file.read_into(bytearray(size), at, size)


class _LogImage:
    """One file."""

    def __init__(self, file: LogFile, names: TopicNames | None) -> None:
        name = parse_file_name(own_name(file.path))
        self._base_offset = (name.base_offset or 0) if name.kind is FileKind.LOG else 0
        self._file, self._probe = file, Probe(file, end=file.size, lowest=self._base_offset)
        self._blank_value = None if names is None else _metadata_blanker(names)
        self._open_from_ms = MAX_LONG if name.kind is not FileKind.LOG else self._largest_timestamp()
        self._kept = sorted(_misled_by_index(self._probe)) if name.kind is FileKind.LOG else list[Span]()

    def walk(self) -> Iterator[Piece]:
        """Yield all pieces."""
        at = 0
        for damage in self._log_walk().walk():
            if damage.start >= at and self._is_no_entry(damage):
                yield from self._sound(at, damage.start)
                self._kept += _misled_from(self._probe, damage.start, damage.end)
                self._kept.sort()
                yield from self._damaged(damage)
                at = damage.end
                self._kept = [span for span in self._kept if span[1] > at]
        yield from self._sound(at, self._file.size)

    def _is_no_entry(self, damage: Damage) -> bool:
        """Return whether the bytes are not an entry with a right checksum. Offsets and epochs are reported for such
        entries, too."""
        return damage.id in NO_ENTRIES and (damage.entry is not None or self._probe.judge(damage.start) is None)

    def _log_walk(self) -> LogWalk:
        return LogWalk(self._file, self._base_offset, SegmentContext(now_ms=MAX_LONG), (None, None))

    def _largest_timestamp(self) -> int:
        """Return the largest timestamp before the first damage. Retention names the record that has it, and a broker
        may cut the log at the damage; so the records of such a batch stay readable."""
        walk, report = self._log_walk(), SegmentReport(self._file.path, self._base_offset, self._base_offset)
        next(walk.walk(), None)
        walk.fill(report)
        return report.largest_timestamp

    # Entries one after another, whose checksums are right.

    def _sound(self, at: int, end: int) -> Iterator[Piece]:
        pool = BufferPool()
        reads = _HeadReads(self._file, pool)
        while at < end:
            for window in walk_windows(self._file, start=at, end=end, reads=reads):
                if window.cut:
                    kept = self._kept_in(window)
                    self._blank_window(window)
                    _restore(window, kept)
                    yield window.data[: window.cut]
                    at += window.cut
                pool.give_back(window.data)
            if at < end:
                size = yield from self._large_batch(at, end)
                at += size

    def _kept_in(self, window: Window) -> list[tuple[int, bytes]]:
        """Return the bytes of a window that stay, each with its position in the window."""
        start, stop = window.base, window.base + window.cut
        spans = [(max(first, start), min(last, stop)) for first, last in self._kept if first < stop and last > start]
        return [(first - start, bytes(window.data[first - start : last - start])) for first, last in spans]

    def _blank_window(self, window: Window) -> None:
        at, stop = 0, window.cut
        while at < stop:
            if self._blank_value is None:
                at, _ = kernels.native.blank_batches(window.data, at, stop, self._open_from_ms)
            if at < stop:
                at += self._blank_frame(window, at)

    def _blank_frame(self, window: Window, at: int) -> int:
        """Blank one entry by the reference; return its size."""
        frame = next(walk_frames(window.data, at, window.cut, base=window.base))
        entry = window.data[at : at + frame.size]
        if judge_entry(entry, Frame(0, frame.offset, frame.size, frame.magic)) is not None:
            blank_entry(entry, self._open_from_ms, self._blank_value)
        else:  # the file changed meanwhile
            blank_bytes(entry, list(head_spans(bytes(entry[:RECORD_BATCH_OVERHEAD]))))
        return frame.size

    def _large_batch(self, at: int, end: int) -> Generator[Piece, None, int]:
        """Yield a batch that is too large for memory; of what is no such batch, nothing stays. Return its size."""
        head = self._probe.head(at)
        frame = find_frame(head, 0, end - at)
        if not isinstance(frame, Frame) or frame.magic != 2 or frame.size <= RECORD_BATCH_OVERHEAD:
            yield end - at
            return end - at
        yield header_of_blank_batch(head, frame.size, crc_of_zeros)
        yield frame.size - RECORD_BATCH_OVERHEAD - 1
        yield b"\x01"
        return frame.size

    # Damaged bytes.

    def _damaged(self, damage: Damage) -> Iterator[Piece]:
        if damage.id == "zero-tail":
            yield damage.size
        elif damage.entry is not None and damage.size <= LARGEST_SOUGHT_BYTES:
            entry = memoryview(bytearray(self._probe.read(damage.start, damage.size)))
            if damage.entry.facts.magic == 2:
                blank_batch(entry, self._open_from_ms, self._blank_value)
            else:
                blank_message(entry)
            yield entry
        else:
            at = damage.start
            while (size := self._size_of_whole(at, damage.end)) is not None:
                entry = memoryview(bytearray(self._probe.read(at, size)))
                blank_damaged(entry, self._open_from_ms, self._blank_value)
                yield entry
                at += size
            yield from self._no_entry(at, damage.end)

    def _size_of_whole(self, at: int, end: int) -> int | None:
        """Return the size of a damaged entry that ends by `end`; None for anything else."""
        frame = self._probe.frame(at) if at < end else None
        if not isinstance(frame, Frame) or frame.size > min(end - at, LARGEST_SOUGHT_BYTES):
            return None
        if frame.magic > 2 or (frame.magic == 2 and frame.size < RECORD_BATCH_OVERHEAD):
            return None
        is_misleading = any(first < at + frame.size and last > at for first, last in self._kept)
        return None if is_misleading else frame.size

    def _no_entry(self, start: int, end: int) -> Iterator[Piece]:
        spans, kept = self._walk_kept(start, end), list[Span]()
        following = next(spans, None)
        for at in range(start, end, PIECE_BYTES):
            piece = memoryview(bytearray(self._probe.read(at, min(PIECE_BYTES, end - at))))
            stop = at + len(piece)
            while following is not None and following[0] < stop:
                kept.append(following)
                following = next(spans, None)
            blank_bytes(piece, sorted((max(0, first - at), last - at) for first, last in kept))
            yield piece
            kept = [span for span in kept if span[1] > stop]

    def _walk_kept(self, start: int, end: int) -> Iterator[Span]:
        """Yield the bytes that stay, by their start."""
        heads = heapq.merge(self._frames_from(start, end), self._probe.heads(start, end))
        spans = ((at + first, at + last) for at in heads for first, last in head_spans(self._probe.head(at)))
        kept = (span for span in self._kept if span[1] > start)
        return (span for span in heapq.merge(spans, kept) if span[0] < end)

    def _frames_from(self, at: int, end: int) -> Iterator[int]:
        """Yield where frames begin if one follows the other from here on."""
        for _ in range(MOST_STEPS):
            yield at
            frame = self._probe.frame(at)
            if not isinstance(frame, Frame) or at + frame.size + HEADER_SIZE_UP_TO_MAGIC > end:
                return
            at += frame.size


def _restore(window: Window, kept: list[tuple[int, bytes]]) -> None:
    """Put bytes back into the entries of a window."""
    frames = walk_frames(window.data, 0, window.cut, base=window.base) if kept else iter(())
    for frame in frames:
        start, stop = frame.position, frame.position + frame.size
        pieces = [(at - start, data) for at, data in kept if at < stop and at + len(data) > start]
        if pieces:
            restore(window.data[start:stop], pieces)


def _misled_from(probe: Probe, start: int, end: int) -> Iterator[Span]:
    """Yield where a broker's walk finds headers behind damage, if they are none: a wrong length leads there. The walk
    begins at `start`; the damage ends at `end`."""
    at = start
    for _ in range(MOST_STEPS):
        if at >= end:
            if at >= probe.end or probe.judge(at) is not None:
                return
            yield at, min(at + RECORD_BATCH_OVERHEAD, probe.end)
        frame = probe.frame(at)
        if not isinstance(frame, Frame):
            return
        at += frame.size


def _misled_by_index(probe: Probe) -> Iterator[Span]:
    """Yield the same for entries of the offset index that point to no batch. A missing index misleads nobody."""
    path = probe.file.path
    stem, _, rest = own_name(path).partition(FileKind.LOG.value)
    beside = os.path.join(os.path.dirname(path), stem + FileKind.OFFSET_INDEX.value + rest)
    try:
        index = read_whole(beside, limit=MOST_INDEX_BYTES)
    except KlogError:
        return
    misled = 0
    for _, position in unpack_offset_index(index):
        if 0 < position < probe.end and not probe.looks_like_entry(position):
            misled += 1
            if misled > MOST_MISLED:
                return
            yield from _misled_from(probe, position, position)


def _metadata_blanker(names: TopicNames) -> BlankValue:
    return lambda value: blank_metadata_value(value, names.of, KNOWN_SETTINGS)


def crc_of_zeros(count: int, so_far: int) -> int:
    """Return the CRC-32C of bytes that end with so many zeros. so_far: that of the bytes before the zeros."""
    zeros = bytes(PIECE_BYTES)
    for done in range(0, count, PIECE_BYTES):
        so_far = kernels.native.crc32c(zeros[: min(PIECE_BYTES, count - done)], so_far)
    return so_far
