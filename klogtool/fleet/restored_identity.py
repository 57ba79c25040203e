"""Whether restored disks are those of one cluster, and whose metadata will lead it. Pure.

The controllers' disks are of different seconds. A controller is elected if a majority has no better log than its own,
so one with older metadata may be, too: all that may lead count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from msgspec import Struct

from klogtool.broker.metadata.quorum import Quorum
from klogtool.broker.server_rules import BROKER, CONTROLLER
from klogtool.fleet.collected import Collected, LogDirFacts, MetadataFacts, ToldElection
from klogtool.fleet.node_starts import Foreseen
from klogtool.format.identity import QuorumState
from klogtool.format.kraft_snapshot import Endpoint, Voter
from klogtool.format.uuids import parse_uuid
from klogtool.quorum.controllers import Controller, MetadataLog, Position
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, Seat, judge_election
from klogtool.quorum.settings import QuorumSettings

_NOWHERE = Endpoint("", "", 0)  # a voter of a static quorum: its settings say where it is


class SetProblem(Enum):
    """Why a set of disks does not start as one cluster."""

    NO_IDENTITY = "no-meta-properties"
    """A log dir has no meta.properties, or no node id in it: its broker does not start."""
    UNREADABLE = "meta-properties-unreadable"
    """A log dir's meta.properties or a checkpoint cannot be read."""
    OTHER_CLUSTER = "other-cluster-id"
    """A log dir is of another cluster than most."""
    SAME_DIRECTORY = "same-directory-id"
    """Two log dirs have the same directory id."""
    NO_DIRECTORY = "directory-missing"
    """The metadata places partitions of a broker in a log dir that is not in the set."""
    NO_METADATA = "no-metadata"
    """No disk of the set has __cluster_metadata-0."""
    NO_LEADER = "no-controller-elected"
    """The controllers of the set elect no leader."""
    EMPTY_LEADER = "empty-controller-may-lead"
    """A controller without metadata may be elected: all topics would be lost."""
    LEADER_UNKNOWN = "controller-election-unknown"
    """What the disks show does not decide whether a leader is elected."""
    BROKER_ENDS = "broker-does-not-start"
    """A broker ends when it starts, as the doctor says; Kafka's class of the error is known."""
    BROKER_MAY_END = "broker-may-end"
    """A broker may end while it starts or runs: as the doctor says, or because of what the others remember."""
    LOG_DIR_OFFLINE = "log-dir-offline"
    """A log dir goes offline when its broker starts, as the doctor says."""
    LOG_DIR_MAY_FAIL = "log-dir-may-fail"
    """A log dir may go offline while its broker runs, as the doctor says."""
    REMOTE_UNKNOWN = "remote-offsets-unknown"
    """Offsets of a tiered topic are on no disk, and no copy of __remote_log_metadata knows a segment of them."""
    PRODUCER_IDS = "producer-ids-given-again"
    """Logs have producer ids that the metadata which may lead has not given yet."""


# What costs copies, or may; all others keep a broker, or the cluster, from its start.
NO_REFUSALS = (
    SetProblem.NO_DIRECTORY,
    SetProblem.LEADER_UNKNOWN,
    SetProblem.BROKER_MAY_END,
    SetProblem.LOG_DIR_OFFLINE,
    SetProblem.LOG_DIR_MAY_FAIL,
    SetProblem.REMOTE_UNKNOWN,
    SetProblem.PRODUCER_IDS,
)


class SetTrouble(Struct, frozen=True, tag="problem"):
    """A problem of the set. node_id, path: where it is, as far as it has a place. value: the id that is wrong. causes:
    of an election."""

    problem: SetProblem
    node_id: int | None = None
    path: str | None = None
    value: str | None = None
    causes: tuple[ElectionCause, ...] = ()

    @property
    def refuses(self) -> bool:
        """Return whether a broker or the cluster does not start because of it."""
        return self.problem not in NO_REFUSALS


