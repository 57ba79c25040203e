"""How old a segment is: by its records, or else by its file (LogSegment.largestTimestamp, LogSegment.lastModified)."""

from __future__ import annotations

from msgspec import Struct

from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.format.indexes import TimeIndexEntry

_NS_PER_MS = 1_000_000


class Age(Struct, frozen=True):
    """A segment's size, and the largest timestamp in its time index with its offset. offset None: there is no entry,
    and the timestamp is the mtime of the `.log`."""

    segment: int
    size: int
    timestamp: int
    offset: int | None

    @property
    def is_file_time(self) -> bool:
        """Whether the timestamp is the mtime of the `.log`."""
        return self.offset is None


def age_of(log: LoadedLog, segment: LogSegment) -> Age:
    """Return the age of a segment. As in a broker this opens its time index. Raises Corrupt as that does."""
    return age_by(log, segment, segment.read_max_timestamp_so_far())


def age_by(log: LoadedLog, segment: LogSegment, latest: TimeIndexEntry | None) -> Age:
    """Return the age of a segment by the largest timestamp that is known of its records; None: it cannot be read."""
    if latest is not None and latest.timestamp >= 0:
        return Age(segment.base_offset, segment.size, latest.timestamp, latest.offset)
    return Age(segment.base_offset, segment.size, last_modified_ms(log, segment), None)


def last_modified_ms(log: LoadedLog, segment: LogSegment) -> int:
    """Return the modification time of a `.log`; if loading created it or cut it, the time of the loading.

    Do not ask about a segment that was written to after the loading.
    """
    mtime_ns = segment.draft.files[segment.log_name].mtime_ns
    return log.terms.loaded_at_ms if mtime_ns is None else mtime_ns // _NS_PER_MS
