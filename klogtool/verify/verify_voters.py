"""Whether a log dir is still a voter of its dynamic quorum, and the `directory.id` that it had (KIP-853)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.broker.metadata.quorum import VoterMatch, match_of
from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.identity import MetaProperties, parse_meta_properties
from klogtool.format.names import FileKind
from klogtool.format.uuids import build_uuid, is_reserved_directory_id
from klogtool.log.file import read_whole
from klogtool.log.logdir import LogDir
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.causes import CureCause, CureRemark, KraftCause
from klogtool.verify.cures import FROM_A_CONTROLLER, edit
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.stops import refuses
from klogtool.verify.verify_names import METADATA_PARTITION

_META = FileKind.META_PROPERTIES.value


def metadata_of(log_dir: str) -> ClusterMetadata | None:
    """Return the metadata in a log dir; None if it has none."""
    folder = os.path.join(log_dir, str(METADATA_PARTITION))
    return read_cluster_metadata(folder) if os.path.isdir(folder) else None


def verify_voters(identities: Mapping[str, MetaProperties]) -> Iterator[Finding]:
    """Yield findings of meta.properties that do not fit the voters. identities: by the path of the file."""
    for path, identity in identities.items():
        metadata = metadata_of(os.path.dirname(path))
        if metadata is not None:
            yield from _verify_voter(path, identity, metadata)


def _verify_voter(path: str, identity: MetaProperties, metadata: ClusterMetadata) -> Iterator[Finding]:
    quorum, node_id = metadata.quorum, identity.node_id
    if quorum.voters is None:
        if quorum.kraft_version > 0 and metadata.may_be_controller(node_id):
            yield _without_voters(path)
        return
    own = None if identity.directory_id is None else build_uuid(identity.directory_id)
    voter, owner = quorum.voter(node_id), quorum.voter_of_directory(own)
    standing = match_of(quorum.voters, node_id, own)
    if voter is not None and standing is VoterMatch.OTHER_DIRECTORY:
        why = (
            KraftCause.NO_DIRECTORY_ID(node_id=str(node_id), voter_id=voter.directory_id)
            if own is None
            else KraftCause.OTHER_DIRECTORY_ID(own=own, node_id=str(node_id), voter_id=voter.directory_id)
        )
        cure = with_directory_id(path, voter.directory_id)
    elif standing is VoterMatch.UNKNOWN_NODE and owner is not None:
        why = KraftCause.OTHER_NODE(node_id=str(node_id), voter=owner.id)
        cure = CureCause.NODE_ID(node_id=owner.id, path=path)
    else:
        return
    voters = len(quorum.voters)
    then = KraftCause.NO_LEADER() if voters == 1 else KraftCause.NONE_OF_VOTERS(voters=voters)
    reason = KraftCause.NOT_VOTER(why=why, then=then)
    yield Finding(Kind.QUORUM_VOTER, path, reason, field="directory_id", cured_by=cure)


def _without_voters(path: str) -> Finding:
    # Kafka adds the voters of the settings.
    reason = "The kraft.version is KRAFT_VERSION_1 but there is no voter set in the log or checkpoint"
    return Finding(
        Kind.QUORUM_VOTER,
        os.path.join(os.path.dirname(path), str(METADATA_PARTITION)),
        KraftCause.NO_VOTERS(),
        cured_by=FROM_A_CONTROLLER,
        stop=refuses("IllegalStateException", reason),
    )


def with_directory_id(path: str, directory_id: str) -> Reason:
    """Write a directory.id into meta.properties, in place of the one that is there."""
    # Appended before the old one is deleted: sed does nothing more with a line that is deleted, and it may be the last.
    commands = [f"$a directory.id={directory_id}", r"/^\s*directory\.id\s*[=:]/d"]
    return edit(path, commands, CureRemark.VOTES_WITH())


def lost_directory_id(log_dir: str, log_dirs: Sequence[LogDir], node_id: int | None) -> str | None:
    """Return the directory.id that a log dir had, by the metadata in one of the broker's log dirs; None if unknown.

    A voter's own stands in VotersRecord. A broker registers the ids of all its log dirs: the one that no other log dir
    has is that of this one. So at most one of them may be lost.
    """
    own = metadata_of(log_dir)
    voter = None if own is None else own.quorum.voter(node_id)
    if voter is not None:
        return voter.directory_id
    known = (own, *(metadata_of(one.path) for one in log_dirs if one.path != log_dir))
    metadata = next((one for one in known if one is not None), None)
    if metadata is None or node_id not in metadata.known.brokers:
        return None
    others = [find_directory_id(one.path) for one in log_dirs if one.path != log_dir]
    left = [one for one in metadata.known.brokers[node_id].directories if one not in others]
    return left[0] if len(left) == 1 and None not in others else None


def read_identities(log_dirs: Iterable[str]) -> dict[str, MetaProperties]:
    """Return what is in each meta.properties that can be read, by the path of the file."""
    identities = {os.path.join(log_dir, _META): read_identity(log_dir) for log_dir in log_dirs}
    return {path: identity for path, identity in identities.items() if identity is not None}


def read_identity(log_dir: str) -> MetaProperties | None:
    """Return what is in meta.properties; None if it cannot be read."""
    try:
        return parse_meta_properties(read_whole(os.path.join(log_dir, _META), limit=MOST_TEXT_BYTES))
    except KlogError:
        return None


def find_directory_id(log_dir: str) -> str | None:
    """Return the directory.id of a log dir; None if it has none that a broker takes, or it cannot be read."""
    identity = read_identity(log_dir)
    directory_id = None if identity is None else identity.directory_id
    return None if directory_id is None or is_reserved_directory_id(directory_id) else build_uuid(directory_id)
