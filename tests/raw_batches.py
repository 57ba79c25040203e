"""Record batches of any header around anything, with a right length and a right checksum."""

from __future__ import annotations

from klogtool.format.batch import (
    CODEC_NAMES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
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
