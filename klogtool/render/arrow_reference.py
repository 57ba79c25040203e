"""Rows of Python's records, for Arrow record batches, and the columns that have one value for a whole file.

The kernel must give the same rows, and damage is judged here.

This is the reference of kernels/_columns.pxi: change a rule in both places.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from klogtool.errors import AboveLimit
from klogtool.format.text import java_utf8
from klogtool.render.csv_lines import TIMESTAMP_TYPE_IDS
from klogtool.render.record_columns import OF_A_FILE

if TYPE_CHECKING:
    import pyarrow as pa

    from klogtool.format.batch import Record, RecordBatch
    from klogtool.format.message import Message

MOST_COLUMN_BYTES = 2**31 - 1
MOST_TIMESTAMP_MS = (2**63 - 1) // 1000

Row = dict[str, object]


def column_text(name: str) -> str:
    """Return a name of a file or folder as a column can hold it: bytes that are not UTF-8 are escaped."""
    try:
        data = os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate that does not represent a byte
        data = name.encode("utf-8", "surrogatepass")
    return data.decode("utf-8", "backslashreplace")


class Constants:
    """Columns with the same value in every row, made once and cut to length."""

    def __init__(self, path: str, topic: str | None, partition: int | None, schema: pa.Schema) -> None:
        self._made: dict[tuple[str, object], pa.Array] = {}
        self._schema = schema
        of_file = topic and column_text(topic), partition, column_text(os.path.basename(path))
        self.values = dict(zip(OF_A_FILE, of_file, strict=True))

    def column(self, name: str, rows: int, value: object = None) -> pa.Array:
        """Return a column of `rows` times `value`; for topic, partition and segment the value is that of the file."""
        import pyarrow

        value = self.values.get(name, value)
        created = self._made.get((name, value))
        if created is None or len(created) < rows:
            scalar = pyarrow.scalar(value, self._schema.field(name).type)
            created = self._made[name, value] = pyarrow.repeat(scalar, 1 << (rows - 1).bit_length())
        return created.slice(0, rows)


class ReferenceRows:
    """Rows of the reference reader, in lists. count: of rows. data_bytes: size of their keys, values and headers."""

    def __init__(self, schema: pa.Schema, constants: Constants) -> None:
        self._schema, self._constants = schema, constants
        self._entry: object = None
        self._lineage: Row = {}
        self._clear()

    def _clear(self) -> None:
        self.count, self.data_bytes, self._entry = 0, 0, None
        self._lists: dict[str, list[Any]] = {n: [] for n in self._schema.names if n not in self._constants.values}

    def add(self, entry: RecordBatch | Message, record: Record) -> None:
        """Add a row. Raises AboveLimit for headers that no column can hold."""
        header_bytes = sum(3 * len(h.key) + len(h.value or b"") for h in record.headers)
        if header_bytes > MOST_COLUMN_BYTES:
            raise AboveLimit("headers too large for a column", position=entry.position)
        if entry is not self._entry:
            self._entry, self._lineage = entry, _lineage(entry)
        row = self._lineage | _own_values(record, self._lineage)
        for name, values in self._lists.items():
            values.append(row[name])
        self.count += 1
        self.data_bytes += max(record.key_size, 0) + max(record.value_size, 0) + header_bytes

    def take(self) -> pa.RecordBatch:
        """Return the rows so far as a record batch, and start again without rows."""
        import pyarrow

        created = [
            pyarrow.array(self._lists[name], self._schema.field(name).type)
            if name in self._lists
            else self._constants.column(name, self.count)
            for name in self._schema.names
        ]
        self._clear()
        return pyarrow.RecordBatch.from_arrays(created, schema=self._schema)


def _lineage(entry: RecordBatch | Message) -> Row:
    """Return what all records of an entry have in common. A wrapper message's first offset is not in its header."""
    own_offset = entry.last_offset if entry.codec == "none" else None
    return {
        "timestampType": TIMESTAMP_TYPE_IDS[entry.timestamp_type],
        "_position": entry.position,
        "_batch_base_offset": getattr(entry, "base_offset", own_offset),
        "_producer_id": entry.producer_id,
        "_producer_epoch": entry.producer_epoch,
        "_is_control": entry.is_control,
        "_is_transactional": entry.is_transactional,
        "_compression": entry.codec,
        "_crc_ok": entry.crc_valid,
        "_partition_leader_epoch": entry.partition_leader_epoch,
    }


def _own_values(record: Record, lineage: Row) -> Row:
    """Return a record's own values. A timestamp is null if a long cannot hold its microseconds. Messages have checksums
    of their own."""
    return {
        "key": record.key,
        "value": record.value,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000 if abs(record.timestamp) <= MOST_TIMESTAMP_MS else None,
        "headers": [(java_utf8(header.key), header.value) for header in record.headers] or None,
        "_sequence": record.sequence,
        "_crc_ok": lineage["_crc_ok"] and record.crc_valid is not False,
    }
