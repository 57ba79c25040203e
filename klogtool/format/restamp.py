"""Returns an entry with another last offset, leader epoch and time, and unchanged records: what a leader does to a
batch.

The CRC is computed again only if bytes under it change (MutableRecordBatch.setLastOffset, setMaxTimestamp,
setPartitionLeaderEpoch). Setting only the leader epoch, of very many batches, is in kernels/_restamp.pxi, too.
"""

from __future__ import annotations

from klogtool.format.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_COVERS_FROM,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    parse_batch,
)
from klogtool.format.checksums import crc32, crc32c
from klogtool.format.fields import field_names, numbers
from klogtool.format.framing import Frame, find_frame
from klogtool.format.java_numbers import wrap_long
from klogtool.format.layouts import BATCH_HEADER, ENTRY_HEAD, MESSAGE_V1_HEAD
from klogtool.format.message import CRC_COVERS_FROM as MESSAGE_CRC_COVERS_FROM
from klogtool.format.message import HEAD_SIZES, Message

_BATCH_HEADER, _BATCH_FIELDS = numbers(BATCH_HEADER), field_names(BATCH_HEADER)
_KEPT_BITS = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def restamp_batch(
    batch: RecordBatch, last_offset: int, partition_leader_epoch: int, timestamp_type: str, max_timestamp: int
) -> bytes:
    """Return the changed bytes of the batch; max_timestamp: ms."""
    fields = {name: getattr(batch, name) for name in _BATCH_FIELDS}
    fields["base_offset"] = wrap_long(last_offset - batch.last_offset_delta)
    fields["partition_leader_epoch"] = partition_leader_epoch
    body = bytes(batch.data[RECORD_BATCH_OVERHEAD : batch.size])
    if (batch.timestamp_type, batch.max_timestamp) != (timestamp_type, max_timestamp):
        fields["attributes"] = batch.attributes & _KEPT_BITS | _type_bit(timestamp_type)
        fields["max_timestamp"] = max_timestamp
        fields["crc"] = crc32c((_BATCH_HEADER.pack(*fields.values()) + body)[CRC_COVERS_FROM:])
    return _BATCH_HEADER.pack(*fields.values()) + body


def set_leader_epochs(data: memoryview, at: int, stop: int, epoch: int) -> tuple[int, int]:
    """Give the batches that begin in data[at:stop] this leader epoch, in place, up to the first entry that is not
    whole. Return where that begins, and how many batches had another epoch. Messages of magic 0 and 1 have none.

    The epoch is not under the checksum.
    """
    changed = 0
    while at < stop and isinstance(frame := find_frame(data, at, len(data)), Frame):
        if frame.magic >= 2 and frame.size >= RECORD_BATCH_OVERHEAD:
            batch = parse_batch(data, at)
            if batch.partition_leader_epoch != epoch:
                fields = {name: getattr(batch, name) for name in _BATCH_FIELDS}
                fields["partition_leader_epoch"] = epoch
                _BATCH_HEADER.pack_into(data, at, *fields.values())
                changed += 1
        at += frame.size
    return at, changed


def restamp_message(message: Message, offset: int, timestamp_type: str, timestamp: int) -> bytes:
    """Return the bytes of the message with another offset, and for magic 1 also another time (ms)."""
    data = bytes(message.message)
    if message.magic > 0 and (message.timestamp_type, message.timestamp) != (timestamp_type, timestamp):
        head_size = HEAD_SIZES[1]
        attributes = message.attributes & CODEC_MASK | _type_bit(timestamp_type)
        fields = {"crc": 0, "magic": message.magic, "attributes": attributes, "timestamp": timestamp}
        data = MESSAGE_V1_HEAD.build(fields) + data[head_size:]
        fields["crc"] = crc32(data[MESSAGE_CRC_COVERS_FROM:])
        data = MESSAGE_V1_HEAD.build(fields) + data[head_size:]
    built: bytes = ENTRY_HEAD.build({"offset": wrap_long(offset), "message_size": len(data)}) + data
    return built


def _type_bit(timestamp_type: str) -> int:
    return TIMESTAMP_TYPE_BIT if timestamp_type == LOG_APPEND_TIME else 0
