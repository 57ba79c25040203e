"""How far a log goes, by the headers of its batches alone: to choose between copies, not to judge them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from klogtool.errors import KlogError
from klogtool.format.batch import RECORD_BATCH_OVERHEAD
from klogtool.format.framing import CURRENT_MAGIC, Frame, find_frame
from klogtool.format.names import parse_file_name
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.partition import Partition
from klogtool.verify.segment_report import SegmentReport

STILL_OPEN = (".nfs", ".fuse_hidden")  # how clients of NFS and FUSE name a file that was deleted while it is open


def find_next_offset(path: str) -> int:
    """Return the offset after the last complete batch of a `.log`; 0 if it has none or cannot be read."""
    next_offset = 0
    try:
        with LogFile(path) as file:
            reader = FrameReader(file)
            for frame in reader.walk(0, file.size):
                next_offset = reader.last_offset(frame) + 1
    except KlogError:
        return next_offset
    return next_offset


def first_offset_of_log(path: str) -> int | None:
    """Return the offset of the batch with which a file begins, whatever its name; None if it begins with none."""
    with LogFile(path) as file:
        frame = find_frame(file.read(0, RECORD_BATCH_OVERHEAD), 0, file.size)
    return frame.offset if isinstance(frame, Frame) and frame.offset >= 0 and frame.magic <= CURRENT_MAGIC else None


def find_span_only_in(path: str, segments: Iterable[SegmentReport]) -> tuple[int, int] | None:
    """Return the first and last offset of a `.log.cleaned` or `.log.swap` that no segment reaches; None if one does.
    A broker deletes such a file: the segments that it was made of should still be there."""
    base, end = parse_file_name(os.path.basename(path)).base_offset, find_next_offset(path)
    if base is None:
        return None
    reach = max((one.next_offset for one in segments if one.base_offset < end), default=base)
    return (max(base, reach), end - 1) if end > max(base, reach) else None


def find_header_end(partition: Partition) -> int:
    """Return the offset after the last batch of a partition's last segment, at least its base offset; 0 if there is
    none, or it cannot be read. `log.log_end.find_log_end` leaps by the index, also over damage; here damage ends it."""
    try:
        segments = partition.segments
    except KlogError:
        return 0
    return max(segments[-1].base_offset, find_next_offset(segments[-1].path)) if segments else 0
