"""Cures of what is wrong in a remote store. render/words.json has them as commands to paste, or a sentence.

Nothing brings an object back that the store has lost. What is left is to look for another version of it, to bring
consumers past it, and to delete what nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.log.storage import LOCAL_SCHEMES, Place
from klogtool.remote.causes import RemoteCure
from klogtool.remote.segment_check import Consumer, Unhelped
from klogtool.remote.store import RemoteStore
from klogtool.verify.findings import Finding, Kind

_UNCHECKED: Mapping[str | None, RemoteCure] = {
    Unhelped.METADATA: RemoteCure.NAME_METADATA,
    Unhelped.STORE: RemoteCure.ASK_AGAIN,
}
_OF_OBJECTS = (
    Kind.REMOTE_OBJECT_MISSING,
    Kind.REMOTE_OBJECT_CORRUPT,
    Kind.REMOTE_OBJECT_SIZE,
    Kind.REMOTE_MISMATCH,
    Kind.REMOTE_BATCH,
    Kind.REMOTE_TXNINDEX,
    Kind.REMOTE_INDEX,
)
_UNREAD = (Kind.REMOTE_ORPHAN, Kind.REMOTE_DISPLACED)
_BY_KIND: Mapping[Kind, RemoteCure] = {
    Kind.REMOTE_METADATA: RemoteCure.OTHER_REPLICA,
    Kind.REMOTE_COPY_UNFINISHED: RemoteCure.COPIED_AGAIN,
    Kind.REMOTE_DELETE_UNFINISHED: RemoteCure.DELETED_LATER,
}


class OrphanGrade(StrEnum):
    """Why nobody reads the objects of a segment, and so who deletes them. Kind.REMOTE_ORPHAN has the sentences."""

    NO_METADATA = "no-metadata"
    OTHER_LINEAGE = "other-lineage"
    SECOND_COPY = "second-copy"


class PartitionPlace(Struct, frozen=True):
    """Whose a finding is. has_metadata: at least one segment of the partition is in the metadata. has_objects: at least
    one of its objects is in the store. unknown, displaced: objects that nobody reads, and which have offsets of the log
    that nothing serves: first and last offset, by path. The metadata does not know the ones; the others have lost their
    place. by_newest: offsets that segments would serve by the leader epochs of the newest one, whatever
    leader-epoch-checkpoint of the local log says."""

    topic: str
    partition: int
    has_metadata: bool
    has_objects: bool = True
    unknown: Mapping[str, tuple[int, int]] = {}
    displaced: Mapping[str, tuple[int, int]] = {}
    by_newest: Sequence[tuple[int, int]] = ()


def cure_of(finding: Finding, store: RemoteStore, place: PartitionPlace) -> Reason | None:
    """Return what a person can do about a finding; None for one that is normal."""
    if finding.is_normal:
        return None
    if finding.id in _BY_KIND:
        return _BY_KIND[finding.id]()
    if finding.id is Kind.REMOTE_GAP and finding.field is None:
        return RemoteCure.OLDER_VERSION()
    if finding.id is Kind.REMOTE_GAP:
        if place.has_metadata and _overlaps(finding, place.by_newest):
            return RemoteCure.EPOCHS_BACK()
        passing = _passing(finding, place)
        if not place.has_objects and passing is not None:
            return RemoteCure.NAME_STORE(otherwise=passing)
        return passing if place.has_metadata and not _is_unknown(finding, place) else _rebuilding(store)
    if finding.id is Kind.REMOTE_UNCHECKED:
        return _UNCHECKED.get(finding.field, RemoteCure.GIVE_WHAT_IS_MISSING)()
    if finding.field == OrphanGrade.OTHER_LINEAGE:
        return RemoteCure.LEAVE_LINEAGE()
    if finding.id in _UNREAD:
        if finding.path in place.displaced:
            return RemoteCure.KEEP_DISPLACED()
        is_known = place.has_metadata and finding.path not in place.unknown
        return _deletion(finding, store) if is_known else _rebuilding(store)
    if finding.id in _OF_OBJECTS:
        passing = _passing(finding, place) if finding.field == Consumer.STUCK else None
        return RemoteCure.OLDER_VERSION() if passing is None else RemoteCure.OLDER_VERSION_OR(otherwise=passing)
    return None


def _is_unknown(gap: Finding, place: PartitionPlace) -> bool:
    """Return whether objects that the metadata does not know have offsets of a gap."""
    return _overlaps(gap, place.unknown.values())


def _overlaps(gap: Finding, spans: Iterable[tuple[int, int]]) -> bool:
    start, end = gap.first_offset or 0, gap.last_offset or 0
    return any(first <= end and start <= last for first, last in spans)


def _passing(finding: Finding, place: PartitionPlace) -> Reason | None:
    """Bring a consumer group, while it has no members, to the first offset behind what it cannot read."""
    if finding.last_offset is None:
        return None
    return RemoteCure.PASS(topic=f"{place.topic}:{place.partition}", offset=finding.last_offset + 1)


def _rebuilding(store: RemoteStore) -> Reason:
    """The metadata of the partition is lost, or of another cluster."""
    return RemoteCure.REBUILD_METADATA(store=store.uri)


def _deletion(finding: Finding, store: RemoteStore) -> Reason:
    """Delete the objects of a segment, which nobody reads and the records of which nobody may want."""
    if Place(store.uri).scheme in LOCAL_SCHEMES:
        return RemoteCure.DELETE_FILES(path=finding.path)
    return RemoteCure.DELETE_OBJECTS(path=finding.path)
