"""What a release does to log dirs that another one wrote: metadata.version, a newer format, ZooKeeper's log dirs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import Rules
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.errors import KlogError
from klogtool.format.metadata_versions import METADATA_VERSION
from klogtool.format.names import FileKind
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.verify.stops import refuses

ZERO_CHECKPOINT = "00000000000000000000-0000000000.checkpoint"  # KIP-1170
_MIGRATE = "first migrate the cluster to KRaft with a release 3.x that has both (KIP-866)"


def walk_level_points(cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if the release does not start with the cluster's metadata.version (MetadataVersion, KIP-778)."""
    level = None if cluster.metadata is None else cluster.metadata.features.get(METADATA_VERSION)
    if cluster.metadata_dir is None or level is None:
        return
    levels = rules.metadata_levels
    lowest, highest = levels.lowest, levels.highest
    path = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    if not lowest <= level <= highest:
        message = f"No MetadataVersion with feature level {level}. Valid feature levels are from {lowest} to {highest}."
        detail = f"{METADATA_VERSION} of the cluster is {level}: Kafka {rules.release} knows {lowest} to {highest} only"
        stop = refuses("IllegalArgumentException", message)
        yield Ahead(path, What.REFUSES, detail, stop=stop)
    elif level > levels.production:
        detail = (
            f"{METADATA_VERSION} of the cluster is {level}: Kafka {rules.release} has it for tests only, and does not "
            f"register with more than {levels.production}"
        )
        stop = refuses(
            "UnsupportedVersionException", f"the broker does not support level {level} of {METADATA_VERSION}"
        )
        yield Ahead(path, What.REFUSES, detail, stop=stop)


def walk_format_points(log_dirs: Sequence[str], cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if a release would not see with which features the log dirs were formatted."""
    if cluster.metadata_dir is None or rules.reads_zero_checkpoint:
        return
    folder = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    has_bootstrap = any(os.path.lexists(os.path.join(path, FileKind.BOOTSTRAP_SNAPSHOT.value)) for path in log_dirs)
    # A link to nowhere is as if it was not there.
    logs = [segment.path for segment in Partition(folder).segments if os.path.exists(segment.path)]
    is_empty = not any(map(os.path.getsize, logs))
    if os.path.lexists(os.path.join(folder, ZERO_CHECKPOINT)) and is_empty and not has_bootstrap:
        detail = (
            f"it was formatted by Kafka 4.4 or later and never started: Kafka {rules.release} does not read "
            f"{ZERO_CHECKPOINT}, and starts without any feature but metadata.version"
        )
        yield Ahead(folder, What.METADATA_LOST, detail)


def walk_zookeeper_points(log_dirs: Sequence[str], cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point for each log dir that only a broker with ZooKeeper can use (KIP-500): it has no topic ids."""
    if rules.has_zookeeper or cluster.topic_ids:
        return
    for path in log_dirs:
        partitions = LogDir(path).partitions
        if partitions:
            yield _identity_point(path) or _partitions_point(
                path, len(partitions), sum(map(find_log_bytes, partitions))
            )


def _identity_point(path: str) -> Ahead | None:
    """Return the point if meta.properties lacks what KRaft needs (KafkaRaftServer.initializeLogDirs)."""
    try:
        identity = LogDir(path).meta_properties
    except KlogError:  # reported by itself
        return None
    if identity is not None and identity.cluster_id is not None:
        return None
    file = os.path.join(path, FileKind.META_PROPERTIES.value)
    told = "No `meta.properties` found in" if identity is None else "Error: cluster ID not found in"
    detail = f"a broker with ZooKeeper wrote this log dir, and it has no cluster.id: {_MIGRATE}"
    return Ahead(file, What.REFUSES, detail, stop=refuses("RuntimeException", f"{told} {path}"))


def _partitions_point(path: str, partitions: int, size: int) -> Ahead:
    detail = (
        f"a broker with ZooKeeper wrote this log dir: its {partitions:,} partitions have no topic id, so they are set "
        f"aside as -stray, with {size:,} bytes of records; {_MIGRATE}"
    )
    return Ahead(path, What.STRAY, detail, lost_bytes=size, is_hidden=bool(size))
