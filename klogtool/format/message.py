"""Messages of magic 0 and 1: plain ones, wrappers, inner messages (org.apache.kafka.common.record LegacyRecord).

A plain message is a batch of one record. A compressed wrapper carries the LAST inner offset in its own offset field;
inner offsets are absolute under a magic 0 wrapper and relative under a magic 1 wrapper, whatever the inner magic says.

`parse_entry` reads an entry of whatever magic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_ORIGIN,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    TIMESTAMP_TYPE_BIT,
    Record,
    RecordBatch,
    codec_name,
    parse_batch,
)
from klogtool.format.batch import inflate as inflate_batch
from klogtool.format.buffers import Buffer
from klogtool.format.checksums import crc32
from klogtool.format.codecs import compress, decompress
from klogtool.format.fields import number
from klogtool.format.framing import LOG_OVERHEAD, MIN_LENGTH, Frame
from klogtool.format.java_numbers import to_signed
from klogtool.format.layouts import ENTRY_HEAD, MESSAGE_V0, MESSAGE_V0_HEAD, MESSAGE_V1, MESSAGE_V1_HEAD, SIZED_BYTES
from klogtool.values import PartlyCompared

CRC_COVERS_FROM = 4  # magic to the end of the message
HEAD_SIZES: tuple[int, int] = (MESSAGE_V0_HEAD.sizeof(), MESSAGE_V1_HEAD.sizeof())  # by magic
_SIZE = number(SIZED_BYTES.size)
SIZE_FIELD_SIZE = _SIZE.size
# Kafka allocates what an inner message claims before it reads it: its tool ends there, for want of memory. How much
# is too much hangs on the JVM; this is what one of 512 MiB does not have in one piece.
MOST_ALLOCATED = 341 << 20


class Message(PartlyCompared, frozen=True, eq=False):
    """A message, plain or wrapper, as Kafka's readers see a batch of magic 0 or 1.

    position: byte in the file. message: the bytes after offset and size fields. timestamp and timestamp_type are the
    wrapper's for an inner message of magic 1 under LogAppendTime; magic 0 has none.
    """

    uncompared = frozenset({"message"})
    unshown = frozenset({"message"})

    position: int
    offset: int
    magic: int
    crc: int
    attributes: int
    timestamp: int
    timestamp_type: str
    message: memoryview

    @property
    def size(self) -> int:
        """Bytes of the entry, offset and size fields included."""
        return LOG_OVERHEAD + len(self.message)

    @property
    def base_offset(self) -> int | None:
        """A plain message's own offset; None for a wrapper, whose header does not tell the first inner one."""
        return None if self.attributes & CODEC_MASK else self.offset

    @property
    def last_offset(self) -> int:
        """A message's own offset, a wrapper's last inner one."""
        return self.offset

    @property
    def max_timestamp(self) -> int:
        """Ms since the epoch; a wrapper's is the largest of its messages. -1 for magic 0."""
        return self.timestamp

    @property
    def codec(self) -> str:
        """none for a plain message. Raises Unsupported for ids 5 to 7."""
        return codec_name(self.attributes, self.position)

    @property
    def crc_valid(self) -> bool:
        """Whether the bytes match the checksum (LegacyRecord.isValid)."""
        return len(self.message) >= MIN_LENGTH and crc32(self.message[CRC_COVERS_FROM:]) == self.crc

    # What magic 2 has and these have not, under the same names, so that readers need not ask for the magic.
    producer_id = property(lambda self: NO_PRODUCER_ID)
    producer_epoch = property(lambda self: NO_PRODUCER_EPOCH)
    base_sequence = property(lambda self: NO_SEQUENCE)
    last_sequence = property(lambda self: NO_SEQUENCE)
    partition_leader_epoch = property(lambda self: NO_PARTITION_LEADER_EPOCH)
    is_transactional = property(lambda self: False)
    is_control = property(lambda self: False)
    delete_horizon_ms = property(lambda self: None)
    records_count = property(lambda self: None)
    origin = property(lambda self: NO_ORIGIN)

    @property
    def key_size(self) -> int:
        """The key's size field; negative is null. Raises Corrupt where the message is too short for it."""
        return self._size_at(self._head_size)

    @property
    def value_size(self) -> int:
        """The value's size field; negative is null. Raises Corrupt where a size field is out of bounds."""
        return self._size_at(self._value_at)

    @property
    def key(self) -> bytes | None:
        """The key. Raises Corrupt if its size goes past the message."""
        return self._sized(self._head_size)

    @property
    def value(self) -> bytes | None:
        """The value: a wrapper's compressed message set. Raises Corrupt if its size goes past the message."""
        return self._sized(self._value_at)

    def records(self) -> Iterator[Record]:
        """The record of a plain message, or those of the inner messages. Raises Corrupt or Unsupported."""
        return (to_record(m) for m in walk_messages(self))

    @property
    def _head_size(self) -> int:
        return HEAD_SIZES[self.magic != 0]

    @property
    def _value_at(self) -> int:
        return self._head_size + SIZE_FIELD_SIZE + max(0, self.key_size)

    def _size_at(self, at: int) -> int:
        if len(self.message) - at < SIZE_FIELD_SIZE:
            raise self._corrupt("a key or value size is out of bounds", "IndexOutOfBoundsException", "null")
        size: int = _SIZE.unpack_from(self.message, at)[0]
        return size

    def _sized(self, at: int) -> bytes | None:
        size, left = self._size_at(at), len(self.message) - at - SIZE_FIELD_SIZE
        if size > left:
            raise self._corrupt(
                "a key or value goes past the end of its message",
                "IllegalArgumentException",
                f"newLimit > capacity: ({size} > {left})",
            )
        sized: bytes | None = SIZED_BYTES.parse(bytes(self.message[at:])).bytes
        return sized

    def _corrupt(self, reason: str, kafka_class: str, kafka_message: str | None = None) -> Corrupt:
        return Corrupt(
            f"{reason} (offset {self.offset})",
            position=self.position,
            kafka_class=kafka_class,
            kafka_message=kafka_message,
        )