def find_troubles(files: Sequence[Collected]) -> Iterator[SetTrouble]:
    """Yield what is wrong with the ids of a set: one file for each node."""
    clusters = Counter(file.broker.cluster_id for file in files if file.broker.cluster_id is not None)
    usual = clusters.most_common(1)[0][0] if clusters else None
    directories: dict[str, str] = {}
    for file in files:
        broker = file.broker
        if broker.cluster_id not in (None, usual):
            yield SetTrouble(SetProblem.OTHER_CLUSTER, broker.node_id, file.path or None, broker.cluster_id)
        for log_dir in broker.log_dirs:
            yield from _of_log_dir(log_dir, directories)


def _of_log_dir(log_dir: LogDirFacts, directories: dict[str, str]) -> Iterator[SetTrouble]:
    if log_dir.problem is not None:
        yield SetTrouble(SetProblem.UNREADABLE, log_dir.node_id, log_dir.path, log_dir.problem)
    elif log_dir.node_id is None:
        yield SetTrouble(SetProblem.NO_IDENTITY, None, log_dir.path)
    if log_dir.directory_id is not None:
        if log_dir.directory_id in directories:
            yield SetTrouble(SetProblem.SAME_DIRECTORY, log_dir.node_id, log_dir.path, log_dir.directory_id)
        directories[log_dir.directory_id] = log_dir.path


def find_foreseen(foreseen: Foreseen) -> Iterator[SetTrouble]:
    """Yield what the doctor foresees for a whole node, or a whole log dir."""
    for file, start in foreseen.starts:
        node_id, ends = file.broker.node_id, any(ending.is_sure for ending in start.endings)
        problem = SetProblem.BROKER_ENDS if ends else SetProblem.BROKER_MAY_END
        yield from (SetTrouble(problem, node_id, None, ending.error) for ending in start.endings)
        if not ends:
            yield from (SetTrouble(SetProblem.LOG_DIR_OFFLINE, node_id, path) for path in start.offline)
            yield from (SetTrouble(SetProblem.LOG_DIR_MAY_FAIL, node_id, path) for path in start.may_fail)


def find_missing_directories(leader: Collected, files: Sequence[Collected]) -> Iterator[SetTrouble]:
    """Yield the log dirs that the metadata of a broker names, and that the set lacks, of brokers that are in it."""
    here = {file.broker.node_id: {log_dir.directory_id for log_dir in file.broker.log_dirs} for file in files}
    directories: set[tuple[int, str]] = set()
    for known in leader.partitions:
        for node_id, directory in zip(known.replicas, known.directories, strict=False):
            is_reserved = directory.startswith("AAAAAAAAAAAAAAAAAAAA")  # DirectoryId.LOST, UNASSIGNED, MIGRATING
            if node_id in here and directory not in here[node_id] and not is_reserved:
                directories.add((node_id, directory))
    for node_id, directory in sorted(directories):
        yield SetTrouble(SetProblem.NO_DIRECTORY, node_id, None, directory)


def find_producer_ids(leading: Sequence[Collected], files: Sequence[Collected]) -> Iterator[SetTrouble]:
    """Yield the nodes whose metadata would give producer ids again that producers have: it is older than the logs. The
    controllers write a block down before they give it (ProducerIdControlManager.generateNextProducerId)."""
    copies = (copy for file in files for copy in file.copies if copy.state == "current")
    ids = {producer.producer_id for copy in copies for producer in copy.producers or ()}
    highest = max(ids | {row.producer_id for file in files for row in file.transactions}, default=-1)
    for file in leading:
        following = None if file.broker.metadata is None else file.broker.metadata.next_producer_id
        if following is not None and following <= highest:
            value = f"{following}..{highest}"
            yield SetTrouble(SetProblem.PRODUCER_IDS, file.broker.node_id, value=value)


