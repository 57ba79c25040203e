"""Offsets of tiered topics that no disk of a set has, and of which no copy of `__remote_log_metadata` in the set knows
a finished segment: as where that topic was copied earlier than the logs. Read-only; the store is not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.fleet.restored_identity import SetProblem, SetTrouble
from klogtool.remote.lineage import lost_gaps
from klogtool.remote.local import LocalLog, read_local
from klogtool.remote.metadata import RemoteMetadata, read_metadata

_TIERED = "remote.storage.enable"


def find_remote_gaps(log_dirs: Sequence[str]) -> Iterator[SetTrouble]:
    """Yield a problem for each range of offsets. Where the partition of the metadata topic that would have the records
    is not in the set, nobody knows. Raises KlogError if a log dir cannot be read."""
    begun = [log for log in read_local(log_dirs).by_id.values() if log.start < log.local_start]
    if not begun:
        return
    metadata, tiered = read_metadata(log_dirs, may_lack=True), _tiered_topics(log_dirs)
    for log in sorted(begun, key=lambda one: (one.topic, one.partition)):
        key = log.topic_id or "", log.partition
        if (log.topic not in tiered and key not in metadata.caches) or _is_elsewhere(metadata, log):
            continue
        for first, last in lost_gaps(metadata.caches.get(key), log.epochs, log.start, log.local_start):
            yield SetTrouble(SetProblem.REMOTE_UNKNOWN, path=log.path, value=f"{first}..{last}")


def _is_elsewhere(metadata: RemoteMetadata, log: LocalLog) -> bool:
    """Return whether its records may be on a disk that is not in the set. Without any partition of the topic in it, all
    of them are lost, if the cluster's metadata has the topic."""
    if not metadata.numbers:
        return metadata.count is None
    return metadata.missing_home(log.topic_id or "", log.partition) is not None


def _tiered_topics(log_dirs: Sequence[str]) -> set[str]:
    folders = [os.path.join(path, CLUSTER_METADATA_DIR) for path in log_dirs]
    images = [read_cluster_metadata(folder) for folder in folders if os.path.isdir(folder)]
    return {topic for image in images for topic, settings in image.topics.items() if settings.get(_TIERED) == "true"}
