"""Which offsets a recovery takes out of a log: how far it went before, as far as its last sound batch tells."""

from __future__ import annotations

from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import KlogError
from klogtool.format.framing import Frame
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.frames import FrameReader
from klogtool.log.resync import find_next_batch

TAIL_BYTES = 4 << 20  # how much of the last file is looked at before all of it is


def find_lost_offsets(draft: Draft, log_end_offset: int) -> tuple[int, int] | None:
    """First and last offset that were in the log as it was found, and are behind the end that it gets; None where no
    sound batch tells of any."""
    logs = [file for name in draft.before if (file := parse_file_name(name)).kind is FileKind.LOG and not file.suffix]
    named = [(file.base_offset, file.name) for file in logs if file.base_offset is not None]
    for _, name in sorted(named, reverse=True):
        last_offset = _last_offset(draft, name, log_end_offset)
        if last_offset is not None:
            return (log_end_offset, last_offset) if last_offset >= log_end_offset else None
    return None


def _last_offset(draft: Draft, name: str, lowest: int) -> int | None:
    """The last offset of the last sound batch at or above `lowest`, and of those that follow it."""
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
