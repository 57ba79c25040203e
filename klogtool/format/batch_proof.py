"""Whether a single entry proves itself, and the facts of one that does.

An entry proves itself by its CRC. It is plain if, besides, nothing in it contradicts the rest of it. Its neighbours are
judged in format/succession.py. The kernels do the same for runs of plain entries (kernels/_scan.pxi).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from klogtool.causes import Cause, Reason, from_text, some
from klogtool.errors import AboveLimit, Corrupt, KlogError
from klogtool.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    open_stream_of_none,
    parse_batch,
    stream_records,
)
from klogtool.format.buffers import Buffer
from klogtool.format.control import parse_control_type_id, parse_end_transaction_marker
from klogtool.format.framing import LOG_OVERHEAD, Frame
from klogtool.format.java_numbers import MAX_INT, to_signed
from klogtool.format.layouts import ENTRY_HEAD
from klogtool.format.message import HEAD_SIZES, Message, check_magic, parse_message

KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
KNOWN_MESSAGE_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_BIT
SMALLEST_RECORD_BYTES = 7  # length, attributes, two deltas, null key, null value, no headers
SMALLEST_MESSAGE_BYTES = {magic: size + 8 for magic, size in enumerate(HEAD_SIZES)}  # two sizes of null
NOT_TOLD = -(2**63)  # the first offset of a wrapper: only its inner messages have it
NO_MARKER = NO_COORDINATOR_EPOCH = -1
_CODEC_MAGIC_BYTES = 4  # of the first bytes of gzip's, lz4's, zstd's, and Kafka's snappy streams, at most these
HEADER = "header"  # contradicts records that can be read
# Fields of HeaderFault: of the attributes the codec and the flags; BODY: the size of the records.
CODEC, FLAGS, DELTA, COUNT, BODY, PRODUCER = (
    *("codec", "attributes", "last_offset_delta"),
    *("records_count", "size", "producer"),
)


class EntryFacts(Struct):
    """The facts of an entry that the checks of a log need, all of them numbers.

    position, size: bytes. first_offset: NOT_TOLD for a wrapper. records_count: 1 for a message; for a wrapper that was
    opened, its inner messages. marker: the type of the only record of a transaction marker, else NO_MARKER. Fields that
    magic 0 and 1 do not have are -1, as in RecordBatch.
    """

    position: int
    size: int
    magic: int
    first_offset: int
    last_offset: int
    partition_leader_epoch: int
    max_timestamp: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    marker: int = NO_MARKER
    coordinator_epoch: int = NO_COORDINATOR_EPOCH

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.position + self.size

    @property
    def tells_first_offset(self) -> bool:
        """Whether the first offset is known: always, except for a wrapper that was not opened."""
        return self.magic >= 2 or self.first_offset != NOT_TOLD

    @property
    def lowest_offset(self) -> int:
        """The first offset of the entry if its header has it, otherwise the last one."""
        return self.first_offset if self.tells_first_offset else self.last_offset

    def is_copy_of(self, other: EntryFacts) -> bool:
        """Return whether it is the same entry at another place."""
        return replace(self, position=other.position) == other

    @property
    def is_control(self) -> bool:
        """Whether it is a batch of control records."""
        return self.magic >= 2 and bool(self.attributes & CONTROL_BIT)


FACTS = EntryFacts.__struct_fields__


class HeaderFault(Struct, frozen=True):
    """What is impossible about the header of an entry. field: the one that readers and brokers go wrong by."""

    field: str
    detail: Reason


class Judged(Struct, frozen=True):
    """An entry that proved itself. contradiction: what is impossible about its header, records_contradiction: about its
    records; None if nothing is. unchecked: why its records were not checked: they are too large, which is no damage.

    is_readable: its records can be read, as far as they were looked at, though they may contradict the header.
    """

    facts: EntryFacts
    contradiction: HeaderFault | None = None
    records_contradiction: Reason | None = None
    unchecked: str | None = None
    is_readable: bool = True

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with it, as far as it was checked."""
        return self.contradiction is None and self.records_contradiction is None

    @property
    def is_served(self) -> bool:
        """Whether consumers get its records, and a broker keeps it, although something contradicts them. Only if it was
        judged deep."""
        fault = self.contradiction
        return (
            self.unchecked is None and self.is_readable and (fault is None or fault.field in (FLAGS, COUNT, PRODUCER))
        )

    @property
    def wrong(self) -> Reason | None:
        """What is wrong with it."""
        return self.records_contradiction if self.contradiction is None else self.contradiction.detail

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to report."""
        return self.is_sound and self.unchecked is None


def judge_entry(data: Buffer, frame: Frame, *, base: int = 0, deep: bool = False) -> Judged | None:
    """Judge an entry that is complete in the buffer; None if it does not prove itself.

    base: position of data[0] in its file. deep: decompress and parse its records. A magic above 2 proves nothing.
    """
    if frame.magic == 2 and frame.size >= RECORD_BATCH_OVERHEAD:
        batch = parse_batch(data, frame.position, base=base)
        return judge_batch(batch, deep=deep) if batch.crc_valid else None
    if frame.magic in (0, 1):
        message = parse_message(data, frame.position, base=base)
        return judge_message(message, deep=deep) if message.crc_valid else None
    return None


# --- record batches -----------------------------------------------------------------------------------------------


def judge_batch(batch: RecordBatch, *, deep: bool = False) -> Judged:
    """Judge a batch whose CRC is right, or should be ignored."""
    facts = batch_facts(batch)
    wrong = batch_contradiction(batch)
    if wrong is not None:
        return _judge_records(facts, _contradictions(batch), wrong) if deep else Judged(facts, wrong)
    marker_wrong = _read_marker(batch, facts)
    if marker_wrong is not None or not deep:
        return Judged(facts, None, marker_wrong, is_readable=marker_wrong is None)
    judged = _judge_records(facts, _contradictions(batch))
    return replace(judged, is_readable=False) if batch.is_control and judged.records_contradiction else judged


def recounted(batch: RecordBatch) -> RecordBatch | None:
    """Return the batch with another count of records, if its bytes are exactly that many, at ascending offsets.

    A faulty producer or proxy can have sent it. What a reader gets depends on the count in the header.
    """
    count, last = 0, batch.base_offset - 1
    try:
        for record in stream_records(replace(batch, records_count=MAX_INT)):
            if not last < record.offset <= batch.last_offset:
                return None
            count, last = count + 1, record.offset
    except KlogError:  # the bytes end, after a record or inside one
        pass
    if count in (0, batch.records_count):
        return None
    whole = replace(batch, records_count=count)
    judged = judge_batch(whole, deep=True)
    return whole if judged.contradiction is None and judged.is_readable and judged.unchecked is None else None


def is_blanked(batch: RecordBatch) -> bool:
    """Return whether zeros replace the compressed records of a batch, as in an image (format/blanking): nobody knows
    whether they could be read. No codec's stream begins with zeros; behind them an image may keep some bytes."""
    first = bytes(batch.data[RECORD_BATCH_OVERHEAD : RECORD_BATCH_OVERHEAD + _CODEC_MAGIC_BYTES])
    is_compressed = batch.magic == 2 and bool(batch.attributes & CODEC_MASK and first)
    return is_compressed and first.strip(b"\0") in (b"", b"\1")


