"""Where the bytes of batches and messages lie, as little of it as the kinds of damage need.

Written apart from klogtool/format on purpose: a mistake there must not be repeated by the test that looks for it.
Lenient: what cannot be taken apart is a ValueError, and the damage is done elsewhere.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lz4.frame
import snappy
import zstandard

# field -> (position from the start of the entry, size)
BATCH = {
    "base_offset": (0, 8),
    "length": (8, 4),
    "partition_leader_epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "attributes": (21, 2),
    "last_offset_delta": (23, 4),
    "base_timestamp": (27, 8),
    "max_timestamp": (35, 8),
    "producer_id": (43, 8),
    "producer_epoch": (51, 2),
    "base_sequence": (53, 4),
    "records_count": (57, 4),
}
MESSAGE_0 = {
    "offset": (0, 8),
    "size": (8, 4),
    "crc": (12, 4),
    "magic": (16, 1),
    "attributes": (17, 1),
    "key_length": (18, 4),
}
MESSAGE_1 = {**MESSAGE_0, "timestamp": (18, 8), "key_length": (26, 4)}

RECORDS_START = 61
SMALLEST_ENTRY = 26
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
GZIP_HEADER, EMPTY_STORED = 10, struct.pack("<I", 1 << 31)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
EXPANDED_LIMIT = 16 << 20


# ---------------------------------------------------------------- entries of a .log


@dataclass(frozen=True)
class Entry:
    """A batch, or a message of the old formats, as it lies in a file."""

    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    @property
    def magic(self) -> int:
        return int.from_bytes(self.data[16:17], "big", signed=True)

    @property
    def fields(self) -> dict[str, tuple[int, int]]:
        return BATCH if self.magic >= 2 else MESSAGE_1 if self.magic == 1 else MESSAGE_0

    @property
    def codec(self) -> int:
        return self.data[22 if self.magic >= 2 else 17] & 7

    def value(self, name: str) -> int:
        at, size = self.fields[name]
        return int.from_bytes(self.data[at : at + size], "big", signed=True)


def walk(data: bytes) -> list[Entry]:
    """The entries up to the first that does not fit."""
    found, at = [], 0
    while len(data) - at >= SMALLEST_ENTRY:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < SMALLEST_ENTRY or size > len(data) - at:
            break
        entry = Entry(at, data[at : at + size])
        if entry.magic >= 2 and size < RECORDS_START:
            break
        found.append(entry)
        at += size
    return found


def put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def with_field(entry: bytes, fields: dict[str, tuple[int, int]], name: str, value: int) -> bytes:
    at, size = fields[name]
    return put(entry, at, (value % (1 << 8 * size)).to_bytes(size, "big"))


def sealed(entry: bytes, *, length: bool = True) -> bytes:
    """The entry with a CRC (and a length) that is right for its bytes."""
    if length:
        entry = put(entry, 8, struct.pack(">i", len(entry) - 12))
    if 2 <= entry[16] < 128:
        return put(entry, 17, struct.pack(">I", crc32c(entry[21:])))
    return put(entry, 12, struct.pack(">I", zlib.crc32(entry[16:])))


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# ---------------------------------------------------------------- varints


def varint(value: int, bits: int = 32) -> bytes:
    return unsigned_varint((value << 1 ^ value >> bits - 1) & (1 << bits) - 1)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def longer(encoded: bytes, extra: int) -> bytes:
    """The same number in more bytes than it needs."""
    return bytes([*encoded[:-1], encoded[-1] | 0x80, *[0x80] * (extra - 1), 0]) if extra else encoded


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("cut short")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, bits: int = 32) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                number &= (1 << bits) - 1  # as Java shifts bits out
                return number >> 1 ^ -(number & 1)
            if shift >= bits:
                raise ValueError("endless varint")

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)


# ---------------------------------------------------------------- records of magic 2


@dataclass(frozen=True)
class Record:
    attributes: int = 0
    timestamp_delta: int = 0
    offset_delta: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    def pieces(self) -> list[tuple[str, bytes]]:
        """The encoded fields behind the length, each with its name."""
        out = [
            ("attributes", bytes([self.attributes])),
            ("timestamp_delta", varint(self.timestamp_delta, 64)),
            ("offset_delta", varint(self.offset_delta)),
            *_sized("key", self.key),
            *_sized("value", self.value),
            ("header_count", varint(len(self.headers))),
        ]
        for key, value in self.headers:
            out += [*_sized("header_key", key), *_sized("header_value", value)]
        return out


def _sized(name: str, data: bytes | None) -> list[tuple[str, bytes]]:
    length = varint(-1 if data is None else len(data))
    return [(f"{name}_length", length), (name, data or b"")]


def build_record(pieces: Sequence[tuple[str, bytes]], length: bytes | None = None) -> bytes:
    body = b"".join(data for _, data in pieces)
    return (varint(len(body)) if length is None else length) + body


def build_records(records: Sequence[Record]) -> bytes:
    return b"".join(build_record(record.pieces()) for record in records)


def parse_records(body: bytes) -> list[Record]:
    """All records that a body holds, whatever the header's count says. Raises ValueError."""
    return list(walk_records(body))


