"""Cures of what is wrong in a remote store: commands to paste, or a sentence, as verify/cures.py has them.

Nothing brings an object back that the store has lost. What is left is to look for another version of it, to bring
consumers past it, and to delete what nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from klogtool.escape import quoted
from klogtool.log.storage import LOCAL_SCHEMES, Place
from klogtool.remote.segment_check import Consumer, Unhelped
from klogtool.remote.store import RemoteStore
from klogtool.verify.findings import Finding, Kind

_OLDER_VERSION = "Put an older version of the object back, under its name, if the store keeps versions or has a backup."
_NAME_METADATA = "Name the log dir that has it as well, with --metadata."
_GIVE_IT = "Give what is missing (the key with --key, klogtool[tiered] for encrypted segments), and check again."
_ASK_AGAIN = "Find out why the store does not give it (network, rights, throttling), and check again."
_UNCHECKED: Mapping[str | None, str] = {Unhelped.METADATA: _NAME_METADATA, Unhelped.STORE: _ASK_AGAIN}
_OF_OBJECTS = (
    Kind.REMOTE_OBJECT_MISSING,
    Kind.REMOTE_OBJECT_CORRUPT,
    Kind.REMOTE_OBJECT_SIZE,
    Kind.REMOTE_MISMATCH,
    Kind.REMOTE_BATCH,
    Kind.REMOTE_INDEX,
)
_UNREAD = (Kind.REMOTE_ORPHAN, Kind.REMOTE_DISPLACED)
_SENTENCES: Mapping[Kind, str] = {
    Kind.REMOTE_METADATA: "Name the log dir of another replica, if klogtool verify finds damage in this one. Otherwise "
    "a client wrote it: take the right to write to __remote_log_metadata away from all but brokers.",
    Kind.REMOTE_COPY_UNFINISHED: "Leave it: a broker that still has these offsets copies them under another id. If "
    "nothing is copied any more, its log says why (RemoteLogManager).",
    Kind.REMOTE_DELETE_UNFINISHED: "Leave it: a running broker deletes the rest when retention has reached it. If a "
    "remote-gap has these offsets, its cure brings consumers past them.",
}


class OrphanGrade(StrEnum):
    """Why nobody reads the objects of a segment, and so who deletes them. Kind.REMOTE_ORPHAN has the sentences."""

    NO_METADATA = "no-metadata"
    OTHER_LINEAGE = "other-lineage"
    SECOND_COPY = "second-copy"


class PartitionPlace(Struct, frozen=True):
    """Whose a finding is. has_metadata: at least one segment of the partition is in the metadata. has_objects: at least
    one of its objects is in the store."""

    topic: str
    partition: int
    has_metadata: bool
    has_objects: bool = True


def cure_of(finding: Finding, store: RemoteStore, place: PartitionPlace) -> str | None:
    """Return what a person can do about a finding; None for one that is normal."""
    if finding.is_normal:
        return None
    if finding.id in _SENTENCES:
        return _SENTENCES[finding.id]
    if finding.id is Kind.REMOTE_GAP:
        if not place.has_objects:
            return f"Name the store that has its objects. If they are lost: {_passing(finding, place)}"
        return _passing(finding, place) if place.has_metadata else _rebuilding(store)
    if finding.id is Kind.REMOTE_UNCHECKED:
        return _UNCHECKED.get(finding.field, _GIVE_IT)
    if finding.field == OrphanGrade.OTHER_LINEAGE:
        return "Leave it: brokers delete it when the log has left its leader epochs behind."
    if finding.id in _UNREAD:
        return _deletion(finding, store) if place.has_metadata else _rebuilding(store)
    if finding.id in _OF_OBJECTS:
        passing = _passing(finding, place) if finding.field == Consumer.STUCK else None
        return _OLDER_VERSION if passing is None else f"{_OLDER_VERSION} Otherwise: {passing}"
    return None


def _passing(finding: Finding, place: PartitionPlace) -> str | None:
    """Bring a consumer group, while it has no members, to the first offset behind what it cannot read."""
    if finding.last_offset is None:
        return None
    topic = quoted(f"{place.topic}:{place.partition}")
    words = f"--reset-offsets --topic {topic} --to-offset {finding.last_offset + 1} --execute"
    return f"kafka-consumer-groups.sh --bootstrap-server HOST:9092 --group GROUP {words}  # goes on behind it"


def _rebuilding(store: RemoteStore) -> str:
    """The metadata of the partition is lost, or of another cluster."""
    return (
        f"klogtool remote metadata {quoted(store.uri)} --output DIR  # before a broker starts, if the metadata is lost"
    )


def _deletion(finding: Finding, store: RemoteStore) -> str:
    """Delete the objects of a segment, which nobody reads and the records of which nobody may want."""
    if Place(store.uri).scheme in LOCAL_SCHEMES:
        return f"rm -- {quoted(finding.path)}.*  # if nobody wants its records"
    return f"If nobody wants its records, delete the objects whose names begin with {finding.path}."
