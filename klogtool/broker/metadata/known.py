"""What the records of `__cluster_metadata` have made known, as far as later records are refused by it.

This is less than a broker's image: no leaders, no settings. `klogtool.broker.metadata.image` has what klogtool shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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

    def learn(self, message: ApiMessage) -> None:
        """Take a record that was not refused. Records that no other one depends on are left alone."""
        learn = _LEARN.get(message.name)
        if learn is not None:
            learn(self, message.values)


def _topic(known: Known, values: Values) -> None:
    known.topics[values["topicId"]] = values["name"]
    known.topic_ids[values["name"]] = values["topicId"]
    known.partitions[values["topicId"]] = {}


def _remove_topic(known: Known, values: Values) -> None:
    known.topic_ids.pop(known.topics.pop(values["topicId"]), None)
    known.partitions.pop(values["topicId"], None)


def _partition(known: Known, values: Values) -> None:
    assigned = Assigned.of(len(values["replicas"]), values.get("directories"))
    known.partitions.setdefault(values["topicId"], {})[values["partitionId"]] = assigned


def _partition_change(known: Known, values: Values) -> None:
    partitions = known.partitions[values["topicId"]]
    partitions[values["partitionId"]] = merged(partitions[values["partitionId"]], values)


def merged(before: Assigned, values: Values) -> Assigned:
    """Return a partition after a PartitionChangeRecord, which names only what is new (PartitionRegistration.merge)."""
    replicas = before.replicas if values["replicas"] is None else len(values["replicas"])
    directories = values.get("directories")
    return Assigned(replicas, before.directories) if directories is None else Assigned.of(replicas, directories)


def _register_broker(known: Known, values: Values) -> None:
    _register(known, values["brokerId"], values["brokerEpoch"], values.get("logDirs"))


def _registration_change(known: Known, values: Values) -> None:
    before, directories = known.brokers[values["brokerId"]], values.get("logDirs")
    _register(known, values["brokerId"], before.epoch, directories or before.directories)


def _register(known: Known, broker: int, epoch: int, directories: Iterable[str] | None) -> None:
    _unregister(known, broker)
    registered = Registered(epoch, tuple(sorted(directories or (), key=_uuid_order)))
    known.brokers[broker] = registered
    for directory in registered.directories:
        known.owners.setdefault(directory, broker)


def _unregister_broker(known: Known, values: Values) -> None:
    _unregister(known, values["brokerId"])


def _unregister(known: Known, broker: int) -> None:
    before = known.brokers.pop(broker, None)
    for directory in () if before is None else before.directories:
        if known.owners.get(directory) == broker:
            del known.owners[directory]


def _uuid_order(text: str) -> tuple[int, int]:
    """Uuid.compareTo: two signed halves."""
    uuid = parse_uuid(text)
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)


def _register_controller(known: Known, values: Values) -> None:
    known.controllers.add(values["controllerId"])


def _unregister_controller(known: Known, values: Values) -> None:
    known.controllers.discard(values["controllerId"])


def _acl(known: Known, values: Values) -> None:
    content = acl_content(values)
    known.acls[values["id"]] = content
    known.acl_contents.add(content)


def _remove_acl(known: Known, values: Values) -> None:
    known.acl_contents.discard(known.acls.pop(values["id"]))


def acl_content(values: Values) -> tuple[object, ...]:
    """Return what an ACL says, without its id (StandardAcl)."""
    return tuple(value for name, value in values.items() if name != "id")


def _credential(known: Known, values: Values) -> None:
    known.credentials.add((values["name"], values["mechanism"]))


def _remove_credential(known: Known, values: Values) -> None:
    known.credentials.discard((values["name"], values["mechanism"]))


def _producer_ids(known: Known, values: Values) -> None:
    known.producer_ids = values["brokerId"], values["nextProducerId"]


_LEARN: Mapping[str, Callable[[Known, Values], None]] = {
    "TopicRecord": _topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "BrokerRegistrationChangeRecord": _registration_change,
    "RegisterControllerRecord": _register_controller,
    "UnregisterControllerRecord": _unregister_controller,
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "UserScramCredentialRecord": _credential,
    "RemoveUserScramCredentialRecord": _remove_credential,
    "ProducerIdsRecord": _producer_ids,
}
