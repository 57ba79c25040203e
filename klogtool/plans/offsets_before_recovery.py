"""Finds the offsets that a recovery removes from a log: how far it reached before, judged by its last sound batch."""

from __future__ import annotations

from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import KlogError
from klogtool.format.framing import Frame
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.frames import FrameReader
from klogtool.log.resync import find_next_batch

TAIL_BYTES = 4 << 20  # read from the end of the last file, before all of it is read


def find_lost_offsets(draft: Draft, log_end_offset: int) -> tuple[int, int] | None:
    """Return the first and last offset that the log had as found, at or above its new end; None if no sound batch shows
    any."""
    logs = [file for name in draft.before if (file := parse_file_name(name)).kind is FileKind.LOG and not file.suffix]
    named = [(file.base_offset, file.name) for file in logs if file.base_offset is not None]
    for _, name in sorted(named, reverse=True):
        last_offset = _last_offset(draft, name, log_end_offset)
        if last_offset is not None:
            return (log_end_offset, last_offset) if last_offset >= log_end_offset else None
    return None


def _last_offset(draft: Draft, name: str, lowest: int) -> int | None:
    """Return the last offset of the last sound batch that begins at or above `lowest`."""
    with ContentFile(name, draft.before[name].content) as file:
        for start in dict.fromkeys((max(0, file.size - TAIL_BYTES), 0)):
            at = find_next_batch(file, start, end=file.size, lowest=lowest)
            if at is not None:
                return _end_of_run(FrameReader(file), at, file.size)
    return None


def _end_of_run(reader: FrameReader, position: int, end: int) -> int | None:
    last_offset = None
    while isinstance(found := reader.find(position, end), Frame):
        try:
            last_offset = reader.last_offset(found)
        except KlogError:
            return last_offset
        position += found.size
    return last_offset
