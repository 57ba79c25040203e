"""Which offsets of a local log are in remote storage as well, so that their local copy can be lost.

An offset counts only if a broker would read it from there: a segment that is finished, within the lineage of the local
leader epochs, whose objects are all there and have been read to the end without a finding.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import takewhile

from msgspec import Struct

from klogtool.causes import Cause, Reason, Text, some
from klogtool.format.names import REMOTE_TOPIC
from klogtool.format.tiered.segments import RemoteSegment
from klogtool.log.thread_pool import in_order
from klogtool.remote.inventory import JOBS, ListedSegment
from klogtool.remote.lineage import RemoteLogCache, is_within_lineage
from klogtool.remote.local import LocalLog
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.segment_check import check_segment
from klogtool.remote.store import RemoteStore


class NotSafe(StrEnum):
    """Why an offset is not safe to lose."""

    NOT_TIERED = "not-tiered"
    """Nothing says that a broker goes on to read the topic from remote storage."""
    NO_METADATA = "no-metadata"
    """Nobody knows: the partition of __remote_log_metadata is not at hand, or the partition dir has no topic id."""
    NOT_SERVED = "not-served"
    """No finished segment has it in its leader epoch: it was not copied yet."""
    OTHER_LINEAGE = "other-lineage"
    """The segment has other leader epochs than the log."""
    NO_OBJECTS = "no-objects"
    """The segment has no objects in the store."""
    DAMAGED = "damaged"
    """Something is wrong in the objects of the segment, or they could not be checked."""


class NotSafeCause(Cause):
    """Why an offset is not safe to lose, more closely than `NotSafe` says."""

    REMOTE_OFF, NOT_KNOWN_AS_TIERED, NO_TOPIC_ID, METADATA_ELSEWHERE, NOT_SERVED = some(5)
    NO_OBJECTS, OTHER_EPOCHS, DAMAGED = some(3)


class SafePart(Struct, frozen=True):
    """The offsets of a local log that are safe to lose: from its local start to `end` (exclusive). why, detail: why the
    next one is not."""

    log: LocalLog
    end: int
    why: NotSafe
    detail: Reason


def find_safe_part(
    store: RemoteStore, metadata: RemoteMetadata, log: LocalLog, *, is_tiered: bool, is_remote_off: bool = False
) -> SafePart:
    """Read the segments that serve a local log, from its local start on, up to the first doubt. is_tiered: a broker
    takes the topic for tiered, by its settings. is_remote_off: its broker has no remote storage."""
    key = log.topic_id or "", log.partition
    if is_remote_off:
        return SafePart(log, log.local_start, NotSafe.NOT_TIERED, NotSafeCause.REMOTE_OFF())
    unknown = _why_unknown(metadata, log, is_tiered=is_tiered)
    if unknown is not None:
        return SafePart(log, log.local_start, *unknown)
    served = metadata.caches.get(key, RemoteLogCache()).walk_served(log.epochs, log.local_start, log.end)
    end, starts = log.local_start, dict[RemoteSegment, int]()
    for one in takewhile(lambda one: one.segment is not None, served):
        if one.segment is not None:
            end, _ = one.end, starts.setdefault(one.segment, one.start)
    checked = in_order(lambda: lambda segment: _doubt(store, log, segment), iter(starts), JOBS)
    for segment, doubt in checked:
        if doubt is not None:
            return SafePart(log, starts[segment], *doubt)
    return SafePart(log, end, NotSafe.NOT_SERVED, NotSafeCause.NOT_SERVED(offset=end))


def _why_unknown(metadata: RemoteMetadata, log: LocalLog, *, is_tiered: bool) -> tuple[NotSafe, Reason] | None:
    """Return why nobody can say what is safe."""
    if not is_tiered:
        return NotSafe.NOT_TIERED, NotSafeCause.NOT_KNOWN_AS_TIERED()
    if log.topic_id is None:
        return NotSafe.NO_METADATA, NotSafeCause.NO_TOPIC_ID()
    home = metadata.missing_home(log.topic_id, log.partition)
    if home is None:
        return None
    return NotSafe.NO_METADATA, NotSafeCause.METADATA_ELSEWHERE(topic=REMOTE_TOPIC, partition=home)


def _doubt(store: RemoteStore, log: LocalLog, segment: RemoteSegment) -> tuple[NotSafe, Reason] | None:
    """Return what speaks against a remote segment."""

    def because(cause: NotSafeCause, why: Text = "") -> Reason:
        return cause(segment=segment.key.segment_id, first=segment.start_offset, last=segment.end_offset, why=why)

    listed = ListedSegment(segment.key, segment.start_offset, segment, store.segments.get(segment.key))
    if listed.stored is None:
        return NotSafe.NO_OBJECTS, because(NotSafeCause.NO_OBJECTS)
    if not is_within_lineage(segment, log.end, dict(log.epochs)):
        return NotSafe.OTHER_LINEAGE, because(NotSafeCause.OTHER_EPOCHS)
    check = check_segment(store, listed)
    return (NotSafe.DAMAGED, because(NotSafeCause.DAMAGED, check.findings[0].reason)) if check.findings else None
