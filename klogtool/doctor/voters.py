"""A controller that is no voter of its dynamic quorum any more (KIP-853): with it no start is a start.

That a leader is elected is never promised here: other voters decide it, and this disk does not show them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.quorum import Quorum
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.doctor.patient import Patient
from klogtool.log.partition import Partition
from klogtool.verify.findings import Severity
from klogtool.verify.verify_voters import read_identities, verify_voters


def walk_voter_points(patient: Patient) -> Iterator[Ahead]:
    """Yield a point if this controller does not vote: alone, it never has a leader."""
    metadata = patient.cluster.metadata
    if metadata is None or not metadata.quorum.voters:
        return
    is_alone = len(metadata.quorum.voters) == 1
    identities = read_identities(patient.log_dirs)
    for finding in verify_voters(identities):
        if finding.stop is None:
            what, severity = (What.NO_LEADER if is_alone else What.NOT_VOTER), Severity.ERROR
            yield Ahead(finding.path, what, finding.detail, severity, finding=finding.id, cure=finding.cure)


def walk_quorum_notes(cluster: Cluster) -> Iterator[str]:
    """Yield what a leader needs, if this controller is one of several voters."""
    quorum = Quorum() if cluster.metadata is None else cluster.metadata.quorum
    voters = quorum.voters or ()
    if len(voters) > 1 and quorum.voter(cluster.node_id) is not None:
        names = ", ".join(str(voter.id) for voter in voters)
        yield (
            f"this controller is one of the voters {names}: a leader needs {len(voters) // 2 + 1} of them, and what "
            "the others have is not known here"
        )
        if not _has_records(cluster):
            yield (
                "the metadata log of this controller is empty, as on a new disk: a majority of such controllers elects "
                "a leader without any topic. Start one with a whole log first"
            )


def _has_records(cluster: Cluster) -> bool:
    if cluster.metadata_dir is None:
        return True
    folder = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    return any(os.path.getsize(segment.path) for segment in Partition(folder).segments)