def batch_of(head: Buffer, data: Buffer, size: int, position: int) -> RecordBatch:
    """Return the batch of magic 2 and of `size` bytes that begins with these 61, whatever their length and magic say.

    data: all of its bytes, or as many as will be read.
    """
    batch = parse_batch(head, base=position)
    return replace(batch, length=size - LOG_OVERHEAD, magic=2, data=memoryview(data))


def batch_facts(batch: RecordBatch) -> EntryFacts:
    """Return the facts of its header."""
    return EntryFacts(
        batch.position,
        batch.size,
        batch.magic,
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.max_timestamp,
        batch.attributes,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records_count,
    )


def batch_contradiction(batch: RecordBatch) -> HeaderFault | None:
    """Return what no broker writes into a header (MemoryRecordsBuilder, LogValidator.validateBatch), or None."""
    body_size, count, delta = batch.size - RECORD_BATCH_OVERHEAD, batch.records_count, batch.last_offset_delta
    codec = batch.attributes & CODEC_MASK
    if codec >= len(CODEC_NAMES):
        return HeaderFault(CODEC, EntryCause.CODEC(codec=codec))
    if batch.attributes & ~KNOWN_ATTRIBUTES:
        return HeaderFault(FLAGS, EntryCause.FLAGS(attributes=f"{batch.attributes & 0xFFFF:#06x}"))
    if delta < 0:
        return HeaderFault(DELTA, EntryCause.DELTA(delta=delta))
    if not 0 <= count <= delta + 1:
        return HeaderFault(COUNT, EntryCause.MORE_THAN_OFFSETS(count=count, offsets=delta + 1))
    if bool(count) != bool(body_size) or (codec == 0 and body_size < SMALLEST_RECORD_BYTES * count):
        return HeaderFault(BODY, EntryCause.OTHER_SIZE(count=count, size=body_size))
    wrong = _producer_contradiction(batch, codec)
    return None if wrong is None else HeaderFault(PRODUCER, wrong)


