"""Whether this controller votes, and whether it ever gets a leader: what klogtool.quorum judges, as points of a start.

Voters of which nothing is at hand decide the rest: then a leader is neither promised nor denied.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.server_rules import BROKER, CONTROLLER
from klogtool.causes import Reason, Text
from klogtool.doctor.answers import Ahead, Leadership, What, ahead_of
from klogtool.doctor.causes import AdviceCause, NoteCause, VoterCause
from klogtool.doctor.claims import Gone, Witness
from klogtool.doctor.exceptions import message_of, stop_at
from klogtool.doctor.metadata_options import lost_of_metadata
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.names import METADATA_TOPIC, FileKind, parse_file_name
from klogtool.log.folder import is_broken_link
from klogtool.quorum.controllers import Controller, read_controller
from klogtool.quorum.election import ElectionCause, ElectionOutcome, Outlook, is_reached, look_ahead, voters_of
from klogtool.quorum.settings import ANY_HOST, REGISTRATION_TIMEOUT_MS, is_loopback
from klogtool.verify.cures import FROM_A_CONTROLLER, move_out_of_partition
from klogtool.verify.findings import Kind, Severity
from klogtool.verify.verify_voters import read_identities, verify_voters


class QuorumView(Struct, frozen=True):
    """What the disks show of the quorum. others: how many controllers are at hand beside this one. known: ids of who
    voted, by quorum-state, or of the controllers that are known."""

    outlook: Outlook
    others: int
    is_broker: bool | None
    known: tuple[int, ...] = ()

    @property
    def own(self) -> Controller:
        """Return this controller."""
        return self.outlook.seat.controller

    @property
    def path(self) -> str:
        """Return the folder of its metadata log."""
        return os.path.join(self.own.path, CLUSTER_METADATA_DIR)

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Return the voters; those that are known if neither a record nor the settings name any."""
        return tuple(voter.id for voter in self.outlook.election.voters) or self.known

    @property
    def voter(self) -> Voter | None:
        """Return the voter that this node is, as its own copy or its settings have it."""
        return next((one for one in voters_of(self.own) or () if one.id == self.own.node_id), None)


def view_quorum(patient: Patient, others: Sequence[tuple[str, Mapping[str, str] | None]]) -> QuorumView | None:
    """Return what the metadata log dir shows of the quorum, beside those of other controllers; None if it is that of a
    broker, or cannot be read. An empty log dir may be a controller's new disk."""
    metadata, named = patient.cluster.metadata, patient.circumstances.server_settings
    path = patient.cluster.metadata_dir or patient.log_dirs[0]
    try:
        own = read_controller(path, named or None, patient.rules)
    except KlogError:  # a start problem, which is reported
        return None
    rest = tuple(_beside(read_controller(other, settings, patient.rules), own) for other, settings in others)
    if own.settings is not None:
        is_controller = own.settings.is_controller
    elif metadata is not None:
        is_controller = metadata.may_be_controller(own.node_id)
    else:
        is_controller = bool(others) or not any(True for _ in patient.partitions())
    if not own.has_identity:  # a folder of copies, or a start problem
        return None
    if not is_controller and (metadata is None or metadata.quorum.voter(own.node_id) is None):
        return None
    state = () if own.quorum_state is None else own.quorum_state.current_voters
    known = tuple(sorted(state or (metadata.known.controllers if metadata is not None else ())))
    return QuorumView(look_ahead(own, rest, known), len(rest), _is_broker(patient, own), known)


def _beside(other: Controller, own: Controller) -> Controller:
    """Return another controller. Of a static quorum it has the same voters: Kafka wants one list for all nodes. Raises
    the error of its meta.properties: the answer would be one without it."""
    if other.identity_problem is not None:
        raise other.identity_problem
    if other.settings is not None or other.refusal is not None:
        return other
    if own.settings is None or not own.settings.voters:
        return other
    same = structs.replace(
        own.settings, node_id=other.node_id, endpoints=(), listener=None, roles=frozenset({CONTROLLER})
    )
    return structs.replace(other, settings=same)


