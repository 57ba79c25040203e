"""Files other than logs, as rows: for JSON lines, and for text where kafka-dump-log has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
from klogtool.format.indexes import (
    OFFSET_ENTRIES,
    OFFSET_INDEX_ENTRY_SIZE,
    TIME_ENTRIES,
    TIME_INDEX_ENTRY_SIZE,
    entries_before_zero_tail,
    walk_txn_index,
)
from klogtool.format.java_numbers import wrap_long
from klogtool.format.names import FileKind, FileName
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.format.uuids import build_uuid
from klogtool.kernels import crc32c
from klogtool.render.json_lines import Row, json_timestamp

MOST_BYTES = 2**31 - 1


def walk_side_rows(name: FileName, data: Buffer) -> Iterator[Row]:
    """Yield a row for each entry of a side file, its `type` first. Raises KlogError where Kafka's reader fails."""
    walk = WALKS.get(name.kind)
    if walk is None:
        yield {"type": "unknown-file", "size": len(data)}
        return
    yield from walk(data, name.base_offset or 0)


def _offset_index(data: Buffer, base_offset: int) -> Iterator[Row]:
    count = entries_before_zero_tail(data, OFFSET_INDEX_ENTRY_SIZE)
    for n, (relative_offset, position) in enumerate(OFFSET_ENTRIES.unpack(data)):
        if n == count:
            break
        yield {"type": "index-entry", "offset": wrap_long(base_offset + relative_offset), "position": position}


def _time_index(data: Buffer, base_offset: int) -> Iterator[Row]:
    count = entries_before_zero_tail(data, TIME_INDEX_ENTRY_SIZE)
    for n, (timestamp, relative_offset) in enumerate(TIME_ENTRIES.unpack(data)):
        if n == count:
            break
        yield {"type": "timeindex-entry", "timestamp": timestamp, "offset": wrap_long(base_offset + relative_offset)}


def _txn_index(data: Buffer, _: int) -> Iterator[Row]:
    for txn in walk_txn_index(data):
        yield {"type": "txnindex-entry", **asdict(txn)}


def _producer_snapshot(data: Buffer, _: int) -> Iterator[Row]:
    for entry in parse_producer_snapshot(data, crc32c):
        row = {"type": "producer", **asdict(entry), "timestamp": json_timestamp(entry.timestamp)}
        yield {**row, "has_batch": entry.has_batch, "first_sequence": entry.first_sequence}


def _leader_epochs(data: Buffer, _: int) -> Iterator[Row]:
    for entry in parse_leader_epoch_checkpoint(data):
        yield {"type": "leader-epoch", "epoch": entry.epoch, "start_offset": entry.start_offset}


def _offset_checkpoint(data: Buffer, _: int) -> Iterator[Row]:
    for partition, offset in parse_offset_checkpoint(data).items():
        yield {
            "type": "checkpoint-entry",
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": offset,
        }


def _one_row(kind: str, parse: Callable[[Buffer], Struct]) -> Callable[[Buffer, int], Iterator[Row]]:
    """Return what yields the one row of a file. Ids are as Kafka writes them."""

    def walk(data: Buffer, _: int) -> Iterator[Row]:
        fields = asdict(parse(data))
        yield {"type": kind} | {n: build_uuid(v) if isinstance(v, bytes) else v for n, v in fields.items()}

    return walk


WALKS: dict[FileKind, Callable[[Buffer, int], Iterator[Row]]] = {
    FileKind.OFFSET_INDEX: _offset_index,
    FileKind.TIME_INDEX: _time_index,
    FileKind.TXN_INDEX: _txn_index,
    FileKind.PRODUCER_SNAPSHOT: _producer_snapshot,
    FileKind.LEADER_EPOCH_CHECKPOINT: _leader_epochs,
    FileKind.RECOVERY_POINT_CHECKPOINT: _offset_checkpoint,
    FileKind.REPLICATION_CHECKPOINT: _offset_checkpoint,
    FileKind.LOG_START_CHECKPOINT: _offset_checkpoint,
    FileKind.CLEANER_CHECKPOINT: _offset_checkpoint,
    FileKind.META_PROPERTIES: _one_row("meta-properties", parse_meta_properties),
    FileKind.PARTITION_METADATA: _one_row("partition-metadata", parse_partition_metadata),
    FileKind.CLEAN_SHUTDOWN: _one_row("clean-shutdown", parse_clean_shutdown),
    FileKind.QUORUM_STATE: _one_row("quorum-state", parse_quorum_state),
    FileKind.LOCK: lambda _, __: iter([{"type": "lock"}]),
}
