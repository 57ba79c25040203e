"""A controller that is no voter of its quorum any more: with it no start is a start.

That a leader is elected is never promised here: other voters decide it, and this disk does not show them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.quorum import Quorum
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.format.names import METADATA_TOPIC
from klogtool.log.partition import Partition
from klogtool.quorum.settings import (
    BOOTSTRAP_SERVERS,
    BROKER,
    REGISTRATION_TIMEOUT_MS,
    ROLES,
    VOTERS,
    QuorumSettings,
)
from klogtool.verify.findings import Severity
from klogtool.verify.verify_voters import read_identities, verify_voters


def walk_voter_points(patient: Patient) -> Iterator[Ahead]:
    """Yield a point if this controller does not vote: alone, it never has a leader."""
    metadata = patient.cluster.metadata
    if metadata is None:
        return
    settings = _settings(patient)
    if metadata.quorum.voters is None:
        yield from _without_static_voters(patient, settings)
        return
    is_alone = len(metadata.quorum.voters) == 1
    identities = read_identities(patient.log_dirs)
    for finding in verify_voters(identities):
        if finding.stop is None:
            point = Ahead(finding.path, What.NOT_VOTER, finding.detail, Severity.ERROR, finding=finding.id)
            point = replace(point, cure=finding.cure)
            yield _never_led(point, patient, settings) if is_alone else point


def _without_static_voters(patient: Patient, settings: QuorumSettings | None) -> Iterator[Ahead]:
    """Yield a point if the quorum is static, and the file of settings does not name its voters: this controller then
    finds no voter, not even itself ("Starting voters are VoterSet(voters={})")."""
    cluster = patient.cluster
    if settings is None or settings.voters or not settings.is_controller or not _has_records(cluster):
        return
    if cluster.metadata is None or cluster.metadata.quorum.kraft_version or cluster.metadata.problem is not None:
        return
    path = os.path.join(cluster.metadata_dir or "", CLUSTER_METADATA_DIR)
    known = static_voters(cluster)
    detail = (
        f"its quorum is static (kraft.version 0), so {VOTERS} says who votes, and the file of settings has only "
        f"{BOOTSTRAP_SERVERS}"
    )
    own = next((endpoint.address for endpoint in settings.endpoints or settings.servers), None)
    named = ",".join(f"{one}@{own if one == settings.node_id else 'HOST:PORT'}" for one in known)
    setting = f"{VOTERS}={named}" if known else f"{VOTERS} to all voters, as other controllers have it,"
    cure = f"set {setting} in the file of settings, or take the folder of a controller that was upgraded"
    if known == (settings.node_id,):
        point = Ahead(path, What.NO_LEADER, f"{detail}: no leader is ever elected", Severity.ERROR, cure=cure)
        yield _never_led(point, patient, settings)
        return
    others = "" if known else "; nothing here says who else does"
    yield Ahead(path, What.NOT_VOTER, f"{detail}: this controller does not vote{others}", Severity.ERROR, cure=cure)


def static_voters(cluster: Cluster) -> tuple[int, ...]:
    """Return the ids of the voters of a static quorum, as `quorum-state` has them, or the controllers that are known;
    empty if nothing says it."""
    if cluster.metadata is None or cluster.metadata_dir is None:
        return ()
    try:
        state = Partition(os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)).quorum_state
    except KlogError:  # a start problem, which is reported
        state = None
    current = () if state is None else state.current_voters
    return tuple(sorted(current or cluster.metadata.known.controllers))


def _never_led(point: Ahead, patient: Patient, settings: QuorumSettings | None) -> Ahead:
    """Return the point of a quorum that never has a leader. A broker asks for its registration until a timeout, and
    then the process ends (BrokerLifecycleManager); a controller alone waits for ever."""
    is_broker = _is_broker(patient, settings)
    timeout_ms = REGISTRATION_TIMEOUT_MS if settings is None else settings.registration_timeout_ms
    after_ms = timeout_ms if is_broker else None
    return replace(point, what=What.NO_LEADER, ends=is_broker, ends_after_ms=after_ms)


def _is_broker(patient: Patient, settings: QuorumSettings | None) -> bool | None:
    """Return whether the process has a broker; None if neither the file of settings nor a disk shows it."""
    if settings is not None:
        return BROKER in settings.roles
    metadata, node_id = patient.cluster.metadata, patient.cluster.node_id
    has_logs = any(partition.topic not in (None, METADATA_TOPIC) for partition in patient.partitions())
    if has_logs or (metadata is not None and node_id in metadata.known.brokers):
        return True
    return False if metadata is not None and node_id in metadata.known.controllers else None


def _settings(patient: Patient) -> QuorumSettings | None:
    try:
        return QuorumSettings.of(patient.circumstances.server_settings, patient.rules)
    except KlogError:  # it is a point of its own
        return None


def walk_unlike_settings(patient: Patient) -> Iterator[str]:
    """Yield where the file of settings and the metadata log do not name the same voters."""
    settings, cluster = _settings(patient), patient.cluster
    if settings is None or cluster.metadata is None:
        return
    voters = cluster.metadata.quorum.voters
    if voters is None:
        yield from _unlike_static(settings, static_voters(cluster))
        return
    ids = {voter.id for voter in voters}
    told = ", ".join(f"{voter.id}@{address}" for voter in voters for address in voter.addresses)
    if settings.voters and set(settings.voters) != ids:
        yield (
            f"{VOTERS} has nodes {_numbers(settings.voters)}, but the metadata log has the voters {told}: those of the "
            "log count"
        )
    servers = [server.address for server in settings.servers]
    if servers and not {*servers} & {address for voter in voters for address in voter.addresses}:
        yield (
            f"no address of {BOOTSTRAP_SERVERS} ({', '.join(servers)}) is that of a voter in the "
            f"metadata log ({told}): unless they are other names of the same, this node finds no leader of others"
        )
    own = cluster.metadata.quorum.voter(settings.node_id)
    ports = {endpoint.port for endpoint in settings.endpoints}
    if own is not None and len(ids) > 1 and ports and not ports & {endpoint.port for endpoint in own.endpoints}:
        yield (
            f"the metadata log has this voter at {', '.join(own.addresses)}, but it listens at port {_numbers(ports)}: "
            "the leader learns it; but if a majority of the voters has moved, none is ever elected"
        )
    if settings.node_id in ids and not settings.is_controller:
        yield f"node {settings.node_id} is a voter by the metadata log, but {ROLES} has no controller"


def _unlike_static(settings: QuorumSettings, known: Sequence[int]) -> Iterator[str]:
    if known and settings.voters and set(known) != set(settings.voters):
        needed = len(settings.voters) // 2 + 1
        yield (
            f"{VOTERS} has nodes {_numbers(settings.voters)}, but the voters were {_numbers(known)}: a leader needs "
            f"{needed} of those in the file of settings"
        )
    own = settings.voters.get(settings.node_id) if settings.node_id is not None else None
    ports = {endpoint.port for endpoint in settings.endpoints}
    if settings.is_controller and own is not None and ports and own.port not in ports:
        yield (
            f"{VOTERS} has this controller at {own.address}, but it listens at port {_numbers(ports)}: unless "
            "something forwards it, nobody reaches it, and a broker ends without a leader"
        )


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def walk_quorum_notes(cluster: Cluster) -> Iterator[str]:
    """Yield what a leader needs, if this controller is one of several voters."""
    quorum = Quorum() if cluster.metadata is None else cluster.metadata.quorum
    voters = quorum.voters or ()
    if len(voters) > 1 and quorum.voter(cluster.node_id) is not None:
        names = ", ".join(str(voter.id) for voter in voters)
        yield (
            f"this controller is one of the voters {names}: a leader needs {len(voters) // 2 + 1} of them, and what "
            "the others have is not known here. klogtool quorum compares their log dirs"
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