def walk_records(body: bytes) -> Iterator[Record]:
    """The records of a body one by one. Raises ValueError at the first that cannot be taken apart."""
    whole = _Cursor(body)
    while whole.at < len(body):
        one = _Cursor(whole.take(whole.varint()))
        attributes, timestamp_delta, offset_delta = one.take(1)[0], one.varint(64), one.varint()
        key, value = one.nullable(), one.nullable()
        headers = tuple(_walk_headers(one))
        if one.at != len(one.data):
            raise ValueError("more bytes than its fields have")
        yield Record(attributes, timestamp_delta, offset_delta, key, value, headers)


def _walk_headers(cursor: _Cursor) -> Iterator[tuple[bytes, bytes | None]]:
    if (count := cursor.varint()) < 0:
        raise ValueError("less than no headers")
    for _ in range(count):
        if (key := cursor.nullable()) is None:
            raise ValueError("a header without a key")
        yield key, cursor.nullable()


def body_of(batch: Entry) -> bytes:
    """The records of a batch, decompressed. Raises ValueError."""
    if batch.magic != 2:
        raise ValueError("not magic 2")
    return decompress(batch.codec, batch.data[RECORDS_START:])


def with_body(batch: Entry, body: bytes, *, codec: int | None = None, ready: bool = False) -> bytes:
    """The batch with another body (compressed here, unless it is `ready`), length and CRC right."""
    codec = batch.codec if codec is None else codec
    attributes = batch.value("attributes") & ~7 | codec
    header = with_field(batch.data[:RECORDS_START], BATCH, "attributes", attributes)
    return sealed(header + (body if ready else compress(codec, body)))


# ---------------------------------------------------------------- messages of magic 0 and 1


@dataclass(frozen=True)
class Message:
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    def build(self) -> bytes:
        time = struct.pack(">q", self.timestamp) if self.magic else b""
        payload = bytes([self.magic, self.attributes]) + time + _with_length(self.key) + _with_length(self.value)
        return sealed(struct.pack(">qiI", self.offset, 0, 0) + payload)


