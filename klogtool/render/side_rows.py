"""Files other than logs, as rows: for JSON lines, and for text where kafka-dump-log has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from klogtool.format.buffers import Buffer
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import (
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, IndexLayout, entries_before_zero_tail, walk_txn_index
from klogtool.format.names import FileKind, FileName
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.format.uuids import build_uuid
from klogtool.kernels import crc32c
from klogtool.render.json_lines import Row, json_timestamp

MOST_BYTES = 2**31 - 1


def walk_side_rows(name: FileName, data: Buffer) -> Iterator[Row]:
    """Yield a row for each entry of a side file, its `type` first. Ids are as Kafka writes them. Raises KlogError where
    Kafka's reader fails."""
    if name.kind not in WALKS:
        yield {"type": "unknown-file", "size": len(data)}
        return
    kind, walk = WALKS[name.kind]
    for entry in walk(data, name.base_offset or 0):
        fields = asdict(entry) if isinstance(entry, Struct) else entry
        yield {"type": kind} | {n: build_uuid(v) if isinstance(v, bytes) else v for n, v in fields.items()}


def _index(layout: IndexLayout[Any], data: Buffer, base_offset: int) -> Iterator[Struct]:
    count = entries_before_zero_tail(data, layout.entry_size)
    return (layout.parse_entry(data, base_offset, n) for n in range(count))


def _producers(data: Buffer, _: int) -> Iterator[Row]:
    for entry in parse_producer_snapshot(data, crc32c):
        row = asdict(entry) | {"timestamp": json_timestamp(entry.timestamp)}
        yield row | {"has_batch": entry.has_batch, "first_sequence": entry.first_sequence}


def _offsets(data: Buffer, _: int) -> Iterator[Row]:
    for partition, offset in parse_offset_checkpoint(data).items():
        yield {"topic": partition.topic, "partition": partition.partition, "offset": offset}


WALKS: dict[FileKind, tuple[str, Callable[[Buffer, int], Iterable[Struct | Row]]]] = {
    FileKind.OFFSET_INDEX: ("index-entry", partial(_index, OFFSET_ENTRIES)),
    FileKind.TIME_INDEX: ("timeindex-entry", partial(_index, TIME_ENTRIES)),
    FileKind.TXN_INDEX: ("txnindex-entry", lambda data, _: walk_txn_index(data)),
    FileKind.PRODUCER_SNAPSHOT: ("producer", _producers),
    FileKind.LEADER_EPOCH_CHECKPOINT: ("leader-epoch", lambda data, _: parse_leader_epoch_checkpoint(data)),
    FileKind.RECOVERY_POINT_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.REPLICATION_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.LOG_START_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.CLEANER_CHECKPOINT: ("checkpoint-entry", _offsets),
    FileKind.META_PROPERTIES: ("meta-properties", lambda data, _: [parse_meta_properties(data)]),
    FileKind.PARTITION_METADATA: ("partition-metadata", lambda data, _: [parse_partition_metadata(data)]),
    FileKind.CLEAN_SHUTDOWN: ("clean-shutdown", lambda data, _: [parse_clean_shutdown(data)]),
    FileKind.QUORUM_STATE: ("quorum-state", lambda data, _: [parse_quorum_state(data)]),
    FileKind.LOCK: ("lock", lambda _, __: [{}]),
}
