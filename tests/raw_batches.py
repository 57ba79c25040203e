"""Record batches of any header around anything, with a right length and a right checksum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from klogtool.format import batch as format_batch
from klogtool.format.batch import (
    CODEC_NAMES,
    LOG_APPEND_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchOrigin,
    Record,
    build_emptied_batch,
    build_raw_batch,
)


def raw_batch(body: bytes, *, codec: str = "none", attributes: int = 0, **fields: int) -> bytes:
    """What fields do not name is as in a batch of one record at offset 0, of no producer. attributes: but the codec."""
    usual = {
        "base_offset": 0,
        "last_offset_delta": 0,
        "base_timestamp": 0,
        "max_timestamp": 0,
        "producer_id": NO_PRODUCER_ID,
        "producer_epoch": NO_PRODUCER_EPOCH,
        "base_sequence": NO_SEQUENCE,
        "records_count": 1,
        "partition_leader_epoch": 0,
    }
    return build_raw_batch(body, attributes=attributes | CODEC_NAMES.index(codec), **usual | fields)


def build_batch(records: Iterable[Record], **fields: Any) -> bytes:
    """A batch as klogtool builds it, of fields by the names that a header and a `BatchOrigin` have; emptied, if there
    are no records. timestamp_type, log_append_time: one of them says that it has LogAppendTime."""
    every = list(records)
    origin = BatchOrigin(**{name: fields.pop(name) for name in BatchOrigin.__struct_fields__ if name in fields})
    timestamp_type, time = fields.pop("timestamp_type", None), fields.pop("log_append_time", None)
    if not every:
        offsets = fields["base_offset"], fields["last_offset"]
        return build_emptied_batch(origin, *offsets, fields.get("max_timestamp", NO_TIMESTAMP))
    if timestamp_type == LOG_APPEND_TIME and time is None:
        time = max(record.timestamp for record in every)
    return format_batch.build_batch(every, origin, append_time_ms=time, **fields)
