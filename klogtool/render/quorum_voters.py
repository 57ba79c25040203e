"""The plan of a new set of voters, for people: who votes then, what may be lost, what must never happen, what to do
next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klogtool.escape import quoted
from klogtool.plans.plan import Plan
from klogtool.plans.quorum_voters import VotersResult
from klogtool.render.changes import change_text
from klogtool.render.counts import offsets_text


def voters_text(plan: Plan) -> str:
    """Show the plan."""
    return change_text(plan, VotersResult, _headline, _evidence)


def _headline(result: VotersResult) -> str:
    ids = [voter.id for voter in result.voters]
    who = f"node {ids[0]} is the only voter" if len(ids) == 1 else f"{_words(ids, 'and')} are the voters"
    if not result.kraft_version:
        return f"the quorum becomes static: {who}, from a snapshot at offset {result.offset:,}, epoch {result.epoch:,}"
    return f"{who} from offset {result.offset:,} on, in epoch {result.epoch:,}"


def _evidence(result: VotersResult) -> Iterator[str]:
    for voter in result.voters:
        yield f"voter {voter.id}  {voter.directory_id}  {', '.join(voter.endpoints)}"
    source = "" if result.was_dynamic else ", by the settings; the metadata log named none"
    yield f"voters before: {', '.join(map(str, result.was))}{source}"
    yield from _price(result)
    yield ""
    yield from _next_steps(result)
    yield from _warning(result)
    yield ""


def _price(result: VotersResult) -> Iterator[str]:
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


def _warning(result: VotersResult) -> Iterator[str]:
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