def _producer_contradiction(batch: RecordBatch, codec: int) -> Reason | None:
    if batch.is_control and codec:
        return EntryCause.COMPRESSED_CONTROL()
    if batch.producer_id <= NO_PRODUCER_ID:
        return EntryCause.NO_PRODUCER() if batch.is_transactional else None
    if batch.producer_epoch <= NO_PRODUCER_EPOCH:
        return EntryCause.PRODUCER_EPOCH(epoch=batch.producer_epoch)
    if batch.base_sequence <= NO_SEQUENCE and not batch.is_control:
        return EntryCause.SEQUENCE(sequence=batch.base_sequence)
    return None


def _read_marker(batch: RecordBatch, facts: EntryFacts) -> Reason | None:
    """Add a transaction marker's type and coordinator epoch to the facts; return what is wrong with it, or None.

    A broker that loads the log reads it in the same way (EndTransactionMarker.deserialize), and fails if it cannot.
    """
    if not batch.is_control or batch.producer_id <= NO_PRODUCER_ID or batch.records_count == 0:
        return None
    try:
        record = next(batch.records())
        marker = parse_end_transaction_marker(record.key, record.value)
    except KlogError as error:
        return from_text(error.reason)
    facts.marker, facts.coordinator_epoch = int(marker.type), marker.coordinator_epoch
    return None


def _judge_records(facts: EntryFacts, wrong: Iterator[Reason], fault: HeaderFault | None = None) -> Judged:
    """wrong: yields what is wrong with the records, or contradicts the header, during the walk. fault: of the
    header."""
    first: Reason | None = None
    try:
        for why in wrong:
            first = first or why
    except AboveLimit as error:
        return Judged(facts, fault, first, error.reason)
    except KlogError as error:
        return Judged(facts, fault, first or from_text(error.reason), is_readable=False)
    return Judged(facts, fault, first)


def _contradictions(batch: RecordBatch) -> Iterator[Reason]:
    open_stream_of_none(batch)
    records = batch.records()
    before, largest = -1, None
    for record in records:
        delta = to_signed(record.offset - batch.base_offset, 64)
        if delta <= before:
            yield EntryCause.RECORD_ORDER(offset=record.offset)
        if delta > batch.last_offset_delta:
            yield EntryCause.BEYOND_LAST(offset=record.offset, last=batch.last_offset)
        if largest is None and not batch.attributes & (TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT):
            yield from _unlike("first timestamp", batch.base_timestamp, record.timestamp)
        before, largest = delta, record.timestamp if largest is None else max(largest, record.timestamp)
        if batch.is_control:
            try:
                parse_control_type_id(record.key)
            except KlogError as error:
                yield from_text(error.reason)
    if largest is not None:
        yield from _unlike("largest timestamp", batch.max_timestamp, largest)


