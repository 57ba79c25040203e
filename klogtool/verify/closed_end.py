"""Compares the base offset of a log's last batch with the end that a clean stop recorded.

No CRC covers a base offset. Every other batch has two neighbours. For the last one only the recovery point helps: a
clean stop sets it to the log's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klogtool.errors import KlogError
from klogtool.format.framing import CURRENT_MAGIC, Frame
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentReport


def find_right_offset(first_offset: int, last_offset: int, lowest: int, closed_at: int) -> int | None:
    """Return the base offset with which the last batch ends where the log was closed; None if its own may be right.

    lowest: the offset after the batch before. A log that was appended to since continues after its old end, so there is
    no room.
    """
    right = closed_at - (last_offset - first_offset + 1)
    return right if lowest <= right < first_offset else None


def verify_last_batch(reports: Sequence[SegmentReport], closed_at: int | None) -> Iterator[Finding]:
    """Yield a finding if the log's last batch is beyond the log's end. reports: of all segments, by base offset."""
    last = reports[-1] if reports else None
    if last is None or closed_at is None or closed_at >= last.next_offset or last.is_damaged or not last.sound:
        return
    lowest = max(last.base_offset, reports[-2].next_offset if len(reports) > 1 else 0)
    try:
        yield from _judged(last, lowest, closed_at)
    except KlogError:  # it changed since it was read
        return


def _judged(last: SegmentReport, lowest: int, closed_at: int) -> Iterator[Finding]:
    with LogFile(last.path) as file:
        reader, (at, end) = FrameReader(file), last.sound[-1]
        while isinstance(frame := reader.find(at, end), Frame):
            last_offset, at = reader.last_offset(frame), frame.position + frame.size
            if at < end:
                lowest = max(lowest, last_offset + 1)
                continue
            right = find_right_offset(frame.offset, last_offset, lowest, closed_at)
            if right is not None and frame.magic == CURRENT_MAGIC:
                detail = (
                    f"the base offset is {frame.offset}, but the log was closed at {closed_at}, so it must be {right}"
                )
                yield Finding(
                    Kind.BATCH_HEADER, last.path, detail, frame.position, at, right, closed_at - 1, "base_offset"
                )
            return
