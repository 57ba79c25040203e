"""Which offsets of a local log are in remote storage as well, so that their local copy can be lost.

An offset counts only if a broker would read it from there: a segment that is finished, within the lineage of the local
leader epochs, whose objects are all there and have been read to the end without a finding.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import takewhile

from msgspec import Struct

from klogtool.format.tiered.segments import RemoteSegment
from klogtool.log.in_order import in_order
from klogtool.remote.inventory import JOBS, ListedSegment
from klogtool.remote.lineage import RemoteLogCache, is_within_lineage
from klogtool.remote.local import LocalLog
from klogtool.remote.metadata import TOPIC, RemoteMetadata
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


class SafePart(Struct, frozen=True):
    """The offsets of a local log that are safe to lose: from its local start to `end` (exclusive). why, detail: why the
    next one is not."""

    log: LocalLog
    end: int
    why: NotSafe
    detail: str


def find_safe_part(
    store: RemoteStore, metadata: RemoteMetadata, log: LocalLog, *, is_tiered: bool, is_remote_off: bool = False
) -> SafePart:
    """Read the segments that serve a local log, from its local start on, up to the first doubt. is_tiered: a broker
    takes the topic for tiered, by its settings. is_remote_off: its broker has no remote storage."""
    key = log.topic_id or "", log.partition
    if is_remote_off:
        detail = "it has segments in remote storage, but its broker has no remote storage"
        return SafePart(log, log.local_start, NotSafe.NOT_TIERED, detail)
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
    return SafePart(log, end, NotSafe.NOT_SERVED, f"no finished remote segment serves offset {end}")


def _why_unknown(metadata: RemoteMetadata, log: LocalLog, *, is_tiered: bool) -> tuple[NotSafe, str] | None:
    """Return why nobody can say what is safe."""
    if not is_tiered:
        detail = "it has segments in remote storage, but nothing says that its topic has remote.storage.enable=true"
        return NotSafe.NOT_TIERED, f"{detail} (and no remote.log.copy.disable)"
    if log.topic_id is None:
        return NotSafe.NO_METADATA, "it has no topic id"
    home = metadata.missing_home(log.topic_id, log.partition)
    return (
        None if home is None else (NotSafe.NO_METADATA, f"its metadata is in {TOPIC}-{home}: name it with --metadata")
    )


def _doubt(store: RemoteStore, log: LocalLog, segment: RemoteSegment) -> tuple[NotSafe, str] | None:
    """Return what speaks against a remote segment."""
    name = f"remote segment {segment.key.segment_id} (offsets {segment.start_offset} to {segment.end_offset})"
    listed = ListedSegment(segment.key, segment.start_offset, segment, store.segments.get(segment.key))
    if listed.stored is None:
        return NotSafe.NO_OBJECTS, f"{name} has no objects"
    if not is_within_lineage(segment, log.end, dict(log.epochs)):
        return NotSafe.OTHER_LINEAGE, f"{name} has other leader epochs than the log"
    found = check_segment(store, listed)
    return (NotSafe.DAMAGED, f"{name}: {found.findings[0].detail}") if found.findings else None
