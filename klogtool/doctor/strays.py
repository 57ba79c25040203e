"""Which partition dirs a broker sets aside as stray: those that the cluster's metadata does not know as they are.

The rules are LogManager.isStrayReplica's, with the metadata on these disks. A broker compares with the newest
metadata of its controllers, which may know more.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from msgspec.structs import replace

from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.doctor.metadata_lost import is_forgotten
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.log.log_files import find_log_bytes
from klogtool.log.partition import Partition
from klogtool.verify.findings import Severity
from klogtool.verify.identity import IdentityKind
from klogtool.verify.identity_cures import read_topic_id


def find_stray(partition: Partition, cluster: Cluster, current: Collection[TopicPartition | None]) -> Ahead | None:
    """Return the point if a broker would set the partition dir aside; None if it keeps it. current: the partitions of
    all log dirs: a -future folder beside one of them hides nothing."""
    found = _find_stray(partition, cluster)
    if found is None or partition.state is PartitionDirState.CURRENT or partition.topic_partition not in current:
        return found
    return replace(found, is_hidden=False, severity=Severity.WARNING)


def _find_stray(partition: Partition, cluster: Cluster) -> Ahead | None:
    if not partition.state.is_live or partition.topic in (None, METADATA_TOPIC) or not cluster.topic_ids:
        return None
    has_id = os.path.exists(os.path.join(partition.path, FileKind.PARTITION_METADATA.value))
    if not has_id and os.path.isdir(partition.path):  # else it was deleted, or moved
        is_known = cluster.metadata is None or partition.topic in cluster.metadata.topic_ids
        return _stray(partition, cluster, "it has no partition.metadata", is_known=is_known)
    topic_id = read_topic_id(partition)
    if cluster.metadata is None or topic_id is None:  # an unreadable file stops the start, which is reported
        return None
    return _judge_id(partition, topic_id, cluster)


def _judge_id(partition: Partition, topic_id: str, cluster: Cluster) -> Ahead | None:
    identity = cluster.topics.judge(partition.topic or "", topic_id)
    if identity.kind is IdentityKind.UNKNOWN:
        return _stray(partition, cluster, f"the cluster knows no topic with its id {topic_id}", is_known=False)
    if identity.kind is IdentityKind.REPLACED:
        why = f"its topic id is {topic_id}, but the cluster's {partition.topic} has {identity.id_of_name}"
        return _stray(partition, cluster, why, is_known=True)
    topic = identity.topic_of_id
    replicas = cluster.replicas_of(topic_id, partition.partition or 0)
    if replicas is None:
        why = f"the cluster's {topic} has no partition {partition.partition}"
        return _stray(partition, cluster, why, is_known=False)
    if cluster.node_id is not None and cluster.node_id not in replicas.brokers:
        brokers = ", ".join(map(str, replicas.brokers))
        why = f"its replicas are on brokers {brokers}, not on this broker {cluster.node_id}"
        return _stray(partition, cluster, why, is_known=False)
    return None


def _stray(partition: Partition, cluster: Cluster, why: str, *, is_known: bool) -> Ahead:
    """is_known: the cluster has a topic of this name, so an empty partition takes the place of this one."""
    size = find_log_bytes(partition)
    then = "an empty partition takes its place" if is_known else "nobody is served from it"
    detail = f"{why}: a broker renames the folder to -stray, and {then}; its {size:,} bytes of records stay there"
    is_lost = is_known or is_forgotten(cluster)
    return Ahead(
        partition.path,
        What.STRAY,
        detail,
        lost_bytes=size,
        is_hidden=bool(size) and is_lost,
        severity=Severity.ERROR if size and is_lost else Severity.WARNING,
    )
