"""Answers of quorum: the JSON row of the contract (docs/contract.md), and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool.escape import joined, quoted
from klogtool.plans.plan import Plan
from klogtool.plans.quorum_voters import VotersResult
from klogtool.quorum.cures import cures_of
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, Seat
from klogtool.render.changes import change_text
from klogtool.render.counts import count_text, offsets_text

if TYPE_CHECKING:
    from klogtool.format.kraft_snapshot import Endpoint, Voter
    from klogtool.quorum.controllers import Controller, MetadataLog


class VoterRow(Struct, frozen=True):
    """A voter. directory_id: null in a static quorum. endpoints: as kafka-metadata-quorum prints them."""

    id: int
    directory_id: str | None
    endpoints: tuple[str, ...]


class SeatRow(Struct, frozen=True):
    """A disk. why_not: the id of the cause. believes: whether it is a voter by its own copy. epoch: of its last
    record; end_offset: the offset after that."""

    path: str
    node_id: int | None
    directory_id: str | None
    cluster_id: str | None
    is_voter: bool
    why_not: str | None
    believes: bool
    epoch: int
    end_offset: int
    leader_epoch: int | None


class PositionRow(Struct, frozen=True):
    """Where the last VotersRecord stands."""

    offset: int
    epoch: int


class QuorumRow(Struct, frozen=True):
    """The answer of the contract."""

    kraft_version: int
    voters: tuple[VoterRow, ...]
    voters_at: PositionRow | None
    here: tuple[SeatRow, ...]
    majority: int
    missing: tuple[int, ...]
    leader: str
    may_lead: tuple[int, ...]
    why: str
    causes: tuple[str, ...]
    leader_is_empty: bool
    most_complete: str | None
    would_be_lost: tuple[tuple[int, int], ...]
    would_be_lost_records: int | None
    cures: tuple[str, ...]


def quorum_row(election: Election) -> QuorumRow:
    """Return the contract's answer."""
    best = _ruling(election)
    at = None if best is None else best.log.voters_at
    return QuorumRow(
        0 if best is None else best.log.quorum.kraft_version,
        tuple(_voter_row(voter) for voter in election.voters),
        None if at is None else PositionRow(at.end_offset, at.epoch),
        tuple(_seat_row(seat) for seat in election.seats),
        election.majority,
        election.missing,
        election.outcome.value,
        election.may_lead,
        " ".join(_why(election)),
        tuple(cause.value for cause in election.causes),
        election.leader_is_empty,
        election.best,
        () if election.lost is None else (election.lost,),
        election.lost_records,
        cures_of(election),
    )


def _ruling(election: Election) -> Controller | None:
    """Return the copy whose voters count."""
    known = [seat.controller for seat in election.seats if seat.controller.log.quorum.voters == election.voters]
    everyone = known or [seat.controller for seat in election.seats]
    return max(everyone, key=lambda found: found.log.position, default=None)


def _voter_row(voter: Voter) -> VoterRow:
    return VoterRow(voter.id, voter.directory_id or None, tuple(map(_endpoint_text, voter.endpoints)))


def _endpoint_text(endpoint: Endpoint) -> str:
    return f"{endpoint.name}://{endpoint.address}" if endpoint.name else endpoint.address


def _seat_row(seat: Seat) -> SeatRow:
    controller = seat.controller
    return SeatRow(
        controller.path,
        controller.node_id,
        controller.directory_id,
        controller.cluster_id,
        seat.why_not is None,
        None if seat.why_not is None else seat.why_not.value,
        seat.believes,
        controller.log.position.epoch,
        controller.log.position.end_offset,
        None if controller.quorum_state is None else controller.quorum_state.leader_epoch,
    )


def quorum_text(election: Election) -> str:
    """Return the verdict first, then the voters, the disks, and what to do."""
    cures = cures_of(election)
    advice = ("", "What to do:", *(f"  {cure}" for cure in cures)) if cures else ()
    return joined((*_why(election), "", *_voter_lines(election), "", *_seat_lines(election), *advice))


