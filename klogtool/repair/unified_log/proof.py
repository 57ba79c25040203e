"""Whether a log may be called cleanly stopped: every batch read, its checksum right, and its end where indexes say.

A clean marker keeps a broker from looking; so what it is put on has to be looked at to the last byte.
"""

from __future__ import annotations

from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.segment import LogSegment
from klogtool.repair.unified_log.sound_batches import find_sound_end


def prove(log: LoadedLog) -> None:
    """Raises Refused if a segment that was not recovered is damaged, or does not end where a broker believes."""
    recovered = set(log.report.recovered)
    for segment in log.segments.all:
        if segment.base_offset not in recovered:
            end = _proved_end(segment, log.jobs)
            if segment is log.segments.last and end != log.log_end_offset:
                raise _refused(segment, f"its index makes a broker believe that it ends at {log.log_end_offset}", end)


def _proved_end(segment: LogSegment, jobs: int) -> int:
    """Behind the last batch; the base offset of an empty segment."""
    try:
        with segment.open_log() as file:
            end, position = find_sound_end(file, jobs)
    except Corrupt as error:
        raise _refused(segment, error.reason, error.position) from error
    if position < segment.size:
        raise _refused(segment, "the file ends inside a batch", position)
    return segment.base_offset if end is None else end


def _refused(segment: LogSegment, reason: str, position: int | None) -> KlogError:
    return Refused(
        f"cannot be marked clean: {reason} (--recovery-point 0 --last-stop unclean recovers it)",
        path=segment.path,
        position=position,
    )
