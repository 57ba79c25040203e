"""Fingerprints of records, whatever batches they are in, and what of two copies is compared.

A record's bytes are its timestamp, whether it is a control record, its key, its value and its headers, in a form that
no codec, batch or magic changes (docs/hash.md). Its fingerprint is their xxHash64. An item is what `diff` compares: a
record with its producer's fields, or the header of an entry.

This is the reference of kernels/_digest.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

from klogtool.errors import AboveLimit, Corrupt
from klogtool.format.batch import NO_SEQUENCE, Record, RecordBatch
from klogtool.format.batch_proof import judge_entry
from klogtool.format.buffers import Buffer
from klogtool.format.framing import LOG_OVERHEAD, Frame
from klogtool.format.message import Message, parse_entry
from klogtool.format.xxh64 import xxh64

Entry = RecordBatch | Message

MOST_RECORDS = 1 << 22  # of one batch: more are a compression bomb
HEADER_AT, HEADER_END = 16, 61  # of a batch: from the magic to the count of records
CONTROL, TRANSACTIONAL = 1, 2
ITEM_FIELDS = 5
"""First offset, last offset, fingerprint, leader epoch, position of the entry: the fields of an item."""
_HEAD, _SIZE, _PRODUCER = struct.Struct(">qB"), struct.Struct(">i"), struct.Struct(">qhi")
_ROW = struct.Struct(">qQ")


def record_bytes(record: Record, *, is_control: bool) -> bytes:
    """What a record's fingerprint is of."""
    return b"".join(_parts(record, _HEAD.pack(record.timestamp, CONTROL if is_control else 0)))


def _parts(record: Record, head: bytes) -> Iterator[bytes]:
    yield head
    yield from _sized(record.key)
    yield from _sized(record.value)
    yield _SIZE.pack(len(record.headers))
    for header in record.headers:
        yield from _sized(header.key)
        yield from _sized(header.value)


def _sized(data: bytes | None) -> Iterator[bytes]:
    yield _SIZE.pack(-1 if data is None else len(data))
    yield data or b""


def digest_row(record: Record, *, is_control: bool) -> bytes:
    """A record's part of a digest: its offset and its fingerprint."""
    return _ROW.pack(record.offset, xxh64(record_bytes(record, is_control=is_control)))


def sound_entry(data: Buffer, frame: Frame, *, base: int, deep: bool) -> RecordBatch | Message:
    """Return an entry that is whole in the buffer. base: position of data[0] in its file.

    Raises Corrupt if it does not match its checksum or contradicts itself (deep: also in its records), and AboveLimit
    for records that nobody takes into memory.
    """
    judged, position = judge_entry(data, frame, base=base, deep=deep), base + frame.position
    if judged is None:
        raise Corrupt("the checksum does not match", position=position, kafka_class="CorruptRecordException")
    wrong = judged.wrong
    if wrong is not None:
        raise Corrupt(str(wrong), position=position, kafka_class="CorruptRecordException")
    too_many = deep and judged.facts.records_count > MOST_RECORDS
    if judged.unchecked is not None or too_many:
        reason = judged.unchecked or f"{judged.facts.records_count} records in one batch (limit: {MOST_RECORDS})"
        raise AboveLimit(reason, position=position)
    return parse_entry(data, frame, base=base)


def record_items(entry: RecordBatch | Message) -> array[int]:
    """The items of an entry's records, ITEM_FIELDS numbers each. Raises Corrupt if its records cannot be read."""
    epoch, position = entry.partition_leader_epoch, entry.position
    flags = (CONTROL if entry.is_control else 0) | (TRANSACTIONAL if entry.is_transactional else 0)
    items = array("q")
    for record in entry.records():
        sequence = NO_SEQUENCE if entry.producer_id < 0 else record.sequence
        producer = _PRODUCER.pack(entry.producer_id, entry.producer_epoch, sequence)
        data = b"".join(_parts(record, _HEAD.pack(record.timestamp, flags) + producer))
        items.extend((record.offset, record.offset, _signed(xxh64(data)), epoch, position))
    return items


def head_item(data: Buffer, frame: Frame, last_offset: int, *, base: int) -> array[int]:
    """The item of an entry's header, without its offset and its leader epoch. last_offset: that of the entry before.

    A compressed message of magic 0 or 1 has no first offset in its header. It then begins after the entry before.
    """
    entry, view = parse_entry(data, frame, base=base), memoryview(data)
    at = frame.position
    fields = bytes(view[at + 8 : at + LOG_OVERHEAD]) + bytes(view[at + HEADER_AT : at + head_end(frame)])
    if isinstance(entry, RecordBatch):
        first, last = entry.base_offset, entry.last_offset
    else:
        fields, last = fields + bytes(view[at + LOG_OVERHEAD : at + HEADER_AT]), entry.offset
        first = last if entry.codec == "none" else min(last, last_offset + 1)
    return array("q", (first, last, _signed(xxh64(fields)), entry.partition_leader_epoch, entry.position))


def head_end(frame: Frame) -> int:
    """How many bytes of an entry are its header: of a message, magic and attributes; its checksum is of all others."""
    return HEADER_END if frame.magic >= 2 else HEADER_AT + 2


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
