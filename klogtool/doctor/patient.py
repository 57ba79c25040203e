"""What the doctor looks at: the log dirs of one broker, what they say of its cluster, and the circumstances."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from klogtool.broker.circumstances import Checkpoints, Circumstances, data_log_dirs, listed
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR, ClusterConfig
from klogtool.broker.metadata.image import ClusterMetadata, Replicas, read_cluster_metadata
from klogtool.broker.releases import Rules, rules_of
from klogtool.broker.server_rules import CONTROLLER
from klogtool.broker.server_settings import ROLES
from klogtool.errors import KlogError
from klogtool.format.names import OFFSET_CHECKPOINTS, TopicPartition
from klogtool.format.uuids import build_uuid
from klogtool.log.log_dirs import find_log_dir_among
from klogtool.log.logdir import LogDir, knows_topic_ids
from klogtool.log.partition import Partition
from klogtool.verify.identity import TopicIds


class Cluster(Struct, frozen=True):
    """The cluster, as this broker's disks show it. metadata: None if no log dir has `__cluster_metadata-0`, or has to
    have it.

    metadata_dir: the log dir that has it. begun_in: the log dir in which a controller begins it anew. node_id: None if
    unknown. directories: log dir -> its directory id. topic_ids: whether brokers with topic ids wrote here. topics:
    those of the metadata.
    """

    metadata: ClusterMetadata | None = None
    metadata_dir: str | None = None
    node_id: int | None = None
    directories: dict[str, str] = field(default_factory=dict)
    topic_ids: bool = False
    topics: TopicIds = TopicIds({}, {})
    begun_in: str | None = None

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


def read_cluster(paths: Sequence[str], circumstances: Circumstances) -> Cluster:
    """Read what the log dirs say. Damage is no error here: `metadata.problem` has it."""
    log_dir = next((path for path in paths if os.path.isdir(os.path.join(path, CLUSTER_METADATA_DIR))), None)
    metadata = None if log_dir is None else read_cluster_metadata(os.path.join(log_dir, CLUSTER_METADATA_DIR))
    begun_in = _begun_in(paths, circumstances) if log_dir is None else None
    if begun_in is not None:
        metadata = ClusterMetadata()
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
    return Cluster(metadata, log_dir, node_id, directories, has_ids, topics, begun_in)


def _begun_in(paths: Sequence[str], circumstances: Circumstances) -> str | None:
    """Return the log dir in which a controller begins the metadata anew, because --config-file says that it has to be
    there and it is not (KafkaRaftManager.createDataDir); None if that is not known. A broker alone fetches it."""
    own = circumstances.metadata_log_dir
    roles = listed(circumstances.server_settings.get(ROLES))
    if own is None or CONTROLLER not in roles:
        return None
    return next((path for path in paths if os.path.realpath(path) == os.path.realpath(own)), None)


class Patient(Struct, frozen=True, dict=True):
    """log_dirs: absolute paths."""

    log_dirs: tuple[str, ...]
    cluster: Cluster
    circumstances: Circumstances

    @property
    def rules(self) -> Rules:
        """Return what the release does."""
        return rules_of(self.circumstances.kafka)

    @property
    def metadata_log_dir_apart(self) -> str | None:
        """The log dir of the cluster's metadata that is none of log.dirs, or None. LogManager does not know it, and
        never writes a checkpoint there. So a broker ends if all log dirs but this one are offline."""
        path = self.cluster.metadata_dir
        if path is None:
            return None
        if known := data_log_dirs(self.circumstances.server_settings):
            return None if os.path.realpath(path) in map(os.path.realpath, known) else path
        is_known = any(os.path.lexists(os.path.join(path, kind.value)) for kind in OFFSET_CHECKPOINTS)
        return None if is_known or len(LogDir(path).partitions) > 1 else path

    @property
    def metadata_log_dir_to_set(self) -> str | None:
        """The log dir of the cluster's metadata, if nobody knows whether a broker looks for it there: it is not the
        first that is named, as it is by default (KafkaConfig.metadataLogDir), and no file of settings is named."""
        path, is_told = self.cluster.metadata_dir, self.circumstances.metadata_log_dir is not None
        is_told = is_told or path is None or path == self.log_dirs[0]
        return None if is_told or self.metadata_log_dir_apart is not None else path

    def partitions(self) -> Iterator[Partition]:
        """Yield the partition dirs of all log dirs, by name."""
        for path in self.log_dirs:
            yield from LogDir(path).partitions

    @cached_property
    def folders_of(self) -> Mapping[TopicPartition | None, Sequence[Partition]]:
        """The partition dirs of all log dirs, by the partition, as they were first listed."""
        folders: dict[TopicPartition | None, list[Partition]] = {}
        for partition in self.partitions():
            folders.setdefault(partition.topic_partition, []).append(partition)
        return folders

    def holds(self, path: str) -> bool:
        """Return whether a path is in one of the log dirs, or is one."""
        return find_log_dir_among(path, self.log_dirs) is not None

    def log_dir_of(self, path: str) -> str:
        """Return the log dir that a path is in, or is. The path is in one."""
        return find_log_dir_among(path, self.log_dirs) or path

    def checkpoints_of(self, path: str) -> Checkpoints:
        """Return the checkpoints of the log dir that a path is in, as a start uses them."""
        return Checkpoints(self.log_dir_of(path), self.cluster.settings(), resets_unreadable=True)

    def partition_of(self, path: str) -> Partition:
        """Return the partition dir that a path is in, or is. The path is below a log dir."""
        log_dir = self.log_dir_of(path)
        name = os.path.relpath(path, log_dir).split(os.sep)[0]
        return Partition(os.path.join(log_dir, name))
