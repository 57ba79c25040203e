"""What the replay of `__cluster_metadata` refuses: which record, with which of Kafka's exceptions.

Two replays read the same records: that of the image, which every node has (MetadataDelta and its parts), and that of
the controller (QuorumController and its control managers). On a node that is a controller, a refusal of either ends
the process. A broker that is no controller logs a refusal of the image, and goes on without the record.

Each replay is a `match` of the record and what is wrong with it. Both are compared with Kafka's classes over random
records in `tests/kafka/test_metadata_replay_against_kafka.py`. Not checked: values of settings, what a broker does
with an image that it could build, and lists of in-sync replicas that name a broker twice (BrokersToIsrs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.metadata.known import Known, merged
from klogtool.broker.releases import Rules
from klogtool.errors import Corrupt
from klogtool.format.internal.records import ApiMessage
from klogtool.format.internal.schema import Values, schema_of
from klogtool.format.java_numbers import parse_java_int
from klogtool.format.metadata_versions import METADATA_VERSION, metadata_version_name

_BROKER = 4  # ConfigResource.Type
_NO_CHANGE = -1  # LeaderRecoveryState
_RECOVERY_STATES = (0, 1)  # LeaderRecoveryState: RECOVERED, RECOVERING
_FENCING_CHANGES = (-1, 0, 1)  # BrokerRegistrationFencingChange
_SHUTDOWN_CHANGES = (0, 1)  # BrokerRegistrationInControlledShutdownChange
_MIGRATION_STATES = range(5)  # ZkMigrationState: NONE to ZK
_BEFORE_FEATURES = -1  # MetadataVersion before 4.0: the level of 0.8.0 to 3.0-IV0
_SECURITY_PROTOCOLS = (0, 1, 2, 3)  # SecurityProtocol
_SCRAM = {1: "SCRAM_SHA_256", 2: "SCRAM_SHA_512"}  # ScramMechanism
_PRODUCER_ID_BLOCK = 1000
_NO_IMAGE = 'Cannot invoke "org.apache.kafka.image.TopicImage.partitions()" because "this.image" is null'
_LENGTHS = "The lengths for replicas and directories do not match"
_UNSUPPORTED_VERSION = (
    "Unsupported metadata version - if you are currently upgrading your cluster, please ensure the metadata "
    "version is set to {} (or higher) before updating the software version. "
    "The metadata version can be updated via the `kafka-features` command-line tool."
)

Failure: TypeAlias = tuple[str, str]  # the class of Kafka's exception, and its message


class Replay(Enum):
    """Who refuses a record."""

    IMAGE = "image"
    """The image of the metadata: every broker and every controller has one (MetadataLoader)."""
    CONTROLLER = "controller"
    """The state of a controller (QuorumController)."""


class Refusal(Struct, frozen=True):
    """The first record that a replay refuses. path: of the file with it. record: its name; None if it cannot be read.

    offset: in the log; None in a snapshot. index: in a snapshot, from 0. feature, level: what the record sets, if it is
    a FeatureLevelRecord.
    """

    by: Replay
    path: str
    kafka_class: str
    message: str
    record: str | None = None
    offset: int | None = None
    index: int | None = None
    feature: str | None = None
    level: int | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the order of reading. A snapshot comes before the log."""
        return (0, self.index or 0) if self.offset is None else (1, self.offset)


def failures(known: Known, message: ApiMessage, rules: Rules) -> Iterator[tuple[Replay, Failure]]:
    """Yield what each replay has against a record, after those that are known."""
    for replay, check in ((Replay.IMAGE, _of_image), (Replay.CONTROLLER, _of_controller)):
        failure = check(known, message, rules)
        if failure is not None:
            yield replay, failure


def bound_failures(known: Known, message: ApiMessage, offset: int | None) -> Iterator[tuple[Replay, Failure]]:
    """Yield what each replay has against a record that begins or ends a transaction. offset: None in a snapshot."""
    name = message.name
    if offset is None:
        constant = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
        yield Replay.IMAGE, _runtime(f"Unknown metadata record type {constant}")
        yield Replay.CONTROLLER, _runtime(f"{name} cannot appear within a snapshot.")
        return
    start, is_begin = known.transaction_start, name == "BeginTransactionRecord"
    if is_begin and start is not None:
        yield Replay.IMAGE, _runtime(f"Encountered {name} while already in a transaction")
        reason = f"because the transaction at {start} was never closed."
        yield Replay.CONTROLLER, _runtime(f"Can't replay a {name} at {offset} {reason}")
    elif not is_begin and start is None:
        yield Replay.IMAGE, _runtime(f"Encountered {name} without having seen a BeginTransactionRecord")
        reason = f"Can't replay an {name} at {offset} because there is no open transaction."
        yield Replay.CONTROLLER, _runtime(reason)