def _why(election: Election) -> Iterator[str]:
    """Yield the verdict: whether these controllers elect a leader, and what that costs."""
    if election.outcome is ElectionOutcome.ELECTED:
        yield f"A leader is elected: {_nodes(election.may_lead)}."
    elif election.outcome is ElectionOutcome.NEVER:
        yield "No leader is ever elected if these controllers start, and no others."
    else:
        yield "Whether a leader is elected is unknown."
    yield from (_cause_text(cause, election) for cause in election.causes)
    if election.leader_is_empty:
        yield "DANGER: a controller without any metadata may lead. All topics would be lost."
    elif election.lost is not None:
        first, last = election.lost
        what = "" if election.lost_records is None else f": {count_text(election.lost_records, 'record')} of metadata"
        yield (
            f"A leader may lack {offsets_text(first, last)} of the most complete copy{what}. A leader's end is where "
            "others are cut. Whether this was committed is unknown."
        )


def _nodes(ids: Iterable[int]) -> str:
    names = [str(node_id) for node_id in ids]
    return f"node {names[0]}" if len(names) == 1 else f"one of the nodes {', '.join(names)}"


def _voter_lines(election: Election) -> Iterator[str]:
    best = _ruling(election)
    if not election.voters or best is None:
        yield "Voters: none are known."
        return
    at = best.log.voters_at
    source = (
        "controller.quorum.voters"
        if at is None
        else f"the record at offset {at.end_offset:,}, epoch {at.epoch}, kraft.version {best.log.quorum.kraft_version}"
    )
    yield f"Voters, by {source}. A leader needs {election.majority} of {len(election.voters)}:"
    for voter in election.voters:
        is_known = any(seat.controller.node_id == voter.id for seat in election.seats)
        place = "here" if voter.id not in election.missing else "here, but no voter" if is_known else "not here"
        endpoints = ", ".join(map(_endpoint_text, voter.endpoints))
        yield f"  {voter.id}  {voter.directory_id or 'any directory.id'}  {endpoints}  {place}"


def _seat_lines(election: Election) -> Iterator[str]:
    yield "Disks:"
    for seat in election.seats:
        controller, position = seat.controller, seat.controller.log.position
        what = "voter" if seat.why_not is None else f"no voter: {_WHY_NOT[seat.why_not]}"
        best = ", the most complete copy" if controller.path == election.best and len(election.seats) > 1 else ""
        node = "no node id" if controller.node_id is None else f"node {controller.node_id}"
        end = f"ends at offset {position.end_offset:,}, epoch {position.epoch}"
        yield f"  {controller.path}: {node}, {what}; {end}{best}{_damage_text(controller.log)}"


def _damage_text(log: MetadataLog) -> str:
    if log.damage is not None:
        return f"; a start cuts the log there: {log.damage.reason}"
    if log.trouble is not None:
        return f"; read up to there only: {log.trouble.reason}"
    if log.cut_bytes:
        return f"; {count_text(log.cut_bytes, 'byte')} after the last whole batch"
    return "; its log is behind its newest snapshot, and a start throws the log away" if log.is_behind_snapshot else ""


_WHY_NOT = {
    ElectionCause.NO_IDENTITY: "it has no meta.properties",
    ElectionCause.STATE_CORRUPT: "its start ends at quorum-state",
    ElectionCause.LOG_DAMAGED: "its start ends at its newest snapshot",
    ElectionCause.SIDE_FILE_CORRUPT: "its start ends at a small file beside its metadata log",
    ElectionCause.OTHER_NODE: "the settings have another node.id",
    ElectionCause.SETTINGS_REFUSED: "its start ends at its settings",
    ElectionCause.LISTENER_UNKNOWN: "it ends, because no voter is known at its controller.listener.names",
    ElectionCause.NO_CONTROLLER: "process.roles has no controller",
    ElectionCause.OTHER_DIRECTORY: "the voter with this node.id has another directory.id",
    ElectionCause.UNKNOWN_NODE: "no voter has this node.id",
    ElectionCause.NO_VOTERS: "no voters are known",
    ElectionCause.SETTINGS_UNKNOWN: "the voters are in its settings, which are not known",
    ElectionCause.OTHER_CLUSTER: "it has another cluster.id",
}


