"""Offset indexes that a start leaves as they are, and that point beside the batches.

A fetch walks over the log from the byte that its entry gives (LogSegment.translateOffset). A start looks at the index
of a segment only if it recovers it. So an index of another copy of the segment stays, and fetches that begin there
fail, or pass over records, though all batches are sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from klogtool.broker.unified_log.index_files import OffsetIndex
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.errors import KlogError
from klogtool.format.framing import Frame
from klogtool.format.indexes import OffsetIndexEntry
from klogtool.format.names import FileKind
from klogtool.log.frames import FrameReader
from klogtool.log.probing import Probe


class FalseEntry(Struct, frozen=True):
    """An entry of an offset index that points beside the batches. segment: its base offset. position: in bytes."""

    segment: int
    offset: int
    position: int


def find_false_entry(log: LoadedLog) -> FalseEntry | None:
    """Return a false entry of a loaded log, of those that cost one look each: the last one of each index, and the one
    from which the log start is looked up. None if there is none among these. Raises Unreadable."""
    for segment in log.segments.all:
        if segment.base_offset in log.report.recovered or (index := _opened(log, segment)) is None or not index.entries:
            continue
        entries = [index.last_entry]
        if segment is log.segments.first:
            entries.append(index.lookup(log.log_start_offset))
        if (false := next(walk_false(segment, entries), None)) is not None:
            return false
    return None


def has_false_entry(log: LoadedLog, segment: LogSegment) -> bool:
    """Return whether one entry of all in a segment's offset index is false. Raises Unreadable."""
    if (index := _opened(log, segment)) is None:
        return False
    held = len(bytes(index.data).rstrip(b"\0"))  # an index may be megabytes of zeros
    return any(walk_false(segment, map(index.entry, range(-(-held // index.entry_size)))))


def walk_false(segment: LogSegment, entries: Iterable[OffsetIndexEntry]) -> Iterator[FalseEntry]:
    """Yield the entries that point behind the batch of their offset, into a batch, or behind the log. One that leads to
    damage is none. Raises Unreadable."""
    with segment.open_log() as file:
        probe = Probe(file, end=file.size, lowest=0)
        for entry in entries:
            if not _leads_to(probe, segment.base_offset, entry.offset, entry.position):
                yield FalseEntry(segment.base_offset, entry.offset, entry.position)


def find_misled(log: LoadedLog, segment: LogSegment) -> int | None:
    """Return the offset with which consumers begin in a segment, its first one or the log start, if a fetch from there
    is led past batches. Raises Unreadable."""
    offset, following = max(segment.base_offset, log.log_start_offset), log.segments.higher(segment.base_offset)
    if following is not None and following.base_offset <= offset:
        return None
    with segment.open_log() as file:
        probe, position = Probe(file, end=file.size, lowest=0), segment.offset_index.lookup(offset).position
        return None if _leads_to(probe, segment.base_offset, offset, position) else offset


def _opened(log: LoadedLog, segment: LogSegment) -> OffsetIndex | None:
    """Return a segment's offset index; None if it is not there, or cannot be opened, which is told elsewhere."""
    name = segment.name_of(FileKind.OFFSET_INDEX)
    if name not in log.draft:  # to open it would make one
        return None
    try:
        return OffsetIndex(log.draft, name, segment.base_offset, log.terms.config.segment_index_bytes)
    except KlogError:
        return None


def _leads_to(probe: Probe, base_offset: int, offset: int, position: int) -> bool:
    """Return whether who walks on from a position comes to the batch of an offset. A negative one is the beginning."""
    if position <= 0:
        return True
    at_position = probe.frame(position)
    if isinstance(at_position, Frame) and base_offset <= at_position.offset <= offset:
        return True
    before, at = None, 0
    while at < position and isinstance(frame := probe.frame(at), Frame):
        before, at = frame, at + frame.size
    # The walk goes by lengths, and offsets have no checksum: damage may be the reason.
    if before is None or probe.judge(before.position) is None or at < min(position, probe.end):
        return True
    if at > position:
        return False
    return FrameReader(probe.file).last_offset(before) < offset
