"""Options for `__cluster_metadata-0` and its quorum: a record that a start does not replay, a controller that does not
vote or has no leader. What loses nothing comes first."""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.doctor.answers import BY_HAND, Ahead, Option, Remedy, Strategy, What, by_hand
from klogtool.doctor.patient import Patient
from klogtool.escape import quoted
from klogtool.format.kraft_snapshot import Voter
from klogtool.plans.truncate import COMMAND as TRUNCATE
from klogtool.plans.truncate import TruncateQuestion
from klogtool.verify.verify_kraft import FROM_A_CONTROLLER

_FORGETS = "the cluster forgets what changed from this offset on; partitions that were created later become -stray"
_UNDERSTOOD = "only if a majority of the voters is lost for good: metadata that only they have is lost"


def quorum_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a point about the quorum, the cheapest first."""
    metadata = patient.cluster.metadata
    voters = () if metadata is None else metadata.quorum.voters or ()
    if point.cure is not None and not point.cure_looks:
        yield by_hand(point.path, point.cure, _TITLES.get(point.what, BY_HAND))
    if point.what is What.NO_MAJORITY:
        yield from (_bring(voter, point.path) for voter in voters if voter.id != patient.cluster.node_id)
    if point.what in (What.NOT_VOTER, What.NO_MAJORITY, What.ENDPOINT_STALE) and voters:
        yield _rewrite(point, patient)


_TITLES = {
    What.ENDPOINT_STALE: "start it with its old endpoint",
    What.METADATA_BEHIND: "start the best copy first",
}


def _bring(voter: Voter, path: str) -> Option:
    command = (
        f"start node {voter.id} with its old disk; or with a new one: kafka-storage format --no-initial-controllers, "
        f"then directory.id={voter.directory_id} in its meta.properties"
    )
    return by_hand(path, command, f"bring voter {voter.id}")


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


def copy_option(folder: str) -> Option:
    """Return the option to take the folder from another controller. What its log lacks is not known here."""
    return by_hand(folder, FROM_A_CONTROLLER, "take the copy of another controller")


def replay_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a record that does not replay: another copy, or the log without what begins with it."""
    folder = os.path.join(patient.log_dir_of(point.path), CLUSTER_METADATA_DIR)
    yield copy_option(folder)
    refusal = read_cluster_metadata(folder, patient.rules).refusal
    if refusal is None or refusal.offset is None:
        return
    question = TruncateQuestion(circumstances=patient.circumstances, to=refusal.offset)
    yield Option(
        f"cut the metadata log before offset {refusal.offset}",
        folder,
        f"klogtool truncate {quoted(folder)} --to {refusal.offset}",
        Strategy.AS_THE_BROKER,
        None,
        None,
        price=_FORGETS,
        remedies=(Remedy(TRUNCATE, folder, question),),
    )
