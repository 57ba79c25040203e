"""A new set of voters for a quorum that has lost its majority: in which copy it is written, what may be lost, and when
it must not be.

Kafka itself has no way out of a lost majority. What is chosen here was carried out on real quorums: a record of voters
at the end of the most complete copy, in an epoch that no other copy can have. Fewer voters than before may agree on
it, so everything depends on two things: the copy has all that was committed, and the old disks never vote again.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.quorum import Quorum, is_key_of
from klogtool.broker.server_rules import CONTROLLER
from klogtool.causes import Text
from klogtool.errors import KlogError, Refused
from klogtool.escape import quoted
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.kraft_snapshot import Endpoint, Voter
from klogtool.format.names import FileKind
from klogtool.quorum.causes import NewVotersCause, QuorumCure
from klogtool.quorum.controllers import Controller, Position, count_metadata_records
from klogtool.quorum.cures import cures_with_these_voters, not_here
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, Seat, judge_election
from klogtool.quorum.metadata_copies import CopiesApart, CopyTail, compare
from klogtool.quorum.settings import ANY_HOST, QuorumSettings
from klogtool.verify.cures import recover, salvage
from klogtool.verify.verify_voters import with_directory_id

EPOCH_STEP = 1000  # measured: brokers and old controllers then never take the old quorum for the newer one
LISTENER = "CONTROLLER"
_VOTER = re.compile(r"(\d{1,9})@(\[[0-9a-fA-F:.%]+\]|[^:@\s,]+):(\d{1,5})(?::([A-Za-z0-9_-]{22}))?", re.ASCII)


class Wish(Struct, frozen=True, kw_only=True):
    """What is wished. voters: with an empty directory id where the user named none; empty: only the controller with the
    most complete copy votes. destroyed: ids of old voters whose disks can never start again. accepts_loss: what only a
    missing copy has may be lost. listener: the controllers' listener; None: the one that the old voters have.

    is_static: the settings are to name the voters, and the metadata none."""

    voters: tuple[Voter, ...] = ()
    destroyed: frozenset[int] = frozenset()
    accepts_loss: bool = False
    listener: str | None = None
    is_static: bool = False


class NewVoters(Struct, frozen=True):
    """What is to be written, in the copy of `controller`: voters, at its log's end, in `epoch`.

    old_voters: those before. unseen: ids of old voters whose copies are not here. may_lose: whether one of these may
    have committed records that no copy here has. unseen_epoch: an epoch that had a leader, by a quorum-state, and of
    which no copy here has a record; None if there is none. tails: what other copies end with and this one does not
    have: a later epoch went on without it, so it was not committed; there are none where absent voters decide that.
    outcome: whether the new voters that are here elect a leader. may_end: node ids of those that others may end before
    they do. gone: offsets that a copy here had once, and none has.
    """

    controller: Controller
    voters: tuple[Voter, ...]
    old_voters: tuple[Voter, ...]
    epoch: int
    unseen: tuple[int, ...]
    may_lose: bool
    unseen_epoch: int | None
    tails: tuple[CopyTail, ...]
    outcome: ElectionOutcome
    may_end: tuple[int, ...]
    gone: tuple[int, int] | None = None

    @property
    def offset(self) -> int:
        """The offset of the first record that is written."""
        return self.controller.log.position.end_offset


def parse_voters(text: str, *, with_directories: bool = False) -> tuple[Voter, ...]:
    """Parse ID@HOST:PORT[:DIRECTORY-ID],... as kafka-storage format does. with_directories: all have to be there.
    Raises ValueError, which names the word."""
    voters, form = [], "ID@HOST:PORT:DIRECTORY-ID" if with_directories else "ID@HOST:PORT[:DIRECTORY-ID]"
    for word in text.split(","):
        match = _VOTER.fullmatch(word)
        if match is None or not 0 < int(match[3]) <= 65535 or (with_directories and not match[4]):
            raise ValueError(f"'{word}' is not {form}.")
        voters.append(Voter(int(match[1]), match[4] or "", (Endpoint("", match[2].strip("[]"), int(match[3])),)))
    if len({voter.id for voter in voters}) < len(voters):
        raise ValueError("a controller is named twice.")
    return tuple(voters)


def choose_new_voters(controllers: Sequence[Controller], wish: Wish) -> NewVoters:
    """Choose the copy and the voters. Raises Refused, with what to do, wherever that could do harm."""
    election = judge_election(controllers)
    _check_one_cluster(controllers)
    _check_readable(controllers)
    old = _old_voters(election)
    best = max((each.log.position for each in controllers), default=Position())
    controller = _chosen(election, wish, old, best)
    tails = tuple(_tails(controller, controllers))
    voters = _new_voters(wish, controller, controllers, old)
    if wish.is_static and len(voters) > 1:
        raise Refused(
            NewVotersCause.STATIC_WITH_MANY(),
            cure=NewVotersCause.NAME_ONE(node=str(controller.node_id)),
        )
    _check_no_old_majority(election, controller, old, voters, wish)
    epoch = _epoch(controllers)
    after = _election_after(controller, controllers, voters, epoch, wish)
    absent = [_absent(voters_then, controllers) for voters_then in _voter_sets(controller, old)]
    result = NewVoters(
        controller,
        voters,
        old,
        epoch,
        tuple(dict.fromkeys(itertools.chain(*absent))),
        any(
            _may_decide(len(ids), before, election)
            for before, ids in zip(_voter_sets(controller, old), absent, strict=True)
        ),
        _unseen_epoch(controllers, best),
        tails,
        after.outcome,
        tuple(seat.controller.node_id or 0 for seat in after.seats if seat.may_end_once),
        None if election.gone is None else (election.gone.first, election.gone.last),
    )
    _check_not_parted(result)
    _check_loss(result, election, wish)
    return result


def cures_of(election: Election) -> tuple[Text, ...]:
    """Return what to do so that a leader is elected, what loses nothing first, each thing once. The last way out is a
    new set of voters, if a majority is not here, the quorum is dynamic, and no plan for it would be refused."""
    return (*cures_with_these_voters(election), *_last_way_out(election))


def _last_way_out(election: Election) -> Iterator[Text]:
    if not election.is_dynamic or election.best is None:
        return
    paths = tuple(seat.controller.path for seat in election.seats)
    if ElectionCause.NO_MAJORITY in election.causes and (lost := tuple(voter.id for voter in not_here(election))):
        wish = Wish(destroyed=frozenset(lost), accepts_loss=True)
        with suppress(KlogError):
            choose_new_voters([seat.controller for seat in election.seats], wish)
            yield QuorumCure.STANDALONE(paths=paths, lost=lost)
    if ElectionCause.ENDPOINTS_STALE in election.causes:
        yield QuorumCure.OTHER_ENDPOINTS(paths=paths)


def _absent(voters: Sequence[Voter], controllers: Sequence[Controller]) -> list[int]:
    """Return the ids of those whose copy is not here."""
    copies = [each for each in controllers if each.log.position.end_offset > 0]
    return [voter.id for voter in voters if not any(_is_own(each, voter) for each in copies)]


def _check_one_cluster(controllers: Sequence[Controller]) -> None:
    clusters = {each.cluster_id: each.path for each in controllers if each.cluster_id is not None}
    if len(clusters) > 1:
        known = ", ".join(f"{cluster} in {path}" for cluster, path in clusters.items())
        raise Refused(NewVotersCause.OTHER_CLUSTERS(known=known), cure=NewVotersCause.NAME_ONE_CLUSTER())
    owners: dict[str, Controller] = {}
    for each in controllers:
        other = owners.setdefault(each.directory_id or each.path, each)
        if other is each or (other.node_id != each.node_id and all(map(_is_no_broker, (other, each)))):
            continue
        cause = NewVotersCause.SAME_VOTER if other.node_id == each.node_id else NewVotersCause.SAME_DIRECTORY
        raise Refused(
            cause(path=other.path, directory_id=str(each.directory_id)),
            path=each.path,
            cure=NewVotersCause.NAME_ONE_OF_THEM(),
        )


def _is_no_broker(controller: Controller) -> bool:
    """Return whether it is known to register no log dirs: then another node may have its directory id. A voter is that
    with its node id (VoterSet), but a broker ends whose directory id another one has registered
    (ClusterControlManager)."""
    return controller.settings is not None and controller.settings.roles == {CONTROLLER}


def _check_readable(controllers: Sequence[Controller]) -> None:
    for each in controllers:
        if each.log.trouble is None:
            continue
        folder = os.path.join(each.path, CLUSTER_METADATA_DIR)
        mend = NewVotersCause.DOCTOR_FIRST(path=each.path)
        if each.log.damage is not None:
            mend = NewVotersCause.SALVAGE(salvage=salvage(folder))
        raise Refused(
            NewVotersCause.LOG_DAMAGED(why=str(each.log.trouble)),
            path=each.path,
            cure=NewVotersCause.OR_LEAVE_OUT(mend=mend),
        )


def _old_voters(election: Election) -> tuple[Voter, ...]:
    """Return the voters as they are, by the log, the settings, or the ids in a quorum-state of version 0."""
    if election.voters:
        return election.voters
    states = [seat.controller.quorum_state for seat in election.seats]
    ids = max((state.current_voters for state in states if state is not None), key=len, default=())
    if not ids:
        raise Refused(
            NewVotersCause.NOBODY_SAYS_WHO(),
            cure=NewVotersCause.NAME_SETTINGS(),
        )
    return tuple(Voter(node_id, "", ()) for node_id in ids)


def _chosen(election: Election, wish: Wish, old: Sequence[Voter], best: Position) -> Controller:
    """Return the controller whose copy is written to: the most complete one, of a new voter."""
    # Without names it is one that voted, or is known to be a controller: others are most likely brokers.
    ids = {voter.id for voter in wish.voters or old}
    able = [seat.controller for seat in election.seats if _may_lead(seat)]
    known = [each for each in able if each.node_id in ids or (not wish.voters and each.settings is not None)]
    controller = max(known, key=lambda each: (each.log.position, each.node_id in ids), default=None)
    if controller is None:
        stopped = [seat for seat in election.seats if seat.controller.node_id in ids and not _may_lead(seat)]
        if stopped:
            raise Refused(
                NewVotersCause.START_ENDS(),
                path=stopped[0].controller.path,
                cure=NewVotersCause.FIRST(cures=cures_with_these_voters(election)),
            )
        raise Refused(
            NewVotersCause.NO_NEW_VOTER(),
            cure=NewVotersCause.FORMAT(folder=CLUSTER_METADATA_DIR),
        )
    if controller.log.position < best:
        raise _is_behind(controller, election, best)
    if not best.end_offset:
        raise Refused(NewVotersCause.NO_METADATA(), cure=NewVotersCause.REBUILD_METADATA())
    if controller.log.cut_bytes:
        folder = os.path.join(controller.path, CLUSTER_METADATA_DIR)
        raise Refused(NewVotersCause.TORN(), path=controller.path, cure=NewVotersCause.FIRST(cures=(recover(folder),)))
    if controller.directory_id is None:
        raise _no_directory_id(controller, election)
    return controller


def _may_lead(seat: Seat) -> bool:
    """Return whether it may become a voter. A quorum-state that cannot be read is written anew."""
    stops = (
        ElectionCause.NO_IDENTITY,
        ElectionCause.IDENTITY_CORRUPT,
        ElectionCause.OTHER_NODE,
        ElectionCause.SETTINGS_REFUSED,
        ElectionCause.RECORD_REFUSED,
        ElectionCause.SIDE_FILE_CORRUPT,
        ElectionCause.NOT_OPENED,
        ElectionCause.NO_CONTROLLER,
    )
    return seat.why_not not in stops and seat.controller.node_id is not None


def _is_behind(controller: Controller, election: Election, best: Position) -> Refused:
    better = next(seat.controller for seat in election.seats if seat.controller.log.position == best)
    position = controller.log.position
    count = None
    if position.epoch == best.epoch:
        count = count_metadata_records(better.path, position.end_offset)
    lost = NewVotersCause.RECORDS() if count is None else NewVotersCause.COUNT(count=count)
    source, target = (os.path.join(path, CLUSTER_METADATA_DIR) for path in (better.path, controller.path))
    away = f"mv {quoted(target)} {quoted(controller.path + '.old-metadata')} && " if os.path.isdir(target) else ""
    return Refused(
        NewVotersCause.BEHIND(
            end=position.end_offset,
            epoch=position.epoch,
            path=better.path,
            best_end=best.end_offset,
            best_epoch=best.epoch,
            lost=lost,
        ),
        path=controller.path,
        cure=NewVotersCause.TAKE_BETTER(away=away, source=source, path=controller.path),
    )


def _no_directory_id(controller: Controller, election: Election) -> Refused:
    old = next((voter for voter in election.voters if voter.id == controller.node_id and voter.directory_id), None)
    meta = os.path.join(controller.path, FileKind.META_PROPERTIES.value)
    cure = NewVotersCause.FORMAT_ANEW() if election.is_dynamic else NewVotersCause.START_ONCE()
    return Refused(
        NewVotersCause.NO_DIRECTORY_ID(),
        path=controller.path,
        cure=cure if old is None else NewVotersCause.WRITE_ID(command=with_directory_id(meta, old.directory_id)),
    )


def _tails(controller: Controller, controllers: Sequence[Controller]) -> Iterator[CopyTail]:
    """Yield what the others end with. Raises Refused if one of them is another log."""
    for other in controllers:
        if other is controller or not other.log.position.end_offset:
            continue
        comparison = compare(controller.path, other.path)
        if isinstance(comparison, CopiesApart):
            raise Refused(
                NewVotersCause.TWO_LOGS(offset=comparison.offset, epoch=comparison.epoch, better=comparison.better),
                path=comparison.other,
                cure=NewVotersCause.WHICH_LOG(),
            )
        if comparison is not None:
            yield comparison


def _new_voters(
    wish: Wish, controller: Controller, controllers: Sequence[Controller], old: Sequence[Voter]
) -> tuple[Voter, ...]:
    name = wish.listener or _listener(controller, old)
    wished = wish.voters or (Voter(controller.node_id or 0, "", (_own_endpoint(controller, old),)),)
    return tuple(
        replace(
            voter,
            directory_id=_directory_id(voter, controllers, old),
            endpoints=tuple(replace(endpoint, name=name) for endpoint in voter.endpoints),
        )
        for voter in sorted(wished, key=lambda voter: voter.id)
    )


def _listener(controller: Controller, old: Sequence[Voter]) -> str:
    """Return the name of the controllers' listener: of the settings, or as it was."""
    settings = () if controller.settings is None else controller.settings.endpoints
    known = (*settings, *(endpoint for voter in old for endpoint in voter.endpoints))
    return next((endpoint.name for endpoint in known if endpoint.name), LISTENER)


