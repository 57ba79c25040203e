"""The bytes of a `.log` or of a KRaft snapshot without keys and values, piece by piece.

`verify` says where the log is damaged. Between the damages all checksums are right, and stay right. Damaged bytes keep
what looks like a header, so that they are judged in the same way; a wrong checksum stays wrong.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator
from typing import TypeAlias

from klogtool import kernels
from klogtool.broker.config import BROKER_NAMES, KNOWN_NAMES
from klogtool.format.batch import RECORD_BATCH_OVERHEAD
from klogtool.format.batch_proof import judge_entry
from klogtool.format.blanking import (
    BlankValue,
    Span,
    blank_batch,
    blank_bytes,
    blank_entry,
    blank_message,
    head_spans,
    header_of_blank_batch,
)
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, Frame, find_frame, walk_frames
from klogtool.format.internal.blanked_metadata import blank_metadata_value
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, parse_file_name
from klogtool.format.resync import LARGEST_SOUGHT_BYTES
from klogtool.log.file import LogFile
from klogtool.log.folder import own_name
from klogtool.log.probing import PIECE_BYTES, Probe
from klogtool.log.windows import SLACK_BYTES, BufferPool, Reads, Window, walk_windows
from klogtool.plans.image_names import TopicNames
from klogtool.verify.log_damage import MOST_STEPS, Damage
from klogtool.verify.log_walk import LogWalk
from klogtool.verify.segment_report import SegmentContext, SegmentReport

Piece: TypeAlias = bytes | memoryview | int  # bytes of a file; a number stands for so many zeros
NO_ENTRIES = frozenset({"batch-crc", "batch-header", "torn-batch", "zero-tail", "foreign-bytes"})
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

    def walk(self) -> Iterator[Piece]:
        """Yield all pieces."""
        at = 0
        for damage in self._log_walk().walk():
            if damage.start >= at and self._is_no_entry(damage):
                yield from self._sound(at, damage.start)
                yield from self._damaged(damage)
                at = damage.end
        yield from self._sound(at, self._file.size)

    def _is_no_entry(self, damage: Damage) -> bool:
        """Return whether the bytes are not an entry with a right checksum. Offsets and epochs are reported for such
        entries, too."""
        return damage.id in NO_ENTRIES and (damage.entry is not None or self._probe.judge(damage.start) is None)

    def _log_walk(self) -> LogWalk:
        return LogWalk(self._file, self._base_offset, SegmentContext(now_ms=MAX_LONG), (None, None))

    def _largest_timestamp(self) -> int:
        """Return the largest timestamp, of all batches. Retention names the record that has it, so the records of that
        batch stay readable."""
        walk, report = self._log_walk(), SegmentReport(self._file.path, self._base_offset, self._base_offset)
        for _ in walk.walk():
            pass
        walk.fill(report)
        return report.largest_timestamp

    # Entries one after another, whose checksums are right.

    def _sound(self, at: int, end: int) -> Iterator[Piece]:
        pool = BufferPool()
        reads = _HeadReads(self._file, pool)
        while at < end:
            for window in walk_windows(self._file, start=at, end=end, reads=reads):
                if window.cut:
                    self._blank_window(window)
                    yield window.data[: window.cut]
                    at += window.cut
                pool.give_back(window.data)
            if at < end:
                size = yield from self._large_batch(at, end)
                at += size

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
            yield from self._no_entry(damage.start, damage.end)

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
        return (span for span in spans if span[0] < end)

    def _frames_from(self, at: int, end: int) -> Iterator[int]:
        """Yield where frames begin if one follows the other from here on."""
        for _ in range(MOST_STEPS):
            yield at
            frame = self._probe.frame(at)
            if not isinstance(frame, Frame) or at + frame.size + HEADER_SIZE_UP_TO_MAGIC > end:
                return
            at += frame.size


def _metadata_blanker(names: TopicNames) -> BlankValue:
    return lambda value: blank_metadata_value(value, names.of, KNOWN_SETTINGS)


def crc_of_zeros(count: int, so_far: int) -> int:
    """Return the CRC-32C of bytes that end with so many zeros. so_far: that of the bytes before the zeros."""
    zeros = bytes(PIECE_BYTES)
    for done in range(0, count, PIECE_BYTES):
        so_far = kernels.native.crc32c(zeros[: min(PIECE_BYTES, count - done)], so_far)
    return so_far
