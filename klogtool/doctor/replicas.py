"""Partitions that the cluster has on this broker, and what a start makes of their folders: those that are marked for
deletion, those with the name of another topic, and those in a log dir that is not named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from klogtool.broker.metadata.image import Replicas
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AheadCause, few_names
from klogtool.doctor.patient import Cluster, Patient
from klogtool.format.names import METADATA_TOPIC, PartitionDirState
from klogtool.format.uuids import is_reserved_directory_id, parse_uuid
from klogtool.log.log_files import find_log_bytes
from klogtool.log.partition import Partition
from klogtool.verify.identity_cures import read_topic_id

ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
_Key = tuple[str, int]  # topic, partition


def walk_replica_points(patient: Patient) -> Iterator[Ahead]:
    """Yield the points. Without the cluster's metadata, or without the broker's id, there are none."""
    cluster = patient.cluster
    if cluster.metadata is None or cluster.node_id is None:
        return
    partitions = [p for p in patient.partitions() if p.topic not in (None, METADATA_TOPIC) and p.partition is not None]
    present = {_key(p) for p in partitions if p.state.is_current}
    for partition in partitions:
        expected = _expected(partition, cluster)
        if expected is None:
            continue
        if partition.state is PartitionDirState.DELETE and expected not in present:
            size = find_log_bytes(partition)
            if size:
                yield Ahead(partition.path, What.ALL_DELETED, AheadCause.MARKED_DELETED(size=size), lost_bytes=size)
        elif partition.state.is_current and expected[0] != partition.topic:
            yield _misnamed(partition, expected, is_led=partition.topic in cluster.topics.by_name)


def walk_left_out(patient: Patient) -> Iterator[Ahead]:
    """Yield a point for each log dir that has partitions of this broker and is not named."""
    present = {_key(partition) for partition in patient.partitions() if partition.topic is not None}
    yield from _left_out(patient.cluster, present)


def _key(partition: Partition) -> _Key:
    return partition.topic or "", partition.partition or 0


def _expected(partition: Partition, cluster: Cluster) -> _Key | None:
    """Return the topic, by the folder's topic id, and the partition, if the cluster has it on this broker."""
    topic_id, number = read_topic_id(partition), partition.partition or 0
    topic = None if topic_id is None else cluster.topic_of(topic_id)
    replicas = None if topic_id is None else cluster.replicas_of(topic_id, number)
    if topic is None or replicas is None or cluster.node_id not in replicas.brokers:
        return None
    return topic, number


def _misnamed(partition: Partition, expected: _Key, *, is_led: bool) -> Ahead:
    size, name = find_log_bytes(partition), f"{partition.topic}-{partition.partition}"
    led = AheadCause.FAILS_TO_LEAD() if is_led else ""
    detail = AheadCause.MISNAMED(topic=expected[0], name=name, size=size, led=led)
    return Ahead(partition.path, What.MISNAMED, detail, lost_bytes=size)


def is_left_out(replicas: Replicas, cluster: Cluster) -> bool:
    """Return whether the cluster has the partition in a log dir of this broker that is not named."""
    directory = None if cluster.node_id is None else replicas.directory_of(cluster.node_id)
    if directory is None or directory in (*cluster.directories.values(), _own_voter(cluster)):
        return False
    return not is_reserved_directory_id(parse_uuid(directory))


def _left_out(cluster: Cluster, present: set[_Key]) -> Iterator[Ahead]:
    missing: dict[str, list[str]] = {}
    for topic, topic_id in (cluster.metadata.topic_ids if cluster.metadata else {}).items():
        for number, replicas in (cluster.metadata.replicas if cluster.metadata else {}).get(topic_id, {}).items():
            if (topic, number) not in present and is_left_out(replicas, cluster) and cluster.node_id is not None:
                missing.setdefault(replicas.directory_of(cluster.node_id) or "", []).append(f"{topic}-{number}")
    if cluster.metadata_dir is not None:
        yield from (_unnamed(cluster.metadata_dir, directory, names) for directory, names in missing.items())


def leads_in(cluster: Cluster, log_dirs: Collection[str]) -> bool:
    """Return whether this broker, by the metadata, still leads a partition of these log dirs: nobody fenced it since it
    was killed.

    If they are offline, a start fails at the first such partition (Partition.makeLeader), and does not apply the rest
    of its first image. The change that takes their leaders away is the first that it hears of the others, so it takes
    them for new ones, and makes empty folders for them elsewhere (ReplicaManager.getOrCreatePartition).
    """
    directories = {cluster.directories.get(path) for path in log_dirs} - {None}
    return cluster.metadata is not None and any(
        replicas.leader == cluster.node_id and replicas.directory_of(replicas.leader) in directories
        for partitions in cluster.metadata.replicas.values()
        for replicas in partitions.values()
    )


def has_eligible_replicas(cluster: Cluster) -> bool:
    """Return whether the cluster has eligible leader replicas (KIP-966): then a registration after a kill takes every
    leader away from a broker, so it hears of each partition once more."""
    return cluster.metadata is not None and cluster.metadata.features.get(ELIGIBLE_REPLICAS, 0) > 0


def _own_voter(cluster: Cluster) -> str | None:
    """Return the directory id with which this node votes. If no log dir has it, that is a trouble of its own."""
    voter = None if cluster.metadata is None else cluster.metadata.quorum.voter(cluster.node_id)
    return None if voter is None else voter.directory_id


def _unnamed(path: str, directory: str, names: Sequence[str]) -> Ahead:
    detail = AheadCause.LEFT_OUT(count=len(names), directory=directory, names=few_names(names))
    return Ahead(path, What.LEFT_OUT, detail)
