"""What the replay of `__cluster_metadata` refuses: which record, with which of Kafka's exceptions.

Two replays read the same records: that of the image, which every node has (MetadataDelta and its parts), and that of
the controller (QuorumController and its control managers). On a node that is a controller, a refusal of either ends
the process. A broker that is no controller logs a refusal of the image, and goes on without the record.

Each replay is a table: the record, and what is wrong with it. Both are compared with Kafka's classes over random
records in `tests/kafka/test_metadata_replay_against_kafka.py`. Not checked: values of settings, and what a broker does
with an image that it could build.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct

from klogtool.broker.metadata.known import Known, merged
from klogtool.broker.releases import Rules
from klogtool.errors import Corrupt
from klogtool.format.internal.records import ApiMessage
from klogtool.format.internal.schema import Field, schema_of
from klogtool.format.java_numbers import parse_java_int
from klogtool.format.metadata_versions import METADATA_VERSION, metadata_version_name

_BROKER = 4  # ConfigResource.Type
_NO_CHANGE = -1  # LeaderRecoveryState
_RECOVERY_STATES = (0, 1)  # LeaderRecoveryState: RECOVERED, RECOVERING
_FENCING_CHANGES = (-1, 0, 1)  # BrokerRegistrationFencingChange
_SHUTDOWN_CHANGES = (0, 1)  # BrokerRegistrationInControlledShutdownChange
_SECURITY_PROTOCOLS = (0, 1, 2, 3)  # SecurityProtocol
_SCRAM = {1: "SCRAM_SHA_256", 2: "SCRAM_SHA_512"}  # ScramMechanism
_PRODUCER_ID_BLOCK = 1000
_NO_IMAGE = 'Cannot invoke "org.apache.kafka.image.TopicImage.partitions()" because "this.image" is null'
_LENGTHS = "The lengths for replicas and directories do not match"

Failure: TypeAlias = tuple[str, str]  # the class of Kafka's exception, and its message
Check: TypeAlias = Callable[[Known, ApiMessage, Rules], Failure | None]


class Replay(Enum):
    """Who refuses a record."""

    IMAGE = "image"
    """The image of the metadata: every broker and every controller has one (MetadataLoader)."""
    CONTROLLER = "controller"
    """The state of a controller (QuorumController)."""


class Refusal(Struct, frozen=True):
    """The first record that a replay refuses. path: of the file with it. record: its name; None if it cannot be read.

    offset: in the log; None in a snapshot. index: in a snapshot, from 0.
    """

    by: Replay
    path: str
    kafka_class: str
    message: str
    record: str | None = None
    offset: int | None = None
    index: int | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the order of reading. A snapshot comes before the log."""
        return (0, self.index or 0) if self.offset is None else (1, self.offset)


def failures(known: Known, message: ApiMessage, rules: Rules) -> Iterator[tuple[Replay, Failure]]:
    """Yield what each replay has against a record, after those that are known."""
    for replay, table in ((Replay.IMAGE, _IMAGE), (Replay.CONTROLLER, _CONTROLLER)):
        check = table.get(message.name)
        failure = None if check is None else check(known, message, rules)
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
    fields_text = ", ".join(f"{field.name}={_java(values[field.name], field)}" for field in fields)
    return f"{message.name}({fields_text})"


def _java(value: Any, field: Field) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return f"'{value}'" if field.type == "string" else str(value)


def _runtime(text: str) -> Failure:
    return "RuntimeException", text


def _illegal_argument(text: str) -> Failure:
    return "IllegalArgumentException", text


# Topics and partitions: TopicsDelta, TopicDelta, PartitionRegistration; ReplicationControlManager.


