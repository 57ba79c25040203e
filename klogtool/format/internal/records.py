"""Keys and values of internal topics: the frame around a message, which says what message it is.

Two frames. Coordinators (`__consumer_offsets`, `__transaction_state`, `__share_group_state`): key = record type (int16)
and key message, value = version (int16) and value message. Metadata and remote log metadata: no key, value = frame
version 1, api key, version (unsigned varints) and message.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import NamedTuple

from construct import Int16sb

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.internal.message import build_message, parse_front, parse_message
from klogtool.format.internal.primitives import UNSIGNED_VARINT, ValueStream
from klogtool.format.internal.quick import UNSURE, Reader, quick_reader
from klogtool.format.internal.schema import Values, api_keys, schema_of
from klogtool.format.java_numbers import MAX_SHORT, to_signed
from klogtool.format.varint import build_unsigned

FRAME_VERSION = 1
SHORT_BYTES = Int16sb.sizeof()
_FRAME = build_unsigned(FRAME_VERSION)
_NO_HEAD = bytes(3)
_HEAD = len(_NO_HEAD)  # frame version, type and version, where each takes a byte: no type or version of Kafka takes two

GROUP, TRANSACTION, SHARE = "kafka-group-coordinator", "kafka-transaction-coordinator", "kafka-share-coordinator"
METADATA, REMOTE_LOG = "kafka-metadata", "kafka-storage"
_unparseable = partial(Corrupt, kafka_class="MetadataParseException")


class ApiMessage(NamedTuple):
    """A message and what it is: the name of its schema, its version, its fields."""

    name: str
    version: int
    values: Values


class UnknownRecordType(Unsupported):
    """A record type that the coordinators of Kafka 4.3.1 do not know."""

    def __init__(self, record_type: int) -> None:
        reason = f"Found an unknown record type {record_type}"
        super().__init__(reason, kafka_class="UnknownRecordTypeException")
        self.record_type = record_type


def java_message(error: KlogError) -> str:
    """Return the message of Kafka's exception (getMessage()), as Java prints it."""
    return error.reason if error.kafka_message is None else error.kafka_message


def parse_coordinator_record(
    module: str, key: bytes, value: bytes | None, *, of_4_4: bool = False
) -> tuple[ApiMessage, ApiMessage | None]:
    """Key and value of a coordinator's record; a null value is a tombstone (CoordinatorRecordSerde.deserialize).

    Bytes after key or value are ignored, as in Kafka. Raises UnknownRecordType, Corrupt, or Unsupported for an unknown
    version, all with Kafka's message. of_4_4: by the schemas of 4.4.0.
    """
    record_type = parse_short(key, "key")
    names = api_keys(module, "coordinator-key", of_4_4=of_4_4)
    if record_type not in names:
        raise UnknownRecordType(record_type)
    # Kafka reads keys at the version that is the record type; their schemas have only version 0.
    key_message = _parse_body(names[record_type], record_type, key, "key", of_4_4=of_4_4)._replace(version=0)
    if value is None:
        return key_message, None
    name = api_keys(module, "coordinator-value", of_4_4=of_4_4)[record_type]
    version = parse_short(value, "value")
    if version not in schema_of(name, of_4_4=of_4_4).versions:
        reason = f"Found an unknown record version {version} for {record_type} type"
        raise Unsupported(reason, kafka_class="UnknownRecordVersionException")
    return key_message, _parse_body(name, version, value, "value", of_4_4=of_4_4)


def parse_metadata_record(module: str, value: bytes | None, *, of_4_4: bool = False) -> ApiMessage:
    """The value of a record of `__cluster_metadata` or `__remote_log_metadata` (AbstractApiMessageSerde.read).

    Raises Corrupt with the words of Kafka's MetadataParseException. of_4_4: by the schemas of 4.4.0.
    """
    quick = _quick_record(module, value or b"", of_4_4=of_4_4)
    if quick is not None:
        return quick
    stream = ValueStream(value or b"")
    frame_version = _parse_frame_field(stream, "frame version")
    if frame_version == 0:
        raise _unparseable(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release"
            " of KRaft in 2.8 to newer versions are not supported."
        )
    if frame_version != FRAME_VERSION:
        raise _unparseable(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            f"(only frame version {FRAME_VERSION} is supported)"
        )
    api_key = _parse_frame_field(stream, "type")
    version = _parse_frame_field(stream, "version")
    names = api_keys(module, "metadata", of_4_4=of_4_4)
    if api_key not in names:
        raise unknown_id(api_key)
    try:
        values, left = parse_front(names[api_key], version, stream.read(), of_4_4=of_4_4)
    except KlogError as error:
        raise undeserialized(api_key) from error
    if left:
        raise _unparseable(f"Found {left} byte(s) of garbage after {api_key}")
    return ApiMessage(names[api_key], version, values)