def _own_endpoint(controller: Controller, old: Sequence[Voter]) -> Endpoint:
    settings = () if controller.settings is None else controller.settings.endpoints
    routable = [endpoint for endpoint in settings if endpoint.host not in ANY_HOST]
    known = [endpoint for voter in old if voter.id == controller.node_id for endpoint in voter.endpoints]
    endpoint = next(iter((*routable, *known)), None)
    if endpoint is None:
        raise Refused(
            NewVotersCause.LISTENS_WHERE(node=str(controller.node_id)),
            path=controller.path,
            cure=NewVotersCause.NAME_IT(node=str(controller.node_id)),
        )
    return endpoint


def _directory_id(voter: Voter, controllers: Sequence[Controller], old: Sequence[Voter]) -> str:
    """Return the directory id of a new voter: as named, of its log dir here, or as it was."""
    here = next((each for each in controllers if each.node_id == voter.id), None)
    if here is not None and here.directory_id is not None:
        if voter.directory_id not in ("", here.directory_id):
            raise Refused(
                NewVotersCause.OTHER_DIRECTORY(directory_id=here.directory_id, named=voter.directory_id, node=voter.id),
                path=here.path,
                cure=NewVotersCause.LEAVE_ID_OUT(),
            )
        return here.directory_id
    known = voter.directory_id or next((before.directory_id for before in old if before.id == voter.id), "")
    if not known:
        raise Refused(
            NewVotersCause.UNKNOWN_DIRECTORY(node=voter.id),
            cure=NewVotersCause.NAME_DIRECTORY(node=voter.id),
        )
    return known


