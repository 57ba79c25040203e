"""A record of `__cluster_metadata` without what is private in it, in the same number of bytes.

Names of topics are replaced by other names. Names and values of settings become the letter x if klogtool does not know
them, because a password may be among them. Records that have only ids and numbers stay whole if they can be read. In
all others (brokers, users, credentials, access rules, quotas) letters without meaning replace every text, the same ones
for the same text, and zeros replace bytes. Of a record that cannot be read only the type and the version stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.internal.records import (
    METADATA,
    ApiMessage,
    build_metadata_record,
    metadata_record_name,
    parse_metadata_record,
)
from klogtool.format.internal.schema import UNKNOWN_TAGS, Field, StructSchema, Values, schema_of

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_FRAME_BYTES = 3  # frame version, type and version of a record
HARMLESS = frozenset(
    {
        "UnregisterBrokerRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "RemoveTopicRecord",
        "FeatureLevelRecord",
        "ProducerIdsRecord",
        "BrokerRegistrationChangeRecord",
        "NoOpRecord",
        "ZkMigrationStateRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
    }
)
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_RESOURCES, _NO_RESOURCE = {_TOPIC: _TOPIC_NAME, _BROKER: re.compile(r"[0-9]{0,10}")}, re.compile(r"(?!)")
_FEATURE = re.compile(r"(metadata|kraft|transaction|group|share|streams|eligible\.leader\.replicas)\.version")


class Replacing(Struct, frozen=True):
    """What replaces text, in the same number of bytes. name_of: for the name of a topic. hide: for any other text.

    is_known: whether a setting with this value may stay; with an empty value, whether its name may.
    """

    name_of: Callable[[str], str]
    hide: Callable[[str], str]
    is_known: Callable[[str, str], bool]


def blank_metadata_value(value: memoryview, replacing: Replacing) -> bool:
    """Blank the value of a metadata record in place. Return whether it can still be read as a record."""
    data = bytes(value)
    message = _find_message(data) if metadata_record_name(data) in HARMLESS else None
    if message is not None and not has_unknown_tags(message.values):  # only ids and numbers that its schema knows
        is_feature = message.name == "FeatureLevelRecord"
        if not is_feature or _FEATURE.fullmatch(message.values["name"]):
            return True
    blanked = _blanked(data, replacing)
    is_record = blanked is not None and len(blanked) == len(data)
    if blanked is None or not is_record:
        blanked = data[:_FRAME_BYTES] + bytes(max(0, len(data) - _FRAME_BYTES))
    value[:] = blanked
    return is_record


def _find_message(data: bytes) -> ApiMessage | None:
    for of_4_4 in (False, True):
        try:
            return parse_metadata_record(METADATA, data, of_4_4=of_4_4)
        except KlogError:
            continue
    return None


def has_unknown_tags(value: object) -> bool:
    """Return whether a message, or a part of it, has tagged fields that its schema does not know."""
    if isinstance(value, dict):
        return bool(value.get(UNKNOWN_TAGS)) or any(map(has_unknown_tags, value.values()))
    return isinstance(value, (list, tuple)) and any(map(has_unknown_tags, value))


def _blanked(data: bytes, replacing: Replacing) -> bytes | None:
    """Return the record with other text; None if it cannot be read."""
    try:
        message = parse_metadata_record(METADATA, data)
        values: Values = {name: value for name, value in message.values.items() if name != UNKNOWN_TAGS}
        if message.name == "TopicRecord":
            if not _TOPIC_NAME.fullmatch(values["name"]):
                return None
            values = {**values, "name": replacing.name_of(values["name"])}
        elif message.name == "ConfigRecord" and _RESOURCES.get(values["resourceType"], _NO_RESOURCE).fullmatch(
            values["resourceName"]
        ):
            values = _blanked_setting(values, replacing)
        else:
            values = _hidden(schema_of(message.name).struct, values, replacing.hide)
        return build_metadata_record(message.name, message.version, values)
    except (KlogError, ValueError):
        return None


def _hidden(struct: StructSchema, values: Values, hide: Callable[[str], str]) -> Values:
    """Return the values of a struct without text and bytes; numbers and ids stay."""
    fields = [field for field in struct.fields if field.name in values]
    return {field.name: _hidden_value(field, values[field.name], hide) for field in fields}


def _hidden_value(field: Field, value: Any, hide: Callable[[str], str], *, is_item: bool = False) -> Any:
    if value is None:
        return None
    if field.is_array and not is_item:
        return [_hidden_value(field, item, hide, is_item=True) for item in value]
    if field.struct is not None:
        return _hidden(field.struct, value, hide)
    if field.type == "string":
        return value if _FEATURE.fullmatch(value) else hide(value)
    return bytes(len(value)) if field.type in ("bytes", "records") else value


def _blanked_setting(values: Values, replacing: Replacing) -> Values:
    resource, name, value = values["resourceName"], values["name"], values["value"]
    if values["resourceType"] == _TOPIC:
        resource = replacing.name_of(resource)
    if value is not None and not replacing.is_known(name, value):
        value = "x" * len(value.encode())
    if not replacing.is_known(name, ""):
        name = "x" * len(name.encode())
    return {**values, "resourceName": resource, "name": name, "value": value}