def _with_length(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def parse_message(entry: Entry) -> Message:
    if entry.magic not in (0, 1):
        raise ValueError("not magic 0 or 1")
    rest = _Cursor(entry.data[26 if entry.magic else 18 :])
    timestamp = entry.value("timestamp") if entry.magic else -1
    key, value = _length_and(rest), _length_and(rest)
    return Message(entry.value("offset"), entry.magic, entry.data[17], timestamp, key, value)


def _length_and(cursor: _Cursor) -> bytes | None:
    size = int.from_bytes(cursor.take(4), "big", signed=True)
    return None if size < 0 else cursor.take(size)


def inner_messages(wrapper: Message) -> list[Message]:
    if not wrapper.attributes & 7:
        raise ValueError("not a wrapper")
    return [
        parse_message(entry) for entry in walk(decompress(wrapper.attributes & 7, wrapper.value or b"", wrapper.magic))
    ]


def wrapped(messages: Sequence[Message], magic: int, codec: int) -> bytes:
    """A message set of these (with absolute offsets) as one compressed wrapper message, or plainly if codec is 0."""
    if codec == NONE:
        return b"".join(replace(message, magic=magic).build() for message in messages)
    if not messages:
        raise ValueError("a wrapper around nothing")
    first, last = messages[0].offset, messages[-1].offset
    inner = b"".join(replace(m, magic=magic, offset=m.offset - first if magic else m.offset).build() for m in messages)
    newest = max(message.timestamp for message in messages)
    return Message(last, magic, codec, newest, None, compress(codec, inner)).build()


# ---------------------------------------------------------------- compression


def compress(codec: int, data: bytes) -> bytes:
    return next(iter(framings(codec, data).values()))


def framings(codec: int, data: bytes) -> dict[str, bytes]:
    """The ways in which these bytes may be framed; the first is the one Kafka uses."""
    if codec == GZIP:
        return dict(_gzips(data))
    if codec == SNAPPY:
        return dict(_snappies(data))
    if codec == LZ4:
        return dict(_lz4s(data))
    if codec == ZSTD:
        return dict(_zstds(data))
    return {"none": data}


def _gzips(data: bytes) -> Iterator[tuple[str, bytes]]:
    half = len(data) // 2
    plain = gzip.compress(data, mtime=0)
    raw, trailer = plain[10:-8], plain[-8:]
    yield "one member", plain
    yield "two members", gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)
    yield "empty member behind", plain + gzip.compress(b"", mtime=0)
    yield "with a name", plain[:3] + b"\x08" + plain[4:10] + b"name\0" + raw + trailer
    yield "extra, name, comment", plain[:3] + b"\x1c" + plain[4:10] + b"\3\0abcn\0c\0" + raw + trailer
    header = plain[:3] + b"\x0a" + plain[4:10] + b"n\0"
    yield "header crc", header + struct.pack("<H", zlib.crc32(header) & 0xFFFF) + raw + trailer
    yield "stored", gzip.compress(data, compresslevel=0, mtime=0)
    yield "garbage behind", plain + b"garbage behind the member"
    yield "zeros behind", plain + bytes(12)
    yield "wrong crc", plain[:-8] + bytes(4) + plain[-4:]
    yield "wrong size", plain[:-4] + b"\1\2\3\4"
    yield "no trailer", plain[:-8]
    yield "second member cut", plain + plain[: len(plain) // 2]
    yield "zlib instead", zlib.compress(data)


def _snappies(data: bytes) -> Iterator[tuple[str, bytes]]:
    def chunk(piece: bytes) -> bytes:
        block = bytes(snappy.compress(piece))
        return struct.pack(">i", len(block)) + block

    half = len(data) // 2
    yield "xerial", XERIAL + b"".join(chunk(data[at : at + 32768]) for at in range(0, len(data), 32768))
    yield "raw", snappy.compress(data)
    yield "xerial, two chunks", XERIAL + chunk(data[:half]) + chunk(data[half:])
    yield "xerial, header again", XERIAL + chunk(data[:half]) + XERIAL + chunk(data[half:])
    yield "xerial, empty chunk", XERIAL + chunk(data) + chunk(b"")
    yield "xerial, newer version", XERIAL[:8] + struct.pack(">ii", 2, 1) + chunk(data)
    yield "xerial, incompatible", XERIAL[:8] + struct.pack(">ii", 2, 2) + chunk(data)
    yield "xerial, version 0", XERIAL[:8] + struct.pack(">ii", 0, 0) + chunk(data)
    yield "xerial, header only", XERIAL
    yield "xerial, half a length", XERIAL + chunk(data) + b"\0\0"
    yield "xerial, negative length", XERIAL + chunk(data) + struct.pack(">i", -5)
    yield "xerial, length too large", XERIAL + chunk(data[:half]) + struct.pack(">i", 1 << 20) + b"abc"
    yield "xerial, zero length", XERIAL + chunk(data[:half]) + bytes(4) + chunk(data[half:])
    yield "xerial, garbage chunk", XERIAL + chunk(data) + struct.pack(">i", 4) + b"\xff\xff\xff\xff"
    yield "raw, garbage behind", snappy.compress(data) + b"garbage"
    yield "raw, huge size", unsigned_varint(1 << 30) + snappy.compress(data)[1:]


def _lz4s(data: bytes) -> Iterator[tuple[str, bytes]]:
    def frame(piece: bytes, **options: object) -> bytes:
        options = {"block_linked": False, "block_size": lz4.frame.BLOCKSIZE_MAX64KB, "store_size": False, **options}
        return bytes(lz4.frame.compress(piece, **options))

    half = len(data) // 2
    plain = frame(data)
    yield "frame", plain
    yield "two frames", frame(data[:half]) + frame(data[half:])
    yield "content size", frame(data, store_size=True)
    yield "content checksum", frame(data, content_checksum=True)
    yield "block checksum", frame(data, block_checksum=True)
    yield "linked blocks", frame(data, block_linked=True)
    yield "256 KB blocks", frame(data, block_size=lz4.frame.BLOCKSIZE_MAX256KB)
    yield (
        "4 MB blocks, all checksums",
        frame(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_checksum=True, content_checksum=True),
    )
    yield "stored block", plain[:7] + struct.pack("<I", len(data) | 1 << 31) + data + bytes(4)
    yield (
        "stored, two blocks",
        plain[:7]
        + b"".join(struct.pack("<I", len(d) | 1 << 31) + d for d in (data[:half], data[half:]) if d)
        + bytes(4),
    )
    yield "no end mark", plain[:-4]
    yield "half an end mark", plain[:-2]
    yield "garbage behind", plain + b"garbage"
    yield "empty stored block", plain[:7] + struct.pack("<I", 1 << 31) + plain[7:]
    yield "wrong header checksum", plain[:6] + bytes([plain[6] ^ 1]) + plain[7:]
    yield "header checksum of 0.8", plain[:6] + b"\x1a" + plain[7:]
    yield "wrong block checksum", _flip_last(frame(data, block_checksum=True), 6)
    yield "wrong content checksum", _flip_last(frame(data, content_checksum=True), 2)
    yield "version 2", plain[:4] + b"\xa0" + plain[5:]
    yield "reserved flag", plain[:4] + b"\x62" + plain[5:]
    yield "dictionary flag", plain[:4] + b"\x61" + plain[5:]
    yield "reserved block size", plain[:5] + b"\x30" + plain[6:]
    yield "reserved bits beside the block size", plain[:5] + b"\x41" + plain[6:]
    yield "block larger than said", plain[:7] + struct.pack("<I", 70000) + bytes(70000) + bytes(4)
    yield "block of garbage", plain[:7] + struct.pack("<I", 9) + b"\xff" * 9 + bytes(4)
    yield "header only", plain[:7]
    yield "legacy frame", b"\x02\x21\x4c\x18" + plain[7:]
    yield "skippable frame before", b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc" + plain


def _flip_last(data: bytes, back: int) -> bytes:
    return put(data, len(data) - back, bytes([data[-back] ^ 1]))


def _zstds(data: bytes) -> Iterator[tuple[str, bytes]]:
    def frame(piece: bytes, size: bool = False, checksum: bool = False) -> bytes:
        return zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum).compress(piece)

    half = len(data) // 2
    plain = frame(data)
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
    yield "frame", plain
    yield "two frames", frame(data[:half]) + frame(data[half:])
    yield "content size", frame(data, size=True)
    yield "checksum", frame(data, checksum=True)
    yield "wrong checksum", _flip_last(frame(data, checksum=True), 2)
    yield "skippable frame before", skippable + plain
    yield "skippable frame behind", plain + skippable
    yield "empty frame behind", plain + frame(b"")
    yield "garbage behind", plain + b"garbage"
    yield "zeros behind", plain + bytes(5)
    yield "cut", plain[: len(plain) - 3]
    yield (
        "wrong content size",
        _flip_last(frame(data, size=True), len(frame(data, size=True)) - 5),
    )
    yield "reserved bit", plain[:4] + bytes([plain[4] | 8]) + plain[5:]
    yield "huge window", plain[:5] + b"\xf8" + plain[6:]
    yield "magic only", plain[:4]


