"""A record of `__cluster_metadata` without what is private in it, in the same number of bytes.

Names of topics are replaced by other names. Settings stay, but values of settings that klogtool does not know become
the letter x, because a password may be among them. Records that have only ids and numbers stay whole. Of every other
record only the type and the version stay: hosts, users, credentials, access rules, quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from klogtool.errors import KlogError
from klogtool.format.internal.records import (
    METADATA,
    build_metadata_record,
    metadata_record_name,
    parse_metadata_record,
)

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


def blank_metadata_value(value: memoryview, name_of: Callable[[str], str], known_settings: Collection[str]) -> None:
    """Blank the value of a metadata record in place. name_of: returns a name of the same length for a topic."""
    data = bytes(value)
    name = metadata_record_name(data)
    if name in HARMLESS:
        return
    blanked = _blanked(data, name_of, known_settings) if name in ("TopicRecord", "ConfigRecord") else None
    if blanked is None or len(blanked) != len(data):
        blanked = data[:_FRAME_BYTES] + bytes(max(0, len(data) - _FRAME_BYTES))
    value[:] = blanked


def _blanked(data: bytes, name_of: Callable[[str], str], known_settings: Collection[str]) -> bytes | None:
    """Return the record with other names; None if it cannot be read, or is about users or clients."""
    try:
        message = parse_metadata_record(METADATA, data)
        values = dict(message.values)
        if message.name == "TopicRecord":
            values["name"] = name_of(values["name"])
        elif values["resourceType"] not in (_TOPIC, _BROKER):
            return None
        else:
            _blank_setting(values, name_of, known_settings)
        return build_metadata_record(message.name, message.version, values)
    except KlogError:
        return None


def _blank_setting(values: dict[str, Any], name_of: Callable[[str], str], known_settings: Collection[str]) -> None:
    if values["resourceType"] == _TOPIC:
        values["resourceName"] = name_of(values["resourceName"])
    if values["name"] not in known_settings and values["value"] is not None:
        values["value"] = "x" * len(values["value"].encode())
