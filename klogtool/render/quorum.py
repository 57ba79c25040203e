"""Answers of quorum: the JSON row of the contract (docs/contract.md), and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool.escape import joined
from klogtool.quorum.cures import cures_of
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, Seat
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
    found = seat.controller
    return SeatRow(
        found.path,
        found.node_id,
        found.directory_id,
        found.cluster_id,
        seat.why_not is None,
        None if seat.why_not is None else seat.why_not.value,
        seat.believes,
        found.log.position.epoch,
        found.log.position.end_offset,
        None if found.quorum_state is None else found.quorum_state.leader_epoch,
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
        found, position = seat.controller, seat.controller.log.position
        what = "voter" if seat.why_not is None else f"no voter: {_WHY_NOT[seat.why_not]}"
        best = ", the most complete copy" if found.path == election.best and len(election.seats) > 1 else ""
        node = "no node id" if found.node_id is None else f"node {found.node_id}"
        end = f"ends at offset {position.end_offset:,}, epoch {position.epoch}"
        yield f"  {found.path}: {node}, {what}; {end}{best}{_damage_text(found.log)}"


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
    ElectionCause.OTHER_CLUSTER: "A controller has another cluster.id than the others.",
}


def _cause_text(cause: ElectionCause, election: Election) -> str:
    if cause is not ElectionCause.NO_MAJORITY:
        return _CAUSES[cause]
    here = len(election.voters) - len(election.missing)
    missing = f"; {' and '.join(map(str, election.missing))} {'is' if len(election.missing) == 1 else 'are'} not"
    return (
        f"A leader needs {election.majority} of {len(election.voters)} voters, with logs that are no better than its "
        f"own: {here} {'is' if here == 1 else 'are'} here{missing if election.missing else ''}."
    )