def _is_broker(patient: Patient, own: Controller) -> bool | None:
    """Return whether the process has a broker; None if neither the settings nor a disk shows it."""
    if own.settings is not None:
        return BROKER in own.settings.roles
    metadata = patient.cluster.metadata
    has_logs = any(partition.topic not in (None, METADATA_TOPIC) for partition in patient.partitions())
    if has_logs or (metadata is not None and own.node_id in metadata.known.brokers):
        return True
    return False if metadata is not None and own.node_id in metadata.known.controllers else None


def lead_of(view: QuorumView | None, patient: Patient) -> Leadership:
    """Return whether this node gets a leader, and what a person sees if not. A broker asks for its registration until
    a timeout, and then the process ends (BrokerLifecycleManager); a controller alone waits for ever."""
    if view is None:
        return Leadership()
    ids, elected, settings = view.voter_ids, view.outlook.elected, view.own.settings
    is_open = elected is None and (len(ids) > 1 or not view.own.log.position.end_offset)
    ends_leader = ElectionCause.REPLAY_REFUSED in view.outlook.election.causes  # it has won, so the log is committed
    replays = elected is not False or ends_leader or view.own.record_problem is not None  # Raft reads that record
    needed = len(ids) // 2 + 1 if ids else 0
    lead = Leadership(elected, is_open, voters=ids, needed=needed, replays=replays, is_broker=view.is_broker)
    if view.outlook.seat.why_not is ElectionCause.LISTENER_UNKNOWN:
        return structs.replace(lead, ends=True, message=message_of("raft-fault"))
    if elected is False and any(seat.has_no_epoch_left for seat in view.outlook.election.seats):
        return structs.replace(lead, ends=True, message=message_of("no-epoch-left")) if len(ids) == 1 else lead
    is_unreached = _is_out_of_reach(view)
    if (elected is not False and not is_unreached) or ends_leader:
        return lead
    if ElectionCause.VERSION_WITHOUT_VOTERS in view.outlook.election.causes:  # it ends if it is elected
        return structs.replace(lead, ends=True if view.is_broker or len(ids) == 1 else None)
    seat = view.outlook.seat
    if seat.may_end or seat.hears_resigned:  # another one may tell it of a leader before that, which ends it
        return structs.replace(lead, ends=True if view.is_broker else None)
    if view.is_broker:
        timeout_ms = REGISTRATION_TIMEOUT_MS if settings is None else settings.registration_timeout_ms
        return structs.replace(lead, ends=True, ends_after_ms=timeout_ms, message=message_of("never-registered"))
    candidate = "ProspectiveState(" if patient.rules.has_pre_vote else "CandidateState("
    observer = "FollowerState(" if _follows(view.own) else "Unattached"  # UnattachedState( since 4.0
    message = message_of("transition", state=candidate if view.outlook.seat.believes else observer)
    return lead if is_unreached else structs.replace(lead, ends=view.is_broker, message=message)


def _follows(own: Controller) -> bool:
    """Return whether it starts as the follower of a voter, by its quorum-state (QuorumState.initialize). Who is no
    voter stays so."""
    state = own.quorum_state
    if state is None or state.leader_epoch < own.log.position.epoch or state.leader_id == own.node_id:
        return False
    return any(voter.id == state.leader_id for voter in voters_of(own) or ())


def _is_out_of_reach(view: QuorumView) -> bool:
    """Return whether a static quorum of this node alone has it at an address of this host where it does not listen: a
    leader is elected, and its own broker never finds it."""
    settings = view.own.settings
    if settings is None or view.voter is None or view.own.is_dynamic or len(settings.voters) != 1:
        return False
    host = view.voter.endpoints[0].host
    own = [endpoint.host for endpoint in settings.endpoints if endpoint.host not in ANY_HOST]
    return _is_elsewhere(view) and (is_loopback(host) or host in own)


def _is_elsewhere(view: QuorumView) -> bool:
    """Return whether this node does not listen where it is known as a voter."""
    return view.voter is not None and not is_reached(view.own, view.voter, hopeful=True)


# Points.