def _check_no_old_majority(
    election: Election, controller: Controller, old: Sequence[Voter], voters: Sequence[Voter], wish: Wish
) -> None:
    """Refuse while a majority of the old voters could elect a leader of its own.

    Who is asked at an endpoint of the old set votes, whatever its own set says; so an old voter that listens elsewhere
    now can still be a candidate, but gets no request.
    """
    alone = judge_election([_mended(seat.controller, old, voters) for seat in election.seats])
    if wish.is_static and all(_is_own(controller, voter) for voter in old):
        return  # Kafka cannot do it, whether there is a leader or not
    if alone.leader_is_empty:
        raise Refused(
            NewVotersCause.EMPTY_MAY_LEAD(),
            cure=NewVotersCause.FIRST(cures=cures_with_these_voters(alone)),
        )
    if alone.outcome is ElectionOutcome.ELECTED:
        cures = cures_with_these_voters(election)
        then: Text = "" if alone.is_dynamic else NewVotersCause.UPGRADE()
        raise Refused(
            NewVotersCause.CAN_ELECT(old=_ids(old)),
            cure=NewVotersCause.FIRST_THEN_START(cures=cures, then=then) if cures else NewVotersCause.START(then=then),
        )
    for before in _voter_sets(controller, old):
        others = [voter for voter in before if voter.id not in wish.destroyed and not _is_own(controller, voter)]
        free = [voter for voter in others if not _has_moved(voter, voters)]
        if _may_decide(len(free) + (len(free) < len(others)), before, election):
            raise Refused(
                NewVotersCause.MAY_START(free=_ids(free), before=_ids(before)),
                cure=NewVotersCause.NEVER_AGAIN(ids=tuple(voter.id for voter in free)),
            )


