"""Batches and records as JSON lines: the reference for the kernel, which writes the same bytes.

Bytes are {"utf8": ...} where they are UTF-8, else {"base64": ...}; null is null. A timestamp of -1 is null. What parses
is imported when there is something parsed: a dump by the kernel has no need of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from klogtool.errors import KlogError
from klogtool.format.text import java_utf8

if TYPE_CHECKING:
    from klogtool.format.batch import Header, Record, RecordBatch
    from klogtool.format.message import Message

Row = dict[str, Any]


def json_line(row: Row) -> bytes:
    """One object, compact, text as UTF-8."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def json_bytes(data: bytes | None) -> dict[str, str] | None:
    """Bytes of a key, a value or a header value."""
    if data is None:
        return None
    try:
        return {"utf8": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def json_timestamp(timestamp: int) -> int | None:
    """Ms since the epoch, None where there is none."""
    from klogtool.format.batch import NO_TIMESTAMP

    return None if timestamp == NO_TIMESTAMP else timestamp


def batch_row(file: str, batch: RecordBatch | Message) -> Row:
    """Every header field under its name. Raises Unsupported for a codec that there is not."""
    from klogtool.format.message import Message

    if isinstance(batch, Message):
        return _message_row(file, batch)
    return {
        **_common_start(file, batch, batch.base_offset),
        "last_offset_delta": batch.last_offset_delta,
        "base_timestamp": json_timestamp(batch.base_timestamp),
        **_common_end(batch),
    }


def _message_row(file: str, batch: Message) -> Row:
    return {**_common_start(file, batch, batch.base_offset), **_common_end(batch)}


def _common_start(file: str, batch: RecordBatch | Message, base_offset: int | None) -> Row:
    return {
        "type": "batch",
        "file": file,
        "position": batch.position,
        "size": batch.size,
        "base_offset": base_offset,
        "last_offset": batch.last_offset,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "magic": batch.magic,
        "crc": batch.crc,
        "crc_valid": batch.crc_valid,
        "attributes": batch.attributes,
        "codec": batch.codec,
        "timestamp_type": batch.timestamp_type,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
    }


def _common_end(batch: RecordBatch | Message) -> Row:
    return {
        "max_timestamp": json_timestamp(batch.max_timestamp),
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "records_count": batch.records_count,
    }


def record_row(file: str, batch: RecordBatch | Message, record: Record, topic: str | None = None) -> Row:
    """A record with its batch's fields. topic: of an internal one the content is decoded, too."""
    row: Row = {
        "type": "record",
        "file": file,
        "batch_position": batch.position,
        "magic": batch.magic,
        "codec": batch.codec,
        "offset": record.offset,
        "timestamp": json_timestamp(record.timestamp),
        "timestamp_type": batch.timestamp_type,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[java_utf8(h.key), json_bytes(h.value)] for h in record.headers],
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": record.sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "delete_horizon_ms": batch.delete_horizon_ms,
    }
    row.update(_further(batch, record, topic))
    return row


def _further(batch: RecordBatch | Message, record: Record, topic: str | None) -> Iterator[tuple[str, Any]]:
    """What only some records have."""
    if record.crc is not None:
        yield "crc", record.crc
        yield "crc_valid", record.crc_valid
    keys = [json_bytes(h.key) for h in record.headers if not _is_utf8(h)]
    if keys:  # shown above with replacement characters: here nothing is lost
        yield "header_keys", [json_bytes(h.key) for h in record.headers]
    if batch.is_control:
        yield "decoded", control_row(record)
    elif topic is not None:
        from klogtool.format.internal.decoders import decode_json

        decoded = decode_json(topic, record.key, record.value)
        if decoded is not None:
            yield "decoded", decoded


def _is_utf8(header: Header) -> bool:
    try:
        header.key.decode()
    except UnicodeDecodeError:
        return False
    return True


def control_row(record: Record) -> Row:
    """What a control record says; of one that cannot be read, why."""
    from klogtool.format.control import ControlRecordType, parse_control_type_id, parse_end_transaction_marker
    from klogtool.format.control_values import VALUE_MESSAGES, parse_control_value  # with Kafka's schemas
    from klogtool.format.internal.json_form import to_json

    try:
        type_id = parse_control_type_id(record.key)
        kind = ControlRecordType.of(type_id)
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            marker = parse_end_transaction_marker(record.key, record.value)
            return {"type": kind.name, "coordinator_epoch": marker.coordinator_epoch}
        if kind is ControlRecordType.UNKNOWN or record.value is None:
            return {"type": kind.name, "type_id": type_id}
        values = parse_control_value(kind, record.value)
        return {"type": kind.name, "data": to_json(VALUE_MESSAGES[kind], values["version"], values)}
    except KlogError as error:
        return {"error": error.reason}


def error_row(file: str, error: KlogError) -> Row:
    """Damage at a place of a file."""
    return {
        "type": "error",
        "file": file,
        "position": error.position,
        "detail": error.reason,
        "kafka_class": error.kafka_class,
    }