def ends_start(finding: Kind | None, view: QuorumView | None) -> bool:
    """Return whether a finding that stops a node stops this one: kraft.version without voters ends only who leads."""
    return finding is not Kind.QUORUM_VOTER or view is None or len(view.voter_ids) < 2


def walk_quorum_points(view: QuorumView | None, patient: Patient) -> Iterator[Ahead]:
    """Yield what keeps this node from a leader, or may cost metadata. If the reason is not here, one says so."""
    points = list(_quorum_points(view, patient))
    yield from points
    if view is None or not view.others or view.outlook.elected is not False or not view.outlook.seat.starts:
        return
    is_said = view.own.replay_refusal is not None or any(point.severity is Severity.ERROR for point in points)
    if not is_said:
        refusing = _sorted(view.outlook.election.refused)
        detail = VoterCause.LEADER_ENDS(nodes=refusing) if refusing else VoterCause.NOBODY_LEADS()
        yield Ahead(view.path, What.NO_LEADER, detail, cure=AdviceCause.ASK_QUORUM(), cure_looks=True)


def _quorum_points(view: QuorumView | None, patient: Patient) -> Iterator[Ahead]:
    for finding in verify_voters(read_identities(patient.log_dirs)):
        if finding.stop is None or not ends_start(finding.id, view):
            severity = Severity.ERROR if finding.stop is None else Severity.WARNING
            point = ahead_of(structs.replace(finding, stop=None), What.NOT_VOTER, severity)
            yield structs.replace(point, may_end=finding.stop is not None)
    if view is not None:
        yield from _without_static_voters(view)
        if view.outlook.seat.why_not is ElectionCause.OTHER_CLUSTER:
            path = os.path.join(view.own.path, FileKind.META_PROPERTIES.value)
            detail = VoterCause.OTHER_CLUSTER(cluster_id=str(view.own.cluster_id))
            yield Ahead(path, What.NOT_VOTER, detail, cure=AdviceCause.COMPARE_CLUSTER_IDS(path=path))
        yield from _unknown_listener(view)
        yield from _stale_endpoint(view)
        yield from _no_majority(view)
        yield from _behind(view)
        yield from _contradicting_state(view)


def _without_static_voters(view: QuorumView) -> Iterator[Ahead]:
    """Yield a point if the quorum is static, and the settings do not name its voters: this controller then finds no
    voter, not even itself ("Starting voters are VoterSet(voters={})")."""
    settings, log = view.own.settings, view.own.log
    is_new = not log.position.end_offset or not log.is_whole or log.quorum.kraft_version > 0
    if view.outlook.seat.why_not is not ElectionCause.NO_VOTERS or settings is None or is_new:
        return
    own = next((endpoint.address for endpoint in settings.endpoints or settings.servers), None)
    named = ",".join(f"{one}@{own if one == settings.node_id else 'HOST:PORT'}" for one in view.voter_ids)
    detail = VoterCause.STATIC_WITHOUT_VOTERS(who="" if named else VoterCause.NOBODY_SAYS_WHO())
    cure = AdviceCause.SET_VOTERS(voters=named) if named else AdviceCause.SET_ALL_VOTERS()
    yield Ahead(view.path, What.NOT_VOTER, detail, cure=cure)


def _unknown_listener(view: QuorumView) -> Iterator[Ahead]:
    settings = view.own.settings
    if view.outlook.seat.why_not is not ElectionCause.LISTENER_UNKNOWN or settings is None:
        return
    others = [voter for voter in voters_of(view.own) or () if voter.id != view.own.node_id]
    names = tuple(dict.fromkeys(endpoint.name for voter in others for endpoint in voter.endpoints))
    detail = VoterCause.LISTENER_UNKNOWN(listener=str(settings.listener), names=names)
    yield Ahead(view.path, What.ENDPOINT_STALE, detail, cure=AdviceCause.NAME_LISTENER(names=names))


