"""Records of a batch that is filled one by one, until it is as large as a producer makes it."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from klogtool.format.batch import Header, Record
from klogtool.format.batch_encoding import RecordColumns, column_of, headers_of

MAX_RECORD_OVERHEAD = 21  # bytes of a record beside key, value and headers, at most (DefaultRecord)

# Timestamp (ms), key, value, headers as pairs of key and value.
Row: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


class BatchFilling:
    """The records so far, with offsets from 0 on.

    batch_bytes: how large it becomes, about, before compression. batch_records: how many records it has at most.
    """

    def __init__(self, batch_bytes: int, batch_records: int) -> None:
        self._batch_bytes, self._batch_records = batch_bytes, batch_records
        self._rows: list[Row] = []
        self._size = 0

    def is_empty(self) -> bool:
        """Whether the batch has no record yet."""
        return not self._rows

    def add(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[tuple[bytes, bytes | None], ...]
    ) -> bool:
        """Add a record. False, and nothing has changed, if the batch has no room for it. An empty batch has room."""
        size = MAX_RECORD_OVERHEAD * (1 + len(headers)) + len(key or b"") + len(value or b"")
        is_full = self._size + size > self._batch_bytes or len(self._rows) >= self._batch_records
        if self._rows and is_full:
            return False
        self._rows.append((timestamp, key, value, headers))
        self._size += size
        return True

    def to_records(self) -> list[Record]:
        """Return the records so far."""
        return [
            Record(n, timestamp, key, value, tuple(Header(*header) for header in headers))
            for n, (timestamp, key, value, headers) in enumerate(self._rows)
        ]

    def to_columns(self) -> RecordColumns:
        """Return the records so far as columns."""
        timestamps, keys, values, headers = zip(*self._rows, strict=True)
        return RecordColumns(
            array("q", range(len(keys))),
            array("q", timestamps),
            column_of(keys),
            column_of(values),
            headers_of(headers) if any(headers) else None,
        )

    def clear(self) -> None:
        """Begin the next batch."""
        self._rows, self._size = [], 0