def parse_message(data: Buffer, at: int = 0, *, base: int = 0) -> Message:
    """The entry whose offset field is at byte `at`, whole in the buffer; base: position of data[0] in its file.

    A magic that there is not is laid out as 1; see `check_magic`.
    """
    view = memoryview(data)
    head = ENTRY_HEAD.parse(bytes(view[at : at + LOG_OVERHEAD]))
    message = view[at + LOG_OVERHEAD : at + LOG_OVERHEAD + head.message_size]
    return _message(base + at, head.offset, message, wrapper=None)


def check_magic(message: Message) -> None:
    """Raises Corrupt for a magic that is neither 0 nor 1, as Kafka does when it needs the header (LegacyRecord)."""
    if message.magic not in (0, 1):
        raise message._corrupt(f"invalid magic {message.magic}", "IllegalArgumentException")


def _message(position: int, offset: int, message: memoryview, wrapper: Message | None) -> Message:
    """An entry from its message bytes, at least 14. Everything that is not magic 0 is laid out as magic 1."""
    head = MESSAGE_V0_HEAD.parse(bytes(message[: HEAD_SIZES[0]]))
    timestamp, timestamp_type = NO_TIMESTAMP, NO_TIMESTAMP_TYPE
    if head.magic != 0:
        timestamp = MESSAGE_V1_HEAD.parse(bytes(message[: HEAD_SIZES[1]])).timestamp
        timestamp_type = LOG_APPEND_TIME if head.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME
        if head.magic == 1 and wrapper is not None:
            timestamp_type = wrapper.timestamp_type
            if timestamp_type == LOG_APPEND_TIME:
                timestamp = wrapper.timestamp
    return Message(position, offset, head.magic, head.crc, head.attributes, timestamp, timestamp_type, message)


def walk_messages(outer: Message) -> Iterator[Message]:
    """The message itself if it is plain, else its inner messages with absolute offsets.

    All inner messages are read before the first is yielded (AbstractLegacyRecordBatch.DeepRecordsIterator); one that
    is compressed itself is an error when its turn comes. Raises Corrupt or Unsupported.
    """
    if outer.codec == "none":
        yield outer
        return
    check_magic(outer)
    inner = _inner_messages(outer)
    if not inner:
        raise outer._corrupt("compressed message set with no inner messages", "InvalidRecordException")
    base = _base_of_inner_offsets(outer, inner[-1].offset) if outer.magic == 1 else 0
    for message in inner:
        if message.codec != "none":
            raise outer._corrupt("inner messages must not be compressed", "InvalidRecordException")
        yield replace(message, offset=to_signed(base + message.offset, 64))


def to_record(message: Message) -> Record:
    """A plain or inner message as a record. Raises Corrupt where its sizes do not fit it."""
    return Record(
        offset=message.offset,
        timestamp=message.timestamp,
        key=message.key,
        value=message.value,
        crc=message.crc,
        crc_valid=message.crc_valid,
    )


