"""What a release without ZooKeeper does to log dirs of a broker that had it (KIP-500): nothing there has a topic id."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.releases import Rules
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.errors import KlogError
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.verify.findings import Severity
from klogtool.verify.log_end import find_log_bytes
from klogtool.verify.stops import refuses

_MIGRATE = "first migrate the cluster to KRaft with a release 3.x that has both (KIP-866)"


def walk_zookeeper_points(log_dirs: Sequence[str], cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point for each log dir that only a broker with ZooKeeper can use."""
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
    return Ahead(file, What.REFUSES, detail, Severity.ERROR, stop=refuses("RuntimeException", f"{told} {path}"))


def _partitions_point(path: str, partitions: int, size: int) -> Ahead:
    detail = (
        f"a broker with ZooKeeper wrote this log dir: its {partitions:,} partitions have no topic id, so they are set "
        f"aside as -stray, with {size:,} bytes of records; {_MIGRATE}"
    )
    return Ahead(path, What.STRAY, detail, Severity.ERROR, lost_bytes=size, is_hidden=bool(size))
