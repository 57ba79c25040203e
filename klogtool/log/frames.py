"""Reads entries of a log file at any position, through a small cached piece: for index checks, which jump in the
file."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from klogtool.errors import Corrupt, became_shorter
from klogtool.format.batch import RECORD_BATCH_OVERHEAD, RecordBatch, parse_batch
from klogtool.format.framing import (
    CURRENT_MAGIC,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    Frame,
    FrameStop,
    corrupt_length,
    find_frame,
)
from klogtool.format.message import HEAD_SIZES, check_magic, parse_message
from klogtool.log.entries import Entry, read_entry
from klogtool.log.file import LogFile
from klogtool.log.windows import Window

FIRST_CHUNK_BYTES = 1 << 12  # one lookup costs a page; sequential reads get larger pieces
CHUNK_BYTES = 1 << 16


class FrameReader:
    """Reads entries of one file; positions are those of the file."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self._base, self._chunk, self._next_bytes = 0, b"", FIRST_CHUNK_BYTES

    def find(self, position: int, end: int) -> Frame | FrameStop:
        """Return the entry at a position of a log that ends at `end`, or why there is none."""
        chunk = self._chunk_at(position, HEADER_SIZE_UP_TO_MAGIC + 1)
        frame = find_frame(chunk, position - self._base, min(end, self.file.size) - self._base)
        return Frame(position, frame.offset, frame.size, frame.magic) if isinstance(frame, Frame) else frame

    def walk(self, position: int, end: int) -> Iterator[Frame]:
        """Yield the entries from a position on, up to bytes that are no whole entry."""
        while isinstance(frame := self.find(position, end), Frame):
            yield frame
            position += frame.size

    def last_offset(self, frame: Frame) -> int:
        """Return the entry's last offset. Raises Corrupt if the file ends inside the header of a batch."""
        return frame.offset if frame.magic < CURRENT_MAGIC else self._header(frame).last_offset

    def max_timestamp(self, frame: Frame) -> int:
        """Return the entry's largest timestamp, from its header. Raises Corrupt if that cannot be read."""
        if frame.magic >= CURRENT_MAGIC:
            return self._header(frame).max_timestamp
        chunk = self._chunk_at(frame.position, LOG_OVERHEAD + HEAD_SIZES[1])
        message = parse_message(chunk, frame.position - self._base, base=self._base)
        check_magic(message)
        return message.timestamp

    def read(self, frame: Frame) -> Entry:
        """Return the whole entry. Raises Corrupt if its header cannot be read."""
        data = memoryview(self.file.read(frame.position, max(frame.size, RECORD_BATCH_OVERHEAD)))
        window = Window(frame.position, data, frame.size, last=False)
        return read_entry(window, replace(frame, position=0), self.file.path)

    def corrupt_length(self, position: int) -> Corrupt:
        """Return the error for an entry whose length field is below the minimum."""
        return corrupt_length(self._chunk_at(position, HEADER_SIZE_UP_TO_MAGIC), position - self._base, self._base)

    def _header(self, frame: Frame) -> RecordBatch:
        chunk = self._chunk_at(frame.position, RECORD_BATCH_OVERHEAD)
        return parse_batch(chunk, frame.position - self._base, base=self._base)

    def _chunk_at(self, position: int, size: int) -> bytes:
        """Return a piece with `size` bytes from `position` on, as far as the file has them. Raises Changed if it became
        shorter since it was opened."""
        if not self._base <= position <= self._base + len(self._chunk) - size:
            self._base, self._chunk = position, self.file.read(position, self._next_bytes)
            self._next_bytes = min(2 * self._next_bytes, CHUNK_BYTES)
            if len(self._chunk) < min(size, self.file.size - position):
                at = position + len(self._chunk)
                raise became_shorter(self.file.path, at)
        return self._chunk
