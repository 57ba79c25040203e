"""The lines of kafka-dump-log for batches and records, byte for byte (org.apache.kafka.tools.DumpLogSegments).

Pieces come in the order in which Kafka prints them. A piece that cannot be made raises Corrupt or Unsupported, so that
damage stops the output at the same place as in Kafka's tool.

This is the reference of kernels/_dump.pxi: change a rule in both places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from klogtool.errors import KlogError
from klogtool.format.batch import Record, RecordBatch
from klogtool.format.control_values import control_text
from klogtool.format.indexes import AbortedTxn
from klogtool.format.message import Message, to_record, walk_messages
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.format.text import java_bool, java_utf8
from klogtool.render.decoder_classes import Texts
from klogtool.render.selection import RecordOptions


def optional_long(value: int | None) -> str:
    """Return a number as java.util.OptionalLong's toString does."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def walk_batch_text(batch: RecordBatch | Message) -> Iterator[str]:
    """Yield the batch line in two pieces, as DumpLogSegments prints it."""
    if isinstance(batch, Message):
        yield f"offset: {batch.last_offset}"
    else:
        yield (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.records_count}"
            f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
            f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
            f" partitionLeaderEpoch: {batch.partition_leader_epoch}"
            f" isTransactional: {java_bool(batch.is_transactional)} isControl: {java_bool(batch.is_control)}"
            f" deleteHorizonMs: {optional_long(batch.delete_horizon_ms)}"
        )
    yield (
        f" position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp} size: {batch.size}"
        f" magic: {batch.magic} compresscodec: {batch.codec} crc: {batch.crc} isvalid: {java_bool(batch.crc_valid)}\n"
    )


Wants = Callable[[int, int, bytes | None, bytes | None], bool]


def walk_records_text(
    batch: RecordBatch | Message, options: RecordOptions, seen: Callable[[int], None], wants: Wants | None = None
) -> Iterator[str]:
    """Yield the record lines of a batch, piece by piece.

    seen: called with each record's offset before its line. wants: (offset, timestamp, key, value) -> whether to show
    it.
    """
    if isinstance(batch, Message):
        for message in walk_messages(batch):
            seen(message.offset)
            if wants is None or wants(message.offset, message.timestamp, message.key, message.value):
                if not options.skip_metadata:
                    yield (
                        f"| offset: {message.offset} {batch.timestamp_type}: {message.timestamp}"
                        f" keySize: {message.key_size} valueSize: {message.value_size}"
                        f" isValid: {java_bool(message.crc_valid)} crc: {message.crc}{'}' if options.as_scala else ''}"
                    )
                if options.print_data:
                    yield _message_contents(message, options)
                yield "\n"
    else:
        for record in batch.records():
            seen(record.offset)
            if wants is None or wants(record.offset, record.timestamp, record.key, record.value):
                yield from _record_text(batch, record, options)


def _record_text(batch: RecordBatch, record: Record, options: RecordOptions) -> Iterator[str]:
    if not options.skip_metadata:
        header_keys = ",".join(java_utf8(h.key) for h in record.headers)
        yield (
            f"| offset: {record.offset} {batch.timestamp_type}: {record.timestamp}"
            f" keySize: {record.key_size} valueSize: {record.value_size}"
            f" sequence: {record.sequence} headerKeys: [{header_keys}]"
        )
        if batch.is_control:
            yield control_text(record.key, record.value)
    if options.print_data and not batch.is_control:
        yield _contents(record, options)
    yield "\n"


def _contents(record: Record, options: RecordOptions) -> str:
    decode = options.decoder.decode if options.decoder else decode_strings
    return _joined(decode(record.offset, record.key, record.value), options)


def _message_contents(message: Message, options: RecordOptions) -> str:
    """Return a message's key and payload. Only here, in the decoder, they may turn out to be unreadable."""
    decoder = options.decoder
    if decoder is None or decoder.failed is None:
        return _contents(to_record(message), options)
    if decoder.wants_key and message.key_size < 0:
        return _joined(decoder.decode(message.offset, None, None), options)
    try:
        key = message.key if decoder.wants_key else None
        value = message.value
    except KlogError as error:
        if error.kafka_message is None:
            raise
        return _joined(decoder.failed(message.offset, error.kafka_message), options)
    return _joined(decoder.decode(message.offset, key, value), options)


def _joined(texts: Texts, options: RecordOptions) -> str:
    """Join key and payload. Without metadata, the bar is before the first of them; in Scala only before a key."""
    key, payload = texts
    prefix = "| " if options.skip_metadata else " "
    text = ""
    if key is not None:
        text, prefix = f"{prefix}key: {key}", " "
    if options.as_scala:
        prefix = " "
    return text if payload is None else f"{text}{prefix}payload: {payload}"


def decode_strings(_: int, key: bytes | None, value: bytes | None) -> Texts:
    """Return key and value as Java's UTF-8 strings (org.apache.kafka.tools.api.StringDecoder)."""
    return (None if key is None else java_utf8(key)), (None if value is None else java_utf8(value))


def producer_line(entry: ProducerStateEntry, *, as_scala: bool) -> str:
    """Return the line of a producer (DumpLogSegments.dumpProducerIdSnapshot). as_scala: as the tool in Scala wrote it,
    with a blank at the end if the producer has no batch."""
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {optional_long(entry.current_txn_first_offset)} lastTimestamp: {entry.timestamp}"
    )
    if not entry.has_batch:
        return f"{line} " if as_scala else line
    return line + (
        f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset}"
        f" offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


def aborted_txn_line(txn: AbortedTxn) -> str:
    """Return the line of an aborted transaction (DumpLogSegments.dumpTxnIndex)."""
    return (
        f"version: {txn.version} producerId: {txn.producer_id} firstOffset: {txn.first_offset}"
        f" lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
    )