def _may_decide(count: int, voters: Sequence[Voter], election: Election) -> bool:
    """Return whether so many voters may have committed something, or may elect, without the others. A majority may;
    half of a dynamic set, too: they may have removed another one, or added one, and only they know it."""
    return 2 * count > len(voters) - election.is_dynamic


def _voter_sets(controller: Controller, old: Sequence[Voter]) -> Iterator[Sequence[Voter]]:
    """Yield the old voters, and those before them if it is not sure that these took their place."""
    yield old
    if controller.log.voters_before:
        yield controller.log.voters_before


def _ids(voters: Sequence[Voter]) -> str:
    return ", ".join(str(voter.id) for voter in voters)


def _has_moved(voter: Voter, voters: Sequence[Voter]) -> bool:
    """Return whether it is a new voter, too, with the same disk, and listens elsewhere now."""
    return any(
        new.id == voter.id
        and voter.directory_id in ("", new.directory_id)
        and not set(new.addresses) & set(voter.addresses)
        for new in voters
    )


def _is_own(controller: Controller, voter: Voter) -> bool:
    return is_key_of(voter, controller.node_id, controller.directory_id)


def _mended(controller: Controller, old: Sequence[Voter], voters: Sequence[Voter]) -> Controller:
    """Return a controller without what is mended easily: quorum-state is deleted, and it listens where the new voters
    have it."""
    controller = replace(controller, quorum_state=None, state_problem=None)
    new = next((voter for voter in voters if voter.id == controller.node_id), None)
    was = next((voter for voter in old if _is_own(controller, voter)), None)
    if new is None or was is None or not _has_moved(was, voters):
        return controller
    settings = controller.settings or QuorumSettings(None, frozenset({CONTROLLER}), {})
    return replace(controller, settings=replace(settings, endpoints=new.endpoints, bound=()))


