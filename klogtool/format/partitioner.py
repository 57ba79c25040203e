"""The partition that a producer gives a record by its key: murmur2 of the key, modulo the number of partitions.

Of org.apache.kafka.common.utils.Utils.murmur2 and toPositive, as BuiltInPartitioner.partitionForKey uses them. And the
partition of `__remote_log_metadata` that has the records of a topic partition (RemoteLogMetadataTopicPartitioner): the
topic's id decides, not its name. Brokers ignore a record in another partition. And the partition of
`__consumer_offsets` whose leader coordinates a group, or of `__transaction_state` a transactional id.

This is the reference of kernels/_encode.pxi: change a rule in both places.
"""

from __future__ import annotations

from array import array

from klogtool.format.batch_encoding import BytesColumn, bytes_at
from klogtool.format.uuids import parse_uuid

NO_KEY = -1
METADATA_PARTITIONS = 50  # remote.log.metadata.topic.num.partitions
_SEED, _FACTOR, _SHIFT, _MASK = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned number of 32 bits."""
    hashed = (_SEED ^ len(data)) & _MASK
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> _SHIFT) * _FACTOR & _MASK
        hashed = (hashed * _FACTOR & _MASK) ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def partitions_of(keys: BytesColumn, rows: int, partitions: int) -> bytes:
    """Return the partition of each row as native 32-bit numbers; NO_KEY for a null key. Raises ValueError for a column
    that is not sound, and for less than one partition."""
    if partitions < 1:
        raise ValueError("there is one partition at least")
    numbers = array("i")
    for row in range(rows):
        key = bytes_at(keys, row, row)
        numbers.append(NO_KEY if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions)
    return numbers.tobytes()


def coordinator_partition(name: str, partitions: int) -> int:
    """Return the partition, of so many, whose leader coordinates a group or a transactional id
    (GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor)."""
    units = memoryview(name.encode("utf-16-be", "surrogatepass"))
    hashed = 0
    for at in range(0, len(units), 2):  # String.hashCode
        hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) & _MASK
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed) % partitions  # Utils.abs


def metadata_partition(topic_id: str, partition: int, partitions: int) -> int:
    """Return the partition of the metadata topic, of so many. Raises Corrupt if the id is none."""
    uuid = parse_uuid(topic_id)
    most, least = int.from_bytes(uuid[:8], "big"), int.from_bytes(uuid[8:], "big")
    # Objects.hash(topicId, partition) with Uuid.hashCode, as Java does it: in 32 bits.
    number = 31 * (31 * (31 + _folded(least)) + _folded(most)) + partition
    return (murmur2((number & _MASK).to_bytes(4, "big")) & 0x7FFFFFFF) % partitions


def _folded(number: int) -> int:
    """Long.hashCode."""
    return (number ^ (number >> 32)) & _MASK
