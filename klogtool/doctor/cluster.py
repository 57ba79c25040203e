"""What the log dirs of a broker say of its cluster: the metadata image that it starts with, its id, its directories."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct, field

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR, ClusterConfig
from klogtool.broker.metadata.image import ClusterMetadata, Replicas, read_cluster_metadata
from klogtool.errors import KlogError
from klogtool.format.uuids import build_uuid
from klogtool.log.logdir import LogDir, knows_topic_ids
from klogtool.verify.identity import TopicIds


class Cluster(Struct, frozen=True):
    """The cluster, as this broker's disks show it. metadata: None if no log dir has `__cluster_metadata-0`.

    metadata_dir: the log dir that has it. node_id: None if unknown. directories: log dir -> its directory id.
    topic_ids: whether brokers with topic ids wrote here. topics: those of the metadata.
    """

    metadata: ClusterMetadata | None = None
    metadata_dir: str | None = None
    node_id: int | None = None
    directories: dict[str, str] = field(default_factory=dict)
    topic_ids: bool = False
    topics: TopicIds = TopicIds({}, {})

    def settings(self) -> ClusterConfig | None:
        """Return the settings of topics and brokers, for all log dirs; None if no log dir has the metadata."""
        if self.metadata is None:
            return None
        return ClusterConfig(self.metadata, None if self.node_id is None else str(self.node_id))

    def topic_of(self, topic_id: str) -> str | None:
        """Return the name of the topic with this id; None if the cluster knows none."""
        return self.topics.by_id.get(topic_id)

    def replicas_of(self, topic_id: str, partition: int) -> Replicas | None:
        """Return where a partition is, by the metadata; None if that is unknown."""
        known = {} if self.metadata is None else self.metadata.replicas
        return known.get(topic_id, {}).get(partition)


def read_cluster(paths: Sequence[str]) -> Cluster:
    """Read what the log dirs say. Damage is no error here: `metadata.problem` has it."""
    found = next((path for path in paths if os.path.isdir(os.path.join(path, CLUSTER_METADATA_DIR))), None)
    metadata = None if found is None else read_cluster_metadata(os.path.join(found, CLUSTER_METADATA_DIR))
    node_id, directories = None, {}
    for path in paths:
        try:
            identity = LogDir(path).meta_properties
        except KlogError:  # a start problem, which is reported
            continue
        if identity is None:
            continue
        node_id = identity.node_id if node_id is None else node_id
        if identity.directory_id is not None:
            directories[path] = build_uuid(identity.directory_id)
    topics = TopicIds.of({} if metadata is None else metadata.topic_ids)
    has_ids = any(knows_topic_ids(LogDir(path)) for path in paths)
    return Cluster(metadata, found, node_id, directories, has_ids, topics)
