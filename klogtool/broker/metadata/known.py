"""What the records of `__cluster_metadata` have made known, as far as later records are refused by it.

This is less than a broker's image: no leaders, no settings. `klogtool.broker.metadata.image` has what klogtool shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from msgspec import Struct, field

from klogtool.format.internal.records import ApiMessage
from klogtool.format.internal.schema import Values
from klogtool.format.uuids import ZERO_UUID, build_uuid, parse_uuid

MIGRATING = build_uuid(ZERO_UUID)  # DirectoryId: the log dir of a replica before KIP-858
K = TypeVar("K")
V = TypeVar("V")


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

    acls: the content of each, by id. acl_contents, credentials (user and mechanism), controllers: keys of what there
    is. producer_ids: the broker and the first id of the newest block. transaction_start: the offset of an open one.
    """

    topics: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, Assigned]] = field(default_factory=dict)
    brokers: dict[int, Registered] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    controllers: dict[int, None] = field(default_factory=dict)
    acls: dict[str, tuple[object, ...]] = field(default_factory=dict)
    acl_contents: dict[tuple[object, ...], None] = field(default_factory=dict)
    credentials: dict[tuple[str, int], None] = field(default_factory=dict)
    producer_ids: tuple[int, int] | None = None
    transaction_start: int | None = None
    _undo: list[Callable[[], object]] | None = None

    def begin(self, offset: int) -> None:
        """Begin a transaction of metadata: from now on what changes can be taken back. To copy all that is known takes
        a hundred times as long, for each of them."""
        self._undo = [partial(setattr, self, "producer_ids", self.producer_ids)]
        self.transaction_start = offset

    def end(self, *, is_aborted: bool) -> None:
        """End the transaction; aborted, take back what was learned since it began (SnapshotRegistry)."""
        for undo in reversed(self._undo or ()) if is_aborted else ():
            undo()
        self._undo = self.transaction_start = None

    def learn(self, message: ApiMessage) -> None:
        """Take a record that was not refused. Records that no other one depends on are left alone."""
        values = message.values
        match message.name:
            case "TopicRecord":
                self._put(self.topics, values["topicId"], values["name"])
                self._put(self.topic_ids, values["name"], values["topicId"])
                self._put(self.partitions, values["topicId"], {})
            case "RemoveTopicRecord":
                self._drop(self.topic_ids, self.topics[values["topicId"]])
                self._drop(self.topics, values["topicId"])
                self._drop(self.partitions, values["topicId"])
            case "PartitionRecord":
                assigned = Assigned.of(len(values["replicas"]), values.get("directories"))
                if values["topicId"] not in self.partitions:
                    self._put(self.partitions, values["topicId"], {})
                self._put(self.partitions[values["topicId"]], values["partitionId"], assigned)
            case "PartitionChangeRecord":
                partitions, partition = self.partitions[values["topicId"]], values["partitionId"]
                self._put(partitions, partition, merged(partitions[partition], values))
            case "RegisterBrokerRecord":
                self._register(values["brokerId"], values["brokerEpoch"], values.get("logDirs") or ())
            case "UnregisterBrokerRecord":
                self._unregister(values["brokerId"])
            case "BrokerRegistrationChangeRecord":
                before = self.brokers[values["brokerId"]]
                self._register(values["brokerId"], before.epoch, values.get("logDirs") or before.directories)
            case "RegisterControllerRecord":
                self._put(self.controllers, values["controllerId"], None)
            case "UnregisterControllerRecord":
                self._drop(self.controllers, values["controllerId"])
            case "AccessControlEntryRecord":
                # What an ACL says, without its id (StandardAcl).
                content = tuple(value for name, value in values.items() if name != "id")
                self._put(self.acls, values["id"], content)
                self._put(self.acl_contents, content, None)
            case "RemoveAccessControlEntryRecord":
                self._drop(self.acl_contents, self.acls[values["id"]])
                self._drop(self.acls, values["id"])
            case "UserScramCredentialRecord":
                self._put(self.credentials, (values["name"], values["mechanism"]), None)
            case "RemoveUserScramCredentialRecord":
                self._drop(self.credentials, (values["name"], values["mechanism"]))
            case "ProducerIdsRecord":
                self.producer_ids = values["brokerId"], values["nextProducerId"]

    def _register(self, broker: int, epoch: int, directories: Iterable[str]) -> None:
        self._unregister(broker)
        registered = Registered(epoch, tuple(sorted(directories, key=_uuid_order)))
        self._put(self.brokers, broker, registered)
        for directory in registered.directories:
            self._put(self.owners, directory, self.owners.get(directory, broker))

    def _unregister(self, broker: int) -> None:
        before = self.brokers.get(broker)
        self._drop(self.brokers, broker)
        for directory in () if before is None else before.directories:
            if self.owners.get(directory) == broker:
                self._drop(self.owners, directory)

    def _put(self, table: dict[K, V], key: K, value: V) -> None:
        if self._undo is not None:
            self._undo.append(partial(table.__setitem__, key, table[key]) if key in table else partial(table.pop, key))
        table[key] = value

    def _drop(self, table: dict[K, V], key: K) -> None:
        if self._undo is not None and key in table:
            self._undo.append(partial(table.__setitem__, key, table[key]))
        table.pop(key, None)


def merged(before: Assigned, values: Values) -> Assigned:
    """Return a partition after a PartitionChangeRecord, which names only what is new (PartitionRegistration.merge)."""
    replicas, directories = values["replicas"], values.get("directories")
    if replicas is None and directories is None:  # of most records only the leader or the in-sync ones are new
        return before
    replicas = before.replicas if replicas is None else len(replicas)
    return Assigned(replicas, before.directories) if directories is None else Assigned.of(replicas, directories)


def _uuid_order(text: str) -> tuple[int, int]:
    """Uuid.compareTo: two signed halves."""
    uuid = parse_uuid(text)
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)
