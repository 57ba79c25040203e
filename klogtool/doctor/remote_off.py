"""What a broker without remote storage does not serve of a topic that has it."""

from __future__ import annotations

from msgspec.structs import replace

from klogtool.broker.circumstances import REMOTE_SYSTEM
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.format.tiered.segments import RemoteSegment
from klogtool.log.partition import Partition
from klogtool.remote.lineage import RemoteLogCache
from klogtool.remote.local import read_log
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.store import RemoteStore


def find_unserved(path: str, log: LoadedLog) -> Ahead | None:
    """Return the point if older records are in remote storage: without it, a log starts with its first segment
    (UnifiedLog.isRemoteLogEnabled)."""
    terms, first = log.terms, log.segments.first.base_offset
    if not terms.is_remote_off or terms.log_start_offset >= first:
        return None
    span = terms.log_start_offset, first - 1
    detail = AheadCause.REMOTE_OFF(first=span[0], last=span[1], setting=REMOTE_SYSTEM)
    cure = AdviceCause.REMOTE_ON(setting=REMOTE_SYSTEM)
    return Ahead(path, What.REMOTE_OFF, detail, *span, cure=cure, is_hidden=True, is_uncounted=True)


def weigh_by_store(point: Ahead, store: RemoteStore, metadata: RemoteMetadata) -> Ahead:
    """Return the point with how many of its offsets the store has, in segments that a broker with it serves.

    Objects are looked for, not read. The point stays as it is where the metadata does not tell. Raises KlogError if the
    log cannot be read.
    """
    first, last = point.first_offset, point.last_offset
    if point.what is not What.REMOTE_OFF or first is None or last is None:
        return point
    log = read_log(Partition(point.path), first)
    if log is None or log.topic_id is None or metadata.missing_home(log.topic_id, log.partition) is not None:
        return point
    cache = metadata.caches.get((log.topic_id, log.partition), RemoteLogCache())
    served = [one for one in cache.walk_served(log.epochs, first, last + 1) if one.segment is not None]
    stored = [one for one in served if _has_log(store, one.segment)]
    held, count = sum(one.end - one.start for one in stored), last + 1 - first
    cause = AheadCause.REMOTE_OFF_HELD if held == count else AheadCause.REMOTE_OFF_PARTLY
    return replace(point, detail=cause(first=first, last=last, setting=REMOTE_SYSTEM, held=held, count=count))


def _has_log(store: RemoteStore, segment: RemoteSegment | None) -> bool:
    stored = None if segment is None else store.segments.get(segment.key)
    return stored is not None and stored.log is not None
