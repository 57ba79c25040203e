"""What a person does about each cause, as a command to paste or a sentence. Each was carried out on a real quorum.

What is cheapest and loses nothing comes first: an old directory.id written back, then the disks of other voters. Only
the last one edits a metadata log: a new set of voters (new_voters), which is offered there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.causes import Reason, Text
from klogtool.format.identity import QuorumState
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.names import FileKind
from klogtool.quorum.causes import QuorumCure
from klogtool.quorum.election import NO_CONTROLLERS, Election, ElectionCause, Seat
from klogtool.verify.causes import CureRemark
from klogtool.verify.cures import FROM_A_CONTROLLER, edit, remove
from klogtool.verify.verify_voters import with_directory_id


def cures_with_these_voters(election: Election) -> tuple[Text, ...]:
    """Return what to do so that a leader is elected and nothing is lost, each thing once."""
    lines = []
    for seat in election.seats:
        if seat.why_not is not None and seat.why_not in _CURES:
            lines.append(_CURES[seat.why_not](seat, election))
    for cause in election.causes:
        if cause in _CURES_OF_ALL:
            lines.extend(_CURES_OF_ALL[cause](election))
    lines += _who_tells(election)
    lines += _for_safety(election)
    return tuple(dict.fromkeys(line for line in lines if line))


def not_here(election: Election) -> list[Voter]:
    """Return the voters that are missing, and whose nodes have no disk here."""
    here = {seat.controller.node_id for seat in election.seats}
    return [voter for voter in election.voters if voter.id in election.missing and voter.id not in here]


def _for_safety(election: Election) -> Iterator[Text]:
    """Yield what keeps a worse copy from leading, or an empty one. Of a bare majority all vote for who leads,
    and the best copy votes for no worse one."""
    if election.best is None or (election.lost is None and not election.leader_is_empty):
        return
    best = next(seat for seat in election.seats if seat.controller.path == election.best)
    path = election.best
    if best.is_voter is False and best.why_not in NO_CONTROLLERS:
        path = _who_gets_it(election)
        yield QuorumCure.TAKE_COPY(source=election.best, path=path, folder=CLUSTER_METADATA_DIR)
    yield QuorumCure.MAJORITY_FIRST(path=path, others=election.majority - 1)


def _who_gets_it(election: Election) -> str:
    """Return the log dir of a voter that no other node takes for the leader: one that led, and gets a copy without
    quorum-state, has forgotten that, and ends when the others tell it."""
    states = [(seat.controller.node_id, seat.controller.quorum_state) for seat in election.seats]
    leaders = {state.leader_id for node, state in states if state is not None and state.leader_id != node}
    voters = [seat.controller for seat in election.seats if seat.is_voter]
    voters.sort(key=lambda controller: controller.node_id in leaders)
    return voters[0].path if voters else "LOGDIR"


def _meta(seat: Seat) -> str:
    return os.path.join(seat.controller.path, FileKind.META_PROPERTIES.value)


def _state(seat: Seat) -> str:
    return os.path.join(seat.controller.path, CLUSTER_METADATA_DIR, FileKind.QUORUM_STATE.value)


def _old_id(seat: Seat, election: Election) -> Text:
    voter = next((voter for voter in election.voters if voter.id == seat.controller.node_id), None)
    return "" if voter is None else with_directory_id(_meta(seat), voter.directory_id)


def _old_listener(seat: Seat, election: Election) -> Text:
    names = dict.fromkeys(endpoint.name for voter in election.voters for endpoint in voter.endpoints)
    return QuorumCure.OLD_LISTENER(names=tuple(names), node=str(seat.controller.node_id))


def _old_node(seat: Seat, election: Election) -> Text:
    own = seat.controller.directory_id
    voter = next((voter for voter in election.voters if own and voter.directory_id == own), None)
    settings = seat.controller.settings
    may_vote = seat.believes or (settings is not None and settings.is_controller)
    if voter is None and not may_vote and any(other.is_voter for other in election.seats):
        return ""  # most likely a broker
    if voter is None and not election.is_dynamic:
        return QuorumCure.SAME_VOTERS()
    if voter is None:
        return QuorumCure.ADD_CONTROLLER(node=str(seat.controller.node_id))
    return QuorumCure.OLD_NODE(node=voter.id, path=_meta(seat))


def _identity(seat: Seat, election: Election) -> Text:
    """A log dir that is formatted anew has another directory id, and does not vote."""
    path = _meta(seat)
    absent = [voter for voter in election.voters if voter.id in election.missing and voter.directory_id]
    if not absent:
        return QuorumCure.BRING_BACK(path=path)
    ids = tuple(QuorumCure.NODE_AND_DIRECTORY(node=voter.id, directory_id=voter.directory_id) for voter in absent)
    return QuorumCure.BRING_BACK_AS(path=path, ids=ids)


def _state_again(seat: Seat, _: Election) -> Text:
    return remove(_state(seat), CureRemark.NEW_ELECTION())


_CURES: Mapping[ElectionCause, Callable[[Seat, Election], Text]] = {
    ElectionCause.NO_IDENTITY: lambda seat, election: _identity(seat, election),
    ElectionCause.IDENTITY_CORRUPT: lambda seat, _: QuorumCure.DOCTOR(path=seat.controller.path),
    ElectionCause.STATE_CORRUPT: _state_again,
    ElectionCause.OTHER_NODE: lambda seat, _: QuorumCure.NODE_ID(node=str(seat.controller.node_id)),
    ElectionCause.SETTINGS_REFUSED: lambda seat, _: QuorumCure.CORRECT(why=str(seat.controller.refusal)),
    ElectionCause.LISTENER_UNKNOWN: lambda seat, election: _old_listener(seat, election),
    ElectionCause.LOG_DAMAGED: lambda *_: FROM_A_CONTROLLER,
    ElectionCause.RECORD_REFUSED: lambda seat, _: QuorumCure.DOCTOR(path=seat.controller.path),
    ElectionCause.NOT_OPENED: lambda seat, _: QuorumCure.OPEN_FILE(
        why=str(seat.controller.start_error), path=seat.controller.path
    ),
    ElectionCause.SIDE_FILE_CORRUPT: lambda seat, _: QuorumCure.DOCTOR(path=seat.controller.path),
    ElectionCause.OTHER_DIRECTORY: _old_id,
    ElectionCause.UNKNOWN_NODE: _old_node,
    ElectionCause.SETTINGS_UNKNOWN: lambda *_: QuorumCure.NAME_ALL(),
    ElectionCause.OTHER_CLUSTER: lambda seat, _: QuorumCure.OTHER_CLUSTER(path=_meta(seat)),
}


def _bring_voters(election: Election) -> Iterator[Text]:
    """Yield how each voter that is not here can vote again. A new disk with the old directory.id, and without a
    snapshot, votes for the whole copy, and fetches everything from it."""
    yield from map(_bring, not_here(election))
    if election.missing and not election.is_dynamic:
        yield (QuorumCure.ONLY_THOSE_LEFT())


def _bring(voter: Voter) -> Text:
    if not voter.directory_id:
        return QuorumCure.STATIC_VOTER(node=voter.id)
    return QuorumCure.VOTER(node=voter.id, directory_id=voter.directory_id)


def _state_of(is_wrong: Callable[[Seat], bool]) -> Callable[[Election], Iterator[Text]]:
    return lambda election: (_state_again(seat, election) for seat in election.seats if is_wrong(seat))


def _one_of_two_logs(election: Election) -> Iterator[Text]:
    """Yield what keeps one log out of the other one. An empty disk with the old directory.id fetches all."""
    if election.apart is not None:
        better, other = election.apart.better, election.apart.other
        yield QuorumCure.ONE_OF_TWO(better=better, other=other, folder=CLUSTER_METADATA_DIR)


def _who_tells(election: Election) -> Iterator[Text]:
    """Yield how each of those forgets its leader that would tell a node that it leads an epoch which it does not
    know."""
    forgetful = {seat.controller.node_id for seat in election.seats if seat.forgot}
    for seat in election.seats:
        state = seat.controller.quorum_state
        if state is not None and state.leader_id in forgetful - {seat.controller.node_id}:
            yield _no_leader(seat, state, CureRemark.FORGOT_IT_LED(node_id=state.leader_id))


def _no_leader(seat: Seat, state: QuorumState, remark: Reason) -> Text:
    """Write that a controller knows no leader. The epoch and the vote stay: without them, the next leader could take an
    epoch that another one had. But with a vote for itself, and no leader, it starts as a candidate of that epoch
    (QuorumState.initialize)."""
    commands = [rf's/"leaderId":\s*{state.leader_id}\b/"leaderId":-1/']
    if state.voted_id == seat.controller.node_id:
        commands.append(rf's/"votedId":\s*{state.voted_id}\b/"votedId":-1/')
    return edit(_state(seat), commands, remark)


def _one_leader(election: Election) -> Iterator[Text]:
    """Yield how those that hear of another leader forget theirs. A leader that does begins without quorum-state: with
    its vote for itself it would repeat the epoch."""
    for seat in election.seats:
        state = seat.controller.quorum_state
        if not seat.hears_otherwise or state is None:
            continue
        if state.leader_id == seat.controller.node_id:
            yield _state_again(seat, election)
        else:
            yield _no_leader(seat, state, CureRemark.NEW_ELECTION())


def _none_ahead(election: Election) -> Iterator[Text]:
    for seat in election.seats:
        if seat.is_ahead and (state := seat.controller.quorum_state) is not None:
            yield _no_leader(seat, state, CureRemark.NEW_ELECTION())


def _no_strange_leader(election: Election) -> Iterator[Text]:
    """Yield how a node forgets a leader that it would name without an address; its epoch stays."""
    for seat in election.seats:
        state = seat.controller.quorum_state
        if (seat.misleads or seat.resigns) and state is not None:
            yield _no_leader(seat, state, CureRemark.NEW_ELECTION())


def _same_voters(election: Election) -> Iterator[Text]:
    """Yield how only one of two leads. Old controllers that start while the new leader is up follow it."""
    if not election.is_dynamic:
        yield QuorumCure.SAME_VOTERS()
    elif election.best is not None:
        yield QuorumCure.BEST_FIRST(path=election.best)


def _longer_copy(election: Election) -> Iterator[Text]:
    if election.gone is not None:
        yield QuorumCure.LONGER_COPY(end=election.gone.last + 1)


def _replayable(election: Election) -> Iterator[Text]:
    refused = [seat.controller for seat in election.seats if seat.controller.replay_refusal is not None]
    levels = [one.replay_refusal.feature for one in refused if one.replay_refusal and one.replay_refusal.feature]
    yield from (QuorumCure.NAME_RELEASE(feature=feature) for feature in levels)
    yield from (QuorumCure.DOCTOR(path=controller.path) for controller in refused)


_CURES_OF_ALL: Mapping[ElectionCause, Callable[[Election], Iterator[Text]]] = {
    ElectionCause.NO_MAJORITY: _bring_voters,
    ElectionCause.STALE_CANDIDATE: _state_of(lambda seat: seat.is_stale),
    ElectionCause.NO_EPOCH_LEFT: _state_of(lambda seat: seat.has_no_epoch_left),
    ElectionCause.CANDIDATE_NO_VOTER: _state_of(
        lambda seat: seat.ends_as_candidate and seat.why_not is ElectionCause.UNKNOWN_NODE
    ),
    ElectionCause.LEADERS_DIFFER: _one_leader,
    ElectionCause.KNOWN_TO_FEW: _none_ahead,
    ElectionCause.STRANGE_LEADER: _no_strange_leader,
    ElectionCause.LEADER_RESIGNED: _no_strange_leader,
    ElectionCause.VOTERS_DIFFER: _same_voters,
    ElectionCause.SETTINGS_DIFFER: _same_voters,
    ElectionCause.COPIES_DIFFER: _one_of_two_logs,
    ElectionCause.METADATA_GONE: _longer_copy,
    ElectionCause.VERSION_WITHOUT_VOTERS: lambda _: iter((FROM_A_CONTROLLER,)),
    ElectionCause.LOG_DAMAGED: lambda election: (
        QuorumCure.DOCTOR(path=seat.controller.path) for seat in election.seats if not seat.controller.log.is_whole
    ),
    ElectionCause.REPLAY_REFUSED: lambda election: _replayable(election),
    ElectionCause.NO_VOTERS: lambda _: iter((QuorumCure.VOTERS_AS_BEFORE(),)),
    ElectionCause.ENDPOINTS_STALE: lambda _: iter((QuorumCure.LISTENERS_AS_BEFORE(),)),
}
