"""The partition of `__remote_log_metadata` that has the records of a topic partition.

Of RemoteLogMetadataTopicPartitioner. The topic's id decides, not its name. Brokers ignore a record in another
partition.
"""

from __future__ import annotations

from klogtool.format.partitioner import murmur2
from klogtool.format.uuids import parse_uuid

DEFAULT_PARTITIONS = 50  # remote.log.metadata.topic.num.partitions
_BITS = 32
_MASK = (1 << _BITS) - 1


def metadata_partition(topic_id: str, partition: int, partitions: int) -> int:
    """Return the partition of the metadata topic, of so many. Raises Corrupt if the id is none."""
    uuid = parse_uuid(topic_id)
    most, least = int.from_bytes(uuid[:8], "big"), int.from_bytes(uuid[8:], "big")
    # Objects.hash(topicId, partition) with Uuid.hashCode, as Java does it: in 32 bits.
    number = 31 * (31 * (31 + _folded(least)) + _folded(most)) + partition
    return (murmur2((number & _MASK).to_bytes(4, "big")) & 0x7FFFFFFF) % partitions


def _folded(number: int) -> int:
    """Long.hashCode."""
    return (number ^ (number >> _BITS)) & _MASK