def _stale_endpoint(view: QuorumView) -> Iterator[Ahead]:
    settings, voter, is_dynamic = view.own.settings, view.voter, view.own.is_dynamic
    is_never = view.outlook.elected is False and ElectionCause.ENDPOINTS_STALE in view.outlook.election.causes
    if settings is None or voter is None or not (_is_elsewhere(view) or is_never):
        return
    if is_dynamic and len(view.voter_ids) < 2:  # a new leader writes its own endpoint
        return
    known = tuple(endpoint.address for endpoint in voter.endpoints)
    ports = {endpoint.port for endpoint in settings.endpoints}
    here = tuple(endpoint.address for endpoint in settings.endpoints)
    moved = VoterCause.MOST_ELSEWHERE if is_never else VoterCause.ELSEWHERE
    detail = (moved if is_dynamic else VoterCause.STATIC_ELSEWHERE)(
        known=known,
        here=here if ports & {endpoint.port for endpoint in voter.endpoints} else VoterCause.PORT(ports=_sorted(ports)),
    )
    cure = AdviceCause.START_WITH_LISTENER(known=known) if is_dynamic else AdviceCause.CORRECT_VOTERS()
    severity = Severity.ERROR if is_never or _is_out_of_reach(view) else Severity.WARNING
    yield Ahead(view.path, What.ENDPOINT_STALE, detail, cure=cure, severity=severity)


def _no_majority(view: QuorumView) -> Iterator[Ahead]:
    """Yield a point if a leader needs voters of which nothing is at hand. With this disk alone that is no trouble."""
    ids, elected = view.voter_ids, view.outlook.elected
    is_short = ElectionCause.NO_MAJORITY in view.outlook.election.causes or ElectionCause.SETTINGS_UNKNOWN in (
        view.outlook.election.causes
    )
    if len(ids) < 2 or elected or not is_short or view.own.node_id not in ids:
        return
    is_doubtful = bool(view.others) or (not view.own.is_dynamic and bool(view.known) and {*view.known} != {*ids})
    severity = Severity.ERROR if elected is False else Severity.WARNING if is_doubtful else Severity.INFO
    here = set(ids) - set(view.outlook.election.missing)
    detail = (VoterCause.NO_MAJORITY if elected is None else VoterCause.NEVER_MAJORITY)(
        voters=_sorted(ids),
        needed=len(ids) // 2 + 1,
        who=VoterCause.CAN_VOTE(here=_sorted(here)) if view.others else VoterCause.OTHERS_UNKNOWN(),
    )
    cure = AdviceCause.COMPARE_CONTROLLERS()
    yield Ahead(view.path, What.NO_MAJORITY, detail, cure=cure, cure_looks=True, severity=severity)


def walk_cut_points(view: QuorumView | None) -> Iterator[Ahead]:
    """Yield what a voter forgets, because a start cuts the metadata log at damage (every start recovers it), or because
    no file has it any more."""
    if view is None or not view.outlook.seat.starts or view.own.node_id not in view.voter_ids:
        return
    log, is_alone = view.own.log, len(view.voter_ids) == 1
    end, severity = log.position.end_offset, Severity.ERROR if is_alone else Severity.WARNING
    if log.damage is not None:
        lost = lost_of_metadata(view.path, end)
        cure, is_link = _cure_of_cut(log.damage)
        yield Ahead(
            view.path,
            What.TRUNCATED if is_alone else What.METADATA_BEHIND,
            _why_cut(log.damage, end, is_alone=is_alone),
            first_offset=end,
            lost_records=lost.records or 0,
            lost_bytes=log.cut_bytes,
            is_uncounted=lost.records is None,
            cure=cure,
            cure_looks=is_link,
            severity=severity,
        )
    if (gone := log.gone) is not None:
        yield Ahead(
            view.path,
            What.MISSING if is_alone else What.METADATA_BEHIND,
            (VoterCause.METADATA_GONE if is_alone else VoterCause.METADATA_GONE_HERE)(
                first=gone[0], last=gone[1], name=log.reached_by
            ),
            *gone,
            cure=AdviceCause.LONGER_COPY(end=log.reached),
            cure_looks=True,
            severity=severity,
        )