def _epoch(controllers: Sequence[Controller]) -> int:
    """Return an epoch far above all that is known: the copies that are not here may have later ones."""
    states = [each.quorum_state.leader_epoch for each in controllers if each.quorum_state is not None]
    epoch = max([each.log.position.epoch for each in controllers] + states) + EPOCH_STEP
    if epoch > MAX_INT:
        raise Refused(
            NewVotersCause.NO_EPOCH(epoch=epoch - EPOCH_STEP, step=EPOCH_STEP),
            cure=NewVotersCause.WHENCE_EPOCH(),
        )
    return epoch


def _unseen_epoch(controllers: Sequence[Controller], best: Position) -> int | None:
    """Return the highest epoch that had a leader, if no copy has its first record."""
    states = [each.quorum_state for each in controllers if each.quorum_state is not None]
    epochs = [state.leader_epoch for state in states if state.leader_id >= 0 and state.leader_epoch > best.epoch]
    return max(epochs, default=None)


def _election_after(
    controller: Controller, controllers: Sequence[Controller], voters: tuple[Voter, ...], epoch: int, wish: Wish
) -> Election:
    """Judge the election that follows, of the new voters that are here. Raises Refused if it fails for another reason
    than that others are not here."""
    log = controller.log
    position = Position(epoch, log.position.end_offset + 2)
    quorum = Quorum() if wish.is_static else Quorum(1, voters, position.end_offset - 1)
    after = replace(
        controller, log=replace(log, position=position, quorum=quorum), quorum_state=None, state_problem=None
    )
    if wish.is_static and controller.settings is not None and not controller.settings.voters:
        after = replace(after, settings=None)  # they are about to change
    ids = {voter.id for voter in voters}
    election = judge_election(
        [after, *(each for each in controllers if each is not controller and each.node_id in ids)]
    )
    if election.outcome is ElectionOutcome.NEVER and set(election.causes) != {ElectionCause.NO_MAJORITY}:
        causes, cures = ", ".join(cause.value for cause in election.causes), cures_with_these_voters(election)
        raise Refused(
            NewVotersCause.NOT_ELECTED(causes=causes),
            path=controller.path,
            cure=NewVotersCause.FIRST(cures=cures) if cures else NewVotersCause.FIRST_SETTINGS(),
        )
    return election


