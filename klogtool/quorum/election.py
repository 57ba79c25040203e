"""Whether these controllers elect a leader if they start together, and what that costs: a model of KafkaRaftClient.

A voter is known by its node id and, in a dynamic quorum, its directory id. A candidate asks the voters of its own set,
at the endpoints that stand there. Who is asked compares the key in the request with its own key, and the candidate's
log with its own log; it does not ask whether the candidate is a voter (KafkaRaftClient.handleVoteRequest). So each
controller judges by its own copy, and an empty disk that has an old directory id votes for anybody.

What no disk shows is taken both ways: if the outcome is then not the same, it is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.metadata.quorum import Quorum, VoterMatch, is_key_of, match_of
from klogtool.broker.metadata.refusals import Refusal
from klogtool.causes import Cause
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.uuids import build_uuid
from klogtool.quorum.controllers import Controller, Position, count_metadata_records
from klogtool.quorum.metadata_copies import CopiesApart, CopyTail, compare
from klogtool.quorum.settings import is_name, is_same_host

Differences: TypeAlias = Mapping[str, CopiesApart | CopyTail | None]
TwoLogs: TypeAlias = Collection[frozenset[str]]


class ElectionOutcome(Enum):
    """What comes of an election."""

    ELECTED = "elected"
    NEVER = "never"
    UNKNOWN = "unknown"


class ElectionCause(Cause):
    """Why a controller is no voter, cannot start, or cannot be elected."""

    NO_IDENTITY = "no-meta-properties"
    """The disk is not formatted: a start ends."""
    IDENTITY_CORRUPT = "meta-properties-unreadable"
    """A start ends at meta.properties."""
    STATE_CORRUPT = "quorum-state-unreadable"
    """A start ends at quorum-state."""
    OTHER_NODE = "other-node-id"
    """meta.properties is that of another node than the settings': a start ends."""
    SETTINGS_REFUSED = "settings-refused"
    """A start ends at its settings; Kafka's message is known."""
    LOG_DAMAGED = "metadata-log-damaged"
    """The metadata log cannot be read to its end."""
    SIDE_FILE_CORRUPT = "side-file-unreadable"
    """A start ends at leader-epoch-checkpoint or partition.metadata, beside the metadata log."""
    NOT_OPENED = "metadata-file-not-opened"
    """A start ends, or waits for ever, at a file of the metadata log dir that it cannot open, load or make."""
    RECORD_REFUSED = "metadata-record-refused"
    """A start ends at a record of the metadata log or its newest snapshot, although the checksum holds."""
    NO_CONTROLLER = "no-controller"
    """process.roles has no controller."""
    OTHER_DIRECTORY = "other-directory-id"
    """The voter with this node id has another directory id."""
    UNKNOWN_NODE = "not-in-voters"
    """No voter has this node id."""
    NO_VOTERS = "no-voters"
    """Neither the log nor the settings name voters."""
    SETTINGS_UNKNOWN = "settings-unknown"
    """The voters stand in the settings, which were not given."""
    VERSION_WITHOUT_VOTERS = "kraft-version-without-voters"
    """kraft.version is 1 and no record names voters: who is elected ends."""
    NO_MAJORITY = "no-majority"
    """Too few voters are here and can be reached with a log that is no better."""
    ENDPOINTS_STALE = "voter-endpoint-stale"
    """A majority would be here, but the voters' endpoints are not where these controllers listen."""
    SETTINGS_DIFFER = "settings-name-other-voters"
    """controller.quorum.voters of these controllers do not name the same voters: each goes by its own."""
    LISTENER_UNKNOWN = "voter-listener-unknown"
    """The voters' record has no endpoint with its first controller.listener.names: it ends when it looks for one."""
    STALE_CANDIDATE = "stale-candidate"
    """quorum-state says that it voted for itself in the epoch of its log's last record: its requests are invalid, and
    it ends if another one answers before its first election timeout."""
    FORGOT_EPOCH = "forgot-its-epoch"
    """Another controller's quorum-state names it as the leader of an epoch that it does not know: it ends as soon as it
    is told so."""
    LEADERS_DIFFER = "leaders-differ"
    """quorum-state files name different leaders of one epoch: who hears of the other one ends."""
    KNOWN_TO_FEW = "leader-known-to-few"
    """quorum-state names the leader of an epoch that most voters here do not know: if they elect another one in it,
    this controller ends."""
    NO_EPOCH_LEFT = "no-epoch-left"
    """The epoch of a log or quorum-state is the highest of 32 bits: who becomes a candidate after it ends."""
    CANDIDATE_NO_VOTER = "candidate-is-no-voter"
    """quorum-state says that it voted for itself, and by its own copy it is no voter: a start ends."""
    OTHER_CLUSTER = "other-cluster-id"
    """It has another cluster id than most of the others."""
    VOTERS_DIFFER = "voters-differ"
    """Controllers that may lead do not have the same voters, so that two may lead at the same time."""
    REPLAY_REFUSED = "metadata-replay-refused"
    """A replay refuses a record of one that may lead: it wins the election, and ends before it is active; so do those
    that fetch the record (QuorumController). Or of so many others that no majority is left then."""
    METADATA_GONE = "metadata-gone"
    """A metadata log had offsets that no copy here has any more, as a file beside it shows."""
    STRANGE_LEADER = "leader-is-no-voter"
    """quorum-state names a leader that is no voter: who asks this controller is told of it without an address, and
    ends, unless a later epoch has a leader first."""
    LEADER_RESIGNED = "leader-resigned"
    """One led before its start, and tells so, without an address, controllers that do not know it: who hears it before
    it has fetched ends, and a second start is the cure."""
    COPIES_DIFFER = "copies-differ"
    """Two copies differ in the same epoch at the same offset: they are two logs, and Kafka would never notice."""


