"""Committed offsets: keys and values of `__consumer_offsets` that OffsetMetadataManager keeps, all versions.

There may be very many of them. So those that are as Kafka writes them are cut up here; Kafka's schemas (`records`) read
the others, and tests compare both.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.format.internal.records import GROUP, parse_coordinator_record
from klogtool.format.text import java_utf8

NO_LEADER_EPOCH = -1
_PLAIN_VERSIONS, _EPOCH_VERSION, _EXPIRE_VERSION = (0, 1, 2, 3), 3, 1
_SHORT, _INT, _LONG = 2, 4, 8


class OffsetCommit(Struct, frozen=True):
    """A committed offset (OffsetAndMetadata). leader_epoch: -1 if it is not known. commit_timestamp: when the
    coordinator got the commit, ms since the epoch."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int


def parse_offset_commit(key: bytes, value: bytes) -> OffsetCommit:
    """Parse key and value of a committed offset. Raises KlogError where Kafka's coordinator would not load it."""
    commit = _cut_up(key, value)
    if commit is not None:
        return commit
    key_message, value_message = parse_coordinator_record(GROUP, key, value)
    assert value_message is not None
    name, values = key_message.values, value_message.values
    return OffsetCommit(
        name["group"],
        name["topic"],
        name["partition"],
        values["offset"],
        values.get("leaderEpoch", NO_LEADER_EPOCH),
        values["metadata"],
        values["commitTimestamp"],
    )


def parse_offset_commit_key(key: bytes) -> tuple[str, str, int]:
    """Parse the key of a committed offset: group, topic, partition. Raises KlogError."""
    name = parse_coordinator_record(GROUP, key, None)[0].values
    return name["group"], name["topic"], name["partition"]


def find_commit_timestamp(key: bytes, value: bytes) -> int | None:
    """Return a commit's timestamp; None if it is not above 0. Raises KlogError as `parse_offset_commit`."""
    timestamp = parse_offset_commit(key, value).commit_timestamp
    return timestamp if timestamp > 0 else None


def is_cut_up(key: bytes, value: bytes) -> bool:
    """Whether a commit is one that needs no schema: its lengths fit exactly, up to version 3."""
    return _cut_up(key, value) is not None


def _cut_up(key: bytes, value: bytes) -> OffsetCommit | None:
    """Cut up a commit whose lengths fit exactly, up to version 3; None for any other one."""
    version = _int(value, 0, _SHORT)
    if version not in _PLAIN_VERSIONS or (version and not _int(key, 0, _SHORT)):
        return None
    topic_at = _SHORT + _SHORT + _int(key, _SHORT, _SHORT)
    partition_at = topic_at + _SHORT + _int(key, topic_at, _SHORT)
    epoch_at = _SHORT + _LONG
    metadata_at = epoch_at + (_INT if version >= _EPOCH_VERSION else 0)
    time_at = metadata_at + _SHORT + _int(value, metadata_at, _SHORT)
    end = time_at + _LONG + (_LONG if version == _EXPIRE_VERSION else 0)
    is_in_order = 2 * _SHORT <= topic_at <= partition_at - _SHORT and metadata_at + _SHORT <= time_at
    if not is_in_order or partition_at + _INT != len(key) or end != len(value):
        return None
    return OffsetCommit(
        java_utf8(key[2 * _SHORT : topic_at]),
        java_utf8(key[topic_at + _SHORT : partition_at]),
        _int(key, partition_at, _INT),
        _int(value, _SHORT, _LONG),
        _int(value, epoch_at, _INT) if version >= _EPOCH_VERSION else NO_LEADER_EPOCH,
        java_utf8(value[metadata_at + _SHORT : time_at]),
        _int(value, time_at, _LONG),
    )


def _int(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)