_CAUSES = {
    ElectionCause.NO_IDENTITY: "A log dir without meta.properties does not start.",
    ElectionCause.STATE_CORRUPT: "A controller does not start, because it cannot read quorum-state.",
    ElectionCause.OTHER_NODE: "A controller does not start, because meta.properties has another node.id.",
    ElectionCause.SETTINGS_REFUSED: "A controller does not start with its settings.",
    ElectionCause.LOG_DAMAGED: "A metadata log is damaged. What only that copy had is not counted.",
    ElectionCause.SIDE_FILE_CORRUPT: (
        "A controller does not start, because it cannot take leader-epoch-checkpoint or partition.metadata as it is."
    ),
    ElectionCause.NO_CONTROLLER: "A disk is that of a broker, which does not vote.",
    ElectionCause.OTHER_DIRECTORY: "A controller does not have the directory.id with which it votes.",
    ElectionCause.UNKNOWN_NODE: "A controller has a node.id that no voter has.",
    ElectionCause.NO_VOTERS: "Neither the metadata log nor controller.quorum.voters names voters.",
    ElectionCause.SETTINGS_UNKNOWN: "The voters are in the settings, which are not known.",
    ElectionCause.VERSION_WITHOUT_VOTERS: (
        "kraft.version is 1, but no record names voters: the node that becomes leader ends."
    ),
    ElectionCause.ENDPOINTS_STALE: "The voters are here, but they do not listen where the voters' record says.",
    ElectionCause.LISTENER_UNKNOWN: (
        "A controller ends, because the voters' record has no endpoint with its first controller.listener.names."
    ),
    ElectionCause.STALE_CANDIDATE: (
        "A controller voted for itself in an epoch of its log: it ends if another one is up first."
    ),
    ElectionCause.FORGOT_EPOCH: "A controller lost the epoch that it led: it may end when another one tells it.",
    ElectionCause.NO_EPOCH_LEFT: "A controller knows of epoch 2,147,483,647, after which there is none.",
    ElectionCause.VOTERS_DIFFER: (
        "DANGER: these controllers do not have the same voters, so that two of them may lead at the same time."
    ),
    ElectionCause.CANDIDATE_NO_VOTER: (
        "A controller does not start: quorum-state has its vote for itself, but by its own copy it is no voter."
    ),
    ElectionCause.OTHER_CLUSTER: "A controller has another cluster.id than the others.",
}


def _cause_text(cause: ElectionCause, election: Election) -> str:
    if cause is ElectionCause.COPIES_DIFFER and election.apart is not None:
        apart = election.apart
        return (
            f"DANGER: {apart.other} and {apart.better} differ at offset {apart.offset:,} of epoch {apart.epoch}: these "
            "are two logs, and Kafka would never notice."
        )
    if cause is not ElectionCause.NO_MAJORITY:
        return _CAUSES[cause]
    here = len(election.voters) - len(election.missing)
    missing = f"; {' and '.join(map(str, election.missing))} {'is' if len(election.missing) == 1 else 'are'} not"
    return (
        f"A leader needs {election.majority} of {len(election.voters)} voters, with logs that are no better than its "
        f"own: {here} {'is' if here == 1 else 'are'} here{missing if election.missing else ''}."
    )


def voters_text(plan: Plan) -> str:
    """Show the plan."""
    return change_text(plan, VotersResult, _voters_headline, _voters_evidence)


