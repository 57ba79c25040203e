"""Producer snapshot files: the state of every producer up to, not including, the offset in the file's name.

A snapshot is rewritten whole and carries a CRC-32C; a broker that finds one damaged deletes it and takes an older one.
The rules are those of ProducerStateManager.readSnapshot and of the generated ProducerSnapshot message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from construct import Array, Container, Int16sb, Int32sb, Int32ub, Int64sb, Struct, this

from klogtool.errors import Corrupt
from klogtool.format.checksums import crc32c
from klogtool.format.java_hash import LongHashKeys
from klogtool.format.java_numbers import MAX_INT, wrap_int, wrap_long
from klogtool.format.unpackers import unpack_entries, unpacker_of

if TYPE_CHECKING:
    from klogtool.format.buffers import Buffer

VERSION = Int16sb
PRODUCER_ENTRY = Struct(
    "producer_id" / Int64sb,
    "producer_epoch" / Int16sb,
    "last_sequence" / Int32sb,
    "last_offset" / Int64sb,
    "offset_delta" / Int32sb,
    "timestamp" / Int64sb,
    "coordinator_epoch" / Int32sb,
    "current_txn_first_offset" / Int64sb,
)
SNAPSHOT_HEADER = Struct("version" / VERSION, "crc" / Int32ub, "entries_count" / Int32sb)
PRODUCER_SNAPSHOT = Struct(
    "header" / SNAPSHOT_HEADER,
    "entries" / Array(this.header.entries_count, PRODUCER_ENTRY),
)
_PRODUCER_ENTRY = unpacker_of(PRODUCER_ENTRY)
PRODUCER_ENTRY_SIZE = PRODUCER_ENTRY.sizeof()
SNAPSHOT_HEADER_SIZE = SNAPSHOT_HEADER.sizeof()
_CRC_COVERS_FROM = VERSION.sizeof() + SNAPSHOT_HEADER.crc.sizeof()

CURRENT_SNAPSHOT_VERSION = 1
NO_SEQUENCE = -1
NO_OFFSET = -1
_NO_TXN = -1


@dataclass(frozen=True, slots=True)
class ProducerStateEntry:
    """What is remembered of one producer: its epochs, its last batch, the start of its open transaction.

    last_sequence, last_offset and offset_delta are as stored; they mean something only if `has_batch`.
    timestamp (ms) is the producer's last one, which may be a marker's. current_txn_first_offset: None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int | None

    @property
    def has_batch(self) -> bool:
        """Whether a last batch is stored at all (a producer known by a marker only has none)."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """Sequence of the last batch's first record (BatchMetadata.firstSeq), or NO_SEQUENCE without a batch."""
        return decrement_sequence(self.last_sequence, self.offset_delta) if self.has_batch else NO_SEQUENCE

    @property
    def first_offset(self) -> int:
        """Offset of the last batch's first record, or NO_OFFSET without a batch."""
        return wrap_long(self.last_offset - self.offset_delta) if self.has_batch else NO_OFFSET


def parse_producer_snapshot(data: Buffer) -> list[ProducerStateEntry]:
    """The entries of a snapshot, in file order.

    Raises Corrupt (CorruptSnapshotException) with Kafka's words. Bytes after the entries are under the CRC, so they
    fail it unless it was computed with them.
    """
    header = _parse_header(data)
    if header.entries_count * PRODUCER_ENTRY_SIZE > len(data) - SNAPSHOT_HEADER_SIZE:
        raise _failed_schema("null")  # a BufferUnderflowException has no message
    computed_crc = crc32c(data[_CRC_COVERS_FROM:])
    if header.crc != computed_crc:
        raise Corrupt(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {header.crc}. Computed crc: {computed_crc}",
            kafka_class="CorruptSnapshotException",
        )
    end = SNAPSHOT_HEADER_SIZE + header.entries_count * PRODUCER_ENTRY_SIZE
    entries = unpack_entries(_PRODUCER_ENTRY, data[SNAPSHOT_HEADER_SIZE:end])
    return [ProducerStateEntry(*_none_for_no_txn(fields)) for fields in entries]


def build_producer_snapshot(entries: Sequence[ProducerStateEntry]) -> bytes:
    """The bytes of a snapshot, entries in the order given; see `java_hash_order` for the order a broker writes."""
    header = {"version": CURRENT_SNAPSHOT_VERSION, "crc": 0, "entries_count": len(entries)}
    built = bytearray(PRODUCER_SNAPSHOT.build({"header": header, "entries": [_entry_fields(e) for e in entries]}))
    header["crc"] = crc32c(bytes(built[_CRC_COVERS_FROM:]))
    built[:SNAPSHOT_HEADER_SIZE] = SNAPSHOT_HEADER.build(header)
    return bytes(built)


def java_hash_order(producer_ids: Iterable[int]) -> list[int]:
    """The order of a broker's snapshot, for producers that it came to know in this one."""
    return LongHashKeys(producer_ids).in_order


def decrement_sequence(sequence: int, decrement: int) -> int:
    """DefaultRecordBatch.decrementSequence: sequences go from 0 to 2147483647 and around, in Java's int arithmetic."""
    if sequence < decrement:
        return wrap_int(MAX_INT - (decrement - sequence) + 1)
    return wrap_int(sequence - decrement)


def _parse_header(data: Buffer) -> Container:
    """The first bytes, in the order of Kafka's checks: version, then size, then the count of entries."""
    if len(data) >= VERSION.sizeof():
        version = VERSION.parse(bytes(data[: VERSION.sizeof()]))
        if version != CURRENT_SNAPSHOT_VERSION:
            raise _failed_schema(f"Snapshot contained an unknown file version {version}")
    if len(data) < SNAPSHOT_HEADER_SIZE:
        raise _failed_schema("null")
    header = SNAPSHOT_HEADER.parse(bytes(data[:SNAPSHOT_HEADER_SIZE]))
    remaining = len(data) - SNAPSHOT_HEADER_SIZE
    if header.entries_count < 0:
        raise _failed_schema("non-nullable field producerEntries was serialized as null")
    if header.entries_count > remaining:
        raise _failed_schema(
            f"Tried to allocate a collection of size {header.entries_count}, "
            f"but there are only {remaining} bytes remaining."
        )
    return header


def _failed_schema(why: str) -> Corrupt:
    return Corrupt(f"Snapshot failed schema validation: {why}", kafka_class="CorruptSnapshotException")


def _none_for_no_txn(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    *others, current_txn_first_offset = fields
    return (*others, current_txn_first_offset if current_txn_first_offset >= 0 else None)


def _entry_fields(entry: ProducerStateEntry) -> dict[str, int]:
    fields = {name: getattr(entry, name) for name in ProducerStateEntry.__dataclass_fields__}
    if entry.current_txn_first_offset is None:
        fields["current_txn_first_offset"] = _NO_TXN
    return fields
