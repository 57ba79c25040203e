"""Logs of any size that take next to no room: batches of which only the headers are written, the rest is holes."""

from __future__ import annotations

import pathlib

from raw_batches import raw_batch

from klogtool.format.batch import (
    Record,
    build_record,
)
from klogtool.format.framing import LOG_OVERHEAD
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, OffsetIndexEntry, TimeIndexEntry
from klogtool.format.names import FileKind, build_file_name
from klogtool.format.producer_snapshot import build_producer_snapshot

FIRST_MS = 1_700_000_000_000
SEGMENT_BYTES = 1 << 30
LENGTH_AT = 8


def make_sparse_log(folder: pathlib.Path, *, size: int, batch_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> int:
    """A partition dir as after a clean stop: batches of one offset and one second each, every one in the indexes.

    Returns the log end offset.
    """
    folder.mkdir(parents=True)
    offset = 0
    while offset * batch_bytes < size:
        count = min(segment_bytes, size - offset * batch_bytes) // batch_bytes
        _make_segment(folder, offset, count, batch_bytes)
        offset += count
    snapshot = folder / build_file_name(FileKind.PRODUCER_SNAPSHOT, offset)
    snapshot.write_bytes(build_producer_snapshot([]))
    return offset


def _make_segment(folder: pathlib.Path, base_offset: int, count: int, batch_bytes: int) -> None:
    with (folder / build_file_name(FileKind.LOG, base_offset)).open("wb") as log:
        for n in range(count):
            log.seek(n * batch_bytes)
            log.write(_header(base_offset + n, batch_bytes))
        log.truncate(count * batch_bytes)
    offsets = [OffsetIndexEntry(base_offset + n, n * batch_bytes) for n in range(1, count)]
    times = [TimeIndexEntry(FIRST_MS + (base_offset + n) * 1000, base_offset + n) for n in range(count)]
    index, time_index = (build_file_name(kind, base_offset) for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX))
    (folder / index).write_bytes(OFFSET_ENTRIES.build(offsets, base_offset))
    (folder / time_index).write_bytes(TIME_ENTRIES.build(times, base_offset))


def _header(offset: int, batch_bytes: int) -> bytes:
    """Of a batch of that size, and the first of the two records that it is said to have; a reader may not come to the
    second one."""
    timestamp = FIRST_MS + offset * 1000
    record = Record(offset, timestamp, b"key", b"value")
    body = build_record(record, base_offset=offset, base_timestamp=timestamp)
    batch = raw_batch(body, base_offset=offset, base_timestamp=timestamp, max_timestamp=timestamp, records_count=2)
    return batch[:LENGTH_AT] + (batch_bytes - LOG_OVERHEAD).to_bytes(4, "big") + batch[LOG_OVERHEAD:]
