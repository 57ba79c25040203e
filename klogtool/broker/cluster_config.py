"""A topic's settings from all sources: the options, the cluster's metadata, Kafka's defaults.

The order is Kafka's, after the options. First come topic names in --config and --config-file, and broker names in
--config. Then come the settings in `__cluster_metadata`: the topic's, this broker's, those for all brokers. Last come
broker names in --config-file, because a server.properties has that place in Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

from klogtool.broker.causes import LoadNote
from klogtool.broker.config import BROKER_NAMES, KNOWN_NAMES, Layer, fitting
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.identity import MetaProperties
from klogtool.format.names import METADATA_TOPIC, OFFSETS_TOPIC, REMOTE_TOPIC, SHARES_TOPIC, TRANSACTIONS_TOPIC
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition

CLUSTER_METADATA_DIR = f"{METADATA_TOPIC}-0"
ALL_BROKERS = ""  # key of settings for all brokers, in place of a broker's id
AS_GIVEN, BY_FILE, BY_CLUSTER = "as given", "by --config-file", "by __cluster_metadata"
Settings: TypeAlias = Mapping[str, str]

# Settings of the topics that a broker creates for itself (GroupCoordinatorService, TransactionStateManager,
# ShareCoordinatorService, TopicBasedRemoteLogMetadataManager), if a wrong value could lose records.
INTERNAL_SETTINGS: Mapping[str, Settings] = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact"},
    TRANSACTIONS_TOPIC: {"cleanup.policy": "compact"},
    SHARES_TOPIC: {"cleanup.policy": "delete", "retention.ms": "-1"},
    REMOTE_TOPIC: {"cleanup.policy": "delete", "retention.ms": "-1"},
}
# Topics that have no remote storage, whatever their settings say (UnifiedLog.isRemoteLogEnabled).
NEVER_TIERED = frozenset({METADATA_TOPIC, *INTERNAL_SETTINGS})


class ClusterConfig:
    """The settings in the `__cluster_metadata` of a log dir, for the broker that owns the log dir."""

    def __init__(self, metadata: ClusterMetadata | None, broker: str | None) -> None:
        """metadata None: there is none. broker: its id, if known."""
        self.metadata, self._broker = metadata, broker

    @classmethod
    def of(cls, log_dir: str | None) -> ClusterConfig:
        """Read the metadata now. A log dir without it costs one lookup."""
        path = None if log_dir is None else os.path.join(log_dir, CLUSTER_METADATA_DIR)
        if log_dir is None or path is None or not os.path.isdir(path):
            return cls(None, None)
        identity = _identity_of(log_dir)
        node_id = None if identity is None else identity.node_id
        return cls(read_cluster_metadata(path), None if node_id is None else str(node_id))

    @classmethod
    def among(cls, log_dir: str, others: Iterable[str]) -> ClusterConfig:
        """Read the metadata in another log dir of the same broker; nothing, if none of them has it."""
        own = _identity_of(log_dir)
        for path in others:
            identity = _identity_of(path)
            if own is None or identity is None or path == log_dir:
                continue
            if (identity.cluster_id, identity.node_id) == (own.cluster_id, own.node_id):
                cluster = cls.of(path)
                if cluster.metadata is not None:
                    return cluster
        return cls(None, None)

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic as Kafka prints it, or None if unknown."""
        return None if self.metadata is None else self.metadata.topic_ids.get(topic)

    def knows(self, topic: str) -> bool:
        """Return whether whole metadata of the cluster has the topic, so that it has all settings of the topic."""
        return self.metadata is not None and self.metadata.problem is None and topic in self.metadata.topic_ids

    def notes(self, topic: str, path: str) -> Iterator[Reason]:
        """Yield what is wrong with the metadata, or with its settings for a topic. path: a partition dir of the
        topic."""
        metadata = self.metadata
        if metadata is None:
            return
        topic_id, own_id = self.topic_id(topic), None
        with suppress(KlogError):  # verify and loading report it
            own_id = Partition(path).topic_id
        if topic_id is not None and own_id is not None and own_id != topic_id:
            yield LoadNote.OTHER_TOPIC_ID(own=own_id, other=topic_id)
        if metadata.problem is not None:
            yield LoadNote.METADATA_NOT_WHOLE(problem=metadata.problem)
        if topic not in metadata.topic_ids:
            yield LoadNote.UNKNOWN_TOPIC(topic=topic)
        for settings in (metadata.topics.get(topic, {}), *(own for own, _ in self.brokers())):
            known = {name: text for name, text in settings.items() if name in KNOWN_NAMES}
            for name in known.keys() - fitting(known).keys():
                yield LoadNote.WRONG_TYPE(name=name, value=repr(known[name]))

    def topic(self, topic: str) -> Settings:
        """Return the settings of the topic itself."""
        return {} if self.metadata is None else fitting(self.metadata.topics.get(topic, {}))

    def brokers(self) -> Iterator[tuple[Settings, str]]:
        """Yield settings of brokers and their source: of all brokers, then of this one."""
        if self.metadata is None:
            return
        yield self.metadata.brokers.get(ALL_BROKERS, {}), f"{BY_CLUSTER}, for all brokers"
        if self._broker is not None:
            yield self.metadata.brokers.get(self._broker, {}), f"{BY_CLUSTER}, for broker {self._broker}"


def layers_of(topic: str, direct: Settings, by_file: Settings, cluster: ClusterConfig) -> Iterator[Layer]:
    """Yield what applies to a topic, highest priority first. direct: --config; by_file: the part of --config-file that
    applies."""
    named = _all_from(by_file, BY_FILE) | _all_from(direct, AS_GIVEN)
    yield {name: setting for name, setting in named.items() if name not in BROKER_NAMES}
    yield _all_from(direct, AS_GIVEN)
    yield _all_from(cluster.topic(topic), BY_CLUSTER)
    brokers = _all_from(by_file, BY_FILE)
    for settings, where in cluster.brokers():
        brokers |= _all_from(fitting(settings), where)
    yield brokers
    yield _all_from(INTERNAL_SETTINGS.get(topic, {}), f"as a broker makes {topic}")


def _all_from(settings: Settings, where: str) -> dict[str, tuple[str, str]]:
    return {name: (text, where) for name, text in settings.items()}


def _identity_of(log_dir: str) -> MetaProperties | None:
    try:
        properties: MetaProperties | None = LogDir(log_dir).meta_properties
    except KlogError:  # verify reports it; here it only means that the broker's own settings are unknown
        return None
    return properties
