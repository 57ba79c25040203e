"""Logs of sound entries that ask the most of a kernel: the most text a byte, the most records or headers a byte.

`python worst_cases.py` takes them through the kernels into outputs of exactly the size that each kernel asks for, flush
against a page that may not be touched.
"""

from __future__ import annotations

import random

from guard_pages import Guarded, entry_body

from klogtool import kernels
from klogtool.format import codecs, framing
from klogtool.format.batch import CODEC_NAMES, CONTROL_BIT, TIMESTAMP_TYPE_BIT, build_raw_batch
from klogtool.format.message import build_message
from klogtool.format.varint import build_zigzag

LONG_MIN, LONG_MAX, INT_MIN, INT_MAX = -(2**63), 2**63 - 1, -(2**31), 2**31 - 1
FILE = b'"' + b"x" * 300 + b'"'
NULL, EMPTY = b"\1", b"\0"


def sized(data: bytes) -> bytes:
    return build_zigzag(len(data)) + data


def record(key: bytes = NULL, value: bytes = NULL, headers: bytes = EMPTY, *, deltas: bytes = b"\0\0") -> bytes:
    """A record of fields that are written out already, lengths first."""
    return sized(b"\0" + deltas + key + value + headers)


def batch(records: list[bytes], *, codec: str = "none", attributes: int = 0, **fields: int) -> bytes:
    """A batch whose header fields take as many digits as they can."""
    fields = {
        "base_offset": LONG_MIN + 1,
        "last_offset_delta": INT_MIN,
        "base_timestamp": LONG_MIN + 1,
        "max_timestamp": LONG_MIN + 1,
        "producer_id": LONG_MIN,
        "producer_epoch": -(2**15),
        "base_sequence": INT_MAX,
        "partition_leader_epoch": INT_MIN,
        "records_count": len(records),
    } | fields
    body = b"".join(records)
    return build_raw_batch(
        codecs.compress(codec, body, magic=2),
        attributes=CODEC_NAMES.index(codec) | attributes,
        **fields,
    )


def headers(pair: bytes, count: int) -> bytes:
    return build_zigzag(count) + count * pair


def wrapper(inner: list[bytes], codec: str, *, magic: int = 1, attributes: int = 0) -> bytes:
    value = codecs.compress(codec, b"".join(inner), magic=magic)
    return build_message(
        LONG_MAX,
        None,
        value,
        magic=magic,
        timestamp=LONG_MIN if magic else -1,
        attributes=CODEC_NAMES.index(codec) | attributes,
    )


MOST_DELTAS = b"\xff" * 9 + b"\1" + b"\xff" * 4 + b"\x0f"  # the smallest long, the smallest int
OVERLONG_ZERO = b"\x80" * 4 + b"\0"
HEADER_PAIRS = {
    "empty": EMPTY + EMPTY,
    "null": EMPTY + NULL,
    "control": sized(b"\1") + sized(b"\1"),
    "control-key": sized(b"\x1f" * 50) + NULL,
    "one-odd-byte": EMPTY + sized(b"\xff"),
    "control-then-odd": EMPTY + sized(b"\1" * 60 + b"\xff"),
    "odd-key": sized(b"\xff" * 60) + EMPTY,
    "odd-short-key": sized(b"\xff") + NULL,
    "overlong": OVERLONG_ZERO + OVERLONG_ZERO,
}
FIELDS = {
    "null": NULL,
    "empty": EMPTY,
    "control": sized(b"\1" * 200),
    "odd": sized(b"\xff" * 200),
    "control-then-odd": sized(b"\1" * 199 + b"\xff"),
    "one-odd-byte": sized(b"\x80"),
    "half-characters": sized(b"\xf0\x9f" * 99),
    "surrogates": sized(b"\xed\xa0\x80" * 66),
    "quotes": sized(b'"\\' * 101),
}
MARKER = record(sized(b"\0\0\0\1"), sized(b"\0\0\x80\0\0\0"), deltas=MOST_DELTAS)


