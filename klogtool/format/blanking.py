"""Takes keys and values out of an entry, in place. Everything else stays, and a right checksum stays right.

Zeros replace keys, values, and the keys and values of record headers; their sizes stay. Compressed records of magic 2
become zeros as a whole, unless somebody needs them. Those of magic 0 and 1 are compressed again after that, because a
broker that loads a log opens them. One byte is an exception: the last byte of an entry that was not zero becomes 1, so
that the zeros at the end of a file remain as many as they were. Of control records only what Kafka writes stays.

The offset is not in the checksum of a batch: one that no log has is replaced, too.

This is the reference of kernels/_blank.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.batch import CODEC_MASK, CODEC_NAMES, CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.batch_proof import (
    KNOWN_ATTRIBUTES,
    KNOWN_MESSAGE_ATTRIBUTES,
    batch_of,
    is_blanked,
    judge_batch,
    recounted,
)
from klogtool.format.blanked_numbers import (
    FAR_OFFSET,
    LARGEST_OFFSET,
    LARGEST_PRODUCER_EPOCH,
    is_offset,
    is_producer_id,
    is_small,
    is_time,
    stand_in,
)
from klogtool.format.checksums import crc32, crc32c
from klogtool.format.codecs import compress, decompress
from klogtool.format.codecs.padding import padded
from klogtool.format.control import KEY_BYTES, TRANSACTION_MARKERS, ControlRecordType
from klogtool.format.control_values import VALUE_MESSAGES
from klogtool.format.entry_fields import put_field
from klogtool.format.fields import field_names, number, numbers
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH, Frame, find_frame
from klogtool.format.internal.blanked_metadata import has_unknown_tags
from klogtool.format.internal.message import parse_front
from klogtool.format.layouts import (
    BATCH_HEADER,
    CONTROL_RECORD_KEY,
    END_TXN_MARKER,
    FRAME,
    MESSAGE_V0_HEAD,
    MESSAGE_V1_HEAD,
    SIZED_BYTES,
)
from klogtool.format.message import CRC_COVERS_FROM as MESSAGE_CRC_COVERS_FROM
from klogtool.format.message import HEAD_SIZES, SIZE_FIELD_SIZE
from klogtool.format.resync import LARGEST_SOUGHT_BYTES, OFFSETS_OF_A_SEGMENT
from klogtool.format.varint import VARINT_BITS, VARLONG_BITS, Overlong, most_bytes, read_zigzag

Span: TypeAlias = tuple[int, int]  # bytes [start, stop)
BlankValue: TypeAlias = Callable[[memoryview], None]

_BATCH_HEADER = numbers(BATCH_HEADER)
_FIELDS = field_names(BATCH_HEADER)
_CRC = _FIELDS.index("crc")
_MESSAGE_HEAD, _MESSAGE_CRC, _SIZE = numbers(MESSAGE_V0_HEAD), number(MESSAGE_V0_HEAD.crc), number(SIZED_BYTES.size)
_MESSAGE_V1_HEAD, _FRAME = numbers(MESSAGE_V1_HEAD), numbers(FRAME)
_OFFSET, _LENGTH = number(FRAME.offset), number(FRAME.length)
_CONTROL_KEY, _MARKER = numbers(CONTROL_RECORD_KEY), numbers(END_TXN_MARKER)

_NO_CONTROL_TYPE, _MOST_VERSIONS = -1, 10
_NO_STREAM = b"\xff" * most_bytes(VARLONG_BITS)  # no codec's first bytes, and a size of a record that does not end


class _Broken(ValueError):
    """A record that is not as Kafka writes it."""


class RecordSpans(Struct, frozen=True):
    """Where a record ends in the bytes of its batch, and where its key, its value and its headers are."""

    end: int
    key: Span | None
    value: Span | None
    headers: tuple[Span, ...]


def blank_entry(
    entry: memoryview, open_from_ms: int, blank_value: BlankValue | None = None, most_offset: int = LARGEST_OFFSET
) -> bool:
    """Blank an entry of magic 0, 1 or 2 whose checksum is right. entry: all of its bytes, writable. Otherwise as
    `blank_batch`."""
    if entry[HEADER_SIZE_UP_TO_MAGIC - 1] < 2:
        return blank_message(entry, most_offset)
    return blank_batch(entry, open_from_ms, blank_value, most_offset)


def blank_batch(
    entry: memoryview, open_from_ms: int, blank_value: BlankValue | None = None, most_offset: int = LARGEST_OFFSET
) -> bool:
    """Blank a batch of magic 2 that consists of all these bytes, whatever its length and magic say. The new checksum is
    right.

    open_from_ms: if the batch is compressed, and its largest timestamp is not below this, its records stay readable;
    so do those of a compressed batch that has not as many records as offsets.
    blank_value: blanks a value in place, and may keep parts of it; such records stay readable, too. most_offset: the
    largest offset that stays.

    Return False if its records were to stay readable, and do not: they cannot be read, are above the limit, or cannot
    be compressed to the same size.
    """
    _blank_offset(entry, most_offset)
    batch = parse_batch(entry)
    body = entry[RECORD_BATCH_OVERHEAD:]
    with_end, is_compressed = _end_of_data(body), bool(batch.attributes & CODEC_MASK)
    has_gaps = batch.records_count != batch.last_offset_delta + 1  # only its records say which offsets it has
    records, stays = _Records(blank_value or _blank_whole, is_control=batch.is_control), True
    if not is_compressed:
        records.blank(body, _count_of_records(entry))
        _keep_end(body, with_end)
    elif batch.max_timestamp >= open_from_ms or has_gaps or blank_value is not None or batch.is_control:
        count = _count_of_records(entry)
        stays = _blank_inside(body, batch.attributes, 2, lambda inside: records.blank(inside, count))
    else:
        _fill(body, (0, len(body)))
        _keep_end(body, with_end)
    _set_batch_field(entry, "crc", crc32c(entry[CRC_COVERS_FROM:]))
    return stays


def blank_contradicted(entry: memoryview, blank_value: BlankValue | None, most_offset: int = LARGEST_OFFSET) -> bool:
    """Blank a batch of magic 2 whose checksum is right, and whose records contradict its header or one another. What
    nobody can read, nobody can read afterwards either, and `is_blanked` is false. Otherwise as `blank_batch`.

    Return whether its records say the same of it as before.
    """
    before = judge_batch(parse_batch(entry), deep=True)
    blank_batch(entry, before.facts.max_timestamp, blank_value, most_offset)
    batch = parse_batch(entry)
    after = judge_batch(batch, deep=True)
    if not before.is_readable and (after.is_readable or is_blanked(batch)):
        body = entry[RECORD_BATCH_OVERHEAD:]
        body[: len(_NO_STREAM)] = _NO_STREAM[: len(body)]
        set_right_checksum(entry)
    return before.is_readable and after.is_readable and before.records_contradiction == after.records_contradiction


def _count_of_records(entry: memoryview) -> int:
    """Return how many records a batch has, by its bytes if the count in its header is wrong: doctor and salvage count
    these."""
    batch = batch_of(entry, entry, len(entry), 0)
    if not batch.attributes & CODEC_MASK:
        ends = [record.end for record in walk_record_spans(entry[RECORD_BATCH_OVERHEAD:], batch.records_count)]
        if ends and ends[-1] == len(entry) - RECORD_BATCH_OVERHEAD:
            return batch.records_count
    return (recounted(batch) or batch).records_count


def blank_message(entry: memoryview, most_offset: int = LARGEST_OFFSET) -> bool:
    """Blank a message of magic 0 or 1, plain or a wrapper, that consists of all these bytes. The new checksum is right.
    Return False for a wrapper that nobody can open afterwards."""
    _blank_offset(entry, most_offset)
    _, magic, attributes = _MESSAGE_HEAD.unpack_from(entry, LOG_OVERHEAD)
    body = entry[LOG_OVERHEAD + HEAD_SIZES[magic != 0] :]
    with_end, at, stays = _end_of_data(body), 0, True
    spans = list(_message_spans(body))
    is_wrapper = attributes & CODEC_MASK and len(spans) == len(("key", "value"))
    for start, at in spans[:1] if is_wrapper else spans:
        _fill(body, (start, at))
    if is_wrapper:
        start, at = spans[-1]
    _fill(body, (at, len(body)))
    if is_wrapper:
        stays = _blank_inside(body[start:at], attributes, magic, _blank_messages)
    else:
        _keep_end(body, with_end)
    _MESSAGE_CRC.pack_into(entry, LOG_OVERHEAD, crc32(entry[LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM :]))
    return stays


def blank_stream(entry: memoryview) -> None:
    """Put zeros for the compressed messages of a wrapper. The new checksum is right."""
    body = entry[LOG_OVERHEAD + HEAD_SIZES[entry[HEADER_SIZE_UP_TO_MAGIC - 1] != 0] :]
    start, end = list(_message_spans(body))[-1]
    _fill(body, (start, end))
    set_right_checksum(entry)


def blank_damaged(entry: memoryview, most_offset: int = LARGEST_OFFSET) -> None:
    """Blank an entry with a wrong checksum: its header stays if its numbers can be those of a log, and nothing of its
    records. The checksum stays as it is: a broker tells it. Should it be right by chance, it is changed."""
    stored = _checksum(entry)
    if entry[HEADER_SIZE_UP_TO_MAGIC - 1] < 2:
        is_whole = _is_filled(entry)
        blank_message(entry, most_offset)
        if not is_whole:  # sizes of a key and a value that are none
            _fill(entry, (LOG_OVERHEAD + HEAD_SIZES[entry[HEADER_SIZE_UP_TO_MAGIC - 1]], len(entry)))
    else:
        body = entry[RECORD_BATCH_OVERHEAD:]
        with_end = _end_of_data(body)
        _fill(body, (0, len(body)))
        _keep_end(body, with_end)
    if not is_head_of_log(entry, most_offset):
        _blank_head(entry, most_offset)
    set_right_checksum(entry)
    put_field(entry, "crc", stored if stored != _checksum(entry) else stored ^ 1)


def _is_filled(entry: memoryview) -> bool:
    """Return whether the key and the value of a message fill it."""
    body = entry[LOG_OVERHEAD + HEAD_SIZES[entry[HEADER_SIZE_UP_TO_MAGIC - 1]] :]
    sizes = [_SIZE.unpack_from(body, start - SIZE_FIELD_SIZE)[0] for start, _ in _message_spans(body)]
    return (
        len(sizes) == len(("key", "value"))
        and all(size >= -1 for size in sizes)
        and (sum(SIZE_FIELD_SIZE + max(0, size) for size in sizes) == len(body))
    )


def is_head_of_log(head: memoryview | bytes, most_offset: int = LARGEST_OFFSET) -> bool:
    """Return whether all numbers in the header of an entry can be those of a log. Those that are not in the bytes
    can."""
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return False
    offset, _, _, magic = _FRAME.unpack_from(head)
    if magic < 0:
        return False
    if magic < 2:
        is_whole = magic == 1 and len(head) >= LOG_OVERHEAD + _MESSAGE_V1_HEAD.size
        return is_offset(offset, most_offset) and (
            not is_whole or is_time(_MESSAGE_V1_HEAD.unpack_from(head, LOG_OVERHEAD)[3])
        )
    if len(head) < RECORD_BATCH_OVERHEAD:
        return is_offset(offset, most_offset)
    batch = parse_batch(head)
    return (
        is_offset(offset, most_offset)
        and is_small(batch.last_offset_delta)
        and 0 <= batch.records_count <= batch.last_offset_delta + 1
        and is_small(batch.base_sequence)
        and batch.producer_epoch <= LARGEST_PRODUCER_EPOCH
        and is_time(batch.base_timestamp)
        and is_time(batch.max_timestamp)
        and is_producer_id(batch.producer_id)
    )


def torn_head(head: bytes, lowest: int) -> bytes:
    """Return what stays of a header that is cut off: offset and length, if they can be those of an entry."""
    if len(head) < LOG_OVERHEAD:
        return b""
    (offset,), (length,) = _OFFSET.unpack_from(head), _LENGTH.unpack_from(head, _OFFSET.size)
    is_one = 0 <= offset - lowest <= OFFSETS_OF_A_SEGMENT and MIN_LENGTH <= length <= LARGEST_SOUGHT_BYTES
    return head[:LOG_OVERHEAD] if is_one else b""


def outline(head: bytes, room: int) -> Iterator[tuple[int, bytes]]:
    """Yield what stays of bytes that are no header, where a broker looks for one: a length and a magic that it judges
    in the same way. room: how many bytes the log has from here on."""
    head = head.ljust(HEADER_SIZE_UP_TO_MAGIC, b"\0")
    _, length, _, magic = _FRAME.unpack_from(head)
    is_inside = 0 <= length <= room - LOG_OVERHEAD
    yield LOG_OVERHEAD - _LENGTH.size, _LENGTH.pack(length if is_inside else stand_in(length, bits=32))
    judged = magic if 0 <= magic <= 2 else stand_in(magic, bits=8)
    yield HEADER_SIZE_UP_TO_MAGIC - 1, bytes([judged & 0xFF])


def fill_in(entry: memoryview, changes: Iterable[tuple[int, bytes, bytes]]) -> None:
    """Put bytes into a blank entry where others have gone; the checksum is right again.

    changes: position, the bytes, and those of the original.
    """
    for at, data, before in changes:
        for n in range(max(0, -at), min(len(data), len(entry) - at)):
            if entry[at + n] != before[n]:
                entry[at + n] = data[n]
    set_right_checksum(entry)


def set_right_checksum(entry: memoryview) -> None:
    """Compute the checksum of an entry anew."""
    is_batch = entry[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2
    covered = entry[CRC_COVERS_FROM if is_batch else LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM :]
    put_field(entry, "crc", crc32c(covered) if is_batch else crc32(covered))


def _blank_offset(entry: memoryview, most_offset: int) -> None:
    (offset,) = _OFFSET.unpack_from(entry)
    if not is_offset(offset, most_offset):
        _OFFSET.pack_into(entry, 0, -1 if offset < 0 else FAR_OFFSET)


def _blank_head(entry: memoryview, most_offset: int) -> None:
    """Take all numbers out of a header that do not say of which kind the entry is."""
    offset, length, _, magic = _FRAME.unpack_from(entry)
    if magic >= 2:
        attributes = parse_batch(entry).attributes & KNOWN_ATTRIBUTES
        _fill(entry, (0, RECORD_BATCH_OVERHEAD))
        _set_batch_field(entry, "attributes", attributes)
    else:
        attributes = entry[HEADER_SIZE_UP_TO_MAGIC] & KNOWN_MESSAGE_ATTRIBUTES
        _fill(entry, (0, LOG_OVERHEAD + HEAD_SIZES[magic]))
        entry[HEADER_SIZE_UP_TO_MAGIC] = attributes
    _FRAME.pack_into(entry, 0, offset, length, 0, magic)
    _blank_offset(entry, most_offset)


def _checksum(entry: memoryview) -> int:
    is_batch = entry[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2
    return int(_BATCH_HEADER.unpack_from(entry)[_CRC] if is_batch else _MESSAGE_CRC.unpack_from(entry, LOG_OVERHEAD)[0])


def _set_batch_field(entry: memoryview, name: str, value: int) -> None:
    fields = list(_BATCH_HEADER.unpack_from(entry))
    fields[_FIELDS.index(name)] = value
    _BATCH_HEADER.pack_into(entry, 0, *fields)


def _message_spans(body: memoryview) -> Iterator[Span]:
    """Yield where key and value of a message are, as far as they are whole."""
    at = 0
    for _ in ("key", "value"):
        if len(body) - at < SIZE_FIELD_SIZE:
            return
        start = at + SIZE_FIELD_SIZE
        at = start + max(0, min(_SIZE.unpack_from(body, at)[0], len(body) - start))
        yield start, at


def _blank_messages(inside: memoryview) -> None:
    """Blank inner messages. Each has a checksum of its own, which becomes right. Of what follows, offset and size
    stay."""
    at = 0
    while isinstance(frame := find_frame(inside, at, len(inside)), Frame):
        blank_message(inside[at : at + frame.size])
        at += frame.size
    _fill(inside, (at + LOG_OVERHEAD, len(inside)))


def _blank_inside(stream: memoryview, attributes: int, magic: int, blank: BlankValue) -> bool:
    """Blank what is in a compressed stream, and compress it to the same size; if that is not possible, blank all of it.
    Return whether it was possible."""
    with_end, codec = _end_of_data(stream), attributes & CODEC_MASK
    again = _compressed_again(CODEC_NAMES[codec], stream, magic, with_end, blank) if codec < len(CODEC_NAMES) else None
    stream[:] = bytes(len(stream)) if again is None else again
    if again is None:
        _keep_end(stream, with_end)
    return again is not None


def _compressed_again(codec: str, stream: memoryview, magic: int, end: int, blank: BlankValue) -> bytes | None:
    try:
        inside = bytearray(decompress(codec, stream, magic=magic))
        blank(memoryview(inside))
        again = padded(codec, compress(codec, bytes(inside), magic=magic), len(stream))
        if again is None:
            return None
        with_end = bytearray(again)
        _keep_end(memoryview(with_end), end)
        return bytes(with_end) if _inflates_to(inside, codec, with_end, magic) else again
    except KlogError:
        return None


def _inflates_to(inside: bytearray, codec: str, stream: bytearray, magic: int) -> bool:
    try:
        return decompress(codec, stream, magic=magic) == inside
    except KlogError:
        return False


def head_spans(head: memoryview | bytes) -> Iterator[Span]:
    """Yield the bytes of a damaged entry that stay. head: its first bytes, as many as there are.

    A message has a key directly after its head; the size of the key stays, and the size of the value if the head
    reaches it.
    """
    magic = head[HEADER_SIZE_UP_TO_MAGIC - 1] if len(head) >= HEADER_SIZE_UP_TO_MAGIC else 2
    if magic >= 2:
        yield 0, min(len(head), RECORD_BATCH_OVERHEAD)
        return
    at = LOG_OVERHEAD + HEAD_SIZES[magic]
    yield 0, at + SIZE_FIELD_SIZE
    if len(head) - at >= SIZE_FIELD_SIZE:
        at += SIZE_FIELD_SIZE + max(0, _SIZE.unpack_from(head, at)[0])
        yield at, at + SIZE_FIELD_SIZE


def blank_bytes(data: memoryview, kept: Iterable[tuple[int, bytes]]) -> None:
    """Blank bytes that are no sound entry, except for some pieces, each with its position; of two that overlap, the
    later one counts."""
    with_end = _end_of_data(data)
    _fill(data, (0, len(data)))
    for at, chunk in kept:
        start, stop = max(0, at), min(len(data), at + len(chunk))
        if start < stop:
            data[start:stop] = chunk[start - at : stop - at]
    _keep_end(data, with_end)


def header_of_blank_batch(head: bytes, size: int, crc_of_zeros: Callable[[int, int], int]) -> bytes:
    """Return the header of a batch of `size` bytes with the checksum that it has over a body of zeros and a last 1.

    crc_of_zeros: computes the CRC-32C of so many zeros after bytes with the given one.
    """
    fields = list(_BATCH_HEADER.unpack_from(head))
    so_far = crc_of_zeros(size - RECORD_BATCH_OVERHEAD - 1, crc32c(head[CRC_COVERS_FROM:RECORD_BATCH_OVERHEAD]))
    fields[_CRC] = crc32c(b"\x01", so_far)
    return _BATCH_HEADER.pack(*fields)


# Records of magic 2.


class _Records(Struct, frozen=True):
    """How records are blanked. blank_value: blanks the value of one that is no control record."""

    blank_value: BlankValue
    is_control: bool

    def blank(self, body: memoryview, count: int) -> None:
        at = 0
        for record in walk_record_spans(body, count):
            for span in record.headers:
                _fill(body, span)
            if self.is_control:
                _blank_control(body[slice(*(record.key or (0, 0)))], body[slice(*(record.value or (0, 0)))])
            else:
                _fill(body, record.key or (0, 0))
                self.blank_value(body[slice(*(record.value or (0, 0)))])
            at = record.end
        _fill(body, (at, len(body)))


def _blank_control(key: memoryview, value: memoryview) -> None:
    """Blank what is not in the key or value of a control record as Kafka writes it. A key of another type becomes one
    of no type."""
    version, type_id = _CONTROL_KEY.unpack_from(key) if len(key) >= KEY_BYTES else (0, _NO_CONTROL_TYPE)
    kind = ControlRecordType.of(type_id) if is_small_version(version) else ControlRecordType.UNKNOWN
    _fill(key, (min(KEY_BYTES, len(key)), len(key)))
    if kind is ControlRecordType.UNKNOWN and len(key) >= KEY_BYTES:
        _CONTROL_KEY.pack_into(key, 0, version if is_small_version(version) else stand_in(version, bits=16), -1)
    elif len(key) < KEY_BYTES:
        _fill(key, (0, len(key)))
    if kind in TRANSACTION_MARKERS and _is_marker(value):
        _fill(value, (_MARKER.size, len(value)))
    elif kind not in VALUE_MESSAGES or not _is_message(VALUE_MESSAGES[kind], value):
        _fill(value, (0, len(value)))


def is_small_version(version: int) -> bool:
    """Return whether a version in the bytes of a control record may be one of Kafka's."""
    return 0 <= version < _MOST_VERSIONS