NO_CONTROLLERS = (
    ElectionCause.NO_CONTROLLER,
    ElectionCause.UNKNOWN_NODE,
)  # who has them may be a broker, which is as it should be


class Seat(Struct, frozen=True):
    """What a controller is by the best copy that names voters. why_not: None if it is a voter. believes: whether it is
    one by its own copy. starts: whether its start does not end before it looks for others. forgot: whether it may end
    when another one tells it that it leads (KafkaRaftClient.maybeTransition). ends_as_candidate: whether its start ends
    because it is to be a candidate, and is no voter (CandidateState). may_be_contradicted: whether others may elect
    another leader of an epoch of which it knows one: then it ends (KafkaRaftClient.maybeTransition). hears_otherwise:
    whether one that is here tells it of another leader of its epoch as soon as both are up. misleads: whether it tells
    another one that is here of a leader whose address nobody knows; misled: whether it may be told so, and end.
    resigns: whether it led before its start, and tells so one that is here and does not know its address;
    hears_resigned: whether it may be told so, and end once. mixes: whether it may fetch what goes on in another log
    than its own: it may end when it replays that (QuorumController).

    lacks: the offsets (first, last) of the most complete copy that its own copy does not have; None if it has all, or
    is no copy of this cluster. lacks_records: how many records of metadata that is; None if they cannot be counted."""

    controller: Controller
    why_not: ElectionCause | None
    believes: bool
    starts: bool
    forgot: bool = False
    ends_as_candidate: bool = False
    may_be_contradicted: bool = False
    hears_otherwise: bool = False
    misleads: bool = False
    misled: bool = False
    resigns: bool = False
    hears_resigned: bool = False
    mixes: bool = False
    lacks: tuple[int, int] | None = None
    lacks_records: int | None = 0

    @property
    def is_voter(self) -> bool | None:
        """Return whether it is a voter; None if only settings tell that are not known."""
        return None if self.why_not is ElectionCause.SETTINGS_UNKNOWN else self.why_not is None

    @property
    def may_end(self) -> bool:
        """Return whether others may tell it of a leader that ends it."""
        return self.forgot or self.hears_otherwise or self.misled

    @property
    def ends_as_leader(self) -> bool:
        """Return whether it ends once it is elected: kraft.version needs a VotersRecord
        (LeaderState.appendStartOfEpochControlRecords)."""
        quorum = self.controller.log.quorum
        return quorum.kraft_version > 0 and quorum.voters is None

    @property
    def is_ahead(self) -> bool:
        """Return whether others may elect another leader of an epoch of which it knows one. Who led that itself tells
        them so (KafkaRaftClient.pollResigned)."""
        state = self.controller.quorum_state
        led = state is not None and state.leader_id == self.controller.node_id
        return self.may_be_contradicted and not self.may_end and not led

    @property
    def may_end_once(self) -> bool:
        """Return whether it may end until there is a leader, and starts then."""
        return self.may_end or self.hears_resigned or self.is_stale

    @property
    def has_no_epoch_left(self) -> bool:
        """Return whether it knows of the last epoch that there can be."""
        return _last_epoch(self.controller) >= MAX_INT

    @property
    def repeats_epoch(self) -> bool:
        """Return whether it starts as a candidate of the epoch that its log has already (QuorumState.initialize)."""
        state, epoch = self.controller.quorum_state, self.controller.log.position.epoch
        is_of_log = state is not None and 0 < state.leader_epoch == epoch
        return is_of_log and _starts_as_candidate(self.controller)

    @property
    def is_stale(self) -> bool:
        """Return whether it may end because it repeats an epoch: whoever it asks answers INVALID_REQUEST, unless nobody
        is up to answer before it goes on to the next epoch. The only voter asks nobody, and leads that epoch again."""
        return self.repeats_epoch and len(voters_of(self.controller) or ()) > 1


class GoneMetadata(Struct, frozen=True):
    """Offsets of the metadata that no copy here has any more. path: of the log dir that had them. told_by: the file
    that shows it."""

    first: int
    last: int
    path: str
    told_by: str