def _batches() -> dict[str, bytes]:
    made = {f"headers {name}": batch([record(headers=headers(pair, 300))]) for name, pair in HEADER_PAIRS.items()}
    made |= {f"field {name}": batch([record(data, data)] * 3) for name, data in FIELDS.items()}
    for codec in CODEC_NAMES:
        made[f"smallest records, {codec}"] = batch([record()] * 3000, codec=codec)
        made[f"empty headers, {codec}"] = batch([record(headers=headers(EMPTY * 2, 5000))] * 2, codec=codec)
        made[f"one value, {codec}"] = batch([record(value=sized(bytes(150_000)))], codec=codec)
    return made | {
        "widest": batch([record(deltas=MOST_DELTAS)] * 5, attributes=TIMESTAMP_TYPE_BIT | 0x50),
        "markers": batch([MARKER] * 4, attributes=CONTROL_BIT | 0x50),
        "a record too many": batch([record()] * 9, records_count=10),
        "a record too few": batch([record()] * 9, records_count=8),
        "far too many": batch([record()] * 9, records_count=INT_MAX),
        "no records": batch([]),
    }


def _messages() -> dict[str, bytes]:
    made = {}
    smallest = {magic: build_message(LONG_MIN, None, None, magic=magic) for magic in (0, 1)}
    for magic in (0, 1):
        made[f"message {magic}"] = smallest[magic]
        for name, data in (("control", b"\1" * 300), ("odd", b"\1" * 299 + b"\xff"), ("empty", b"")):
            made[f"message {magic} {name}"] = build_message(LONG_MIN, data, data, magic=magic)
        for codec in ("gzip", "snappy", "lz4"):
            made[f"inner {magic}, {codec}"] = wrapper([smallest[magic]] * 1500, codec, magic=magic)
    return made | {"inner, appended": wrapper([smallest[1]] * 9, "lz4", attributes=TIMESTAMP_TYPE_BIT)}


def worst_cases() -> dict[str, bytes]:
    """Name -> log of one entry, some twice, so that one begins where another ends."""
    made = _batches() | _messages()
    return made | {f"{name}, twice": 2 * data for name, data in made.items() if len(data) < 4000}


def drawn_case(rng: random.Random) -> bytes:
    """An entry of one of these kinds, of random sizes and counts, or a few of them."""
    return b"".join(
        rng.choice((_drawn_batch, _drawn_batch, _drawn_messages))(rng) for _ in range(rng.choice((1, 1, 3)))
    )


def _drawn_field(rng: random.Random) -> bytes:
    unit = rng.choice((b"\1", b"\xff", b'"', b"a", b"\0", b"\xed\xa0\x80", b"\xf0\x9f", b"\xc3\xa9"))
    data = unit * rng.choice((0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 300)) + rng.choice((b"", b"\xff", b"\x80", b"z"))
    return rng.choice((NULL, EMPTY, sized(data), sized(data), OVERLONG_ZERO))