def _image_partition(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    if message.values["topicId"] not in known.topics:
        return "NullPointerException", _NO_IMAGE
    return _registration(message)


def _image_partition_change(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    values = message.values
    if values["topicId"] not in known.topics:
        return "NullPointerException", _NO_IMAGE
    if values["partitionId"] not in known.partitions[values["topicId"]]:
        return _runtime(f"Unable to find partition {values['topicId']}:{values['partitionId']}")
    return _merging(known, message)


def _registration(message: ApiMessage) -> Failure | None:
    return _unlike_lengths(message) or _recovery_state(message.values["leaderRecoveryState"])


def _merging(known: Known, message: ApiMessage) -> Failure | None:
    values = message.values
    state = values["leaderRecoveryState"]
    failure = _unlike_lengths(message) or (None if state == _NO_CHANGE else _recovery_state(state))
    if failure is None and not merged(known.partitions[values["topicId"]][values["partitionId"]], values).fits:
        return _illegal_argument(f"{_LENGTHS}.")
    return failure


def _unlike_lengths(message: ApiMessage) -> Failure | None:
    replicas, directories = message.values["replicas"], message.values.get("directories")
    if replicas is not None and directories and len(replicas) != len(directories):
        return "InvalidReplicaDirectoriesException", f"{_LENGTHS}: {java_text(message)}"
    return None


def _recovery_state(state: int) -> Failure | None:
    return (
        None if state in _RECOVERY_STATES else _illegal_argument(f"Value {state} is not a valid leader recovery state")
    )


def _image_remove_topic(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    topic_id = message.values["topicId"]
    if topic_id in known.topics:
        return None
    return _runtime(f"Unable to delete topic with id {topic_id}: no such topic found.")


def _image_clear_elr(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    topic = message.values["topicName"]
    if topic in known.topic_ids and known.topic_ids[topic] not in known.topics:
        return "NullPointerException", _NO_IMAGE
    if not topic or topic in known.topic_ids:
        return None
    return _runtime(f"Unable to clear elr for topic with name {topic}: no such topic found.")


def _controller_topic(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    name, topic_id = message.values["name"], message.values["topicId"]
    before = known.topic_ids.get(name)
    if before is None:
        return None
    if before == topic_id:
        return _runtime(f"Found duplicate TopicRecord for {name} with topic ID {topic_id}")
    return _runtime(
        f"Found duplicate TopicRecord for {name} with a different ID than before. Previous ID was {before} and new ID "
        f"is {topic_id}"
    )


def _controller_partition(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    return _no_topic(known, message) or _registration(message)


def _controller_partition_change(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    failure = _no_topic(known, message)
    if failure is not None:
        return failure
    topic_id, partition = message.values["topicId"], message.values["partitionId"]
    if partition not in known.partitions[topic_id]:
        return _runtime(f"Tried to create partition {topic_id}:{partition}, but no partition with that id was found.")
    return _merging(known, message)


def _no_topic(known: Known, message: ApiMessage) -> Failure | None:
    topic_id = message.values["topicId"]
    if topic_id in known.topics:
        return None
    partition = message.values["partitionId"]
    return _runtime(f"Tried to create partition {topic_id}:{partition}, but no topic with that ID was found.")


def _controller_remove_topic(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    topic_id = message.values["topicId"]
    if topic_id in known.topics:
        return None
    return "UnknownTopicIdException", f"Can't find topic with ID {topic_id} to remove."


def _controller_clear_elr(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    topic = message.values["topicName"]
    topic_id = known.topic_ids.get(topic)
    if not topic or topic_id in known.topics:
        return None
    what = f"a topic named {topic}" if topic_id is None else f"a topic with ID {topic_id}"
    return _runtime(f"Unable to find {what} in order to clear its ELRs.")


# Brokers and controllers: ClusterDelta, BrokerRegistration, ControllerRegistration; ClusterControlManager.


def _image_register_broker(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    if not rules.names_every_listener or all(listener["name"] for listener in message.values["endPoints"]):
        return None
    return _illegal_argument("Broker listeners must be named.")


def _controller_register_broker(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    for listener in message.values["endPoints"]:
        if listener["securityProtocol"] not in _SECURITY_PROTOCOLS:
            reason = f"Unknown security protocol {listener['securityProtocol']} in listener {listener['name']}"
            return _runtime(reason)
    values = message.values
    failure = _image_register_broker(known, message, rules)
    return failure or _directories(known, values["brokerId"], values.get("logDirs") or ())


def _directories(known: Known, broker: int, directories: Iterable[str]) -> Failure | None:
    """ClusterControlManager.updateDirectories: each id belongs to one broker. So the disk of a broker that was copied
    to another one ends the controllers."""
    before = known.brokers[broker].directories if broker in known.brokers else ()
    for n, directory in enumerate(before):
        if known.owners.get(directory) != broker or directory in before[:n]:
            return "IllegalStateException", f"BUG: directory {directory} not assigned to broker {broker}"
    for directory in directories:
        owner = known.owners.get(directory, broker)
        if owner != broker:
            return "IllegalStateException", f"BUG: directory {directory} already assigned to broker {owner}"
    return None


def _register_controller(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    for listener in message.values["endPoints"]:
        if listener["securityProtocol"] not in _SECURITY_PROTOCOLS:
            return _runtime(f"Unknown security protocol {listener['securityProtocol']}")
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


def _image_fencing(action: str) -> Check:
    def check(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
        return _image_broker(known, action, message.values["id"], message.values["epoch"])

    return check


def _image_registration_change(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    values = message.values
    return _image_broker(known, "change", values["brokerId"], values["brokerEpoch"]) or _changes(message)


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


def _controller_fencing(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    broker = message.values["id"]
    failure = _controller_broker(known, message, broker, message.values["epoch"])
    return failure or _directories(known, broker, known.brokers[broker].directories)


def _controller_unregister(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    broker, epoch = message.values["brokerId"], message.values["brokerEpoch"]
    return _controller_broker(known, message, broker, epoch) or _directories(known, broker, ())


def _controller_registration_change(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    failure, values = _changes(message), message.values
    if failure is None:
        broker, directories = values["brokerId"], values.get("logDirs")
        failure = _controller_broker(known, message, broker, values["brokerEpoch"])
        return failure or _directories(known, broker, directories or known.brokers[broker].directories)
    kind, text = failure
    head, _, value = text.rpartition(" ")  # this one prints it in hexadecimal
    return kind, f"{head} {int(value) & 0xFF:x}"


def _controller_unregister_controller(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    if message.values["controllerId"] in known.controllers:
        return None
    return _runtime(f"Unable to replay {java_text(message)}: no controller registration found for that id")


# Features, settings, users: FeaturesDelta, AclsDelta, DelegationTokenDelta; the control managers of the same.


def _image_feature(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    level, levels = message.values["featureLevel"], rules.metadata_levels
    if message.values["name"] != METADATA_VERSION or levels.lowest <= level <= levels.highest:
        return None
    if levels.lowest == 1:
        return _illegal_argument(f"No MetadataVersion with feature level {level}")
    return _illegal_argument(
        "Unsupported metadata version - if you are currently upgrading your cluster, please ensure the metadata "
        f"version is set to {metadata_version_name(levels.lowest)} (or higher) before updating the software version. "
        "The metadata version can be updated via the `kafka-features` command-line tool."
    )


def _controller_feature(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    name, level = message.values["name"], message.values["featureLevel"]
    levels = rules.metadata_levels
    if name == METADATA_VERSION:
        lowest, highest = levels.lowest, levels.production
    elif not rules.feature_levels.known:
        return None
    else:
        lowest, highest = 0, rules.feature_levels.of(name)
    if lowest <= level <= highest:
        return None
    supported = str(lowest) if lowest == highest else f"{lowest}-{highest}"
    reason = f"but this controller only supports versions {supported}"
    return _runtime(f"Tried to apply FeatureLevelRecord {java_text(message)}, {reason}")


def _controller_setting(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    values = message.values
    if not rules.counts_configured_brokers or values["resourceType"] != _BROKER or not values["resourceName"]:
        return None
    try:
        parse_java_int(values["resourceName"])
    except Corrupt as error:
        return "NumberFormatException", error.reason
    return None


def _image_remove_acl(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    acl = message.values["id"]
    if acl in known.acls:
        return None
    return "IllegalStateException", f"Failed to find existing ACL with ID {acl} in either image or changes"


def _controller_remove_acl(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    content = known.acls.get(message.values["id"])
    if content is None:
        return _runtime(f"Unable to replay {java_text(message)}: no acl with that ID found.")
    if content not in known.acl_contents:
        return _runtime(f"Unable to replay {java_text(message)} for its content: acl not found in existingAcls.")
    return None


def _controller_remove_credential(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    name, mechanism = message.values["name"], message.values["mechanism"]
    if (name, mechanism) in known.credentials:
        return None
    kind = _SCRAM.get(mechanism, "UNKNOWN")
    return _runtime(f"Unable to find credential to delete: ScramCredentialKey(username={name}, mechanism={kind})")


def _image_token(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    values = message.values
    for principal in (*values["renewers"], values["owner"], values["requester"]):
        if ":" not in principal:
            form = "expected a string in format principalType:principalName but got"
            return _illegal_argument(f"{form} {principal}")
    return None


def _controller_producer_ids(known: Known, message: ApiMessage, rules: Rules) -> Failure | None:
    next_id, block = message.values["nextProducerId"], known.producer_ids
    if block is None or next_id > block[1]:
        return None
    block_text = f"ProducerIdsBlock(assignedBrokerId={block[0]}, firstProducerId={block[1]}, size={_PRODUCER_ID_BLOCK})"
    return _runtime(
        f"Next Producer ID from replayed record ({next_id}) is not greater than current next Producer ID in block "
        f"({block_text})"
    )


_IMAGE: Mapping[str, Check] = {
    "PartitionRecord": _image_partition,
    "PartitionChangeRecord": _image_partition_change,
    "RemoveTopicRecord": _image_remove_topic,
    "ClearElrRecord": _image_clear_elr,
    "RegisterBrokerRecord": _image_register_broker,
    "RegisterControllerRecord": _register_controller,
    "FenceBrokerRecord": _image_fencing("fence"),
    "UnfenceBrokerRecord": _image_fencing("unfence"),
    "BrokerRegistrationChangeRecord": _image_registration_change,
    "FeatureLevelRecord": _image_feature,
    "RemoveAccessControlEntryRecord": _image_remove_acl,
    "DelegationTokenRecord": _image_token,
}
_CONTROLLER: Mapping[str, Check] = {
    "TopicRecord": _controller_topic,
    "PartitionRecord": _controller_partition,
    "PartitionChangeRecord": _controller_partition_change,
    "RemoveTopicRecord": _controller_remove_topic,
    "ClearElrRecord": _controller_clear_elr,
    "RegisterBrokerRecord": _controller_register_broker,
    "UnregisterBrokerRecord": _controller_unregister,
    "RegisterControllerRecord": _register_controller,
    "UnregisterControllerRecord": _controller_unregister_controller,
    "FenceBrokerRecord": _controller_fencing,
    "UnfenceBrokerRecord": _controller_fencing,
    "BrokerRegistrationChangeRecord": _controller_registration_change,
    "FeatureLevelRecord": _controller_feature,
    "ConfigRecord": _controller_setting,
    "RemoveAccessControlEntryRecord": _controller_remove_acl,
    "RemoveUserScramCredentialRecord": _controller_remove_credential,
    "ProducerIdsRecord": _controller_producer_ids,
}