def elect(files: Sequence[Collected]) -> tuple[Election | None, tuple[Collected, ...]]:
    """Return the election of these controllers, and the files whose metadata may lead, the newest one first. Without
    metadata there is no election."""
    with_metadata = [file for file in files if file.broker.metadata is not None and file.broker.node_id is not None]
    if not with_metadata:
        return None, ()
    by_age = sorted(with_metadata, key=completeness_of, reverse=True)
    # Who votes in a static quorum stands in settings only; but who registered as a controller is one.
    metadata = by_age[0].broker.metadata
    static = () if metadata is None or metadata.voters else metadata.controllers
    # Who has lost its metadata votes as well, for anybody.
    keys = set() if metadata is None else set(zip(metadata.voters, metadata.voter_directories, strict=False))
    own = [_controller(file, static, keys) for file in files if file.broker.node_id is not None]
    election = judge_election([one for one in own if not static or one.node_id in static])
    leading = tuple(file for file in by_age if file.broker.node_id in election.may_lead)
    return election, leading or tuple(by_age[:1])


def completeness_of(file: Collected) -> tuple[bool, int, int]:
    """Return how complete the metadata of a node is, as a sort key."""
    metadata = file.broker.metadata
    return (False, 0, 0) if metadata is None else metadata.completeness


def _controller(file: Collected, static: Sequence[int], keys: Collection[tuple[int, str]]) -> Controller:
    """Return a controller as `klogtool quorum` has it, as far as the file says. static: voters of a static quorum;
    keys: node and directory ids of voters. The log dir of metadata that is gone is the one with which a node votes."""
    broker = file.broker
    metadata = MetadataFacts("", 0) if broker.metadata is None else broker.metadata
    voting = [log_dir for log_dir in broker.log_dirs if (broker.node_id, log_dir.directory_id) in keys]
    first = [*voting, *broker.log_dirs, LogDirFacts("")][0]
    own = next((log_dir for log_dir in broker.log_dirs if log_dir.path == metadata.log_dir), first)
    named = zip(metadata.voters, metadata.voter_directories, strict=False)
    voters = tuple(Voter(node_id, directory, ()) for node_id, directory in named) or None
    log = MetadataLog(Position(metadata.epoch, metadata.end_offset), Quorum(1 if voters else 0, voters))
    roles = frozenset((BROKER, CONTROLLER))
    settings = QuorumSettings(broker.node_id, roles, dict.fromkeys(static, _NOWHERE)) if static else None
    return Controller(
        own.path,
        broker.node_id,
        own.directory_id,
        broker.cluster_id,
        own.node_id is not None,
        log,
        None if metadata.remembered is None else _quorum_state(metadata.remembered),
        settings=settings,
    )


def _quorum_state(remembered: ToldElection) -> QuorumState:
    return QuorumState(
        remembered.data_version,
        remembered.leader_id,
        remembered.leader_epoch,
        remembered.voted_id,
        parse_uuid(remembered.voted_directory_id),
    )


def judge_quorum(election: Election | None) -> Iterator[SetTrouble]:
    """Yield why no leader is elected for sure, and which controllers may end."""
    if election is None:
        yield SetTrouble(SetProblem.NO_METADATA)
        return
    for seat in election.seats:
        if seat.why_not is None and (cause := _ending(seat)) is not None:
            yield SetTrouble(SetProblem.BROKER_MAY_END, seat.controller.node_id, causes=(cause,))
    if election.leader_is_empty:
        yield SetTrouble(SetProblem.EMPTY_LEADER)
    if election.outcome is ElectionOutcome.NEVER:
        yield SetTrouble(SetProblem.NO_LEADER, causes=election.causes)
    elif election.outcome is ElectionOutcome.UNKNOWN:
        yield SetTrouble(SetProblem.LEADER_UNKNOWN, causes=election.causes)


def _ending(seat: Seat) -> ElectionCause | None:
    """Return why a controller may end because of what the others remember, or have forgotten."""
    if seat.forgot:
        return ElectionCause.FORGOT_EPOCH
    if seat.misled:
        return ElectionCause.STRANGE_LEADER
    if seat.hears_resigned:
        return ElectionCause.LEADER_RESIGNED
    if seat.is_stale:
        return ElectionCause.STALE_CANDIDATE
    return ElectionCause.LEADERS_DIFFER if seat.may_be_contradicted else None
