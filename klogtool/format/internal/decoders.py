"""What kafka-dump-log's decoders print of the records of internal topics (DumpLogSegments of Kafka 4.3.1); and the
messages of such a record, for the columns of Arrow and Spark (`read_internal_record`).

of_4_4: with the messages of 4.4.0 as well; otherwise with those of 4.3.1.

A decoder does not stop at damage: its text has the message of Kafka's exception instead. Only a record without a key
stops the three coordinator decoders, and kafka-dump-log with them.
"""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.internal.json_form import Json, to_json, write_json
from klogtool.format.internal.message import parse_message
from klogtool.format.internal.records import (
    GROUP,
    METADATA,
    REMOTE_LOG,
    SHARE,
    SHORT_BYTES,
    TRANSACTION,
    ApiMessage,
    UnknownRecordType,
    java_message,
    parse_coordinator_record,
    parse_metadata_record,
    parse_short,
)
from klogtool.format.internal.remote_log import remote_log_text
from klogtool.format.internal.schema import api_keys, schema_of
from klogtool.format.names import METADATA_TOPIC, OFFSETS_TOPIC, REMOTE_TOPIC, SHARES_TOPIC, TRANSACTIONS_TOPIC

TOMBSTONE = "<DELETE>"
CONSUMER_PROTOCOL = "consumer"
NULL_REMOTE_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of'
    ' "org.apache.kafka.common.record.internal.Record.value()" is null'
)


class TextPair(Struct, frozen=True):
    """The text printed after ` key: ` and after ` payload: `; None if nothing is printed there."""

    key: str | None
    value: str | None


def decode_cluster_metadata(offset: int, key: bytes | None, value: bytes | None, *, of_4_4: bool = False) -> TextPair:
    """`--cluster-metadata-decoder`. The key is ignored."""
    try:
        message = parse_metadata_record(METADATA, value, of_4_4=of_4_4)
    except KlogError as error:
        return TextPair(None, f"Error at {offset}, skipping. {java_message(error)}")
    data = to_json(*message, of_4_4=of_4_4)
    node = {"type": _record_type_name(message.name), "version": message.version, "data": data}
    return TextPair(None, write_json(node))


def decode_remote_log_metadata(
    offset: int, key: bytes | None, value: bytes | None, *, of_4_4: bool = False
) -> TextPair:
    """`--remote-log-metadata-decoder`. The key is ignored."""
    try:
        if value is None:
            raise Corrupt(NULL_REMOTE_VALUE, kafka_class="NullPointerException")
        return TextPair(None, remote_log_text(parse_metadata_record(REMOTE_LOG, value, of_4_4=of_4_4)))
    except KlogError as error:
        return TextPair(None, f"Error at offset {offset}, skipping. {java_message(error)}")


def _decode_coordinator(
    module: str, offset: int, key: bytes | None, value: bytes | None, *, of_4_4: bool = False
) -> TextPair:
    """CoordinatorRecordMessageParser.parse. Raises Unsupported for a record without key, which ends Kafka's tool."""
    if key is None:
        reason = f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
        raise Unsupported(reason, kafka_class="RuntimeException")
    try:
        key_message, value_message = parse_coordinator_record(module, key, value, of_4_4=of_4_4)
    except UnknownRecordType as error:
        return TextPair(f"Unknown record type {error.record_type} at offset {offset}, skipping.", None)
    except KlogError as error:
        return TextPair(f"Error at offset {offset}, skipping. {java_message(error)}", None)
    key_node = {"type": str(schema_of(key_message.name).api_key), "data": to_json(*key_message)}
    if value_message is None:
        return TextPair(write_json(key_node), TOMBSTONE)
    node = {"version": str(value_message.version), "data": value_json(value_message, of_4_4=of_4_4)}
    return TextPair(write_json(key_node), write_json(node))


decode_consumer_offsets = functools.partial(_decode_coordinator, GROUP)
"""`--offsets-decoder`."""
decode_transaction_state = functools.partial(_decode_coordinator, TRANSACTION)
"""`--transaction-log-decoder`."""
decode_share_group_state = functools.partial(_decode_coordinator, SHARE)
"""`--share-group-state-decoder`."""