def java_text(message: ApiMessage) -> str:
    """Return a message as its class prints it (toString): all fields, also those that its version does not have."""
    fields = schema_of(message.name, of_4_4=True).struct.fields
    values = {field.name: message.values.get(field.name, field.default(message.version)) for field in fields}
    texts = []
    for field, value in zip(fields, values.values(), strict=True):
        text = "null" if value is None else f"'{value}'" if field.type == "string" else str(value)
        texts.append(
            f"{field.name}=[{', '.join(map(str, value))}]" if isinstance(value, list) else f"{field.name}={text}"
        )
    return f"{message.name}({', '.join(texts)})"


def _runtime(text: str) -> Failure:
    return "RuntimeException", text


def _illegal_argument(text: str) -> Failure:
    return "IllegalArgumentException", text


# The image: MetadataDelta and its parts.


def _of_image(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    """TopicsDelta, TopicDelta, PartitionRegistration, ClusterDelta, FeaturesDelta, AclsDelta, DelegationTokenDelta."""
    values = message.values
    match message.name:
        case "PartitionRecord" | "PartitionChangeRecord" if values["topicId"] not in known.topics:
            return "NullPointerException", _NO_IMAGE
        case "PartitionChangeRecord" if values["partitionId"] not in known.partitions[values["topicId"]]:
            return _runtime(f"Unable to find partition {values['topicId']}:{values['partitionId']}")
        case "PartitionRecord" | "PartitionChangeRecord":
            return _assignment(known, message)
        case "RemoveTopicRecord" if values["topicId"] not in known.topics:
            return _runtime(f"Unable to delete topic with id {values['topicId']}: no such topic found.")
        case "ClearElrRecord":
            topic = values["topicName"]
            if topic in known.topic_ids and known.topic_ids[topic] not in known.topics:
                return "NullPointerException", _NO_IMAGE
            if topic and topic not in known.topic_ids:
                return _runtime(f"Unable to clear elr for topic with name {topic}: no such topic found.")
        case "RegisterBrokerRecord":
            return _unnamed_listener(values, rules)
        case "RegisterControllerRecord" if (listener := _unknown_protocol(values)) is not None:
            return _runtime(f"Unknown security protocol {listener['securityProtocol']}")
        case "FenceBrokerRecord":
            return _image_broker(known, "fence", values["id"], values["epoch"])
        case "UnfenceBrokerRecord":
            return _image_broker(known, "unfence", values["id"], values["epoch"])
        case "BrokerRegistrationChangeRecord":
            return _image_broker(known, "change", values["brokerId"], values["brokerEpoch"]) or _changes(message)
        case "FeatureLevelRecord" if values["name"] == METADATA_VERSION:
            return refused_level(values["featureLevel"], rules)
        case "ZkMigrationStateRecord":
            return _migration(values, rules)
        case "RemoveAccessControlEntryRecord" if values["id"] not in known.acls:
            reason = f"Failed to find existing ACL with ID {values['id']} in either image or changes"
            return "IllegalStateException", reason
        case "DelegationTokenRecord":
            for principal in (*values["renewers"], values["owner"], values["requester"]):
                if ":" not in principal:
                    form = "expected a string in format principalType:principalName but got"
                    return _illegal_argument(f"{form} {principal}")
    return None


def refused_level(level: int, rules: Rules) -> Failure | None:
    """Return what a release has against a level of metadata.version (FeaturesDelta)."""
    levels = rules.metadata_levels
    if levels.lowest <= level <= levels.highest or (rules.has_zookeeper and level == _BEFORE_FEATURES):
        return None
    old = f"No MetadataVersion with feature level {level}"
    new = _UNSUPPORTED_VERSION.format(metadata_version_name(levels.lowest))
    return _illegal_argument(old if levels.lowest == 1 else new)


def _assignment(known: Known, message: ApiMessage) -> Failure | None:
    """What is wrong with the replicas of a partition, or with their change (PartitionRegistration)."""
    values, is_change = message.values, message.name == "PartitionChangeRecord"
    replicas, directories, state = values["replicas"], values.get("directories"), values["leaderRecoveryState"]
    if replicas is not None and directories and len(replicas) != len(directories):
        return "InvalidReplicaDirectoriesException", f"{_LENGTHS}: {java_text(message)}"
    if state not in _RECOVERY_STATES and not (is_change and state == _NO_CHANGE):
        return _illegal_argument(f"Value {state} is not a valid leader recovery state")
    if is_change and not merged(known.partitions[values["topicId"]][values["partitionId"]], values).fits:
        return _illegal_argument(f"{_LENGTHS}.")
    return None


def _migration(values: Values, rules: Rules) -> Failure | None:
    """ZkMigrationState.of. Releases without ZooKeeper pass over it."""
    state = values["zkMigrationState"]
    if not rules.has_zookeeper or state in _MIGRATION_STATES:
        return None
    return _illegal_argument(f"Value {state} is not a valid Zk migration state")


def _unnamed_listener(values: Values, rules: Rules) -> Failure | None:
    if not rules.names_every_listener or all(listener["name"] for listener in values["endPoints"]):
        return None
    return _illegal_argument("Broker listeners must be named.")


def _unknown_protocol(values: Values) -> Values | None:
    """Return the first listener with a security protocol that Kafka does not know."""
    return next((one for one in values["endPoints"] if one["securityProtocol"] not in _SECURITY_PROTOCOLS), None)


# The controller: QuorumController and its control managers.


def _of_controller(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    """ReplicationControlManager, and the managers of features, settings, access rules, credentials and producer ids."""
    values = message.values
    match message.name:
        case "TopicRecord" if values["name"] in known.topic_ids:
            name, topic_id, before = values["name"], values["topicId"], known.topic_ids[values["name"]]
            if before == topic_id:
                return _runtime(f"Found duplicate TopicRecord for {name} with topic ID {topic_id}")
            why = f"a different ID than before. Previous ID was {before} and new ID is {topic_id}"
            return _runtime(f"Found duplicate TopicRecord for {name} with {why}")
        case "PartitionRecord" | "PartitionChangeRecord":
            topic_id, partition = values["topicId"], values["partitionId"]
            what = f"Tried to create partition {topic_id}:{partition}, but no"
            if topic_id not in known.topics:
                return _runtime(f"{what} topic with that ID was found.")
            if message.name == "PartitionChangeRecord" and partition not in known.partitions[topic_id]:
                return _runtime(f"{what} partition with that id was found.")
            return _assignment(known, message)
        case "RemoveTopicRecord" if values["topicId"] not in known.topics:
            return "UnknownTopicIdException", f"Can't find topic with ID {values['topicId']} to remove."
        case "ClearElrRecord":
            topic, topic_id = values["topicName"], known.topic_ids.get(values["topicName"])
            what = f"a topic named {topic}" if topic_id is None else f"a topic with ID {topic_id}"
            if topic and topic_id not in known.topics:
                return _runtime(f"Unable to find {what} in order to clear its ELRs.")
        case "FeatureLevelRecord":
            return _controller_feature(message, rules)
        case "ZkMigrationStateRecord":
            return _migration(values, rules)
        case "ConfigRecord" if rules.counts_configured_brokers and values["resourceType"] == _BROKER:
            try:
                _ = parse_java_int(values["resourceName"] or "0")
            except Corrupt as error:
                return "NumberFormatException", error.reason
        case "RemoveAccessControlEntryRecord":
            content = known.acls.get(values["id"])
            if content is None:
                return _runtime(f"Unable to replay {java_text(message)}: no acl with that ID found.")
            if content not in known.acl_contents:
                return _runtime(
                    f"Unable to replay {java_text(message)} for its content: acl not found in existingAcls."
                )
        case "RemoveUserScramCredentialRecord" if (values["name"], values["mechanism"]) not in known.credentials:
            key = f"username={values['name']}, mechanism={_SCRAM.get(values['mechanism'], 'UNKNOWN')}"
            return _runtime(f"Unable to find credential to delete: ScramCredentialKey({key})")
        case "ProducerIdsRecord" if known.producer_ids is not None:
            (broker, first), next_id = known.producer_ids, values["nextProducerId"]
            if next_id <= first:
                block = f"assignedBrokerId={broker}, firstProducerId={first}, size={_PRODUCER_ID_BLOCK}"
                why = f"is not greater than current next Producer ID in block (ProducerIdsBlock({block}))"
                return _runtime(f"Next Producer ID from replayed record ({next_id}) {why}")
        case _:
            return _of_cluster_control(known, message, rules)
    return None


def _of_cluster_control(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    """ClusterControlManager."""
    values = message.values
    match message.name:
        case "RegisterBrokerRecord":
            if (listener := _unknown_protocol(values)) is not None:
                return _runtime(
                    f"Unknown security protocol {listener['securityProtocol']} in listener {listener['name']}"
                )
            failure = _unnamed_listener(values, rules)
            return failure or _directories(known, values["brokerId"], values.get("logDirs") or ())
        case "UnregisterBrokerRecord":
            broker, epoch = values["brokerId"], values["brokerEpoch"]
            return _controller_broker(known, message, broker, epoch) or _directories(known, broker, ())
        case "RegisterControllerRecord" if (listener := _unknown_protocol(values)) is not None:
            return _runtime(f"Unknown security protocol {listener['securityProtocol']}")
        case "UnregisterControllerRecord" if values["controllerId"] not in known.controllers:
            return _runtime(f"Unable to replay {java_text(message)}: no controller registration found for that id")
        case "FenceBrokerRecord" | "UnfenceBrokerRecord":
            failure = _controller_broker(known, message, values["id"], values["epoch"])
            return failure or _directories(known, values["id"], known.brokers[values["id"]].directories)
        case "BrokerRegistrationChangeRecord":
            if (change := _changes(message)) is not None:
                head, _, value = change[1].rpartition(" ")  # this one prints it in hexadecimal
                return change[0], f"{head} {int(value) & 0xFF:x}"
            broker = values["brokerId"]
            failure = _controller_broker(known, message, broker, values["brokerEpoch"])
            return failure or _directories(known, broker, values.get("logDirs") or known.brokers[broker].directories)
    return None


def _controller_feature(message: ApiMessage, rules: Rules) -> Failure | None:
    name, level, levels = message.values["name"], message.values["featureLevel"], rules.metadata_levels
    lowest, highest = 0, rules.feature_levels.of(name)
    if name == METADATA_VERSION:
        lowest, highest = levels.lowest, levels.production
    elif not rules.feature_levels.known:
        return None
    if lowest <= level <= highest:
        return None
    supported = str(lowest) if lowest == highest else f"{lowest}-{highest}"
    reason = f"but this controller only supports versions {supported}"
    return _runtime(f"Tried to apply FeatureLevelRecord {java_text(message)}, {reason}")


def _directories(known: Known, broker: int, directories: Iterable[str]) -> Failure | None:
    """ClusterControlManager.updateDirectories: each id belongs to one broker. So the disk of a broker that was copied
    to another one ends the controllers."""
    before = known.brokers[broker].directories if broker in known.brokers else ()
    seen = set[str]()
    for directory in before:
        if known.owners.get(directory) != broker or directory in seen:
            return "IllegalStateException", f"BUG: directory {directory} not assigned to broker {broker}"
        seen.add(directory)
    for directory in directories:
        owner = known.owners.get(directory, broker)
        if owner != broker:
            return "IllegalStateException", f"BUG: directory {directory} already assigned to broker {owner}"
    return None


def _image_broker(known: Known, action: str, broker: int, epoch: int) -> Failure | None:
    """ClusterDelta.getBrokerOrThrow."""
    if broker not in known.brokers:
        return "IllegalStateException", f"Tried to {action} broker {broker}, but that broker was not registered."
    current = known.brokers[broker].epoch
    if current == epoch:
        return None
    return "IllegalStateException", (
        f"Tried to {action} broker {broker}, but the given epoch, {epoch}, did not match the current broker epoch, "
        f"{current}"
    )


def _changes(message: ApiMessage) -> Failure | None:
    for name, possible in (("fenced", _FENCING_CHANGES), ("inControlledShutdown", _SHUTDOWN_CHANGES)):
        value = message.values.get(name, 0)
        if value not in possible:
            reason = f"Unable to replay {java_text(message)}: unknown value for {name} field: {value}"
            return "IllegalStateException", reason
    return None


def _controller_broker(known: Known, message: ApiMessage, broker: int, epoch: int) -> Failure | None:
    current = known.brokers.get(broker)
    if current is not None and current.epoch == epoch:
        return None
    missing = "registration found for that id" if current is None else "registration with that epoch found"
    return _runtime(f"Unable to replay {java_text(message)}: no broker {missing}")