def _is_marker(value: memoryview) -> bool:
    if len(value) < _MARKER.size:
        return False
    version, epoch = _MARKER.unpack_from(value)
    return is_small_version(version) and is_small(epoch)


def _is_message(name: str, value: memoryview) -> bool:
    """Return whether a value is a message of Kafka's, without bytes that its schema does not know."""
    data = bytes(value)
    try:
        values, left = parse_front(name, int.from_bytes(data[:2], "big", signed=True), data)
    except (KlogError, KeyError):
        return False
    return left == 0 and not has_unknown_tags(values)


def walk_record_spans(body: memoryview, count: int) -> Iterator[RecordSpans]:
    """Yield the records of an uncompressed batch, up to the first that is not as Kafka writes it."""
    at = 0
    try:
        for _ in range(count):
            record = _record_spans(body, at)
            yield record
            at = record.end
    except (_Broken, Overlong, EOFError):
        return


def _record_spans(body: memoryview, at: int) -> RecordSpans:
    cursor = _Cursor(body, at, len(body))
    size = cursor.varint()
    if not 1 <= size <= cursor.left:
        raise _Broken
    cursor.end = cursor.at + size
    cursor.at += 1  # the attributes
    cursor.varlong()
    cursor.varint()
    key, value, headers = cursor.field(), cursor.field(), cursor.varint()
    inside: list[Span] = []
    if not 0 <= headers <= cursor.left:
        raise _Broken
    for _ in range(headers):
        name, content = cursor.field(), cursor.field()
        if name is None:
            raise _Broken
        inside += [name] if content is None else [name, content]
    if cursor.left:
        raise _Broken
    return RecordSpans(cursor.end, key, value, tuple(inside))