def _why_cut(damage: KlogError, end: int, *, is_alone: bool) -> Reason:
    """Return why a start cuts the metadata log: a damaged batch, or what is in the place of a file."""
    if damage.path is None or os.path.isfile(damage.path) or os.path.basename(damage.path) == CLUSTER_METADATA_DIR:
        return (VoterCause.METADATA_CUT if is_alone else VoterCause.METADATA_CUT_HERE)(end=end)
    cause = VoterCause.METADATA_CUT_AT if is_alone else VoterCause.METADATA_CUT_AT_HERE
    return cause(name=os.path.basename(damage.path), why=damage.reason, end=end)


def _cure_of_cut(damage: KlogError) -> tuple[Text, bool]:
    """Return what a person does before such a start, and whether that only looks. Side files are made anew."""
    path = damage.path or ""
    if parse_file_name(os.path.basename(path)).kind in (FileKind.PRODUCER_SNAPSHOT, FileKind.TXN_INDEX):
        return move_out_of_partition(path), False
    if is_broken_link(path):
        return AdviceCause.BEFORE_ANY_START(path=quoted(path)), True
    return FROM_A_CONTROLLER, False


def gone_of(view: QuorumView | None) -> Gone | None:
    """Return what no file of the metadata log has any more, with what shows it; None if nothing does."""
    gone = None if view is None else view.own.log.gone
    if view is None or gone is None:
        return None
    is_epoch = view.own.log.reached_by == FileKind.LEADER_EPOCH_CHECKPOINT.value
    return Gone((gone,), (Witness.LEADER_EPOCH if is_epoch else Witness.PRODUCER_SNAPSHOT,))


def _behind(view: QuorumView) -> Iterator[Ahead]:
    """Yield a point if a controller may lead that lacks metadata which a copy at hand has."""
    election, own, is_empty = view.outlook.election, view.own, view.outlook.election.leader_is_empty
    first, last = election.lost or (None, None)
    if is_empty or first is not None:
        lost = "" if first is None or last is None else VoterCause.LOST_OFFSETS(first=first, last=last)
        detail = (VoterCause.LEADER_EMPTY if is_empty else VoterCause.LEADER_LACKS)(best=str(election.best), lost=lost)
        cure = AdviceCause.BEST_FIRST(best=str(election.best), others=election.majority - 1)
        severity = Severity.ERROR if is_empty else Severity.WARNING
        yield Ahead(view.path, What.METADATA_BEHIND, detail, first, last, cure=cure, severity=severity)
    if (apart := election.apart) is not None:
        detail = VoterCause.TWO_LOGS(better=apart.better, other=apart.other, offset=apart.offset, epoch=apart.epoch)
        mixes = view.outlook.seat.mixes
        yield Ahead(view.path, What.METADATA_BEHIND, detail, cure=AdviceCause.ONE_OF_TWO(), may_end=mixes)
    if (
        not (is_empty or first is not None)
        and not own.log.position.end_offset
        and view.outlook.seat.believes
        and len(view.voter_ids) > 1
        and election.outcome is not ElectionOutcome.ELECTED
    ):
        empty, cure = VoterCause.EMPTY_LOG(), AdviceCause.WHOLE_FIRST()
        yield Ahead(view.path, What.METADATA_BEHIND, empty, cure=cure, severity=Severity.WARNING)


