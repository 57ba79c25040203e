"""What a start forgets if the metadata log is gone or cut, or if a release does not read how it was formatted.

All partitions that a broker sets aside for that have one cause, so they are one trouble.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import Rules
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.format.names import FileKind
from klogtool.log.partition import Partition
from klogtool.verify.findings import Severity

ZERO_CHECKPOINT = "00000000000000000000-0000000000.checkpoint"  # KIP-1170


def is_forgotten(cluster: Cluster) -> bool:
    """Return whether the metadata is not whole, or knows no topic at all."""
    metadata = cluster.metadata
    return metadata is not None and (metadata.problem is not None or not metadata.topic_ids)


def with_one_cause(strays: Sequence[Ahead], cluster: Cluster) -> Iterator[Ahead]:
    """Yield the points for partitions that a broker sets aside; as one if the metadata's damage is the cause."""
    with_data = [point for point in strays if point.lost_bytes]
    if not strays or cluster.metadata_dir is None or not is_forgotten(cluster):
        yield from strays
        return
    metadata = cluster.metadata
    cause = "it knows no topic" if metadata is None or metadata.problem is None else f"it is cut: {metadata.problem}"
    names = ", ".join(os.path.basename(point.path) for point in strays[:5])
    detail = (
        f"{cause}: a broker that gets nothing from other controllers sets {len(strays):,} partitions aside as -stray "
        f"({names}{', ...' if len(strays) > 5 else ''})"
    )
    yield Ahead(
        os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR),
        What.METADATA_LOST,
        detail,
        Severity.ERROR,
        lost_bytes=sum(point.lost_bytes for point in with_data),
        is_hidden=bool(with_data),
    )


def _size(log: str) -> int:
    """Return the size of a segment; 0 of a link to nowhere, which a broker does not see."""
    return os.path.getsize(log) if os.path.exists(log) else 0


def walk_format_points(log_dirs: Sequence[str], cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if a release would not see with which features the log dirs were formatted."""
    if cluster.metadata_dir is None or rules.reads_zero_checkpoint:
        return
    folder = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    has_bootstrap = any(os.path.lexists(os.path.join(path, FileKind.BOOTSTRAP_SNAPSHOT.value)) for path in log_dirs)
    is_empty = not any(_size(segment.path) for segment in Partition(folder).segments)
    if os.path.lexists(os.path.join(folder, ZERO_CHECKPOINT)) and is_empty and not has_bootstrap:
        detail = (
            f"it was formatted by Kafka 4.4 or later and never started: Kafka {rules.release} does not read "
            f"{ZERO_CHECKPOINT}, and starts without any feature but metadata.version"
        )
        yield Ahead(folder, What.METADATA_LOST, detail, Severity.ERROR)
