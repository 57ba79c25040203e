"""What a start forgets if the metadata log is gone or cut.

All partitions that a broker sets aside for that have one cause, so they are one trouble.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster


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
        lost_bytes=sum(point.lost_bytes for point in with_data),
        is_hidden=bool(with_data),
        folders=tuple(point.path for point in strays),
    )
