"""What `__cluster_metadata` says of topics, replicas, features and settings: its newest snapshot, and the log after it.

This is a broker's metadata image (MetadataImage: TopicsImage, FeaturesImage, ConfigurationsImage), as far as it matters
for logs.
Damage raises no error here: `problem` says what could not be read, and what was read before it counts.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from klogtool.broker.causes import ImageProblem
from klogtool.broker.metadata.known import Known
from klogtool.broker.metadata.quorum import Quorum
from klogtool.broker.metadata.refusals import Failure, Refusal, Replay, bound_failures, failures
from klogtool.broker.releases import REFERENCE_RULES, Rules
from klogtool.causes import Text
from klogtool.errors import KlogError
from klogtool.format.batch import Record, RecordBatch
from klogtool.format.internal.records import (
    METADATA,
    ApiMessage,
    metadata_record_name,
    parse_metadata_record,
    undeserialized,
    unknown_id,
)
from klogtool.format.internal.schema import Values, schema_of
from klogtool.log.partition import Partition
from klogtool.log.segment import BatchFile, KraftSnapshot

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_NO_LEADER_CHANGE = -2  # LeaderConstants
_BEGIN, _END, _ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"
_NOTHING_TO_DO = "NoOpRecord"


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
        return dict(zip(self.brokers, self.directories, strict=False)).get(broker)


class ClusterMetadata(Struct):
    """topic_ids: by name, as Kafka prints them. topics: settings by topic; brokers: settings by id as text; empty: all
    brokers. replicas: by topic id, then by partition. features: the level of each, such as metadata.version.

    quorum: who votes for the controllers. known: what later records depend on. refusals: the first record that each
    replay refuses, of the image and of the controller. A record that the image refuses is left out. problem: what
    could not be read, or None. names_had: those that a topic id had, by id.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[str, dict[str, str]] = field(default_factory=dict)
    replicas: dict[str, dict[int, Replicas]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    quorum: Quorum = Quorum()
    known: Known = field(default_factory=Known)
    refusals: tuple[Refusal, ...] = ()
    problem: Text | None = None
    names_had: dict[str, set[str]] = field(default_factory=dict)

    @property
    def refusal(self) -> Refusal | None:
        """Return the first record that any replay refuses, or None."""
        return min(self.refusals, key=lambda each: each.order, default=None)

    def may_be_controller(self, node_id: int | None) -> bool:
        """Return False if the metadata knows its controllers, and this node is none of them."""
        controllers = self.known.controllers
        return node_id is None or not controllers or node_id in controllers or node_id not in self.known.brokers

    def replay(self, message: ApiMessage) -> None:
        """Apply one record, in the log's order (ConfigurationsDelta.replay, TopicsDelta.replay)."""
        values = message.values
        match message.name:
            case "TopicRecord":
                self.topic_ids[values["name"]] = values["topicId"]
                self.names_had.setdefault(values["topicId"], set()).add(values["name"])
            case "RemoveTopicRecord":  # with its settings, so that a new topic of that name has none
                for name in self.names_had.pop(values["topicId"], ()):
                    if self.topic_ids.get(name) == values["topicId"]:
                        del self.topic_ids[name]
                        self.topics.pop(name, None)
                self.replicas.pop(values["topicId"], None)
            case "PartitionRecord" | "PartitionChangeRecord":
                self._place(values)
            case "FeatureLevelRecord":
                self.features[values["name"]] = values["featureLevel"]
            case "ConfigRecord":
                self._set(values)

    def _place(self, values: Values) -> None:
        """Note where a partition is. A change names only what is new (PartitionRegistration.merge)."""
        partitions = self.replicas.setdefault(values["topicId"], {})
        before = partitions.get(values["partitionId"], Replicas(()))
        leader = values.get("leader", _NO_LEADER_CHANGE)
        leads = leader != _NO_LEADER_CHANGE
        partitions[values["partitionId"]] = Replicas(
            _new_or_before(values, "replicas", before.brokers),
            _new_or_before(values, "directories", before.directories),
            _new_or_before(values, "isr", before.isr),
            _new_or_before(values, "eligibleLeaderReplicas", before.elr),
            leader if leads else before.leader,
            values.get("leaderEpoch", before.leader_epoch + leads),
            values.get("partitionEpoch", before.partition_epoch + 1),
            _new_or_before(values, "lastKnownElr", before.last_known_elr),
        )

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


def _new_or_before(values: Values, name: str, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list of a record; without one, what was known before."""
    return before if values.get(name) is None else tuple(values[name])


def read_cluster_metadata(path: str, rules: Rules = REFERENCE_RULES) -> ClusterMetadata:
    """Read the partition dir of `__cluster_metadata` to its end, as a release does. Nobody may change the result: it is
    given again while the files stay as they are."""
    return _read(path, rules, _state_of(path))


def replays_without_damage(path: str, rules: Rules = REFERENCE_RULES) -> bool:
    """Return whether a release replays the partition dir of `__cluster_metadata` if damaged batches of its log are left
    out, as salvage does. What is in them may be what later records depend on: then a start ends."""
    try:
        image, end_offset, problem = _read_snapshot(Partition(path).kraft_snapshots, rules)
        _read_log(Partition(path), image, end_offset, rules, skips_damage=True)
    except KlogError:
        return False
    return problem is None and image.problem is None and not image.refusals


def replays_without_newest_snapshot(path: str, rules: Rules = REFERENCE_RULES) -> bool:
    """Return whether a release replays the partition dir of `__cluster_metadata` from an older snapshot, or from the
    begin of its log."""
    partition = Partition(path)
    try:
        image, end_offset, problem = _read_snapshot(partition.kraft_snapshots[:-1], rules)
        _read_log(partition, image, end_offset, rules)
    except KlogError:
        return False
    return problem is None and image.problem is None and not image.refusals


def _state_of(path: str) -> tuple[tuple[str, int, int, int], ...]:
    """Return names, inodes, sizes and times of the files."""
    try:
        with os.scandir(path) as entries:
            files = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:  # reported where the folder is read
        return ()
    return tuple(sorted((name, about.st_ino, about.st_size, about.st_mtime_ns) for name, about in files))


@functools.lru_cache(maxsize=4)
def _read(path: str, rules: Rules, state: tuple[tuple[str, int, int, int], ...]) -> ClusterMetadata:
    try:
        image, end_offset, problem = _read_snapshot(Partition(path).kraft_snapshots, rules)
        of_snapshot = image.refusals
        _read_log(Partition(path), image, end_offset, rules)
    except KlogError as error:
        return ClusterMetadata(problem=error.reason)
    if problem is not None:  # a start ends at that snapshot, so no replay comes to the log
        image.refusals = of_snapshot
    image.problem = image.problem or problem
    return image


def _read_snapshot(snapshots: Sequence[KraftSnapshot], rules: Rules) -> tuple[ClusterMetadata, int, Text | None]:
    """Read the newest readable one of snapshots, the oldest first; return its content, the offset after it, and what is
    wrong with a newer one. Kafka replays the newest one only, so the refusals are those of that one."""
    problem, refusals = None, None
    for snapshot in reversed(snapshots):
        image = ClusterMetadata()
        replay = _ImageReplay(image, rules)
        replay.take(snapshot)
        if image.problem is None and not replay.has_batches:
            image.problem = ImageProblem.NO_BATCH(file=os.path.basename(snapshot.path))
        image.refusals = refusals = image.refusals if refusals is None else refusals
        if image.problem is None:
            return image, snapshot.end_offset or 0, problem
        problem = problem or image.problem
    return ClusterMetadata(refusals=refusals or ()), 0, problem


def _read_log(
    partition: Partition, image: ClusterMetadata, start: int, rules: Rules, *, skips_damage: bool = False
) -> None:
    """Apply the log from an offset on."""
    segments = partition.segments
    if segments and segments[0].base_offset > start:
        image.problem = ImageProblem.BEGINS_LATER(offset=segments[0].base_offset, end=start)
        return
    replay = _ImageReplay(image, rules, start, skips_damage=skips_damage)
    for n, segment in enumerate(segments):
        if n + 1 < len(segments) and segments[n + 1].base_offset <= start:
            continue
        replay.take(segment)
        if image.problem is not None:
            return


class _ImageReplay:
    """Applies records of files, one after another, from offset `start` on (None: all of a snapshot). Records of a
    transaction count when it ends (KIP-868); a refusal does not wait for that. skips_damage: damaged batches do not end
    it."""

    def __init__(
        self, image: ClusterMetadata, rules: Rules, start: int | None = None, *, skips_damage: bool = False
    ) -> None:
        self._image, self._rules, self._start, self._skips_damage = image, rules, start, skips_damage
        self._pending: list[ApiMessage] | None = None
        self._last: tuple[bytes | None, ApiMessage] | None = None
        self._index = -1
        self.has_batches = False

    def take(self, file: BatchFile) -> None:
        """Apply a file. Damage is recorded in `problem`, and what is before it counts."""
        try:
            for record in self._walk_records(file):
                self._index += 1
                self._take_record(record, file.path)
        except KlogError as error:
            self._image.problem = f"{os.path.basename(file.path)}: {error.reason}"

    def _take_record(self, record: Record, path: str) -> None:
        message = self._parsed(record, path)
        if message.name == _NOTHING_TO_DO:
            return
        if message.name in (_BEGIN, _END, _ABORT):
            self._bound(message, record, path)
            return
        refused = list(failures(self._image.known, message, self._rules))
        for by, failure in refused:
            self._refuse(by, failure, message, record, path)
        if any(by is Replay.IMAGE for by, _ in refused):
            return
        self._image.known.learn(message)
        if self._pending is not None:
            self._pending.append(message)
        else:
            self._image.replay(message)

    def _bound(self, message: ApiMessage, record: Record, path: str) -> None:
        """Take a record that begins or ends a transaction (MetadataBatchLoader, OffsetControlManager)."""
        for by, failure in bound_failures(self._image.known, message, None if self._start is None else record.offset):
            self._refuse(by, failure, message, record, path)
        if message.name == _BEGIN:
            self._pending = []
            self._image.known.begin(record.offset)
            return
        for held in (self._pending or ()) if message.name == _END else ():
            self._image.replay(held)
        self._image.known.end(is_aborted=message.name == _ABORT)
        self._pending = None

    def _refuse(self, by: Replay, failure: Failure, message: ApiMessage | None, record: Record, path: str) -> None:
        """Note a refusal; only the first one of each replay counts, because that ends it."""
        if any(known.by is by for known in self._image.refusals):
            return
        offset, index = (None, self._index) if self._start is None else (record.offset, None)
        name = None if message is None else message.name
        values = message.values if message is not None and name == "FeatureLevelRecord" else {}
        feature, level = values.get("name"), values.get("featureLevel")
        self._image.refusals += (Refusal(by, path, *failure, name, offset, index, feature, level),)

    def _walk_records(self, file: BatchFile) -> Iterator[Record]:
        """Yield the records of metadata. Raises KlogError at damage."""
        for batch in file.batches():
            if not isinstance(batch, RecordBatch) or not batch.crc_valid:
                if self._skips_damage:
                    continue
                raise KlogError(ImageProblem.BATCH_DAMAGED(), path=file.path, position=batch.position)
            self.has_batches = True
            if not self._reaches(batch.last_offset):
                continue
            if batch.is_control:
                self._take_control(batch, file.path)
                continue
            for record in batch.records():
                if self._reaches(record.offset):
                    yield record

    def _take_control(self, batch: RecordBatch, path: str) -> None:
        """Apply a batch of control records. What Raft does not read ends every start, before any replay."""
        try:
            self._image.quorum = self._image.quorum.with_records_of(batch)
        except KlogError as error:
            for by in Replay:
                failure = (error.kafka_class or "RuntimeException", error.reason)
                self._refuse(by, failure, None, Record(batch.base_offset, 0, None, None), path)

    def _parsed(self, record: Record, path: str) -> ApiMessage:
        """Return a record parsed as the release parses it. Raises KlogError, and notes the refusal, if it cannot."""
        if self._last is not None and record.value == self._last[0]:  # an idle cluster writes NoOpRecords all day
            return self._last[1]
        try:
            if not self._rules.clears_elr and metadata_record_name(record.value or b"") == "ClearElrRecord":
                raise unknown_id(schema_of("ClearElrRecord").api_key)
            message = parse_metadata_record(METADATA, record.value, of_4_4=self._rules.knows_messages_of_4_4)
            if _is_of_later_broker(message, self._rules):
                raise undeserialized(schema_of(message.name).api_key)
        except KlogError as error:
            for by in Replay:
                self._refuse(by, (error.kafka_class or "MetadataParseException", error.reason), None, record, path)
            raise
        self._last = record.value, message
        return message

    def _reaches(self, offset: int) -> bool:
        return self._start is None or offset >= self._start


def _is_of_later_broker(message: ApiMessage, rules: Rules) -> bool:
    """Return whether a release does not read the registration of a later one. Only the readers of a listener and of a
    feature compare the version, that of the record does not."""
    if message.name != "RegisterBrokerRecord" or message.version <= rules.broker_record_version:
        return False
    return bool(message.values["endPoints"] or message.values["features"])