class _Cursor:
    """Reads numbers and fields of bytes up to `end`."""

    def __init__(self, view: memoryview, at: int, end: int) -> None:
        self._view, self.at, self.end = view, at, end

    @property
    def left(self) -> int:
        return self.end - self.at

    def read(self, size: int) -> bytes:
        chunk = bytes(self._view[self.at : min(self.at + size, self.end)])
        self.at += len(chunk)
        return chunk

    def varint(self) -> int:
        return read_zigzag(self.read, VARINT_BITS)

    def varlong(self) -> int:
        return read_zigzag(self.read, VARLONG_BITS)

    def field(self) -> Span | None:
        """Return where a field is; None for null."""
        size = self.varint()
        if size < 0:
            return None
        if size > self.left:
            raise _Broken
        self.at += size
        return self.at - size, self.at


# Bytes.


def _blank_whole(value: memoryview) -> None:
    _fill(value, (0, len(value)))


def _fill(data: memoryview, span: Span) -> None:
    start, stop = span
    if start < stop:
        data[start:stop] = bytes(stop - start)


def _end_of_data(data: memoryview) -> int:
    """Return the byte after the last one that is not zero."""
    return len(bytes(data).rstrip(b"\0"))


def _keep_end(data: memoryview, end: int) -> None:
    if end and not data[end - 1]:
        data[end - 1] = 1