def _quick_record(module: str, value: bytes, *, of_4_4: bool) -> ApiMessage | None:
    """Return a metadata record that a quick reader is sure of, to its last byte; None if the reference has to read
    it."""
    frame, api_key, version = value[:_HEAD] if len(value) > _HEAD else _NO_HEAD
    quick = _quick_of(module, api_key, version, of_4_4=of_4_4) if frame == FRAME_VERSION else None
    if quick is None:
        return None
    name, read = quick
    try:
        values, end = read(value, _HEAD)
    except UNSURE:
        return None
    return ApiMessage(name, version, values) if end == len(value) else None


@functools.cache
def _quick_of(module: str, api_key: int, version: int, *, of_4_4: bool) -> tuple[str, Reader] | None:
    name = api_keys(module, "metadata", of_4_4=of_4_4).get(api_key)
    read = None if name is None else quick_reader(name, version, of_4_4=of_4_4)
    return None if name is None or read is None else (name, read)


def metadata_record_name(value: bytes) -> str | None:
    """Return the name of the message in a metadata record (`TopicRecord`), from its first bytes; None if Kafka 4.3.1
    does not know the message, or the version of the frame."""
    if len(value) < len(_FRAME) + 1 or not value.startswith(_FRAME):
        return None
    # One byte: no type takes two, so a byte that another one follows is no type's.
    return api_keys(METADATA, "metadata").get(value[len(_FRAME)])


def build_metadata_record(name: str, version: int, values: Values, *, of_4_4: bool = False) -> bytes:
    """The value of a metadata record, for the name of its message (`TopicRecord`). of_4_4: by the schemas of 4.4.0."""
    api_key = schema_of(name, of_4_4=of_4_4).api_key
    if api_key is None:
        raise KeyError(f"{name} is no metadata record")
    frame = b"".join(map(build_unsigned, (FRAME_VERSION, api_key, version)))
    return frame + build_message(name, version, values, of_4_4=of_4_4)


def parse_short(data: bytes, part: str) -> int:
    """The int16 that leads a key or value. Raises Corrupt, naming the piece as Kafka does."""
    if len(data) < SHORT_BYTES:
        raise Corrupt(f"Could not read version from {part}'s buffer.", kafka_class="RuntimeException")
    return int.from_bytes(data[:SHORT_BYTES], "big", signed=True)


def _parse_body(name: str, version: int, data: bytes, part: str, *, of_4_4: bool) -> ApiMessage:
    try:
        return ApiMessage(name, version, parse_message(name, version, data[SHORT_BYTES:], of_4_4=of_4_4))
    except KlogError as error:
        reason = f"Could not read record with version {version} from {part}'s buffer due to: {java_message(error)}."
        raise Corrupt(reason, kafka_class="RuntimeException") from error


def _parse_frame_field(stream: ValueStream, entity: str) -> int:
    """AbstractApiMessageSerde.unsignedIntToShort: a negative int loses its upper half."""
    try:
        value = UNSIGNED_VARINT._parse(stream, None, entity)  # parse_stream makes a context, which it does not need
    except KlogError as error:
        raise _unparseable(f"Error while reading {entity}") from error
    if value > MAX_SHORT:
        raise _unparseable(f"Value for {entity} was too large.")
    return to_signed(value, 16)


def undeserialized(api_key: int | None) -> Corrupt:
    """Return the error of a release that knows this message, but not its version."""
    return _unparseable(f"Failed to deserialize record with type {api_key}")


def unknown_id(api_key: int | None) -> Corrupt:
    """Return the error of a release that does not know this message."""
    unknown = "org.apache.kafka.common.errors.UnsupportedVersionException"
    return _unparseable(f"{unknown}: Unknown metadata id {api_key}")
