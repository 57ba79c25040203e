"""Answers of quorum: the JSON row of the contract (docs/contract.md), and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import asdict

from klogtool.causes import sentences, words
from klogtool.escape import joined, quoted
from klogtool.format.identity import QuorumState
from klogtool.format.kraft_snapshot import Endpoint, Voter
from klogtool.format.uuids import build_uuid
from klogtool.plans.plan import Plan
from klogtool.plans.quorum_voters import VotersResult
from klogtool.quorum.controllers import Controller, MetadataLog
from klogtool.quorum.election import Election, ElectionCause, ElectionOutcome, Seat
from klogtool.quorum.new_voters import cures_of
from klogtool.quorum.settings import QuorumSettings
from klogtool.render.changes import change_text
from klogtool.render.words import count_text, offsets_text
from klogtool.verify.verify_replay import refused_record


def quorum_row(election: Election) -> dict[str, object]:
    """Return the contract's answer."""
    best = _ruling(election)
    at = None if best is None else best.log.voters_at
    return {
        "kraft_version": 0 if best is None else best.log.quorum.kraft_version,
        "voters": list(map(_voter_row, election.voters)),
        "voters_at": at and {"offset": at.end_offset, "epoch": at.epoch},
        "here": list(map(_seat_row, election.seats)),
        "majority": election.majority,
        "missing": election.missing,
        "leader": election.outcome.value,
        "may_lead": election.may_lead,
        "why": " ".join(_why(election)),
        "causes": [cause.value for cause in election.causes],
        "leader_is_empty": election.leader_is_empty or election.begins_anew,
        "most_complete": election.best,
        "would_be_lost": [election.lost] if election.lost else [],
        "would_be_lost_records": election.lost_records,
        "gone_already": [(election.gone.first, election.gone.last)] if election.gone else [],
        "cures": cures_of(election),
    }


def _ruling(election: Election) -> Controller | None:
    """Return the copy whose voters count."""
    known = [seat.controller for seat in election.seats if seat.controller.log.quorum.voters == election.voters]
    everyone = known or [seat.controller for seat in election.seats]
    return max(everyone, key=lambda controller: controller.log.position, default=None)


def _voter_row(voter: Voter) -> dict[str, object]:
    """directory_id: null in a static quorum. endpoints: as kafka-metadata-quorum prints them."""
    endpoints = list(map(_endpoint_text, voter.endpoints))
    return {"id": voter.id, "directory_id": voter.directory_id or None, "endpoints": endpoints}


def _endpoint_text(endpoint: Endpoint) -> str:
    return f"{endpoint.name}://{endpoint.address}" if endpoint.name else endpoint.address


def _seat_row(seat: Seat) -> dict[str, object]:
    """believes: whether it is a voter by its own copy. epoch: of its last record; end_offset: the offset after that."""
    own, position, state = seat.controller, seat.controller.log.position, seat.controller.quorum_state
    return {
        "path": own.path,
        "node_id": own.node_id,
        "directory_id": own.directory_id,
        "cluster_id": own.cluster_id,
        "is_voter": seat.is_voter,
        "why_not": seat.why_not and seat.why_not.value,
        "believes": seat.believes,
        "epoch": position.epoch,
        "end_offset": position.end_offset,
        "high_watermark_at_least": own.log.committed,
        "gone_already": [own.log.gone] if own.log.gone else [],
        "leader_epoch": state and state.leader_epoch,
        "quorum_state": state and _state_row(state),
        "settings": own.settings and _settings_row(own.settings),
        "lacks": [seat.lacks] if seat.lacks else [],
        "lacks_records": seat.lacks_records,
    }


def _state_row(state: QuorumState) -> dict[str, object]:
    """An id of -1 is none; voted_directory_id: null in version 0, or without a vote."""
    voted = build_uuid(state.voted_directory_id) if any(state.voted_directory_id) else None
    return {
        "leader_id": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "voted_id": state.voted_id,
        "voted_directory_id": voted,
    }


def _settings_row(settings: QuorumSettings) -> dict[str, object]:
    """voters: of controller.quorum.voters; servers: the bootstrap servers; listeners: as others reach it."""
    return {
        "roles": sorted(settings.roles),
        "voters": list(_named_voters(settings)),
        "servers": [endpoint.address for endpoint in settings.servers],
        "listeners": list(map(_endpoint_text, settings.endpoints)),
    }


def _named_voters(settings: QuorumSettings) -> Iterator[str]:
    return (f"{node}@{endpoint.address}" for node, endpoint in settings.voters.items())


def quorum_text(election: Election) -> str:
    """Return the verdict first, then the voters, the disks, and what to do."""
    cures = cures_of(election)
    advice = ("", "What to do:", *(f"  {cure}" for cure in cures)) if cures else ()
    return joined((*_why(election), "", *_voter_lines(election), "", *_seat_lines(election), *advice))


def _why(election: Election) -> Iterator[str]:
    """Yield the verdict: whether these controllers elect a leader, and what that costs."""
    if election.outcome is ElectionOutcome.ELECTED:
        yield f"A leader is elected: {_nodes(election.may_lead)}."
        if election.names:
            yield f"It is taken for granted that the nodes resolve {', '.join(election.names)}."
    elif election.outcome is ElectionOutcome.NEVER:
        together = "if these controllers start, and no others"
        wins = f"{_nodes(election.may_lead)} wins the election, and ends" if election.may_lead else ""
        yield f"No leader stays {together}: {wins}." if wins else f"No leader is ever elected {together}."
    else:
        stays = " and stays" if election.refused else ""
        yield f"Whether a leader is elected{stays} is unknown."
    yield from (_cause_text(cause, election) for cause in election.causes)
    if election.leader_is_empty:
        yield "DANGER: a controller without any metadata may lead. All topics would be lost."
    elif election.begins_anew:
        yield (
            "No log dir here has any metadata. If metadata.log.dir is another one, name that. Else the cluster begins "
            "anew: right for one that was never started; all topics of another one would be lost."
        )
    elif election.lost is not None:
        first, last = election.lost
        what = "" if election.lost_records is None else f": {count_text(election.lost_records, 'record')} of metadata"
        yield (
            f"A leader may lack {offsets_text(first, last)} of the most complete copy{what}. A leader's end is where "
            f"others are cut. {_committed_text(election.committed, first, last)}"
        )


