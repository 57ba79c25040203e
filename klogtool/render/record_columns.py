"""The columns of records, in the order in which CSV, Arrow and Parquet have them.

The first ones are those of Spark's kafka source, with its types. Columns with an underscore say where in the log a
record came from.
"""

from __future__ import annotations

COLUMN_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int32",
    "offset": "int64",
    "timestamp": "timestamp",
    "timestampType": "int32",
    "headers": "headers",
    "_segment": "string",
    "_position": "int64",
    "_batch_base_offset": "int64",
    "_producer_id": "int64",
    "_producer_epoch": "int16",
    "_sequence": "int32",
    "_is_control": "bool",
    "_is_transactional": "bool",
    "_compression": "string",
    "_crc_ok": "bool",
    "_partition_leader_epoch": "int32",
}
"""Names of the columns and of Arrow's types. timestamp: microseconds, UTC; headers: a list of keys and values."""
OF_A_FILE = ("topic", "partition", "_segment")
"""Columns with one value for a whole file."""
