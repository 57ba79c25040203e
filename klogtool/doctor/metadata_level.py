"""Whether a release of Kafka knows the cluster's metadata.version (MetadataVersion, KIP-778)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import Rules
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.cluster import Cluster
from klogtool.verify.findings import Severity
from klogtool.verify.stops import refuses

_FEATURE = "metadata.version"


def walk_level_points(cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if the release does not start with the cluster's level."""
    level = None if cluster.metadata is None else cluster.metadata.features.get(_FEATURE)
    if cluster.metadata_dir is None or level is None:
        return
    levels = rules.metadata_levels
    lowest, highest = levels.lowest, levels.highest
    path = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    if not lowest <= level <= highest:
        message = f"No MetadataVersion with feature level {level}. Valid feature levels are from {lowest} to {highest}."
        detail = f"{_FEATURE} of the cluster is {level}: Kafka {rules.release} knows {lowest} to {highest} only"
        stop = refuses("IllegalArgumentException", message)
        yield Ahead(path, What.REFUSES, detail, Severity.ERROR, stop=stop)
    elif level > levels.production:
        detail = (
            f"{_FEATURE} of the cluster is {level}: Kafka {rules.release} has it for tests only, and does not register "
            f"with more than {levels.production}"
        )
        stop = refuses("UnsupportedVersionException", f"the broker does not support level {level} of {_FEATURE}")
        yield Ahead(path, What.REFUSES, detail, Severity.ERROR, stop=stop)
