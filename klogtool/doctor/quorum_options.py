"""What to do about a controller that does not vote, or has no leader: what loses nothing comes first."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.doctor.answers import Ahead, Option, Strategy, What
from klogtool.doctor.patient import Patient
from klogtool.escape import quoted
from klogtool.format.kraft_snapshot import Voter

_UNDERSTOOD = "only if a majority of the voters is lost for good: metadata that only they have is lost"


def quorum_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a point about the quorum, the cheapest first."""
    metadata = patient.cluster.metadata
    voters = () if metadata is None else metadata.quorum.voters or ()
    if point.cure is not None and not point.cure_looks:
        yield _by_hand(_TITLES.get(point.what, "by hand"), point.path, point.cure)
    if point.what is What.NO_MAJORITY:
        yield from (_bring(voter, point.path) for voter in voters if voter.id != patient.cluster.node_id)
    if point.what in (What.NOT_VOTER, What.NO_MAJORITY, What.ENDPOINT_STALE) and voters:
        yield _rewrite(point, patient)


_TITLES = {
    What.ENDPOINT_STALE: "start it with its old endpoint",
    What.METADATA_BEHIND: "start the best copy first",
    What.STATE_CONTRADICTS: "delete quorum-state",
}


def _bring(voter: Voter, path: str) -> Option:
    command = (
        f"start node {voter.id} with its old disk; or with a new one: kafka-storage format --no-initial-controllers, "
        f"then directory.id={voter.directory_id} in its meta.properties"
    )
    return _by_hand(f"bring voter {voter.id}", path, command)


def _rewrite(point: Ahead, patient: Patient) -> Option:
    """Return the last resort: it is planned by another command, which wants to know that the others are lost."""
    log_dir = patient.cluster.metadata_dir or patient.log_dirs[0]
    command = f"klogtool quorum {quoted(log_dir)} --standalone --plan-out plan.json"
    return Option(
        "make this node the only voter",
        point.path,
        command,
        Strategy.MAY_DIVERGE,
        price=_UNDERSTOOD,
    )


def _by_hand(title: str, path: str, command: str) -> Option:
    return Option(title, path, command, Strategy.NOTHING_LOST, is_undone=False)
