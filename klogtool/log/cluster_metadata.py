"""What `__cluster_metadata` says of topics, replicas, features and settings: its newest snapshot, and the log after it.

This is a broker's metadata image (MetadataImage: TopicsImage, FeaturesImage, ConfigurationsImage), as far as it matters
for logs.
Damage raises no error here: `problem` says what could not be read, and what was read before it counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch
from klogtool.format.internal.records import METADATA, ApiMessage, metadata_record_name, parse_metadata_record
from klogtool.log.partition import Partition
from klogtool.log.segment import BatchFile

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_NO_LEADER_CHANGE = -2  # LeaderConstants
_BEGIN, _END, _ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"
_OF_TOPICS = ("TopicRecord", "RemoveTopicRecord", "PartitionRecord", "PartitionChangeRecord")
_OF_KNOWN_TOPICS = frozenset(_OF_TOPICS) - {"TopicRecord"}
_WANTED = frozenset({*_OF_TOPICS, "FeatureLevelRecord", "ConfigRecord", _BEGIN, _END, _ABORT})


class Replicas(Struct, frozen=True):
    """The brokers that have a partition, and the directory id of each there; directories is empty if unknown.

    isr: the in-sync ones; elr: those that may lead although they are not in sync (KIP-966); last_known_elr: the last
    leader, while nobody may lead. leader, leader_epoch, partition_epoch: -1 if there is none, or it is unknown
    (PartitionRegistration).
    """

    brokers: tuple[int, ...]
    directories: tuple[str, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    last_known_elr: tuple[int, ...] = ()

    def directory_of(self, broker: int) -> str | None:
        """Return the id of the log dir that has the partition on this broker; None if unknown."""
        found = dict(zip(self.brokers, self.directories, strict=False))
        return found.get(broker)


class ClusterMetadata(Struct):
    """topic_ids: by name, as Kafka prints them. topics: settings by topic; brokers: settings by id as text; empty: all
    brokers. replicas: by topic id, then by partition. features: the level of each, such as metadata.version.

    refused: the exception of Kafka at the first record that changes what is unknown, its class and message; None if
    there is none. Records are missing before it then. problem: what could not be read, or None.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[str, dict[str, str]] = field(default_factory=dict)
    replicas: dict[str, dict[int, Replicas]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    refused: tuple[str, str] | None = None
    problem: str | None = None

    def replay(self, message: ApiMessage) -> None:
        """Apply one record, in the log's order (ConfigurationsDelta.replay, TopicsDelta.replay)."""
        values = message.values
        self.refused = self.refused or self._refusal(message)
        match message.name:
            case "TopicRecord":
                self.topic_ids[values["name"]] = values["topicId"]
            case "RemoveTopicRecord":
                self._remove_topic(values["topicId"])
            case "PartitionRecord" | "PartitionChangeRecord":
                self._place(values)
            case "FeatureLevelRecord":
                self.features[values["name"]] = values["featureLevel"]
            case "ConfigRecord":
                self._set(values)

    def _refusal(self, message: ApiMessage) -> tuple[str, str] | None:
        """Return the exception of TopicsDelta or TopicDelta at a record of what is unknown: a topic, or a partition."""
        values = message.values
        if message.name not in _OF_KNOWN_TOPICS:
            return None
        topic_id = values["topicId"]
        if topic_id not in self.topic_ids.values():
            if message.name == "RemoveTopicRecord":
                return "RuntimeException", f"Unable to delete topic with id {topic_id}: no such topic found."
            return "NullPointerException", f"the image has no topic {topic_id}"
        if message.name == "PartitionChangeRecord" and values["partitionId"] not in self.replicas.get(topic_id, {}):
            return "RuntimeException", f"Unable to find partition {topic_id}:{values['partitionId']}"
        return None

    def _place(self, values: Mapping[str, Any]) -> None:
        """Note where a partition is. A change names only what is new (PartitionRegistration.merge)."""
        partitions = self.replicas.setdefault(values["topicId"], {})
        before = partitions.get(values["partitionId"], Replicas(()))
        leader = values.get("leader", _NO_LEADER_CHANGE)
        leads = leader != _NO_LEADER_CHANGE
        partitions[values["partitionId"]] = Replicas(
            _told(values, "replicas", before.brokers),
            _told(values, "directories", before.directories),
            _told(values, "isr", before.isr),
            _told(values, "eligibleLeaderReplicas", before.elr),
            leader if leads else before.leader,
            values.get("leaderEpoch", before.leader_epoch + leads),
            values.get("partitionEpoch", before.partition_epoch + 1),
            _told(values, "lastKnownElr", before.last_known_elr),
        )

    def _remove_topic(self, topic_id: str) -> None:
        """Remove a topic with its settings, so that a new topic of that name has none."""
        for name in [name for name, known in self.topic_ids.items() if known == topic_id]:
            del self.topic_ids[name]
            self.topics.pop(name, None)
        self.replicas.pop(topic_id, None)

    def _set(self, values: Mapping[str, str | int | None]) -> None:
        """Set a setting; without a value, remove it."""
        of = {_TOPIC: self.topics, _BROKER: self.brokers}.get(int(values["resourceType"] or 0))
        if of is None:
            return
        settings = of.setdefault(str(values["resourceName"]), {})
        name, value = str(values["name"]), values["value"]
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = str(value)


def _told(values: Mapping[str, Any], name: str, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list of a record; without one, what was known before."""
    return before if values.get(name) is None else tuple(values[name])


def read_cluster_metadata(path: str) -> ClusterMetadata:
    """Read the partition dir of `__cluster_metadata` to its end."""
    try:
        found, end_offset, problem = _read_snapshot(Partition(path))
        _read_log(Partition(path), found, end_offset)
    except KlogError as error:
        return ClusterMetadata(problem=error.reason)
    found.problem = found.problem or problem
    return found


def _read_snapshot(partition: Partition) -> tuple[ClusterMetadata, int, str | None]:
    """Read the newest readable snapshot; return its content, the offset after it, and what is wrong with a newer
    one."""
    problem = None
    for snapshot in reversed(partition.kraft_snapshots):
        found = ClusterMetadata()
        _Replay(found).take(snapshot)
        if found.problem is None:
            return found, snapshot.end_offset or 0, problem
        problem = problem or found.problem
    return ClusterMetadata(), 0, problem


def _read_log(partition: Partition, found: ClusterMetadata, start: int) -> None:
    """Apply the log from an offset on."""
    segments = partition.segments
    if segments and segments[0].base_offset > start:
        found.problem = f"the log begins at offset {segments[0].base_offset}, but the newest snapshot ends at {start}"
        return
    replay = _Replay(found, start)
    for n, segment in enumerate(segments):
        if n + 1 < len(segments) and segments[n + 1].base_offset <= start:
            continue
        replay.take(segment)
        if found.problem is not None:
            return


class _Replay:
    """Applies records of files, one after another, from offset `start` on (None: all). Records of a transaction are
    applied when it ends (KIP-868)."""

    def __init__(self, found: ClusterMetadata, start: int | None = None) -> None:
        self._found, self._start = found, start
        self._pending: list[ApiMessage] | None = None

    def take(self, file: BatchFile) -> None:
        """Apply a file. Damage is recorded in `problem`, and what is before it counts."""
        try:
            for message in self._walk_messages(file):
                self._take_message(message)
        except KlogError as error:
            self._found.problem = f"{os.path.basename(file.path)}: {error.reason}"

    def _take_message(self, message: ApiMessage) -> None:
        if message.name == _BEGIN:
            self._pending = []
        elif message.name in (_END, _ABORT):
            for held in (self._pending or ()) if message.name == _END else ():
                self._found.replay(held)
            self._pending = None
        elif self._pending is not None:
            self._pending.append(message)
        else:
            self._found.replay(message)

    def _walk_messages(self, file: BatchFile) -> Iterator[ApiMessage]:
        """Yield the records that are used here; the others are not parsed. Raises KlogError at damage."""
        for batch in file.batches():
            if not isinstance(batch, RecordBatch) or not batch.crc_valid:
                raise KlogError("a batch is damaged", path=file.path, position=batch.position)
            if batch.is_control or not self._reaches(batch.last_offset):
                continue
            for record in batch.records():
                value = record.value
                if value is not None and metadata_record_name(value) in _WANTED and self._reaches(record.offset):
                    yield parse_metadata_record(METADATA, value)

    def _reaches(self, offset: int) -> bool:
        return self._start is None or offset >= self._start