def value_json(message: ApiMessage, *, of_4_4: bool = False, keeps_unknown: bool = False) -> Json:
    """Return a coordinator's value as JSON. The bytes that consumers put into a group's metadata are decoded too.
    keeps_unknown: see `to_json`."""
    node = to_json(*message, of_4_4=of_4_4, keeps_unknown=keeps_unknown)
    if message.name == "GroupMetadataValue" and node["protocolType"] == CONSUMER_PROTOCOL:
        members = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}
        for member, values in zip(node["members"], message.values["members"], strict=True):
            for field, name in members.items():
                member[field] = _embedded_json(name, values[field], member[field])
    return node


def _embedded_json(name: str, data: bytes, otherwise: Json) -> Json:
    """Decode bytes inside a value; those that cannot be decoded stay base64 (OffsetsMessageParser.replaceField)."""
    try:
        version = parse_short(data, name)
        return to_json(name, version, parse_message(name, version, data[SHORT_BYTES:]))
    except KlogError:
        return otherwise


@functools.cache
def _record_type_name(name: str) -> str:
    """TopicRecord -> TOPIC_RECORD, as the enum MetadataRecordType has it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


# --- for machines -----------------------------------------------------------------------------------------------------


def decode_json(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Json] | None:
    """Return key and value of an internal topic's record as JSON; None for any other topic. Never raises.

    Messages of 4.4.0 are known, and tagged fields that it does not know are kept.

    `{"key": {"type", "version", "data"}, "value": {...}}`, either of them null if there is nothing to decode. type is
    the name of Kafka's message class (`OffsetCommitKey`). If Kafka's reader fails at either: `{"error": ...}`.
    """
    if topic not in MODULES_OF_TOPICS:
        return None
    try:
        key_message, value_message = read_internal_record(topic, key, value)
        return {"key": _message_json(key_message), "value": _message_json(value_message)}
    except KlogError as error:
        return {"error": error.reason}


def _message_json(message: ApiMessage | None) -> Json:
    if message is None:
        return None
    return {
        "type": message.name,
        "version": message.version,
        "data": value_json(message, of_4_4=True, keeps_unknown=True),
    }


def read_internal_record(
    topic: str, key: bytes | None, value: bytes | None
) -> tuple[ApiMessage | None, ApiMessage | None]:
    """Return the messages in key and value of a record of an internal topic, by the schemas of 4.4.0.

    A topic without keys has None for the key's, and a null value gives None. Raises KlogError where Kafka's reader
    fails, KeyError for any other topic.
    """
    module = MODULES_OF_TOPICS[topic]
    if module in _WITHOUT_KEYS:
        return None, None if value is None else parse_metadata_record(module, value, of_4_4=True)
    if key is None:
        raise Corrupt("the record has no key")
    return parse_coordinator_record(module, key, value, of_4_4=True)


def message_names_of(topic: str) -> dict[str, tuple[str, ...]]:
    """Return the messages of an internal topic by the name that key and value share, each with the names of its
    schemas: of the key and of the value, or of the one message."""
    module = MODULES_OF_TOPICS[topic]
    if module in _WITHOUT_KEYS:
        return {name: (name,) for name in api_keys(module, "metadata", of_4_4=True).values()}
    values = api_keys(module, "coordinator-value", of_4_4=True)
    keys = api_keys(module, "coordinator-key", of_4_4=True)
    return {name.removesuffix("Key"): (name, values[api_key]) for api_key, name in keys.items()}


MODULES_OF_TOPICS: dict[str, str] = {
    OFFSETS_TOPIC: GROUP,
    TRANSACTIONS_TOPIC: TRANSACTION,
    SHARES_TOPIC: SHARE,
    METADATA_TOPIC: METADATA,
    REMOTE_TOPIC: REMOTE_LOG,
}
"""Internal topics by name, with the module of Kafka that has their messages."""
_WITHOUT_KEYS = (METADATA, REMOTE_LOG)