def _check_not_parted(result: NewVoters) -> None:
    """Refuse to choose between two ends of which either may be committed. A later epoch went on without the older one;
    but a leader after that, with the voters that are not here, may have gone on from the older one, and committed it
    (the Raft paper's figure 8)."""
    if not result.may_lose or not result.tails:
        return
    tail, best = result.tails[0], result.controller
    raise Refused(
        NewVotersCause.PARTED(
            first=tail.first,
            last=tail.last,
            better=best.path,
            epoch=best.log.position.epoch,
            ids=result.unseen,
        ),
        path=os.path.dirname(tail.path),
        cure=NewVotersCause.GIVE_UP_ONE(),
    )


def _check_loss(result: NewVoters, election: Election, wish: Wish) -> None:
    if wish.accepts_loss:
        return
    if result.tails:  # a disk that is older than its node was when it stopped may hide that they were committed
        tail, best = result.tails[0], result.controller
        raise Refused(
            NewVotersCause.NOT_TAKEN(first=tail.first, last=tail.last, better=best.path),
            path=os.path.dirname(tail.path),
            cure=NewVotersCause.CONFIRM_NOT_TAKEN(),
        )
    if not result.may_lose:
        return
    epoch = result.unseen_epoch
    more: Text = "" if epoch is None else NewVotersCause.UNSEEN_EPOCH(epoch=epoch)
    cures = cures_with_these_voters(election)
    instead: Text = NewVotersCause.INSTEAD(cures=cures) if cures else ""
    raise Refused(
        NewVotersCause.WOULD_BE_LOST(ids=result.unseen, more=more),
        cure=NewVotersCause.BRING_DISKS(instead=instead),
    )
