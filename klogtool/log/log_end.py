"""Where a log ends, from its last segment: read by its offset index, and then from header to header."""

from __future__ import annotations

from klogtool.errors import KlogError
from klogtool.format.framing import Frame
from klogtool.format.indexes import OFFSET_ENTRIES, entries_before_zero_tail
from klogtool.format.layouts import OFFSET_INDEX_ENTRY
from klogtool.format.names import FileKind
from klogtool.log.file import LogFile, read_whole
from klogtool.log.frames import FrameReader
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment

_ENTRY_SIZE = OFFSET_INDEX_ENTRY.sizeof()
LARGEST_INDEX_BYTES = 64 << 20  # six times Kafka's default; of a larger one nothing is read


def find_log_end(partition: Partition) -> int | None:
    """Return the offset after the last whole entry of a partition's log; None if it has no segment.

    Checksums are not looked at. Behind an impossible length nothing counts, except before the last entry of the offset
    index: where that one is sound, the walk starts. `verify.header_end` starts at 0, and never trusts an index. Raises
    KlogError if the log cannot be read.
    """
    segments = partition.segments
    if not segments:
        return None
    last = segments[-1]
    with LogFile(last.path) as file:
        frames, last_offset = FrameReader(file), None
        for frame in frames.walk(_indexed_position(last, frames, file.size), file.size):
            try:
                last_offset = frames.last_offset(frame)
            except KlogError:  # less than a header
                break
    return last.base_offset if last_offset is None else last_offset + 1


def _indexed_position(segment: Segment, frames: FrameReader, end: int) -> int:
    """Return where the last entry of the offset index says that a batch begins, if a sound one does; else 0."""
    try:
        data = read_whole(segment.side_path(FileKind.OFFSET_INDEX), limit=LARGEST_INDEX_BYTES)
        count = entries_before_zero_tail(data, _ENTRY_SIZE)
        if not count:
            return 0
        entry = OFFSET_ENTRIES.parse_entry(data, segment.base_offset, count - 1)
        frame = frames.find(entry.position, end) if 0 <= entry.position < end else None
        if isinstance(frame, Frame) and segment.base_offset <= frames.last_offset(frame) <= entry.offset:
            return entry.position if frames.read(frame).crc_valid else 0
    except KlogError:
        pass
    return 0
