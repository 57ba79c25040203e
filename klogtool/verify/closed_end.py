"""Compares the offsets of a log's last batch with the end that a clean stop recorded.

No CRC covers a base offset, and a faulty producer or proxy can send a last offset beyond the records, which followers
do not check. Every other batch has two neighbours. For the last one only the recovery point helps: a clean stop sets it
to the log's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klogtool.errors import KlogError
from klogtool.format.batch_proof import DELTA
from klogtool.format.framing import Frame
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.probing import Probe
from klogtool.verify.causes import OrderCause
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentReport


def find_right_offset(first_offset: int, last_offset: int, lowest: int, closed_at: int) -> int | None:
    """Return the base offset with which the last batch ends where the log was closed; None if its own may be right.

    lowest: the offset after the batch before. A log that was appended to since continues after its old end, so there is
    no room.
    """
    right = closed_at - (last_offset - first_offset + 1)
    return right if lowest <= right < first_offset else None


def is_right_end(first_offset: int, last_record: int | None, closed_at: int) -> bool:
    """Return whether the last batch ends where the log was closed, whatever its header says: all its records are below
    that. After a cleaning its last record may be lower still."""
    return last_record is not None and first_offset <= last_record < closed_at


def verify_last_batch(reports: Sequence[SegmentReport], closed_at: int | None) -> Iterator[Finding]:
    """Yield a finding if the log's last batch is beyond the log's end. reports: of all segments, by base offset."""
    last = reports[-1] if reports else None
    if last is None or closed_at is None or closed_at >= last.next_offset or last.is_damaged or not last.sound:
        return
    lowest = max(last.base_offset, reports[-2].next_offset if len(reports) > 1 else 0)
    try:
        yield from judge_last_batch(last.path, last.sound[-1], lowest, closed_at)
    except KlogError:  # it changed since it was read
        return


def judge_last_batch(path: str, span: tuple[int, int], lowest: int, closed_at: int) -> Iterator[Finding]:
    """Yield a finding if the last batch of bytes [start, end) of a segment is beyond `closed_at`, because its header is
    wrong. lowest: as above, of these bytes. Raises KlogError."""
    with LogFile(path) as file:
        reader, (at, end) = FrameReader(file), span
        while isinstance(frame := reader.find(at, end), Frame):
            last_offset, at = reader.last_offset(frame), frame.position + frame.size
            if at < end:
                lowest = max(lowest, last_offset + 1)
                continue
            if last_offset >= closed_at:
                yield from _wrong_field(Probe(file, end=end, lowest=0), frame, last_offset, lowest, closed_at)
            return


def _wrong_field(probe: Probe, frame: Frame, last_offset: int, lowest: int, closed_at: int) -> Iterator[Finding]:
    judged = probe.judge(frame.position)
    if judged is None:
        return
    end, last_record = frame.position + frame.size, probe.last_record(judged.facts)
    if is_right_end(frame.offset, last_record, closed_at):
        closed = OrderCause.CLOSED(at=closed_at)
        reason = OrderCause.WRONG_END(last_offset=last_offset, last_record=str(last_record), follows=closed)
        first, last = frame.offset, closed_at - 1
        yield Finding(Kind.BATCH_ATTRIBUTES, probe.file.path, reason, frame.position, end, first, last, DELTA)
    elif (right := find_right_offset(frame.offset, last_offset, lowest, closed_at)) is not None:
        reason = OrderCause.BEYOND_END(base_offset=frame.offset, closed_at=closed_at, right=right)
        last = closed_at - 1
        yield Finding(Kind.BATCH_HEADER, probe.file.path, reason, frame.position, end, right, last, "base_offset")
