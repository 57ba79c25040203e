"""A record of `__cluster_metadata` without what is private in it, in the same number of bytes.

Names of topics are replaced by other names. Names and values of settings become the letter x if klogtool does not know
them, because a password may be among them. Records that have only ids and numbers stay whole if they can be read. Of
every other record only the type and the version stay: hosts, users, credentials, access rules, quotas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from klogtool.errors import KlogError
from klogtool.format.internal.records import (
    METADATA,
    ApiMessage,
    build_metadata_record,
    metadata_record_name,
    parse_metadata_record,
)
from klogtool.format.internal.schema import UNKNOWN_TAGS

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
_BROKER_NAME = re.compile(r"[0-9]{0,10}")
_FEATURE = re.compile(r"(metadata|kraft|transaction|group|share|streams|eligible\.leader\.replicas)\.version")


def blank_metadata_value(
    value: memoryview, name_of: Callable[[str], str], is_known: Callable[[str, str], bool]
) -> None:
    """Blank the value of a metadata record in place. name_of: returns a name of the same length for a topic. is_known:
    whether a setting with this value may stay; with an empty value, whether its name may."""
    data = bytes(value)
    name = metadata_record_name(data)
    if name in HARMLESS and _is_harmless(data):
        return
    blanked = _blanked(data, name_of, is_known) if name in ("TopicRecord", "ConfigRecord") else None
    if blanked is None or len(blanked) != len(data):
        blanked = data[:_FRAME_BYTES] + bytes(max(0, len(data) - _FRAME_BYTES))
    value[:] = blanked


def _is_harmless(data: bytes) -> bool:
    """Return whether a record has only ids and numbers that its schema knows."""
    message = _find_message(data)
    if message is None or has_unknown_tags(message.values):
        return False
    return message.name != "FeatureLevelRecord" or bool(_FEATURE.fullmatch(message.values["name"]))


def _find_message(data: bytes) -> ApiMessage | None:
    for newest in (False, True):
        try:
            return parse_metadata_record(METADATA, data, newest=newest)
        except KlogError:
            continue
    return None


def has_unknown_tags(value: object) -> bool:
    """Return whether a message, or a part of it, has tagged fields that its schema does not know."""
    if isinstance(value, dict):
        return bool(value.get(UNKNOWN_TAGS)) or any(map(has_unknown_tags, value.values()))
    return isinstance(value, (list, tuple)) and any(map(has_unknown_tags, value))


def _blanked(data: bytes, name_of: Callable[[str], str], is_known: Callable[[str, str], bool]) -> bytes | None:
    """Return the record with other names; None if it cannot be read, or is about users or clients."""
    try:
        message = parse_metadata_record(METADATA, data)
        values = {name: value for name, value in message.values.items() if name != UNKNOWN_TAGS}
        if message.name == "TopicRecord":
            if not _TOPIC_NAME.fullmatch(values["name"]):
                return None
            values["name"] = name_of(values["name"])
        elif not _is_resource(values["resourceType"], values["resourceName"]):
            return None
        else:
            _blank_setting(values, name_of, is_known)
        return build_metadata_record(message.name, message.version, values)
    except KlogError:
        return None


def _is_resource(kind: int, name: str) -> bool:
    return (
        bool(_TOPIC_NAME.fullmatch(name)) if kind == _TOPIC else kind == _BROKER and bool(_BROKER_NAME.fullmatch(name))
    )


def _blank_setting(values: dict[str, Any], name_of: Callable[[str], str], is_known: Callable[[str, str], bool]) -> None:
    if values["resourceType"] == _TOPIC:
        values["resourceName"] = name_of(values["resourceName"])
    if values["value"] is not None and not is_known(values["name"], values["value"]):
        values["value"] = "x" * len(values["value"].encode())
    if not is_known(values["name"], ""):
        values["name"] = "x" * len(values["name"].encode())