def _drawn_batch(rng: random.Random) -> bytes:
    pair = rng.choice((*HEADER_PAIRS.values(), sized(_drawn_field(rng)) + _drawn_field(rng)))
    counted = headers(pair, rng.choice((0, 0, 1, 2, 100)))
    deltas = rng.choice((b"\0\0", MOST_DELTAS))
    one = rng.choice((record(_drawn_field(rng), _drawn_field(rng), counted, deltas=deltas), record(), MARKER))
    many = [one] * rng.choice((1, 2, 9, 300))
    count = len(many) + rng.choice((0, 0, 0, 0, 1, -1))
    attributes = rng.choice((0, 0, TIMESTAMP_TYPE_BIT, CONTROL_BIT, 0x78))
    if rng.random() < 0.1:
        count = rng.choice((INT_MAX, INT_MIN, -1, sum(map(len, many)) // 7, sum(map(len, many)) // 7 + 1))
    return batch(many, codec=rng.choice(CODEC_NAMES), attributes=attributes, records_count=count)


def _drawn_messages(rng: random.Random) -> bytes:
    magic = rng.choice((0, 1))
    fields = [rng.choice((None, b"", b"\1" * 40, b"\xff" * 41, b"k")) for _ in range(2)]
    inner = [build_message(rng.choice((LONG_MIN, 0, LONG_MAX)), *fields, magic=magic)] * rng.choice((1, 2, 400))
    codec = rng.choice(("none", "gzip", "snappy", "lz4"))
    return b"".join(inner) if codec == "none" else wrapper(inner, codec, magic=rng.choice((magic, magic, 1 - magic)))


# ---------------------------------------------------------------- into outputs of exactly the right size

_rooms: dict[tuple[str, int], Guarded] = {}


def guarded(name: str, size: int) -> Guarded:
    """Pages for `size` bytes; those of a name are used again, as far as they suffice."""
    found = next((room for (owner, _), room in _rooms.items() if owner == name and room.room >= size), None)
    if found is None:
        found = _rooms[name, size] = Guarded(size or 1)
    return found


def try_dump(data: bytes, flags: int, room: int = 1) -> tuple[int, bytes]:
    """Room after room, each as large as the kernel said. Returns (why it stopped, the text)."""
    native, log = kernels.native, guarded("log", len(data)).holding(data)
    state, body, at, out, pairs = native.DumpState(), None, 0, b"", 1
    for _ in range(100):
        gaps = guarded("gaps", 16 * pairs).last(16 * pairs).cast("q")
        view = guarded("out", room).last(room)
        given = None if body is None else guarded("body", len(body)).holding(body)
        at, written, why = native.dump(log, at, len(data), 0, flags, state, gaps, view, given, None, FILE)
        out += bytes(view[:written])
        state.gap_count, body = 0, body if why == native.FULL and not written else None
        if why == native.FULL:
            room, pairs = max(1, state.needed), 8192
        elif why == native.BODY:
            body = entry_body(data, at)
            assert body is not None
        else:
            return why, out
    raise AssertionError("no end to it")


SIZES = {
    "key.present": 0, "value.present": 0, "timestamp.present": 0, "headers.present": 0, "headers.offsets": 4,
    "key.offsets": 4, "value.offsets": 4, "_batch_base_offset.present": 0, "_is_control": 0, "_is_transactional": 0,
    "_crc_ok": 0, "offset": 8, "timestamp": 8, "timestampType": 4, "_position": 8, "_batch_base_offset": 8,
    "_producer_id": 8, "_producer_epoch": 2, "_sequence": 4, "_compression": 1, "_partition_leader_epoch": 4,
}  # fmt: skip
"""Column buffers and their bytes a row, 0 for a bit; offsets have one more."""
HEADER_SIZES = {"headers.value.present": 0, "headers.key.offsets": 4, "headers.value.offsets": 4}
DATA = ("key.data", "value.data", "headers.key.data", "headers.value.data")


def column_buffers(rows: int, header_count: int, data_bytes: int, header_bytes: int) -> dict[str, memoryview]:
    sizes = {}
    for widths, count in ((SIZES, rows), (HEADER_SIZES, header_count)):
        for name, width in widths.items():
            sizes[name] = (count + name.endswith(".offsets")) * width if width else (count + 7) // 8
    sizes |= {name: header_bytes if "headers" in name else data_bytes for name in DATA}
    return {name: guarded(name, size).last(size) for name, size in sizes.items()}


def try_columns(data: bytes, rows: int) -> tuple[int, int]:
    """Buffers after buffers, each as large as the kernel said. Returns (why it stopped, rows in all)."""
    native, log = kernels.native, guarded("log", len(data)).holding(data)
    state, body, at, total, needed = native.ColumnsState(), None, 0, 0, (0, 0, 0)
    for _ in range(20_000):
        columns = native.Columns(rows, needed[1], column_buffers(rows, needed[1], needed[0], needed[2]))
        given = None if body is None else guarded("body", len(body)).holding(body)
        before = at
        at, count, why = native.columns(log, at, len(data), 0, columns, state, given)
        total, body = total + count, body if at == before else None
        if why == native.FULL:
            needed = (max(0, state.data_needed), state.headers_needed, state.header_bytes_needed)
        elif why == native.BODY and body is None:
            body = entry_body(data, at)
            assert body is not None
        else:
            return why, total
    raise AssertionError("no end to it")


def try_all(data: bytes) -> None:
    native = kernels.native
    for flags in (0, native.DEEP, native.DEEP | native.PRINT_DATA, 7, native.JSON, native.JSON | native.DEEP):
        exact = try_dump(data, flags)
        assert exact == try_dump(data, flags, 1 << 20)
    for rows in (1, 9, 1000):
        if rows > 1 or len(data) < 2000:
            try_columns(data, rows)


if __name__ == "__main__":
    for name, data in worst_cases().items():
        print(name, flush=True)
        assert isinstance(framing.find_frame(data, 0, len(data)), framing.Frame)
        try_all(data)