def _unlike(what: str, header: int, records: int) -> Iterator[Reason]:
    if header != records:
        yield EntryCause.OTHER_TIME(what=what, records=records, header=header)


# --- messages, magic 0 and 1 ----------------------------------------------------------------------------------------


def judge_message(message: Message, *, deep: bool = False) -> Judged:
    """Judge a message whose CRC is right, plain or a wrapper."""
    facts = message_facts(message)
    wrong = message_contradiction(message)
    return _judge_records(facts, _message_contradictions(message, facts), wrong) if deep else Judged(facts, wrong)


def message_of(data: Buffer, position: int) -> Message:
    """Return the message of magic 0 or 1 that consists of all these bytes, whatever its size field says."""
    view = memoryview(data)
    head = ENTRY_HEAD.parse(bytes(view[:LOG_OVERHEAD]))
    size = ENTRY_HEAD.build({"offset": head.offset, "message_size": len(view) - LOG_OVERHEAD})
    return parse_message(size + bytes(view[LOG_OVERHEAD:]), base=position)


def message_facts(message: Message) -> EntryFacts:
    """Return the facts of its header."""
    base_offset = message.base_offset
    return EntryFacts(
        message.position,
        message.size,
        message.magic,
        NOT_TOLD if base_offset is None else base_offset,
        message.offset,
        NO_PARTITION_LEADER_EPOCH,
        message.timestamp,
        message.attributes,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        1,
    )


def message_contradiction(message: Message) -> HeaderFault | None:
    """Return what no broker writes into the head of a message, or None."""
    attributes = message.attributes & 0xFF
    if len(message.message) < SMALLEST_MESSAGE_BYTES[message.magic]:
        short = EntryCause.SHORT_MESSAGE(size=len(message.message), magic=message.magic)
        return HeaderFault(BODY, short)
    if attributes & ~KNOWN_MESSAGE_ATTRIBUTES:
        return HeaderFault(FLAGS, EntryCause.FLAGS(attributes=f"{attributes:#04x}"))
    if attributes & CODEC_MASK > CODEC_NAMES.index("lz4"):
        codec = EntryCause.CODEC_OF_MAGIC(codec=attributes & CODEC_MASK, magic=message.magic)
        return HeaderFault(CODEC, codec)
    return None


def _message_contradictions(message: Message, facts: EntryFacts) -> Iterator[Reason]:
    """Yield what is wrong with the records; add their number and the first offset to the facts."""
    check_magic(message)
    first = before = largest = None
    count = 0
    for record in message.records():
        if not record.crc_valid:
            raise Corrupt(f"inner message {record.offset} does not match its checksum")
        if before is not None and record.offset <= before:
            yield EntryCause.INNER_ORDER(offset=record.offset, before=before)
        first = record.offset if first is None else first
        largest = record.timestamp if largest is None else max(largest, record.timestamp)
        before, count = record.offset, count + 1
    facts.records_count = count
    if first is not None and before is not None:
        facts.first_offset = first
        if before != message.offset:
            yield EntryCause.OTHER_LAST(last=before, wrapper=message.offset)
    if message.magic == 1 and largest is not None:
        yield from _unlike("largest timestamp", message.timestamp, largest)


class EntryCause(Cause):
    """What is impossible about an entry whose checksum is right."""

    CODEC, CODEC_OF_MAGIC, FLAGS, DELTA, MORE_THAN_OFFSETS, OTHER_SIZE, SHORT_MESSAGE = some(7)
    COMPRESSED_CONTROL, NO_PRODUCER, PRODUCER_EPOCH, SEQUENCE = some(4)
    RECORD_ORDER, BEYOND_LAST, OTHER_TIME, INNER_ORDER, OTHER_LAST = some(5)
