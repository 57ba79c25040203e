"""Takes keys and values out of an entry, in place. Everything else stays, and a right checksum stays right.

Zeros replace keys, values, and the keys and values of record headers; their sizes stay. Compressed records of magic 2
become zeros as a whole, unless somebody needs them. Those of magic 0 and 1 are compressed again after that, because a
broker that loads a log opens them. One byte is an exception: the last byte of an entry that was not zero becomes 1, so
that the zeros at the end of a file remain as many as they were. Control batches stay whole.

This is the reference of kernels/_blank.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.batch import CODEC_MASK, CODEC_NAMES, CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.checksums import crc32, crc32c
from klogtool.format.codecs import compress, decompress
from klogtool.format.codecs.padding import padded
from klogtool.format.fields import field_names, number, numbers
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, Frame, find_frame
from klogtool.format.layouts import BATCH_HEADER, MESSAGE_V0_HEAD, SIZED_BYTES
from klogtool.format.message import CRC_COVERS_FROM as MESSAGE_CRC_COVERS_FROM
from klogtool.format.message import HEAD_SIZES, SIZE_FIELD_SIZE
from klogtool.format.varint import VARINT_BITS, VARLONG_BITS, Overlong, read_zigzag

Span: TypeAlias = tuple[int, int]  # bytes [start, stop)
BlankValue: TypeAlias = Callable[[memoryview], None]

_BATCH_HEADER = numbers(BATCH_HEADER)
_CRC = field_names(BATCH_HEADER).index("crc")
_MESSAGE_HEAD, _MESSAGE_CRC, _SIZE = numbers(MESSAGE_V0_HEAD), number(MESSAGE_V0_HEAD.crc), number(SIZED_BYTES.size)


class _Broken(ValueError):
    """A record that is not as Kafka writes it."""


class RecordSpans(Struct, frozen=True):
    """Where a record ends in the bytes of its batch, and where its value and the other bytes of its user are."""

    end: int
    value: Span | None
    others: tuple[Span, ...]


def blank_entry(entry: memoryview, open_from_ms: int, blank_value: BlankValue | None = None) -> None:
    """Blank an entry of magic 0, 1 or 2 whose checksum is right. entry: all of its bytes, writable. Otherwise as
    `blank_batch`."""
    if entry[HEADER_SIZE_UP_TO_MAGIC - 1] < 2:
        blank_message(entry)
    else:
        blank_batch(entry, open_from_ms, blank_value)


def blank_batch(entry: memoryview, open_from_ms: int, blank_value: BlankValue | None = None) -> None:
    """Blank a batch of magic 2 that consists of all these bytes, whatever its length and magic say. The new checksum is
    right.

    open_from_ms: if the batch is compressed, and its largest timestamp is not below this, its records stay readable.
    blank_value: blanks a value in place, and may keep parts of it; such records stay readable, too.
    """
    batch = parse_batch(entry)
    if batch.is_control:
        return
    body = entry[RECORD_BATCH_OVERHEAD:]
    with_end, blank = _end_of_data(body), blank_value or _blank_whole
    if not batch.attributes & CODEC_MASK:
        _blank_records(body, batch.records_count, blank)
        _keep_end(body, with_end)
    elif batch.max_timestamp >= open_from_ms or blank_value is not None:
        _blank_inside(body, batch.attributes, 2, lambda inside: _blank_records(inside, batch.records_count, blank))
    else:
        _fill(body, (0, len(body)))
        _keep_end(body, with_end)
    _set_batch_crc(entry, crc32c(entry[CRC_COVERS_FROM:]))


def blank_message(entry: memoryview) -> None:
    """Blank a message of magic 0 or 1, plain or a wrapper, that consists of all these bytes. The new checksum is
    right."""
    _, magic, attributes = _MESSAGE_HEAD.unpack_from(entry, LOG_OVERHEAD)
    body = entry[LOG_OVERHEAD + HEAD_SIZES[magic != 0] :]
    with_end, at = _end_of_data(body), 0
    spans = list(_message_spans(body))
    is_wrapper = attributes & CODEC_MASK and len(spans) == len(("key", "value"))
    for start, at in spans[:1] if is_wrapper else spans:
        _fill(body, (start, at))
    if is_wrapper:
        start, at = spans[-1]
    _fill(body, (at, len(body)))
    if is_wrapper:
        _blank_inside(body[start:at], attributes, magic, _blank_messages)
    else:
        _keep_end(body, with_end)
    _MESSAGE_CRC.pack_into(entry, LOG_OVERHEAD, crc32(entry[LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM :]))


def blank_damaged(entry: memoryview, open_from_ms: int, blank_value: BlankValue | None = None) -> None:
    """Blank an entry with a wrong checksum by its header. The checksum stays as it is: a broker tells it. Should it be
    right by chance, it is changed."""
    stored = _checksum(entry)
    blank_entry(entry, open_from_ms, blank_value)
    set_right_checksum(entry)
    _set_checksum(entry, stored if stored != _checksum(entry) else stored ^ 1)


def restore(entry: memoryview, pieces: Iterable[tuple[int, bytes]]) -> None:
    """Put bytes back into a blank entry, each from a position on; the checksum is right again."""
    for at, data in pieces:
        start, stop = max(0, at), min(len(entry), at + len(data))
        entry[start:stop] = data[start - at : stop - at]
    set_right_checksum(entry)


def set_right_checksum(entry: memoryview) -> None:
    """Compute the checksum of an entry anew."""
    is_batch = entry[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2
    covered = entry[CRC_COVERS_FROM if is_batch else LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM :]
    _set_checksum(entry, crc32c(covered) if is_batch else crc32(covered))


def _checksum(entry: memoryview) -> int:
    is_batch = entry[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2
    return int(_BATCH_HEADER.unpack_from(entry)[_CRC] if is_batch else _MESSAGE_CRC.unpack_from(entry, LOG_OVERHEAD)[0])


def _set_checksum(entry: memoryview, crc: int) -> None:
    if entry[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2:
        _set_batch_crc(entry, crc)
    else:
        _MESSAGE_CRC.pack_into(entry, LOG_OVERHEAD, crc)


def _set_batch_crc(entry: memoryview, crc: int) -> None:
    fields = list(_BATCH_HEADER.unpack_from(entry))
    fields[_CRC] = crc
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
    while isinstance(found := find_frame(inside, at, len(inside)), Frame):
        blank_message(inside[at : at + found.size])
        at += found.size
    _fill(inside, (at + LOG_OVERHEAD, len(inside)))


def _blank_inside(stream: memoryview, attributes: int, magic: int, blank: BlankValue) -> None:
    """Blank what is in a compressed stream, and compress it to the same size; if that is not possible, all of it."""
    with_end, codec = _end_of_data(stream), attributes & CODEC_MASK
    made = _made_again(CODEC_NAMES[codec], stream, magic, with_end, blank) if codec < len(CODEC_NAMES) else None
    stream[:] = bytes(len(stream)) if made is None else made
    if made is None:
        _keep_end(stream, with_end)


def _made_again(codec: str, stream: memoryview, magic: int, end: int, blank: BlankValue) -> bytes | None:
    try:
        inside = bytearray(decompress(codec, stream, magic=magic))
        blank(memoryview(inside))
        made = padded(codec, compress(codec, bytes(inside), magic=magic), len(stream))
        if made is None:
            return None
        with_end = bytearray(made)
        _keep_end(memoryview(with_end), end)
        return bytes(with_end) if _inflates_to(inside, codec, with_end, magic) else made
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


def blank_bytes(data: memoryview, kept: list[Span]) -> None:
    """Blank bytes that are no sound entry, except for some spans, ascending; they may overlap."""
    with_end, at = _end_of_data(data), 0
    for start, stop in kept:
        _fill(data, (at, min(start, len(data))))
        at = max(at, stop)
    _fill(data, (at, len(data)))
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


def _blank_records(body: memoryview, count: int, blank_value: BlankValue) -> None:
    at = 0
    for record in walk_record_spans(body, count):
        for span in record.others:
            _fill(body, span)
        if record.value is not None:
            blank_value(body[slice(*record.value)])
        at = record.end
    _fill(body, (at, len(body)))


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
    others = [] if key is None else [key]
    if not 0 <= headers <= cursor.left:
        raise _Broken
    for _ in range(headers):
        name, content = cursor.field(), cursor.field()
        if name is None:
            raise _Broken
        others += [name] if content is None else [name, content]
    if cursor.left:
        raise _Broken
    return RecordSpans(cursor.end, value, tuple(others))


class _Cursor:
    """Reads numbers and fields of bytes up to `end`."""

    def __init__(self, view: memoryview, at: int, end: int) -> None:
        self._view, self.at, self.end = view, at, end

    @property
    def left(self) -> int:
        return self.end - self.at

    def read(self, size: int) -> bytes:
        piece = bytes(self._view[self.at : min(self.at + size, self.end)])
        self.at += len(piece)
        return piece

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