def _committed_text(committed: int, first: int, last: int) -> str:
    if committed <= first:
        return "Whether this was committed is unknown."
    if committed > last:
        return "All of this was committed, as a snapshot tells."
    return f"What is below offset {committed:,} was committed, as a snapshot tells; whether the rest was is unknown."


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
        what = "voter" if seat.is_voter else "no voter" if seat.is_voter is False else "voter or not"
        what += "" if seat.why_not is None else f": {sentences()['WhyNoVoter'][seat.why_not.name]}"
        if bool(seat.is_voter) != seat.believes:
            what += ", but by its own copy it is one" if seat.believes else ", but its own copy does not name it"
        best = ", the most complete copy" if controller.path == election.best and len(election.seats) > 1 else ""
        node = "no node id" if controller.node_id is None else f"node {controller.node_id}"
        end = f"ends at offset {position.end_offset:,}, epoch {position.epoch}"
        if committed := controller.log.committed:
            end += f", committed up to {committed:,} at least"
        if (gone := controller.log.gone) is not None:
            end += f", had {offsets_text(*gone)} once ({controller.log.reached_by})"
        yield f"  {controller.path}: {node}, {what}; {end}{best}{_damage_text(controller.log)}"
        yield f"    {'; '.join(_facts(seat))}"
        if controller.settings is not None:
            yield f"    settings: {'; '.join(_settings(controller.settings))}"


def _facts(seat: Seat) -> Iterator[str]:
    """Yield what its small files say of the quorum, and what its log lacks."""
    controller = seat.controller
    if controller.directory_id is not None:
        yield f"directory.id {controller.directory_id}"
    yield _state_text(controller)
    if seat.lacks is not None:
        records = seat.lacks_records
        what = "" if records is None else f", {count_text(records, 'record')} of metadata"
        yield f"lacks {offsets_text(*seat.lacks)} of the most complete copy{what}"


def _settings(settings: QuorumSettings) -> Iterator[str]:
    yield f"process.roles={','.join(sorted(settings.roles))}"
    if settings.voters:
        yield f"controller.quorum.voters={','.join(_named_voters(settings))}"
    if settings.servers:
        yield f"controller.quorum.bootstrap.servers={','.join(endpoint.address for endpoint in settings.servers)}"
    if settings.endpoints:
        yield f"it listens at {', '.join(map(_endpoint_text, settings.endpoints))}"


def _state_text(controller: Controller) -> str:
    state = controller.quorum_state
    if controller.state_problem is not None:
        return "quorum-state cannot be read"
    if state is None:
        return "no quorum-state"
    leader = f"node {state.leader_id} leads" if state.leader_id >= 0 else "no leader is known in"
    voted = f", voted for node {state.voted_id}" if state.voted_id >= 0 else ""
    return f"quorum-state: {leader} epoch {state.leader_epoch}{voted}"


def _damage_text(log: MetadataLog) -> str:
    if log.damage is not None:
        return f"; a start cuts the log there: {log.damage.reason}"
    if log.trouble is not None:
        return f"; read up to there only: {log.trouble.reason}"
    if log.cut_bytes:
        return f"; {count_text(log.cut_bytes, 'byte')} after the last whole batch"
    return "; its log is behind its newest snapshot, and a start throws the log away" if log.is_behind_snapshot else ""


def _cause_text(cause: ElectionCause, election: Election) -> str:
    if cause is ElectionCause.COPIES_DIFFER and election.apart is not None:
        return words(cause(**asdict(election.apart)))
    if cause is ElectionCause.METADATA_GONE and election.gone is not None:
        return words(cause(**asdict(election.gone)))
    if cause is ElectionCause.REPLAY_REFUSED:
        node, refusal = next(iter(sorted(election.refused.items())))
        error = f"{refusal.kafka_class}: {refusal.message}"
        return words(cause(node=node, record=refused_record(refusal), path=refusal.path, error=error))
    if cause is not ElectionCause.NO_MAJORITY:
        return words(cause())
    voters, absent = len(election.voters), election.missing
    here = voters - len(absent)
    missing = f"; {' and '.join(map(str, absent))} {'is' if len(absent) == 1 else 'are'} not" if absent else ""
    is_or_are = "is" if here == 1 else "are"
    return words(cause(majority=election.majority, voters=voters, here=here, is_or_are=is_or_are, missing=missing))


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
    for first, last in result.gone_already:
        yield f"gone already: {offsets_text(first, last)}, which a copy here had once, committed or not"
    for tail in result.not_taken:
        yield f"not taken: {offsets_text(tail.first, tail.last)} of {tail.path}; a later epoch went on without them,"
        yield "so they were never committed, unless a disk here is older than its node was when it stopped"
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
    if result.may_end:
        it = "it" if len(result.may_end) == 1 else "them"
        yield f"  {_words(result.may_end, 'and').capitalize()} may end before there is a leader: start {it} again then."
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
