"""Whether a log may be marked as cleanly stopped: every batch was read, its CRC is right, and the log ends where
indexes say.

A clean marker tells a broker not to check the log, so klogtool has to check it to the last byte.
"""

from __future__ import annotations

import os

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.sound_batches import find_sound_end
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.verify.cures import rebuild_index, salvage


def prove(log: LoadedLog) -> None:
    """Raises Refused if a segment that was not recovered is damaged, or does not end where a broker believes it
    ends."""
    recovered = set(log.report.recovered)
    for segment in log.segments.all:
        if segment.base_offset not in recovered:
            end = _proved_end(segment, log.jobs)
            if segment is log.segments.last and end != log.log_end_offset:
                reason = f"because of its index, a broker believes that it ends at {log.log_end_offset}"
                cure = rebuild_index(os.path.dirname(segment.path), "index", segment.base_offset)
                raise _refused(segment, reason, end, cure)


def _proved_end(segment: LogSegment, jobs: int) -> int:
    """Return the offset after the last batch, or the base offset of an empty segment."""
    try:
        with segment.open_log() as file:
            end, position = find_sound_end(file, jobs)
    except Corrupt as error:
        raise _refused(segment, error.reason, error.position, salvage(os.path.dirname(segment.path))) from error
    if position < segment.size:
        cure = salvage(os.path.dirname(segment.path))
        raise _refused(segment, "the file ends inside a batch", position, cure)
    return segment.base_offset if end is None else end


def _refused(segment: LogSegment, reason: str, position: int | None, cure: str) -> KlogError:
    """Return the error. Its cure is not a recovery, which would cut the log at the first damage with all sound batches
    after it."""
    return Refused(f"cannot be marked clean: {reason}", path=segment.path, position=position, cure=cure)
