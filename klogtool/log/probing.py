"""Looks at single positions of a log file: which entry is there, whether it proves itself, where the next one does.

It is used to judge damage, which may be anywhere, so nothing is assumed about the bytes before. Checksums are computed
over pieces of the file, so that a damaged length costs time but no memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool import kernels
from klogtool.errors import KlogError, became_shorter
from klogtool.format.batch import CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD, RecordBatch, parse_batch
from klogtool.format.batch_proof import EntryFacts, Judged, batch_of, judge_batch, judge_message, message_of, recounted
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH, Frame, FrameStop, find_frame
from klogtool.format.names import FileKind, parse_file_name
from klogtool.format.resync import LARGEST_SOUGHT_BYTES, Sought, is_plausible
from klogtool.log.file import LogFile
from klogtool.log.folder import list_folder
from klogtool.log.resync import search_next_batch

CHUNK_BYTES = 1 << 20
NEAR_BYTES = 1 << 16  # read at once where a header is looked at: others follow it closely
LARGEST_MARKER_BYTES = 1 << 16  # a control batch has a record or two
BEHIND_ALL = 1 << 62


def ends_in_zeros(file: LogFile, position: int) -> bool:
    """Return whether only zeros follow up to the end of the file, as in one that a broker has preallocated."""
    return Probe(file, end=file.size, lowest=0).zeros_from() <= position


def ends_preallocated(file: LogFile, position: int) -> bool:
    """Return whether the log of this partition ends at a byte of this file, and zeros follow it: the file is the last
    segment of its folder. A broker trims a segment when it rolls (LogSegment.onBecomeInactiveSegment), so in any other
    they are damage."""
    return ends_in_zeros(file, position) and _is_last_segment(file.path)


def _is_last_segment(path: str) -> bool:
    name = parse_file_name(os.path.basename(path))
    if name.kind is not FileKind.LOG or name.base_offset is None:
        return False
    files = list_folder(os.path.dirname(path) or os.curdir).files
    logs = (file for file in files if file.kind is FileKind.LOG and not file.suffix)
    return all(log.base_offset is None or log.base_offset <= name.base_offset for log in logs)


class Probe:
    """Looks at one log file, which ends at byte `end`. lowest: the smallest offset that an entry may have.

    Every method raises KlogError where the file cannot be read, or has become shorter.
    """

    def __init__(self, file: LogFile, *, end: int, lowest: int) -> None:
        self.file, self.end, self.lowest = file, end, lowest
        self._base, self._chunk = 0, b""
        self._zeros_from: int | None = None
        self._searched: tuple[int, int | None, bool] = (end + 1, None, True)

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes, fewer where the log ends."""
        size = max(0, min(size, self.end - position))
        data = self.file.read(position, size)
        if len(data) < size:
            raise became_shorter(self.file.path, position + len(data))
        return data

    def head(self, position: int) -> bytes:
        """The bytes of a batch's header, fewer where the log ends."""
        size = min(RECORD_BATCH_OVERHEAD, self.end - position)
        if not self._base <= position <= self._base + len(self._chunk) - size:
            self._base, self._chunk = position, self.read(position, NEAR_BYTES)
        return self._chunk[position - self._base : position - self._base + size]

    def frame(self, position: int) -> Frame | FrameStop:
        """The entry at a position, or why there is none."""
        there = find_frame(self.head(position), 0, self.end - position)
        return Frame(position, there.offset, there.size, there.magic) if isinstance(there, Frame) else there

    def claimed_size(self, position: int) -> int:
        """Bytes of the entry there as its length says, wherever the log ends; 0 if it says less than is possible, or
        the log ends before its magic."""
        head = self.head(position)
        if len(head) < HEADER_SIZE_UP_TO_MAGIC:
            return 0
        frame = find_frame(head, 0, BEHIND_ALL)
        return frame.size if isinstance(frame, Frame) else 0

    def looks_like_entry(self, position: int, *, even_torn: bool = False) -> bool:
        """Whether the header may be an entry's, by cheap tests alone. even_torn: also of one that goes on behind the
        end of the log."""
        head = self.head(position)
        if len(head) <= HEADER_SIZE_UP_TO_MAGIC or head[HEADER_SIZE_UP_TO_MAGIC - 1] > 2:
            return False
        sought = Sought(self.lowest, BEHIND_ALL if even_torn else self.end - position)
        frame = find_frame(head, 0, sought.end)
        return isinstance(frame, Frame) and is_plausible(head, frame, sought)

    # Proofs.

    def judge(self, position: int, *, deep: bool = False) -> Judged | None:
        """The entry at a position if it proves itself, else None."""
        frame = self.frame(position)
        if not isinstance(frame, Frame):
            return None
        if frame.magic == 2:
            return self.judge_as_batch(position, frame.size, deep=deep)
        return self.judge_as_message(position, frame.size, deep=deep) if frame.magic in (0, 1) else None

    def judge_as_batch(self, position: int, size: int, *, deep: bool = False) -> Judged | None:
        """The batch of magic 2 that these bytes are, whatever length and magic in its header say; None if its checksum
        does not match."""
        head = self.head(position)
        if size < RECORD_BATCH_OVERHEAD or len(head) < RECORD_BATCH_OVERHEAD:
            return None
        if self.crc32c(position + CRC_COVERS_FROM, position + size) != parse_batch(head).crc:
            return None
        # Only markers, and who looks deep, need its records.
        data = self.read(position, size) if deep or size <= LARGEST_MARKER_BYTES else head
        return judge_batch(batch_of(head, data, size, position), deep=deep)

    def judge_as_message(self, position: int, size: int, *, deep: bool = False) -> Judged | None:
        """The message of magic 0 or 1 that these bytes are, whatever its size field says; None if it does not match
        its checksum."""
        head = self.head(position)
        if not LOG_OVERHEAD + MIN_LENGTH <= size <= LARGEST_SOUGHT_BYTES or head[HEADER_SIZE_UP_TO_MAGIC - 1] > 1:
            return None
        message = message_of(self.read(position, size), position)
        return judge_message(message, deep=deep) if message.crc_valid else None

    def crc32c(self, start: int, stop: int, so_far: int = 0) -> int:
        """CRC-32C of these bytes, and those before them."""
        for at in range(start, stop, CHUNK_BYTES):
            so_far = kernels.native.crc32c(self.read(at, min(CHUNK_BYTES, stop - at)), so_far)
        return so_far

    def find_crc32c(self, start: int, stops: list[int], crc: int) -> int | None:
        """The first of several bytes, ascending, up to which the bytes from `start` on match a CRC-32C."""
        so_far = 0
        for stop in stops:
            start, so_far = stop, self.crc32c(start, stop, so_far)
            if so_far == crc:
                return stop
        return None

    def last_record(self, facts: EntryFacts) -> int | None:
        """Offset of the last record of a batch, whatever its header says; None if it has none, or none can be read.

        After a cleaning the header may rightly say more: the batch keeps its last offset.
        """
        if facts.magic < 2:
            return None
        batch = self.batch(facts)
        try:
            return max((record.offset for record in (recounted(batch) or batch).records()), default=None)
        except KlogError:  # what is wrong with its records is reported elsewhere
            return None

    def batch(self, facts: EntryFacts) -> RecordBatch:
        """The batch of magic 2 that has these facts, read whole."""
        return batch_of(self.head(facts.position), self.read(facts.position, facts.size), facts.size, facts.position)

    # What comes next.

    def next_proved(self, position: int) -> int | None:
        """Where the next entry from here on proves itself; None if none does. What was found is remembered."""
        return self._search(position)[1]

    def next_readable(self, position: int) -> int | None:
        """Where the next entry is behind one that does not prove itself: where its length leads, if an entry proves
        itself there, whatever its header contradicts; else as `next_proved`, which passes over such a header."""
        following = self.next_proved(position + 1)
        end = position + self.claimed_size(position)
        is_before = position < end < (self.end if following is None else following)
        return end if is_before and self.judge(end) is not None else following

    def _search(self, position: int) -> tuple[int, int | None, bool]:
        start, next_at, _ = self._searched
        if not start <= position <= (self.end if next_at is None else next_at):
            self._searched = (position, *search_next_batch(self.file, position, end=self.end, lowest=self.lowest))
        return self._searched

    def walk_unproved(self, position: int, last_offset: int) -> tuple[int, int, int]:
        """Record batches from here on that have sound headers, and no sound bytes: (where the next entry begins, how
        many they are, their last offset). 0 where it takes more to tell than the headers."""
        _, next_at, is_sure = self._search(position)
        if not is_sure or next_at == position:
            return position, 0, last_offset
        stop, in_all = self.end if next_at is None else next_at, 0
        while position < stop:
            chunk = self.read(position, min(CHUNK_BYTES, stop - position) + RECORD_BATCH_OVERHEAD)
            end = self.end - position
            reached, count, last_offset = kernels.native.walk_unproved(chunk, 0, self.lowest, end, last_offset)
            position, in_all = position + reached, in_all + count
            if not count:
                break
        return position, in_all, last_offset

    def heads(self, start: int, stop: int) -> Iterator[int]:
        """Positions in [start, stop) where a header may be an entry's, by cheap tests alone."""
        at = start
        while at < stop:
            chunk = self.read(at, min(CHUNK_BYTES, stop - at) + RECORD_BATCH_OVERHEAD)
            reach = min(CHUNK_BYTES, stop - at)
            in_chunk = -1
            while (in_chunk := kernels.native.find_head(chunk, in_chunk + 1, reach, self.lowest, self.end - at)) >= 0:
                yield at + in_chunk
            at += reach

    def zeros_from(self) -> int:
        """Where the zeros begin that the log ends with; its end if there are none."""
        if self._zeros_from is None:
            at, zeros = self.end, bytes(CHUNK_BYTES)
            while at > 0:
                chunk = self.read(max(0, at - CHUNK_BYTES), min(CHUNK_BYTES, at))
                rest = 0 if chunk == zeros[: len(chunk)] else len(chunk.rstrip(b"\0"))
                at -= len(chunk) - rest
                if rest:
                    break
            self._zeros_from = at
        return self._zeros_from