class Election(Struct, frozen=True):
    """seats: one for each controller, in their order. voters: of the best copy that may lead and names any, else of the
    best of all; majority: how many of them a leader needs, 0 if no voters are known. missing: the ids of voters that
    are not here or are no voters here.

    outcome: NEVER also if each that can be elected ends then. may_lead: node ids of those that can be elected, for sure
    or if what is not known is as it should be. causes: why nobody is elected, or why that is unknown; and what is
    dangerous all the same.
    best: the path of the most complete copy that is of this cluster and can be read, whether its node starts or not;
    None if there is none. apart: where another copy is not the same log as that one.
    leader_is_empty: one that has no metadata may lead, although another copy has some. lost: offsets (first, last) of
    the best copy that a possible leader lacks; None if there are none, or if they change nothing. lost_records: how
    many records of metadata that is; None if it is unknown, as with any damaged copy. committed: what is below this
    offset of the best copy was committed; nobody knows of the rest. gone: what no copy has any more.
    """

    seats: tuple[Seat, ...]
    outcome: ElectionOutcome
    voters: tuple[Voter, ...]
    majority: int
    missing: tuple[int, ...]
    may_lead: tuple[int, ...]
    causes: tuple[ElectionCause, ...]
    best: str | None
    leader_is_empty: bool
    lost: tuple[int, int] | None
    lost_records: int | None
    is_dynamic: bool
    apart: CopiesApart | None
    committed: int = 0
    gone: GoneMetadata | None = None

    @property
    def is_sound(self) -> bool:
        """Return whether a leader is elected, with all metadata, and no controller here is shut out of the voters."""
        shut_out = {seat.why_not for seat in self.seats} - {None, *NO_CONTROLLERS}
        is_elected = self.outcome is ElectionOutcome.ELECTED and not self.causes and not shut_out
        return is_elected and self.lost is None and not self.leader_is_empty and not self.begins_anew

    @property
    def begins_anew(self) -> bool:
        """Return whether one may lead, and no copy here has any metadata: a new cluster, or one whose disks were
        wiped. What a damaged copy has is not known."""
        is_known = all(seat.controller.log.is_whole for seat in self.seats)
        return bool(self.may_lead) and self.best is None and is_known

    @property
    def refused(self) -> Mapping[int, Refusal]:
        """Return what a replay refuses, by node id: first of those that may lead."""
        refusals = {seat.controller.node_id or 0: seat.controller.replay_refusal for seat in self.seats}
        nodes = sorted(refusals, key=lambda node: (node not in self.may_lead, node))
        return {node: refusal for node in nodes if (refusal := refusals[node]) is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the host names that the nodes have to resolve to reach the voters, or to listen: no disk tells
        whether they do."""
        known = [endpoint for voter in self.voters for endpoint in voter.endpoints]
        own = [
            end for seat in self.seats if (settings := seat.controller.settings) is not None for end in settings.bound
        ]
        return tuple(sorted({endpoint.host for endpoint in (*known, *own) if is_name(endpoint.host)}))


def judge_election(controllers: Sequence[Controller]) -> Election:
    """Say what comes of starting these controllers, one of each node, together and nobody else."""
    seats = _seats(controllers, _ruling_voters(controllers))
    sure, possible = _electable(seats, hopeful=False), _electable(seats, hopeful=True)
    eligible = [seat for seat in seats if seat in sure or seat in possible]
    leaders = [seat.controller for seat in eligible]
    voters = _ruling_voters(leaders) or _ruling_voters(controllers)  # a record that only others have is cut
    seats = _seats(controllers, voters)
    best = max(
        (seat.controller for seat in seats if _is_usable(seat)),
        key=lambda controller: controller.log.position,
        default=None,
    )
    top = Position() if best is None else best.log.position
    here = {seat.controller.node_id for seat in seats if seat.starts and seat.why_not is None}
    lowest = min((controller.log.position for controller in leaders), default=top)
    differences: Differences = {} if best is None else _differences(best, seats)
    seats = seats if best is None else tuple(_with_lacks(seat, best, differences) for seat in seats)
    apart = next((one for one in differences.values() if isinstance(one, CopiesApart)), None)
    two_logs = _two_logs(seats) if apart is not None else ()
    seats = tuple(
        replace(seat, mixes=seat.starts and any(_mixes(seat.controller, leader, two_logs) for leader in leaders))
        for seat in seats
    )
    lost, lost_records = (None, 0) if best is None else _lost(best, leaders, differences)
    damaged = any(not controller.log.is_whole for controller in controllers)
    causes = list(() if sure else _causes(seats, is_open=bool(possible)))
    causes += [ElectionCause.VOTERS_DIFFER] * _may_be_two(eligible, seats)
    causes += [ElectionCause.SETTINGS_DIFFER] * _settings_differ(seats)
    causes += [ElectionCause.LEADERS_DIFFER] * any(seat.hears_otherwise for seat in seats)
    outcome = _outcome(eligible, seats, two_logs, is_sure=bool(sure))
    decided_by = eligible if outcome is ElectionOutcome.ELECTED or not sure else seats
    is_refused = any(seat.controller.replay_refusal is not None for seat in decided_by)
    causes += [ElectionCause.REPLAY_REFUSED] * is_refused
    causes += [ElectionCause.FORGOT_EPOCH] * (bool(sure) and any(seat.forgot for seat in seats))
    causes += [ElectionCause.KNOWN_TO_FEW] * (bool(sure) and any(seat.is_ahead for seat in seats))
    causes += [ElectionCause.STALE_CANDIDATE] * (bool(sure) and any(seat.is_stale and seat.starts for seat in seats))
    wins_and_ends = any(_wins_and_ends(seat, seats) for seat in seats)
    causes += [ElectionCause.VERSION_WITHOUT_VOTERS] * (bool(sure) and wins_and_ends)
    causes += [ElectionCause.STRANGE_LEADER] * (bool(sure) and any(seat.misleads for seat in seats))
    causes += [ElectionCause.LEADER_RESIGNED] * any(seat.resigns for seat in seats)
    causes += [ElectionCause.CANDIDATE_NO_VOTER] * any(seat.ends_as_candidate for seat in seats)
    causes += [ElectionCause.LOG_DAMAGED] * (bool(sure) and damaged) + [ElectionCause.COPIES_DIFFER] * (
        apart is not None
    )
    gone = _gone(seats)
    causes += [ElectionCause.METADATA_GONE] * (gone is not None)
    return Election(
        seats,
        outcome,
        voters or (),
        len(voters) // 2 + 1 if voters else 0,
        tuple(voter.id for voter in voters or () if voter.id not in here),
        tuple(sorted(controller.node_id or 0 for controller in leaders)),
        tuple(causes),
        None if best is None or not top.end_offset else best.path,
        bool(leaders) and not lowest.end_offset and top.end_offset > 0,
        lost,
        None if damaged else lost_records,
        any(controller.is_dynamic for controller in controllers),
        apart,
        0 if best is None else best.log.committed,
        gone,
    )


def _gone(seats: Sequence[Seat]) -> GoneMetadata | None:
    """Return what a copy of this cluster had once, and no copy has now; of several what goes furthest."""
    copies = [seat.controller for seat in seats if _is_usable(seat)]
    end = max((max(copy.log.position.end_offset, copy.log.sound_end) for copy in copies), default=0)
    furthest = max(copies, key=lambda copy: copy.log.reached, default=None)
    if furthest is None or furthest.log.reached <= end:
        return None
    return GoneMetadata(end, furthest.log.reached - 1, furthest.path, furthest.log.reached_by)


def _outcome(eligible: Sequence[Seat], seats: Sequence[Seat], two_logs: TwoLogs, *, is_sure: bool) -> ElectionOutcome:
    """Return what comes of an election that one of these wins. Who cannot replay its log ends before it leads: all
    records are committed by then (KafkaRaftClient.maybeFireLeaderChange)."""
    if all(seat.controller.replay_refusal is not None for seat in eligible):
        return ElectionOutcome.NEVER
    if is_sure and all(_keeps_majority(seat, seats, two_logs) for seat in eligible):
        return ElectionOutcome.ELECTED
    return ElectionOutcome.UNKNOWN


def _keeps_majority(seat: Seat, seats: Sequence[Seat], two_logs: TwoLogs) -> bool:
    """Return whether it goes on to lead when those have ended that do not replay what is committed then, or may not."""
    leader = seat.controller
    if leader.replay_refusal is not None:
        return False
    gone = [one for one in seats if _mixes(one.controller, leader, two_logs) or not _replays_under(one, seat)]
    voters = voters_of(leader) or ()
    staying = [one for one in seats if one.starts and one not in gone and _why_no_voter(one.controller, voters) is None]
    return not gone or len(staying) > len(voters) // 2


def _mixes(controller: Controller, leader: Controller, two_logs: TwoLogs) -> bool:
    """Return whether it fetches from this leader what goes on in another log than its own: Kafka compares epochs and
    offsets only, and cuts nothing. A record that does not fit to what it has ends it (QuorumController)."""
    return frozenset({controller.path, leader.path}) in two_logs


def _two_logs(seats: Sequence[Seat]) -> TwoLogs:
    """Return the pairs of log dirs of which Kafka would never notice that they are not of one log."""
    paths = [seat.controller.path for seat in seats if _is_usable(seat) and seat.controller.log.position.end_offset]
    pairs = itertools.combinations(filter(None, paths), 2)
    return {frozenset(pair) for pair in pairs if isinstance(compare(*pair), CopiesApart)}


def _replays_under(seat: Seat, leading: Seat) -> bool:
    """Return whether it replays its log, or that of a leader which cuts away what it cannot replay."""
    controller, leader = seat.controller, leading.controller
    refusal = controller.replay_refusal
    if refusal is None:
        return True
    if refusal.offset is None or not leader.path:
        return False
    tail = compare(leader.path, controller.path)
    return isinstance(tail, CopyTail) and tail.first <= refusal.offset


def _is_usable(seat: Seat) -> bool:
    """Return whether a copy can be led or copied: also that of a broker, or of a node that does not start."""
    log = seat.controller.log
    return seat.why_not is not ElectionCause.OTHER_CLUSTER and log.problem is None and log.snapshot_problem is None


def _differences(best: Controller, seats: Sequence[Seat]) -> Differences:
    """Return how the copies of this cluster differ from the best one, by path: None if they are its beginning."""
    others = [seat.controller for seat in seats if _is_usable(seat) and seat.controller is not best]
    copies = [other.path for other in others if other.path and other.log.position.end_offset]
    return {path: compare(best.path, path) for path in copies}


def _lost(
    best: Controller, leaders: Sequence[Controller], differences: Differences
) -> tuple[tuple[int, int] | None, int | None]:
    """Return the offsets of the best copy that one of these leaders lacks, and how many records of metadata that is. It
    lacks what is after its end, or after the batch from which on it has those of another epoch."""
    end = best.log.position.end_offset
    first = min((_common_end(leader, differences.get(leader.path)) for leader in leaders), default=end)
    records = count_metadata_records(best.path, first) if first < end else 0
    return (None, 0) if records == 0 else ((first, end - 1), records)


def _with_lacks(seat: Seat, best: Controller, differences: Differences) -> Seat:
    controller, end = seat.controller, best.log.position.end_offset
    difference = differences.get(controller.path)
    first = difference.offset if isinstance(difference, CopiesApart) else _common_end(controller, difference)
    if controller is best or not _is_usable(seat) or first >= end:
        return seat
    return replace(seat, lacks=(first, end - 1), lacks_records=count_metadata_records(best.path, first))


def _common_end(leader: Controller, difference: CopiesApart | CopyTail | None) -> int:
    """Return up to where a leader's copy and the best one are the same."""
    end = leader.log.position.end_offset
    if isinstance(difference, CopyTail) and not leader.log.is_behind_snapshot:  # that log is thrown away
        return min(end, difference.first)
    return end


def voters_of(controller: Controller) -> tuple[Voter, ...] | None:
    """Return the voters as this controller knows them, of its log or its settings; None if they are unknown. A
    voter of a static quorum has no directory id."""
    recorded = controller.log.quorum.voters
    if recorded is not None:
        return recorded
    if controller.settings is None:
        return None
    return tuple(Voter(node_id, "", (endpoint,)) for node_id, endpoint in controller.settings.voters.items())


def _ruling_voters(controllers: Sequence[Controller]) -> tuple[Voter, ...] | None:
    """Return the voters of the best copy that names any; None if no copy does, and some settings are unknown."""
    known = [(controller, voters_of(controller)) for controller in controllers]
    named = [
        (controller.is_dynamic, controller.log.position, n) for n, (controller, voters) in enumerate(known) if voters
    ]
    if not named:
        return None if any(voters is None for _, voters in known) else ()
    return known[max(named)[2]][1]


def _seats(controllers: Sequence[Controller], voters: tuple[Voter, ...] | None) -> tuple[Seat, ...]:
    return tuple(_seat(controller, controllers, voters) for controller in controllers)


def _seat(controller: Controller, controllers: Sequence[Controller], voters: tuple[Voter, ...] | None) -> Seat:
    stop = _stop(controller)
    why = stop or _why_no_voter(controller, voters)
    cluster_ids = [other.cluster_id for other in controllers if other.cluster_id is not None]
    usual = max(cluster_ids, key=cluster_ids.count, default=None)
    if why is None and controller.cluster_id not in (None, usual):
        why = ElectionCause.OTHER_CLUSTER
    believes = stop is None and _why_no_voter(controller, voters_of(controller)) is None
    forgot = stop is None and any(_is_its_leader(other, controller) for other in controllers)
    is_known = voters_of(controller) is not None
    ends_as_candidate = stop is None and is_known and not believes and _starts_as_candidate(controller)
    starts = stop is None and not ends_as_candidate
    hears = starts and any(_tells_otherwise(other, controller) for other in controllers if other is not controller)
    contradicted = starts and (hears or _may_be_contradicted(controller, controllers))
    others = [other for other in controllers if other is not controller]
    misleads = starts and any(_misleads(controller, other) for other in others)
    misled = starts and any(_misleads(other, controller) for other in others)
    return Seat(
        controller,
        why,
        believes,
        starts,
        forgot,
        ends_as_candidate,
        contradicted,
        hears,
        misleads,
        misled,
        resigns=starts and any(_resigns_before(controller, other) for other in others),
        hears_resigned=starts and any(_resigns_before(other, controller) for other in others),
    )


def _last_epoch(controller: Controller) -> int:
    """Return the latest epoch that it knows of."""
    state = controller.quorum_state
    return max(controller.log.position.epoch, 0 if state is None else state.leader_epoch)


def _known_leader(controller: Controller) -> tuple[int, int] | None:
    """Return the latest epoch that it knows of, and the leader of that; None if it starts without a leader."""
    state = controller.quorum_state
    if state is None or state.leader_id < 0 or state.leader_epoch < controller.log.position.epoch:
        return None
    return None if _starts_as_candidate(controller) else (state.leader_epoch, state.leader_id)


def _tells_otherwise(other: Controller, controller: Controller) -> bool:
    """Return whether another one names a leader of the epoch of which this one knows another leader: as an answer to
    its first fetch, or because it resigns as the leader that it was (KafkaRaftClient.pollResigned). One whose leader is
    no voter asks any that its settings name (KafkaRaftClient.pollUnattached)."""
    theirs, known = _known_leader(other), _known_leader(controller)
    if theirs is None or known is None or theirs[0] != known[0] or theirs[1] == known[1] or _stop(other) is not None:
        return False
    if other.cluster_id != controller.cluster_id:
        return False
    is_voter = any(voter.id == known[1] for voter in voters_of(controller) or ())
    follows = known[1] == other.node_id if is_voter else known[1] != controller.node_id
    resigns = theirs[1] == other.node_id and any(voter.id == controller.node_id for voter in voters_of(other) or ())
    return follows or resigns


def _misleads(controller: Controller, other: Controller) -> bool:
    """Return whether another one that asks this one is told of a leader that is no voter: such an answer has no address
    (QuorumState.initialize, KafkaRaftClient.maybeTransition). It asks the voters; without any, it asks who its settings
    name."""
    remembered = _known_leader(controller)
    if remembered is None or _stop(controller) is not None or other.cluster_id != controller.cluster_id:
        return False
    epoch, leader = remembered
    if leader == controller.node_id or any(voter.id == leader for voter in voters_of(controller) or ()):
        return False
    if voters_of(controller) is None and not other.is_dynamic:
        return False  # its settings may name the leader
    if _last_epoch(other) > epoch or _known_leader(other) == remembered:
        return False
    known = [voter for voter in voters_of(other) or () if voter.id == controller.node_id]
    return not voters_of(other) or any(is_reached(controller, voter, hopeful=True) for voter in known)


def _resigns_before(leader: Controller, other: Controller) -> bool:
    """Return whether one that led before its start resigns by a request to another voter that does not know where it
    listens: the request has no address (QuorumState.initialize, KafkaRaftClient.handleEndQuorumEpochRequest)."""
    remembered = _known_leader(leader)
    if (
        remembered is None
        or remembered[1] != leader.node_id
        or _stop(leader) is not None
        or other.cluster_id != leader.cluster_id
    ):
        return False
    if _last_epoch(other) > remembered[0] or _known_leader(other) == remembered:
        return False
    named = [voter for voter in voters_of(leader) or () if voter.id == other.node_id]
    is_known = any(voter.id == leader.node_id for voter in voters_of(other) or ())
    return not is_known and any(is_reached(other, voter, hopeful=True) for voter in named)


def _may_be_contradicted(controller: Controller, controllers: Sequence[Controller]) -> bool:
    """Return whether a majority of voters has forgotten the epoch of which this one knows the leader."""
    state = controller.quorum_state
    if state is None or state.leader_id < 0 or state.leader_epoch < _last_epoch(controller):
        return False
    if _starts_as_candidate(controller):
        return False
    others = [other for other in controllers if _last_epoch(other) < state.leader_epoch]
    unaware = [other for other in others if _why_no_voter(other, voters_of(other)) is None]
    return any(len(unaware) > len(voters_of(other) or ()) // 2 for other in unaware)


def _starts_as_candidate(controller: Controller) -> bool:
    """Return whether it voted for itself, and does not know who won (QuorumState.initialize)."""
    state = controller.quorum_state
    if state is None or state.leader_epoch < controller.log.position.epoch:
        return False
    if state.leader_id == controller.node_id or state.voted_id != controller.node_id:
        return False
    voted = state.voted_directory_id  # zeros: any, as in version 0 (ElectionState.isVotedCandidate)
    return state.data_version == 0 or not any(voted) or build_uuid(voted) == controller.directory_id


def _is_its_leader(controller: Controller, leader: Controller) -> bool:
    """Return whether a controller takes another one for the leader of an epoch of which that one knows no leader."""
    state, own = controller.quorum_state, leader.quorum_state
    if state is None or state.leader_id != leader.node_id or controller.node_id == leader.node_id:
        return False
    if state.leader_epoch < controller.log.position.epoch or _starts_as_candidate(controller):
        return False  # it has forgotten the leader
    own_epoch = _last_epoch(leader)
    knows = own is not None and own.leader_epoch == own_epoch and own.leader_id >= 0
    knows = knows and not _starts_as_candidate(leader)
    return state.leader_epoch > own_epoch or (state.leader_epoch == own_epoch and not knows)


def _stop(controller: Controller) -> ElectionCause | None:
    """Return why a start ends, or None: before it looks at the quorum, or as soon as it looks for another voter."""
    settings = controller.settings
    if controller.identity_problem is not None:
        return ElectionCause.IDENTITY_CORRUPT
    if not controller.has_identity:
        return ElectionCause.NO_IDENTITY
    if controller.refusal is not None:
        return ElectionCause.SETTINGS_REFUSED
    if settings is not None and settings.node_id not in (None, controller.node_id):
        return ElectionCause.OTHER_NODE
    if controller.log.snapshot_problem is not None:
        return ElectionCause.LOG_DAMAGED
    if controller.log.side_problem is not None:
        return ElectionCause.SIDE_FILE_CORRUPT
    if controller.start_error is not None:
        return ElectionCause.NOT_OPENED
    if controller.record_problem is not None:
        return ElectionCause.RECORD_REFUSED
    if controller.state_problem is not None:
        return ElectionCause.STATE_CORRUPT
    return ElectionCause.LISTENER_UNKNOWN if _lacks_listener(controller) else None


def _lacks_listener(controller: Controller) -> bool:
    """Return whether no other voter is known at the listener at which it looks for them: then it ends, as a candidate
    or as a follower (VoterSet.voterNode, FollowerState.leaderNode)."""
    if controller.settings is None or controller.settings.listener is None or not controller.is_dynamic:
        return False
    others = [voter for voter in voters_of(controller) or () if voter.id != controller.node_id]
    names = {endpoint.name.upper() for voter in others for endpoint in voter.endpoints}
    return bool(others) and controller.settings.listener not in names


def _why_no_voter(controller: Controller, voters: tuple[Voter, ...] | None) -> ElectionCause | None:
    """Return why a controller is none of these voters, or None."""
    settings = controller.settings
    if settings is not None and not settings.is_controller:
        return ElectionCause.NO_CONTROLLER
    if voters is None:
        return ElectionCause.SETTINGS_UNKNOWN
    if not voters:
        return ElectionCause.NO_VOTERS
    return _MATCHES[match_of(voters, controller.node_id, controller.directory_id)]


_MATCHES = {
    VoterMatch.VOTER: None,
    VoterMatch.OTHER_DIRECTORY: ElectionCause.OTHER_DIRECTORY,
    VoterMatch.UNKNOWN_NODE: ElectionCause.UNKNOWN_NODE,
}


def _electable(seats: Sequence[Seat], *, hopeful: bool) -> list[Seat]:
    """Return those that may be elected. hopeful: what is not known is as it should be."""
    able = [seat for seat in seats if _gets_majority(seat, seats, hopeful=hopeful) and not seat.ends_as_leader]
    if hopeful:
        return able
    # A stale candidate goes on if another one leads, or if nobody answers it before its first election timeout. And
    # nobody goes on who is asked by a voter of the last epoch.
    is_last = any(seat.has_no_epoch_left and seat.starts and seat.believes for seat in seats)
    return able if not is_last and any(not seat.is_stale for seat in able) else []


def _wins_and_ends(seat: Seat, seats: Sequence[Seat]) -> bool:
    """Return whether it may be elected before another one, and end."""
    return seat.ends_as_leader and _gets_majority(seat, seats, hopeful=True)


def _gets_majority(seat: Seat, seats: Sequence[Seat], *, hopeful: bool, anywhere: bool = False) -> bool:
    """Return whether enough voters of its own set are here, can be reached, and have no better log. anywhere: wherever
    they listen."""
    candidate = seat.controller
    voters = voters_of(candidate)
    if voters is None:  # its settings may name those that are here, unless the quorum is dynamic
        return seat.starts and hopeful and not any(other.controller.is_dynamic for other in seats)
    if (
        not seat.believes
        or seat.has_no_epoch_left
        or (not hopeful and (candidate.log.problem is not None or seat.may_end))
    ):
        return False
    return len(_votes_for(seat, seats, hopeful=hopeful, anywhere=anywhere)) > len(voters) // 2


def _votes_for(
    seat: Seat, seats: Sequence[Seat], *, hopeful: bool = True, anywhere: bool = False
) -> frozenset[int | None]:
    """Return the node ids of those that vote for it, with its own."""
    candidate = seat.controller
    others = (voter for voter in voters_of(candidate) or () if voter.id != candidate.node_id)
    return frozenset({candidate.node_id}) | {
        voter.id
        for voter in others
        if any(
            _votes(seat, other, voter, hopeful=hopeful)
            and (anywhere or is_reached(other.controller, voter, hopeful=hopeful))
            for other in seats
            if other is not seat
        )
    }


def _may_be_two(leaders: Sequence[Seat], seats: Sequence[Seat]) -> bool:
    """Return whether two may lead at the same time, because they do not have the same voters: each with a majority of
    its own ones, and nobody votes for both."""
    known = [
        (_votes_for(seat, seats), len(voters_of(seat.controller) or ()) // 2 + 1)
        for seat in leaders
        if voters_of(seat.controller)
    ]
    return any(
        len(votes | others) >= needed + needed_too
        for (votes, needed), (others, needed_too) in itertools.combinations(known, 2)
    )


def _settings_differ(seats: Sequence[Seat]) -> bool:
    """Return whether controllers of a static quorum have other voters in their settings than others."""
    controllers = [seat.controller for seat in seats if seat.starts and not seat.controller.is_dynamic]
    own = [one.settings for one in controllers if one.settings is not None and one.settings.is_controller]
    return len({frozenset(settings.voters) for settings in own if settings.voters}) > 1


def _votes(seat: Seat, other: Seat, voter: Voter, *, hopeful: bool) -> bool:
    """Return whether another controller, as a voter of a candidate's set, votes for it."""
    candidate, responder = seat.controller, other.controller
    if (
        not other.starts
        or other.has_no_epoch_left
        or not is_key_of(voter, responder.node_id, responder.directory_id)
        or responder.cluster_id != candidate.cluster_id
    ):
        return False
    if responder.settings is not None and not responder.settings.is_controller:
        return False
    if not hopeful and (responder.log.problem is not None or other.may_end or other.is_stale):
        return False
    return candidate.log.position >= responder.log.position


def is_reached(controller: Controller, voter: Voter, *, hopeful: bool) -> bool:
    """Return whether a controller listens where a set of voters has it. hopeful: two host names may be one host."""
    settings = controller.settings
    if settings is None or not settings.endpoints:
        return True  # nothing contradicts it
    return any(
        known.port == own.port and is_same_host(known.host, own.host) in ((True, None) if hopeful else (True,))
        for known in voter.endpoints
        for own in (*settings.endpoints, *settings.bound)
    )


def _causes(seats: Sequence[Seat], *, is_open: bool) -> tuple[ElectionCause, ...]:
    """Return why nobody is elected for sure, each cause once. is_open: somebody may be."""
    causes = [cause for seat in seats if (cause := _cause(seat, seats, is_open=is_open)) is not None]
    if ElectionCause.STALE_CANDIDATE in causes:  # without that one it would have the majority
        causes = [cause for cause in causes if cause is not ElectionCause.NO_MAJORITY]
    return tuple(dict.fromkeys(causes))


def _cause(seat: Seat, seats: Sequence[Seat], *, is_open: bool) -> ElectionCause | None:
    if seat.why_not is not None:
        return seat.why_not
    if seat.has_no_epoch_left:
        return ElectionCause.NO_EPOCH_LEFT
    if seat.ends_as_leader:
        return ElectionCause.VERSION_WITHOUT_VOTERS
    if not seat.controller.log.is_whole:
        return ElectionCause.LOG_DAMAGED
    if seat.forgot:
        return ElectionCause.FORGOT_EPOCH
    if seat.misleads:
        return ElectionCause.STRANGE_LEADER
    if seat.is_stale and is_open:
        return ElectionCause.STALE_CANDIDATE
    if not seat.believes:
        return None if voters_of(seat.controller) is not None else ElectionCause.SETTINGS_UNKNOWN
    if _gets_majority(seat, seats, hopeful=False):
        return None
    if _gets_majority(seat, seats, hopeful=False, anywhere=True):
        return ElectionCause.ENDPOINTS_STALE
    if _gets_majority(seat, seats, hopeful=True):  # another one has the cause
        return None
    is_elsewhere = _gets_majority(seat, seats, hopeful=True, anywhere=True)
    return ElectionCause.ENDPOINTS_STALE if is_elsewhere else ElectionCause.NO_MAJORITY


class Outlook(Struct, frozen=True):
    """What becomes of one controller. election: of it and those at hand. absent: voters of which nothing is at hand.
    elected: whether there ever is a leader; None: absent voters decide it, or what is not known."""

    election: Election
    absent: tuple[Voter, ...]
    elected: bool | None

    @property
    def seat(self) -> Seat:
        """Return that of the controller."""
        return self.election.seats[0]


def look_ahead(own: Controller, others: Sequence[Controller] = (), known: Sequence[int] = ()) -> Outlook:
    """Say whether a controller gets a leader. others: controllers of the cluster that are at hand; the voters that are
    not may be as they should be, or lost. known: who voted, if neither a record nor the settings name voters."""
    at_hand = (own, *others)
    election = judge_election(at_hand)
    ids = {voter.id for voter in election.voters}
    absent = tuple(voter for voter in election.voters if not any(_may_be(one, voter, ids) for one in at_hand))
    if election.outcome is not ElectionOutcome.NEVER:
        # The voters of a majority have to be where they are looked for, which their settings say.
        is_known = election.majority == 1 or all(one.settings is not None and one.settings.endpoints for one in others)
        is_sure = election.outcome is ElectionOutcome.ELECTED and is_known
        return Outlook(election, absent, True if is_sure else None)
    if not election.voters and not own.is_dynamic and (own.refusal is not None or set(known) != {own.node_id}):
        return Outlook(election, absent, None)
    best = max(at_hand, key=lambda one: (one.path == election.best, one.log.position))
    whole = judge_election([*at_hand, *(_as_it_should_be(voter, own, best) for voter in absent)])
    return Outlook(election, absent, False if whole.outcome is ElectionOutcome.NEVER else None)


def _may_be(controller: Controller, voter: Voter, ids: Collection[int]) -> bool:
    """Return whether a disk is that of a voter, or was: it has its node id, or its directory id and no voter's node
    id."""
    if controller.node_id in ids:
        return controller.node_id == voter.id
    return bool(voter.directory_id) and controller.directory_id == voter.directory_id


def _as_it_should_be(voter: Voter, own: Controller, best: Controller) -> Controller:
    """Return a voter that has the best copy, and listens where its record says. Of a record that only ends whoever
    leads it need not know."""
    log = best.log if best.log.quorum.voters is not None else replace(best.log, quorum=Quorum())
    settings = None if own.settings is None else replace(own.settings, node_id=voter.id, endpoints=(), listener=None)
    return Controller("", voter.id, voter.directory_id or None, own.cluster_id, True, log, settings=settings)
