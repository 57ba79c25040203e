"""A batch of magic 2 that is filled record by record, until it is as large as a producer makes it.

This is the reference of the batch in kernels/_json_records.pxi: change a rule in both places.
"""

from __future__ import annotations

from typing import TypeAlias

from klogtool.format.batch import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Header,
    Record,
    build_raw_batch,
    build_record,
)

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

    def records(self) -> bytes:
        """Return the bytes of the records, not compressed."""
        base_timestamp = self._rows[0][0]
        return b"".join(
            build_record(record, base_offset=0, base_timestamp=base_timestamp) for record in self.to_records()
        )

    def fetch(self, body: bytes, attributes: int) -> bytes:
        """Return the batch as a client sends it, with the records in `body`, and begin the next one."""
        batch = build_raw_batch(
            body,
            base_offset=0,
            last_offset_delta=len(self._rows) - 1,
            attributes=attributes,
            base_timestamp=self._rows[0][0],
            max_timestamp=max(row[0] for row in self._rows),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            records_count=len(self._rows),
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        )
        self.clear()
        return batch

    def clear(self) -> None:
        """Begin the next batch."""
        self._rows, self._size = [], 0