def _contradicting_state(view: QuorumView) -> Iterator[Ahead]:
    seat, state = view.outlook.seat, view.own.quorum_state
    path = os.path.join(view.path, FileKind.QUORUM_STATE.value)
    cure = AdviceCause.STATE_AGAIN(path=quoted(path))
    yield from _other_leader(view)
    if seat.ends_as_candidate:
        own, node = view.own.directory_id, view.own.node_id
        stop = stop_at("candidate-no-voter-new-id", node=node)  # a start draws an id where none is written
        if own is not None:
            stop = stop_at("candidate-no-voter", node=node, directory_id=own)
        yield Ahead(path, What.REFUSES, VoterCause.VOTED_AS_NO_VOTER(), cure=cure, stop=stop)
    if seat.has_no_epoch_left:
        yield Ahead(path, What.STATE_CONTRADICTS, VoterCause.NO_EPOCH_LEFT(), cure=cure)
    if seat.misleads and state is not None:
        strange = VoterCause.STRANGE_LEADER(node=state.leader_id, epoch=state.leader_epoch)
        yield Ahead(path, What.STATE_CONTRADICTS, strange, cure=cure)
    if not seat.repeats_epoch or state is None or not seat.starts:
        return
    detail = (VoterCause.REPEATS_STALE if seat.is_stale else VoterCause.REPEATS_EPOCH)(epoch=state.leader_epoch)
    severity = Severity.ERROR if ElectionCause.STALE_CANDIDATE in view.outlook.election.causes else Severity.WARNING
    yield Ahead(path, What.STATE_CONTRADICTS, detail, cure=cure, may_end=seat.is_stale, severity=severity)


def _other_leader(view: QuorumView) -> Iterator[Ahead]:
    """Yield a point if this node may hear of another leader of an epoch than it knows: then it ends."""
    seat, state, causes = view.outlook.seat, view.own.quorum_state, view.outlook.election.causes
    if seat.misled:
        detail = VoterCause.MISLED()
    elif seat.hears_resigned:
        detail = VoterCause.HEARS_RESIGNED()
    elif seat.forgot:
        detail = VoterCause.FORGOT_EPOCH()
    elif seat.may_be_contradicted and state is not None:
        cause = VoterCause.TOLD_OTHERWISE if seat.hears_otherwise else VoterCause.OTHER_LEADER
        detail = cause(node=state.leader_id, epoch=state.leader_epoch)
    elif ElectionCause.VOTERS_DIFFER in causes:
        detail = VoterCause.TWO_MAY_LEAD()
    elif _others_go_by_settings(view.own):
        detail = VoterCause.OTHERS_BY_SETTINGS()
    else:
        return
    look = AdviceCause.ASK_QUORUM()
    is_danger = {ElectionCause.FORGOT_EPOCH, ElectionCause.VOTERS_DIFFER} & {*causes}
    severity = Severity.ERROR if is_danger else Severity.WARNING
    yield Ahead(view.path, What.STATE_CONTRADICTS, detail, cure=look, cure_looks=True, may_end=True, severity=severity)


def _others_go_by_settings(own: Controller) -> bool:
    """Return whether its log has a record of voters in a static quorum, which names fewer than its settings: it counts
    for those that have it (KRaftControlRecordStateMachine)."""
    voters, settings = own.log.quorum.voters, own.settings
    if voters is None or own.log.quorum.kraft_version > 0 or settings is None:
        return False
    return not {*settings.voters} <= {voter.id for voter in voters}


# Notes.


def walk_unlike_settings(view: QuorumView | None) -> Iterator[Reason]:
    """Yield where the file of settings and the metadata log do not name the same voters; and which host names are taken
    for granted where a leader is possible: klogtool asks no name server."""
    if view is None:
        return
    names = view.outlook.election.names
    if names and view.outlook.elected is not False:
        yield NoteCause.RESOLVED_NAMES(names=names)
    if view.own.settings is None:
        return
    settings, recorded = view.own.settings, view.own.log.quorum.voters
    named = _sorted(settings.voters)
    if recorded is None:
        if view.known and named and set(view.known) != set(named):
            yield NoteCause.OTHER_VOTERS(voters=named, known=_sorted(view.known), needed=len(named) // 2 + 1)
        return
    ids = {voter.id for voter in recorded}
    known = tuple(f"{voter.id}@{address}" for voter in recorded for address in voter.addresses)
    if named and set(named) != ids:
        yield NoteCause.VOTERS_OF_LOG(voters=named, known=known)
    servers = tuple(server.address for server in settings.servers)
    if servers and not {*servers} & {address for voter in recorded for address in voter.addresses}:
        yield NoteCause.NO_VOTERS_ADDRESS(servers=servers, known=known)
    if settings.node_id in ids and not settings.is_controller:
        yield NoteCause.NO_CONTROLLER(node=settings.node_id or 0)


def _sorted(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))
