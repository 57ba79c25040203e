"""Producer snapshot files: the state of every producer up to, not including, the offset in the file's name.

A snapshot is always written as a whole, and has a CRC-32C. A broker deletes a damaged one and uses an older one. The
rules are those of ProducerStateManager.readSnapshot and of the generated ProducerSnapshot message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import astuple

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer
from klogtool.format.checksums import crc32c
from klogtool.format.fields import field_positions, number, numbers, unpack_entries
from klogtool.format.java_numbers import MAX_INT, wrap_int, wrap_long
from klogtool.format.layouts import PRODUCER_ENTRY, SNAPSHOT_HEADER

_PRODUCER_ENTRY, _SNAPSHOT_HEADER = numbers(PRODUCER_ENTRY), numbers(SNAPSHOT_HEADER)
PRODUCER_ENTRY_SIZE, SNAPSHOT_HEADER_SIZE = _PRODUCER_ENTRY.size, _SNAPSHOT_HEADER.size
_VERSION = number(SNAPSHOT_HEADER.version)
_CRC_COVERS_FROM = next(at for name, at, _ in field_positions(SNAPSHOT_HEADER) if name == "entries_count")

CURRENT_SNAPSHOT_VERSION = 1
NO_SEQUENCE = -1
NO_OFFSET = -1
_NO_TXN = -1


class ProducerStateEntry(Struct, frozen=True):
    """The state of one producer: its epochs, its last batch, the start of its open transaction.

    last_sequence, last_offset and offset_delta are as stored; they are valid only if `has_batch`. timestamp (ms) is the
    producer's last one, which may be a marker's. current_txn_first_offset: None if no transaction is open.
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
        """Whether a last batch is stored (a producer that is known only by a marker has none)."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """Sequence of the last batch's first record (BatchMetadata.firstSeq), or NO_SEQUENCE without a batch."""
        return decrement_sequence(self.last_sequence, self.offset_delta) if self.has_batch else NO_SEQUENCE

    @property
    def first_offset(self) -> int:
        """Offset of the last batch's first record, or NO_OFFSET without a batch."""
        return wrap_long(self.last_offset - self.offset_delta) if self.has_batch else NO_OFFSET


def parse_producer_snapshot(data: Buffer, checksum: Callable[[Buffer], int] = crc32c) -> list[ProducerStateEntry]:
    """The entries of a snapshot, in file order. checksum: a CRC-32C, for callers that have a faster one.

    Raises Corrupt (CorruptSnapshotException) with Kafka's words. Bytes after the entries are under the CRC, so they
    fail it unless it was computed with them.
    """
    stored_crc, entries_count = _parse_header(data)
    if entries_count * PRODUCER_ENTRY_SIZE > len(data) - SNAPSHOT_HEADER_SIZE:
        raise _failed_schema("null")  # a BufferUnderflowException has no message
    computed_crc = checksum(data[_CRC_COVERS_FROM:])
    if stored_crc != computed_crc:
        raise Corrupt(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored_crc}. Computed crc: {computed_crc}",
            kafka_class="CorruptSnapshotException",
        )
    end = SNAPSHOT_HEADER_SIZE + entries_count * PRODUCER_ENTRY_SIZE
    entries = unpack_entries(_PRODUCER_ENTRY, data[SNAPSHOT_HEADER_SIZE:end])
    # The first offset of the current transaction is the last field of an entry.
    return [ProducerStateEntry(*(*fields[:-1], None if fields[-1] < 0 else fields[-1])) for fields in entries]


def build_producer_snapshot(entries: Sequence[ProducerStateEntry], checksum: Callable[[Buffer], int] = crc32c) -> bytes:
    """The bytes of a snapshot, entries in the order given. `log.producer_state` puts them into a broker's order.

    checksum: a CRC-32C, for callers that have a faster one.
    """
    stored = ((_NO_TXN if value is None else value for value in astuple(entry)) for entry in entries)
    body = b"".join(_PRODUCER_ENTRY.pack(*fields) for fields in stored)
    crc = checksum((_SNAPSHOT_HEADER.pack(CURRENT_SNAPSHOT_VERSION, 0, len(entries)) + body)[_CRC_COVERS_FROM:])
    return _SNAPSHOT_HEADER.pack(CURRENT_SNAPSHOT_VERSION, crc, len(entries)) + body


def decrement_sequence(sequence: int, decrement: int) -> int:
    """DefaultRecordBatch.decrementSequence: sequences go from 0 to 2147483647 and around, in Java's int arithmetic."""
    if sequence < decrement:
        return wrap_int(MAX_INT - (decrement - sequence) + 1)
    return wrap_int(sequence - decrement)


def _parse_header(data: Buffer) -> tuple[int, int]:
    """Return (crc, entries_count), checked in Kafka's order: version, then size, then the count of entries."""
    if len(data) >= _VERSION.size:
        version = _VERSION.unpack_from(data)[0]
        if version != CURRENT_SNAPSHOT_VERSION:
            raise _failed_schema(f"Snapshot contained an unknown file version {version}")
    if len(data) < SNAPSHOT_HEADER_SIZE:
        raise _failed_schema("null")
    _, crc, entries_count = _SNAPSHOT_HEADER.unpack_from(data)
    remaining = len(data) - SNAPSHOT_HEADER_SIZE
    if entries_count < 0:
        raise _failed_schema("non-nullable field producerEntries was serialized as null")
    if entries_count > remaining:
        raise _failed_schema(
            f"Tried to allocate a collection of size {entries_count}, but there are only {remaining} bytes remaining."
        )
    return crc, entries_count


def _failed_schema(why: str) -> Corrupt:
    return Corrupt(f"Snapshot failed schema validation: {why}", kafka_class="CorruptSnapshotException")
