"""Who votes for the controllers: what control records of `__cluster_metadata` say (KIP-853).

A voter of a dynamic quorum is known by its node id and the directory id of its metadata log dir, so a node with another
`directory.id` is none. Sources: KRaftControlRecordStateMachine, VoterSet.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from klogtool.format.batch import RecordBatch
from klogtool.format.control import ControlRecordType, parse_control_type_id
from klogtool.format.control_values import parse_control_value
from klogtool.format.kraft_snapshot import Voter, voters_of


class Quorum(Struct, frozen=True):
    """kraft_version: 1 if the quorum is dynamic. voters: of the last record; None if no record names any: then
    `controller.quorum.voters` does. voters_offset: of that record, in the log or in its snapshot; -1: there is none."""

    kraft_version: int = 0
    voters: tuple[Voter, ...] | None = None
    voters_offset: int = -1

    def with_records_of(self, batch: RecordBatch) -> Quorum:
        """Return what is so after a batch of control records. The last record wins, committed or not."""
        quorum = self
        for record in batch.records():
            kind = ControlRecordType.of(parse_control_type_id(record.key))
            if kind is ControlRecordType.KRAFT_VERSION:
                quorum = replace(quorum, kraft_version=parse_control_value(kind, record.value or b"")["kRaftVersion"])
            elif kind is ControlRecordType.KRAFT_VOTERS:
                voters = tuple(voters_of(parse_control_value(kind, record.value or b"")))
                quorum = replace(quorum, voters=voters, voters_offset=record.offset)
        return quorum

    def voter(self, node_id: int | None) -> Voter | None:
        """Return the voter with this node id, or None."""
        return next((voter for voter in self.voters or () if voter.id == node_id), None)

    def voter_of_directory(self, directory_id: str | None) -> Voter | None:
        """Return the voter with this directory id, or None."""
        return next((voter for voter in self.voters or () if voter.directory_id == directory_id), None)


class VoterMatch(Enum):
    """What a node is among voters."""

    VOTER = "voter"
    OTHER_DIRECTORY = "another directory id"
    """The voter with its node id has another directory id."""
    UNKNOWN_NODE = "no voter's node id"


def match_of(voters: Sequence[Voter], node_id: int | None, directory_id: str | None) -> VoterMatch:
    """Return what a node is among these voters."""
    same = [voter for voter in voters if voter.id == node_id]
    if not same:
        return VoterMatch.UNKNOWN_NODE
    is_voter = any(is_key_of(voter, node_id, directory_id) for voter in same)
    return VoterMatch.VOTER if is_voter else VoterMatch.OTHER_DIRECTORY


def is_key_of(voter: Voter, node_id: int | None, directory_id: str | None) -> bool:
    """Return whether a node is this voter (KafkaRaftClient.isValidVoterKey). A voter of a static quorum has no
    directory id."""
    return voter.id == node_id and voter.directory_id in ("", directory_id)
