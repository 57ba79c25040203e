"""The columns of `batches` that a header has: one row declares the type, and how a header and many headers fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.batch import (
    CONTROL_BIT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from klogtool.format.codecs import CODEC_NAMES
from klogtool.render.json_lines import json_timestamp
from klogtool.spark.head_columns import HeadRows
from klogtool.spark.heads import Head

if TYPE_CHECKING:
    import pyarrow as pa


def _field(head: Head, name: str) -> Any:
    """Return a field of the entry; None if messages of magic 0 and 1 do not have it."""
    return getattr(head.entry, name, None)


def _timestamp(head: Head, name: str) -> int | None:
    return json_timestamp(getattr(head.entry, name, NO_TIMESTAMP))


def codec_of(head: Head, _name: str = "codec") -> str:
    """Return the codec of an entry; "unknown" for an id that Kafka does not know."""
    try:
        return head.entry.codec
    except KlogError:
        return "unknown"


def _bit(bit: int) -> Callable[[HeadRows, str], pa.Array]:
    return lambda rows, _name: rows.has_bit(bit)


def _timestamps(rows: HeadRows, name: str) -> Any:
    import pyarrow.compute as pc

    column = rows.column(name)
    return pc.if_else(pc.equal(column, NO_TIMESTAMP), None, column)


def _codecs(rows: HeadRows, _name: str) -> Any:
    import pyarrow as pa

    return pa.array(CODEC_NAMES).take(rows.codec_ids())


def _timestamp_types(rows: HeadRows, _name: str) -> Any:
    import pyarrow.compute as pc

    return pc.if_else(rows.has_bit(TIMESTAMP_TYPE_BIT), LOG_APPEND_TIME, CREATE_TIME)


def _delete_horizons(rows: HeadRows, _name: str) -> Any:
    import pyarrow.compute as pc

    return pc.if_else(rows.has_bit(DELETE_HORIZON_BIT), rows.column("base_timestamp"), None)


class BatchColumn(Struct, frozen=True):
    """A column. type: Spark's. of_rows, of_head: its values in many headers, and in one, given the column's name."""

    type: str
    of_rows: Callable[[HeadRows, str], pa.Array] = HeadRows.column
    of_head: Callable[[Head, str], Any] = _field


BATCH_COLUMNS = {
    "position": BatchColumn("bigint", of_head=getattr),
    "size": BatchColumn("bigint", of_head=getattr),
    "base_offset": BatchColumn("bigint"),
    "last_offset": BatchColumn("bigint"),
    "partition_leader_epoch": BatchColumn("int"),
    "magic": BatchColumn("int"),
    "crc": BatchColumn("bigint"),
    "attributes": BatchColumn("int"),
    "codec": BatchColumn("string", _codecs, codec_of),
    "timestamp_type": BatchColumn("string", _timestamp_types),
    "is_transactional": BatchColumn("boolean", _bit(TRANSACTIONAL_BIT)),
    "is_control": BatchColumn("boolean", _bit(CONTROL_BIT)),
    "delete_horizon_ms": BatchColumn("bigint", _delete_horizons),
    "last_offset_delta": BatchColumn("int"),
    "base_timestamp": BatchColumn("bigint", _timestamps, _timestamp),
    "max_timestamp": BatchColumn("bigint", _timestamps, _timestamp),
    "producer_id": BatchColumn("bigint"),
    "producer_epoch": BatchColumn("int"),
    "base_sequence": BatchColumn("int"),
    "last_sequence": BatchColumn("int"),
    "records_count": BatchColumn("int"),
}
