"""Who votes for the controllers: what control records of `__cluster_metadata` say (KIP-853).

A voter of a dynamic quorum is known by its node id and the directory id of its metadata log dir, so a node with another
`directory.id` is none. Sources: KRaftControlRecordStateMachine, VoterSet.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import Corrupt
from klogtool.format.batch import Record, RecordBatch
from klogtool.format.control import CURRENT_VERSION, ControlRecordType, parse_control_type_id
from klogtool.format.control_values import VALUE_MESSAGES
from klogtool.format.internal.message import parse_message
from klogtool.format.internal.schema import Values
from klogtool.format.kraft_snapshot import Voter, voters_of

KRAFT_VERSIONS = (0, 1)  # KRaftVersion


class Quorum(Struct, frozen=True):
    """kraft_version: 1 if the quorum is dynamic. voters: of the last record; None if no record names any: then
    `controller.quorum.voters` does. voters_offset: of that record, in the log or in its snapshot; -1: there is none."""

    kraft_version: int = 0
    voters: tuple[Voter, ...] | None = None
    voters_offset: int = -1

    def with_records_of(self, batch: RecordBatch) -> Quorum:
        """Return what is so after a batch of control records. The last record wins, committed or not.

        Raises Corrupt, with Kafka's class, for a record at which a start ends, although its checksum holds.
        """
        quorum = self
        for record in batch.records():
            kind, values = _parse_control_record(record)
            if kind is ControlRecordType.KRAFT_VERSION:
                quorum = replace(quorum, kraft_version=_kraft_version(values))
            elif kind is ControlRecordType.KRAFT_VOTERS:
                voters = {voter.id: voter for voter in voters_of(values)}  # as VoterSet.fromVotersRecord
                quorum = replace(quorum, voters=tuple(voters.values()), voters_offset=record.offset)
        return quorum

    def voter(self, node_id: int | None) -> Voter | None:
        """Return the voter with this node id, or None."""
        return next((voter for voter in self.voters or () if voter.id == node_id), None)

    def voter_of_directory(self, directory_id: str | None) -> Voter | None:
        """Return the voter with this directory id, or None."""
        return next((voter for voter in self.voters or () if voter.directory_id == directory_id), None)


def _parse_control_record(record: Record) -> tuple[ControlRecordType, Values]:
    """Return what a control record says (RecordsIterator.decodeControlRecord, ControlRecord.of)."""
    for part, data in (("key", record.key), ("value", record.value)):
        if data is None:
            raise _refused(f"Missing {part} in the record when a {part} was expected")
        if not data:
            raise _refused(f"Got an unexpected empty {part} in the record")
    kind = ControlRecordType.of(parse_control_type_id(record.key))
    if kind not in VALUE_MESSAGES:
        raise _refused(f"Unknown control record type {kind.name}")
    return kind, parse_message(VALUE_MESSAGES[kind], CURRENT_VERSION, record.value or b"")


def _kraft_version(values: Values) -> int:
    version = int(values["kRaftVersion"])
    if version not in KRAFT_VERSIONS:
        raise _refused(f"Unknown KRaft feature level: {version}")
    return version


def _refused(message: str) -> Corrupt:
    return Corrupt(message, kafka_class="IllegalArgumentException")


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