def _voters_headline(result: VotersResult) -> str:
    ids = [voter.id for voter in result.voters]
    who = f"node {ids[0]} is the only voter" if len(ids) == 1 else f"{_words(ids, 'and')} are the voters"
    if not result.kraft_version:
        return f"the quorum becomes static: {who}, from a snapshot at offset {result.offset:,}, epoch {result.epoch:,}"
    return f"{who} from offset {result.offset:,} on, in epoch {result.epoch:,}"


def _voters_evidence(result: VotersResult) -> Iterator[str]:
    for voter in result.voters:
        yield f"voter {voter.id}  {voter.directory_id}  {', '.join(voter.endpoints)}"
    source = "" if result.was_dynamic else ", by the settings; the metadata log named none"
    yield f"voters before: {', '.join(map(str, result.was))}{source}"
    yield "all records of this copy count as committed from now on, whether they were or not"
    if not result.may_lose:
        yield "loses nothing: every majority of the old voters has a copy here"
    else:
        yield f"MAY LOSE records that only {_words(result.unseen, 'and')} had, committed ones as well."
        yield "How many cannot be known."
    if result.unseen_epoch is not None:
        yield f"At least the first record of epoch {result.unseen_epoch} is in no copy here."
    for tail in result.not_taken:
        yield f"not taken: {offsets_text(tail.first, tail.last)} of {tail.path}; a later epoch went on without them,"
        yield "so they were never committed"
    yield ""
    yield from _next_steps(result)
    yield from _voters_warning(result)
    yield ""


def _next_steps(result: VotersResult) -> Iterator[str]:
    """Yield what to do after it is written."""
    first, ids = result.voters[0], [voter.id for voter in result.voters]
    own = next((voter for voter in result.voters if voter.id == result.node_id), first)
    server = own.endpoints[0].split("://")[-1]
    servers = ",".join(voter.endpoints[0].split("://")[-1] for voter in result.voters)
    others = [node for node in ids if node != result.node_id]
    yield "What to do then:"
    if not result.kraft_version:
        voters = f"{own.id}@{server}"
        yield f"  Set controller.quorum.voters={voters} everywhere, and remove controller.quorum.bootstrap.servers."
        yield "  Without it no leader is elected."
    elif not result.was_dynamic:
        yield f"  Set controller.quorum.bootstrap.servers={servers} everywhere, and remove controller.quorum.voters."
    else:
        yield f"  Set controller.quorum.bootstrap.servers={servers}, also on the brokers."
    yield f"  Start node {result.node_id}{' first' if others else ''}."
    if others:
        majority = len(ids) // 2
        yield f"  It leads once {majority} of {_words(others, 'and')} {'is' if majority == 1 else 'are'} up as well."
    for node in (node for node in result.was if node not in ids and result.kraft_version):
        config = f"server-{node}.properties"
        cluster = quoted(result.cluster_id or "CLUSTER-ID")
        yield f"  Node {node}, on an empty disk, once there is a leader:"
        yield f"    kafka-storage format --cluster-id {cluster} --config {config} --no-initial-controllers"
        yield "    start it (if it ends with 'Unknown leader endpoints', start it again), then"
        yield f"    kafka-metadata-quorum --bootstrap-controller {server} --command-config {config} add-controller"


def _voters_warning(result: VotersResult) -> Iterator[str]:
    ids = {voter.id for voter in result.voters}
    gone = [node for node in result.was if node not in ids] or result.unseen
    if not gone:
        return
    yield ""
    yield f"NEVER start {_words(gone, 'or')} with an old disk again. While node {result.node_id} is down, a majority of"
    yield f"old disks elects a leader of its own. A broker that has not seen epoch {result.epoch:,} follows it,"
    yield f"and cuts its metadata. When node {result.node_id} is back, the old ones end, and what they wrote is lost."


def _words(ids: Sequence[int], last: str) -> str:
    names = [str(node_id) for node_id in ids]
    if len(names) < 2:
        return f"node {names[0]}" if names else "nobody"
    return f"nodes {', '.join(names[:-1])} {last} {names[-1]}"