def _inner_messages(outer: Message) -> list[Message]:
    """Return inner entries, with offsets as stored; ends without an error at an incomplete one."""
    data = memoryview(inflate(outer))
    messages, at = [], 0
    while len(data) - at >= LOG_OVERHEAD:
        head = ENTRY_HEAD.parse(bytes(data[at : at + LOG_OVERHEAD]))
        if head.message_size < MIN_LENGTH:
            raise outer._corrupt("inner message smaller than the minimum record overhead", "CorruptRecordException")
        if head.message_size > MOST_ALLOCATED:
            raise outer._corrupt(f"inner message of {head.message_size} bytes", "OutOfMemoryError")
        at += LOG_OVERHEAD
        if head.message_size > len(data) - at:
            break
        message = data[at : at + head.message_size]
        messages.append(_message(outer.position, head.offset, message, wrapper=outer))
        at += head.message_size
    return messages


def inflate(outer: Message) -> bytes:
    """The inner message set of a wrapper, decompressed. Raises Corrupt or Unsupported."""
    if outer.codec == "zstd":
        raise Unsupported(
            f"zstd in a message of magic {outer.magic}", position=outer.position, kafka_class="InvalidRecordException"
        )
    value = outer.value
    if value is None:
        raise outer._corrupt("compressed message set with null value", "InvalidRecordException")
    try:
        return decompress(outer.codec, value, magic=outer.magic)
    except KlogError as error:
        error.position = outer.position
        raise


def _base_of_inner_offsets(outer: Message, last_inner_offset: int) -> int:
    """Return what to add to relative offsets. Old librdkafka producers leave the wrapper's offset 0."""
    if outer.offset == 0:
        return 0
    if outer.offset < last_inner_offset:
        raise outer._corrupt(
            f"wrapper offset {outer.offset} is less than the last inner offset {last_inner_offset}",
            "InvalidRecordException",
        )
    return to_signed(outer.offset - last_inner_offset, 64)


# --- entries of whatever magic ----------------------------------------------------------------------------------------


def parse_entry(data: Buffer, frame: Frame, *, base: int = 0) -> RecordBatch | Message:
    """Parse the entry of a frame: magic 2 and above as a batch, lower ones as a message (FileLogInputStream).

    base: position of data[0] in its file. Raises Corrupt if the buffer ends inside the header of a batch.
    """
    if frame.magic >= 2:
        return parse_batch(data, frame.position, base=base)
    return parse_message(data, frame.position, base=base)


def inflate_or_none(entry: RecordBatch | Message) -> bytes | None:
    """Return its decompressed records or inner messages, for a kernel; None if that fails, and the reference has to say
    why."""
    try:
        return inflate_batch(entry) if isinstance(entry, RecordBatch) else inflate(entry)
    except KlogError:
        return None


# --- building ---------------------------------------------------------------------------------------------------------


def build_message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """One entry of magic 0 or 1, plain or wrapper (LegacyRecord.write): offset, size, message with its CRC.

    timestamp: ms, only magic 1 has room for it. attributes: codec id and timestamp type bit.
    """
    layout = MESSAGE_V0 if magic == 0 else MESSAGE_V1
    parts = (("key", key), ("value", value))
    sized = {name: {"size": -1 if part is None else len(part), "bytes": part} for name, part in parts}
    fields = {"crc": 0, "magic": magic, "attributes": attributes, "timestamp": timestamp, **sized}
    fields["crc"] = crc32(layout.build(fields)[CRC_COVERS_FROM:])
    message = layout.build(fields)
    built: bytes = ENTRY_HEAD.build({"offset": offset, "message_size": len(message)}) + message
    return built


def build_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    codec: str = "none",
    level: int | None = None,
    timestamp_type: str = CREATE_TIME,
    log_append_time: int | None = None,
) -> bytes:
    """Records as plain messages, or, with a codec, as one wrapper around them.

    log_append_time: ms, with LogAppendTime.
    """
    kept = list(records)
    append_time = timestamp_type == LOG_APPEND_TIME and magic == 1
    type_bit = TIMESTAMP_TYPE_BIT if append_time else 0
    times = [log_append_time if append_time and log_append_time is not None else r.timestamp for r in kept]
    if codec == "none":
        return b"".join(
            build_message(r.offset, r.key, r.value, magic=magic, timestamp=t, attributes=type_bit)
            for r, t in zip(kept, times, strict=True)
        )
    before = kept[0].offset if magic == 1 else 0  # offsets below a magic 1 wrapper are relative
    inside = b"".join(
        build_message(r.offset - before, r.key, r.value, magic=magic, timestamp=t, attributes=type_bit)
        for r, t in zip(kept, times, strict=True)
    )
    return build_message(
        kept[-1].offset,
        None,
        compress(codec, inside, magic=magic, level=level),
        magic=magic,
        timestamp=max(times),
        attributes=CODEC_NAMES.index(codec) | type_bit,
    )
