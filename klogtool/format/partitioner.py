"""The partition that a producer gives a record by its key: murmur2 of the key, modulo the number of partitions.

Of org.apache.kafka.common.utils.Utils.murmur2 and toPositive, as BuiltInPartitioner.partitionForKey uses them.

This is the reference of kernels/_encode.pxi: change a rule in both places.
"""

from __future__ import annotations

from array import array

from klogtool.format.batch_encoding import BytesColumn, bytes_at

NO_KEY = -1
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