def decompress(codec: int, data: bytes, magic: int = 2) -> bytes:
    """The bytes that Kafka's own framing holds. Raises ValueError for anything out of the ordinary."""
    try:
        if codec == NONE:
            return data
        if codec == GZIP:
            return _gunzip(data)
        if codec == SNAPPY:
            return _unsnappy(data)
        if codec == LZ4:
            if data[7:11] == EMPTY_STORED:  # to Kafka this is the end
                raise ValueError("nothing in the frame")
            is_old = magic == 0 and data[4:6] == b"\x60\x40"  # 0.8 and 0.9 wrote a wrong header checksum
            return bytes(lz4.frame.decompress(put(data, 6, b"\x82") if is_old else data))
        if codec == ZSTD:
            return _whole(frame := zstandard.ZstdDecompressor().decompressobj(), frame.decompress(data))
    except (zlib.error, RuntimeError, zstandard.ZstdError, snappy.UncompressError) as problem:
        raise ValueError(str(problem)) from problem
    raise ValueError(f"codec {codec}")


def _whole(stream: Any, data: bytes, *, has_end: bool = True) -> bytes:
    """What a stream gave, if it has come to its end, and (has_end) nothing is behind that."""
    if not stream.eof or (has_end and stream.unused_data):
        raise ValueError("no whole stream, or bytes behind it")
    return data


def _gunzip(data: bytes) -> bytes:
    """All members. Java takes what is behind one, and is no header of another, for the end."""
    out = b""
    while not out or (data[:3] == b"\x1f\x8b\x08" and len(data) >= GZIP_HEADER):
        member = zlib.decompressobj(31)
        out += _whole(member, member.decompress(data, EXPANDED_LIMIT), has_end=False)
        data = member.unused_data
        if not out:
            break
    return out


def _unsnappy(data: bytes) -> bytes:
    if not data.startswith(XERIAL[:8]):
        return bytes(snappy.uncompress(data))
    chunks, out = _Cursor(data[16:]), b""
    while chunks.at < len(chunks.data):
        out += snappy.uncompress(chunks.take(int.from_bytes(chunks.take(4), "big")))
    return out
