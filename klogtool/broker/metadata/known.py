"""What the records of `__cluster_metadata` have made known, as far as later records are refused by it.

This is less than a broker's image: no leaders, no settings. `klogtool.broker.metadata.image` has what klogtool shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from msgspec import Struct, field

from klogtool.format.internal.records import ApiMessage
from klogtool.format.internal.schema import Values
from klogtool.format.uuids import ZERO_UUID, build_uuid, parse_uuid

MIGRATING = build_uuid(ZERO_UUID)  # DirectoryId: the log dir of a replica before KIP-858


class Assigned(Struct, frozen=True):
    """How many replicas a partition has, and how many directory ids; None if no directory is known
    (PartitionRegistration)."""

    replicas: int
    directories: int | None

    @classmethod
    def of(cls, replicas: int, directories: list[str] | None) -> Assigned:
        """Return what the fields of a record assign."""
        ids = directories or []
        return cls(replicas, None if all(one == MIGRATING for one in ids) else len(ids))

    @property
    def fits(self) -> bool:
        """Return whether each replica has a directory."""
        return self.directories is None or self.directories == self.replicas


class Registered(Struct, frozen=True):
    """A broker's registration: its epoch, and the ids of its log dirs (BrokerRegistration)."""

    epoch: int
    directories: tuple[str, ...] = ()


class Known(Struct):
    """topics: names by id; topic_ids: ids by name. brokers: registrations by id. owners: brokers by directory id.

    acls: the content of each, by id. credentials: user and mechanism. producer_ids: the broker and the first id of the
    newest block. transaction_start: the offset of an open one.
    """

    topics: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, Assigned]] = field(default_factory=dict)
    brokers: dict[int, Registered] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    controllers: set[int] = field(default_factory=set)
    acls: dict[str, tuple[object, ...]] = field(default_factory=dict)
    acl_contents: set[tuple[object, ...]] = field(default_factory=set)
    credentials: set[tuple[str, int]] = field(default_factory=set)
    producer_ids: tuple[int, int] | None = None
    transaction_start: int | None = None

    def copied(self) -> Known:
        """Return what is known now; later records do not change it. A deep copy takes a hundred times as long."""
        known = Known(*(copy(getattr(self, name)) for name in self.__struct_fields__))
        known.partitions = {topic: partitions.copy() for topic, partitions in self.partitions.items()}
        return known

    def learn(self, message: ApiMessage) -> None:
        """Take a record that was not refused. Records that no other one depends on are left alone."""
        values = message.values
        match message.name:
            case "TopicRecord":
                self.topics[values["topicId"]] = values["name"]
                self.topic_ids[values["name"]] = values["topicId"]
                self.partitions[values["topicId"]] = {}
            case "RemoveTopicRecord":
                self.topic_ids.pop(self.topics.pop(values["topicId"]), None)
                self.partitions.pop(values["topicId"], None)
            case "PartitionRecord":
                assigned = Assigned.of(len(values["replicas"]), values.get("directories"))
                self.partitions.setdefault(values["topicId"], {})[values["partitionId"]] = assigned
            case "PartitionChangeRecord":
                partitions = self.partitions[values["topicId"]]
                partitions[values["partitionId"]] = merged(partitions[values["partitionId"]], values)
            case "RegisterBrokerRecord":
                self._register(values["brokerId"], values["brokerEpoch"], values.get("logDirs") or ())
            case "UnregisterBrokerRecord":
                self._unregister(values["brokerId"])
            case "BrokerRegistrationChangeRecord":
                before = self.brokers[values["brokerId"]]
                self._register(values["brokerId"], before.epoch, values.get("logDirs") or before.directories)
            case "RegisterControllerRecord":
                self.controllers.add(values["controllerId"])
            case "UnregisterControllerRecord":
                self.controllers.discard(values["controllerId"])
            case "AccessControlEntryRecord":
                # What an ACL says, without its id (StandardAcl).
                content = tuple(value for name, value in values.items() if name != "id")
                self.acls[values["id"]] = content
                self.acl_contents.add(content)
            case "RemoveAccessControlEntryRecord":
                self.acl_contents.discard(self.acls.pop(values["id"]))
            case "UserScramCredentialRecord":
                self.credentials.add((values["name"], values["mechanism"]))
            case "RemoveUserScramCredentialRecord":
                self.credentials.discard((values["name"], values["mechanism"]))
            case "ProducerIdsRecord":
                self.producer_ids = values["brokerId"], values["nextProducerId"]

    def _register(self, broker: int, epoch: int, directories: Iterable[str]) -> None:
        self._unregister(broker)
        self.brokers[broker] = Registered(epoch, tuple(sorted(directories, key=_uuid_order)))
        for directory in self.brokers[broker].directories:
            self.owners.setdefault(directory, broker)

    def _unregister(self, broker: int) -> None:
        before = self.brokers.pop(broker, None)
        for directory in () if before is None else before.directories:
            if self.owners.get(directory) == broker:
                del self.owners[directory]


def merged(before: Assigned, values: Values) -> Assigned:
    """Return a partition after a PartitionChangeRecord, which names only what is new (PartitionRegistration.merge)."""
    replicas = before.replicas if values["replicas"] is None else len(values["replicas"])
    directories = values.get("directories")
    return Assigned(replicas, before.directories) if directories is None else Assigned.of(replicas, directories)


def _uuid_order(text: str) -> tuple[int, int]:
    """Uuid.compareTo: two signed halves."""
    uuid = parse_uuid(text)
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)
