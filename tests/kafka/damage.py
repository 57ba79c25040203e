"""Named kinds of damage to the files of a log dir. Each changes the files and says in words what is wrong now.

A kind that does not fit (no such file, nothing to take apart) raises Unfit, and another is drawn. Not all are
damage: some write what a broker of another version, or another client, could have written as well.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .layout import (
    BATCH,
    CODECS,
    NONE,
    RECORDS_START,
    SMALLEST_ENTRY,
    ZSTD,
    Entry,
    Message,
    Record,
    body_of,
    build_record,
    build_records,
    compress,
    crc32c,
    decompress,
    framings,
    inner_messages,
    longer,
    parse_message,
    parse_records,
    put,
    sealed,
    unsigned_varint,
    varint,
    walk,
    with_body,
    with_field,
    wrapped,
)

T = TypeVar("T")


class Unfit(Exception):
    """This kind of damage cannot be done to these files."""


@dataclass
class Scene:
    """The files (relative path -> bytes) that a kind of damage changes, and its source of chance."""

    files: dict[str, bytes]
    rng: random.Random

    def one(self, *suffixes: str, filled: bool = True) -> str:
        """A file with one of these suffixes, not empty unless asked for."""
        names = sorted(n for n, data in self.files.items() if n.endswith(suffixes) and (data or not filled))
        return self.pick(names)

    def pick(self, items: Sequence[T]) -> T:
        if not items:
            raise Unfit
        return self.rng.choice(items)

    def entry(self, fits: Callable[[Entry], bool] = lambda _: True) -> tuple[str, Entry]:
        """A log (or KRaft snapshot), and a batch or message in it."""
        name = self.one(".log", ".checkpoint")
        return name, self.pick([entry for entry in walk(self.files[name]) if fits(entry)])

    def opened(self) -> tuple[str, Entry, list[Record]]:
        """A batch of magic 2 whose records can be taken apart, with at least one record."""
        name, batch = self.entry(lambda entry: entry.magic == 2 and entry.value("records_count") > 0)
        records = parse_records(body_of(batch))
        if not records:
            raise Unfit
        return name, batch, records

    def swap_in(self, name: str, entry: Entry, new: bytes) -> None:
        data = self.files[name]
        self.files[name] = data[: entry.position] + new + data[entry.end :]

    def maybe_sealed(self, entry: bytes, chance: float = 0.6) -> tuple[bytes, str]:
        """The entry, perhaps with its CRC made right again, and a word for the story."""
        if self.rng.random() < chance:
            return sealed(entry, length=False), "its CRC right"
        return entry, "its CRC wrong"

    def odd_number(self, size: int, around: int = 0) -> int:
        """A number at or past the edge of what `size` bytes hold or a reader expects."""
        top = 1 << 8 * size - 1
        near = [around - 1, around + 1, around + self.rng.randrange(2, 40), around * 2]
        return self.pick([0, 1, -1, -2, -5, top - 1, -top, top // 2, 255, *near, self.rng.randrange(-top, top)])


Kind = Callable[[Scene], str]
KINDS: dict[str, Kind] = {}
RARE: set[str] = set()


def kind(name: str, *, rare: bool = False) -> Callable[[Kind], Kind]:
    def add(function: Kind) -> Kind:
        KINDS[name] = function
        if rare:
            RARE.add(name)
        return function

    return add


def harm(files: dict[str, bytes], rng: random.Random, only: str | None = None) -> tuple[str, str]:
    """Does one kind of damage, drawn from all (or those whose name contains `only`): its name, and its story."""
    names = [name for name in KINDS if only is None or only in name]
    weights = [0.2 if name in RARE else 1.0 for name in names]
    for _ in range(60):
        name = rng.choices(names, weights)[0]
        try:
            story = KINDS[name](Scene(files, rng))
        except (Unfit, ValueError, LookupError, struct.error):
            continue
        for folder in [other for other in files if other.endswith("/") and other[:-1] in files]:
            del files[folder]  # an earlier damage's, and now a file has its name
        return name, story
    return "nothing", "no damage of this kind fits"


# ---------------------------------------------------------------- bits and fields of an entry


@kind("flip-bit")
def flip_bit(s: Scene) -> str:
    name = s.one(".log", ".checkpoint")
    at, bit = s.rng.randrange(len(s.files[name])), s.rng.randrange(8)
    s.files[name] = put(s.files[name], at, bytes([s.files[name][at] ^ 1 << bit]))
    return f"bit {bit} of byte {at} of {name} is flipped"


@kind("flip-header-bit")
def flip_header_bit(s: Scene) -> str:
    name, entry = s.entry()
    field = s.pick(sorted(entry.fields))
    at, size = entry.fields[field]
    bit = s.rng.randrange(8 * size)
    value = int.from_bytes(entry.data[at : at + size], "big") ^ 1 << bit
    new, crc = s.maybe_sealed(with_field(entry.data, entry.fields, field, value))
    s.swap_in(name, entry, new)
    return f"bit {bit} of {field} is flipped in the entry at {entry.position} of {name}, {crc}"


@kind("header-field")
def header_field(s: Scene) -> str:
    name, entry = s.entry()
    field = s.pick(sorted(entry.fields))
    value = s.odd_number(entry.fields[field][1], entry.value(field))
    new, crc = s.maybe_sealed(with_field(entry.data, entry.fields, field, value), 0.8)
    s.swap_in(name, entry, new)
    return f"{field} of the entry at {entry.position} of {name} is {value}, {crc}"


@kind("attribute-bit")
def attribute_bit(s: Scene) -> str:
    name, entry = s.entry()
    bit = s.rng.randrange(16 if entry.magic >= 2 else 8)
    new = with_field(entry.data, entry.fields, "attributes", entry.value("attributes") ^ 1 << bit)
    s.swap_in(name, entry, sealed(new))
    return f"bit {bit} of the attributes of the entry at {entry.position} of {name} is flipped, its CRC right"


@kind("other-codec")
def other_codec(s: Scene) -> str:
    name, entry = s.entry()
    codec = s.pick([c for c in range(8) if c != entry.codec])
    new = with_field(entry.data, entry.fields, "attributes", entry.value("attributes") & ~7 | codec)
    s.swap_in(name, entry, sealed(new))
    return f"the codec of the entry at {entry.position} of {name} is {codec} instead of {entry.codec}, its CRC right"


@kind("other-magic")
def other_magic(s: Scene) -> str:
    name, entry = s.entry()
    magic = s.pick([m for m in (0, 1, 2, 3, 4, 127, 128, 255) if m != entry.magic])
    new = put(entry.data, 16, bytes([magic]))
    told = "its CRC as it was"
    if s.rng.random() < 0.5 and len(new) >= RECORDS_START:
        new, told = sealed(new), "its CRC right for that"
    s.swap_in(name, entry, new)
    return f"the magic of the entry at {entry.position} of {name} is {magic} instead of {entry.magic}, {told}"


@kind("length-field")
def length_field(s: Scene) -> str:
    name, entry = s.entry()
    real, rest = len(entry.data) - 12, len(s.files[name]) - entry.position - 12
    near = [
        0,
        1,
        2,
        5,
        13,
        14,
        15,
        21,
        22,
        26,
        48,
        49,
        50,
        real - 1,
        real + 1,
        real - 12,
        real + 12,
        rest,
        rest + 1,
        rest - 1,
    ]
    value = s.pick([*near, -1, -12, -(2**31), 2**31 - 1, 2**31 - 13, s.rng.randrange(14, real + 20)])
    s.swap_in(name, entry, with_field(entry.data, {"length": (8, 4)}, "length", value))
    return f"the length of the entry at {entry.position} of {name} is {value} instead of {real}"


@kind("records-count")
def records_count(s: Scene) -> str:
    name, batch = s.entry(lambda entry: entry.magic == 2)
    count = batch.value("records_count")
    value = s.pick([0, 1, -1, count - 1, count + 1, count * 2, 2**31 - 1, -(2**31), 100_000])
    s.swap_in(name, batch, sealed(with_field(batch.data, BATCH, "records_count", value)))
    return f"records_count of the batch at {batch.position} of {name} is {value} instead of {count}, its CRC right"


@kind("crc")
def wrong_crc(s: Scene) -> str:
    name, entry = s.entry()
    value = s.pick([0, -1, s.rng.randrange(1 << 32), entry.value("crc") ^ 1])
    s.swap_in(name, entry, with_field(entry.data, entry.fields, "crc", value))
    return f"the CRC of the entry at {entry.position} of {name} is {value & 0xFFFFFFFF}"


@kind("body-bytes")
def body_bytes(s: Scene) -> str:
    name, entry = s.entry()
    start = RECORDS_START if entry.magic >= 2 else 18
    if len(entry.data) <= start:
        raise Unfit
    at, count = s.rng.randrange(start, len(entry.data)), s.pick([1, 1, 1, 2, 8])
    new = put(entry.data, at, s.rng.randbytes(count)[: len(entry.data) - at])
    new, crc = s.maybe_sealed(new, 0.9)
    s.swap_in(name, entry, new)
    return f"{count} bytes from {at} on in the entry at {entry.position} of {name} are others, {crc}"


@kind("expanded-byte")
def expanded_byte(s: Scene) -> str:
    name, batch, _ = s.opened()
    body = body_of(batch)
    at = s.rng.randrange(len(body))
    changed = put(body, at, s.rng.randbytes(s.pick([1, 1, 2, 5]))[: len(body) - at])
    s.swap_in(name, batch, with_body(batch, changed))
    return (
        f"bytes from {at} on in the records (before compression) of the batch at {batch.position} of {name} are others"
    )


@kind("body-longer-or-shorter")
def body_size(s: Scene) -> str:
    name, batch, _ = s.opened()
    body = body_of(batch)
    at, count = s.rng.randrange(len(body) + 1), s.pick([1, 2, 7, 30])
    if s.rng.random() < 0.5:
        changed, what = body[:at] + s.pick([bytes(count), s.rng.randbytes(count)]) + body[at:], "more"
    else:
        changed, what = body[:at] + body[at + count :], "fewer"
    s.swap_in(name, batch, with_body(batch, changed))
    return (
        f"{count} bytes {what} at {at} of the records of the batch at {batch.position} of {name}, length and CRC right"
    )


# ---------------------------------------------------------------- the shape of a .log


@kind("torn-tail")
def torn_tail(s: Scene) -> str:
    name, entry = s.entry()
    size = len(entry.data)
    left = min(
        size, s.pick([0, 1, 8, 11, 12, 13, 16, 17, 18, 19, 25, 26, 30, 60, 61, 62, size - 1, s.rng.randrange(size)])
    )
    s.files[name] = s.files[name][: entry.position + left]
    return f"{name} ends {left} bytes into the entry at {entry.position}"


@kind("tail-of-zeros")
def zero_tail(s: Scene) -> str:
    name, count = (
        s.one(".log", ".checkpoint", filled=False),
        s.pick([1, 5, 11, 12, 13, 16, 17, 18, 19, 61, 100, 700, 4096]),
    )
    s.files[name] += bytes(count)
    return f"{count} zeros behind the end of {name}"


@kind("tail-of-garbage")
def garbage_tail(s: Scene) -> str:
    name, count = s.one(".log", ".checkpoint", filled=False), s.pick([1, 12, 17, 18, 19, 64, 300])
    s.files[name] += s.pick([s.rng.randbytes(count), b"\xff" * count, b"A" * count])
    return f"{count} foreign bytes behind the end of {name}"


@kind("zeroed-range")
def zeroed_range(s: Scene) -> str:
    name = s.one(".log", ".checkpoint")
    at, count = s.rng.randrange(len(s.files[name])), s.pick([1, 4, 16, 128, 512, 4096])
    count = min(count, len(s.files[name]) - at)
    s.files[name] = put(s.files[name], at, bytes(count))
    return f"{count} bytes from {at} on in {name} are zero"


@kind("bytes-inserted")
def bytes_inserted(s: Scene) -> str:
    name, count = s.one(".log", ".checkpoint"), s.pick([1, 2, 8, 12, 17, 61, 200])
    data, new = s.files[name], s.rng.randbytes(count)
    at = s.pick([0, s.rng.randrange(len(data)), s.entry()[1].position])
    s.files[name] = data[:at] + new + data[at:]
    return f"{count} foreign bytes at {at} of {name}"


@kind("bytes-missing")
def bytes_missing(s: Scene) -> str:
    name, count = s.one(".log", ".checkpoint"), s.pick([1, 2, 8, 12, 61, 200])
    at = s.rng.randrange(len(s.files[name]))
    s.files[name] = s.files[name][:at] + s.files[name][at + count :]
    return f"{count} bytes at {at} of {name} are missing"


@kind("entries-rearranged")
def rearranged(s: Scene) -> str:
    name = s.one(".log", ".checkpoint")
    pieces = [entry.data for entry in walk(s.files[name])]
    if len(pieces) < 2:
        raise Unfit
    first, second = sorted(s.rng.sample(range(len(pieces)), 2))
    how = s.pick(["swapped", "doubled", "dropped", "reversed"])
    if how == "swapped":
        pieces[first], pieces[second] = pieces[second], pieces[first]
    elif how == "doubled":
        pieces.insert(second, pieces[first])
    elif how == "dropped":
        del pieces[first]
    else:
        pieces.reverse()
    s.files[name] = b"".join(pieces)
    return f"entries of {name} are {how} ({first} and {second})"


@kind("entries-of-another-log", rare=True)
def foreign_entries(s: Scene) -> str:
    name, other = s.one(".log", filled=False), s.one(".log", ".checkpoint")
    s.files[name] = s.pick([s.files[other], s.files[name] + s.files[other], s.files[other] + s.files[name]])
    return f"{name} holds the bytes of {other}"


@kind("emptied-batch")
def emptied(s: Scene) -> str:
    name, batch = s.entry(lambda entry: entry.magic == 2)
    count = s.pick([0, 0, 0, 1, 3])
    header = with_field(batch.data[:RECORDS_START], BATCH, "records_count", count)
    if s.rng.random() < 0.5:
        header = with_field(header, BATCH, "attributes", batch.value("attributes") & ~7)
    s.swap_in(name, batch, sealed(header))
    return f"the batch at {batch.position} of {name} is only a header that counts {count} records"


@kind("entry-cut-short")
def cut_short(s: Scene) -> str:
    name, entry = s.entry()
    size = s.pick(
        [SMALLEST_ENTRY, 27, 34, 40, 60, 61, 62, 65, len(entry.data) - 1, s.rng.randrange(26, len(entry.data) + 1)]
    )
    new = entry.data[: max(26, size)]
    new, crc = (
        (sealed(new), "right") if s.rng.random() < 0.8 else (put(new, 8, struct.pack(">i", len(new) - 12)), "wrong")
    )
    s.swap_in(name, entry, new)
    return f"the entry at {entry.position} of {name} is cut to {len(new)} bytes, its length says so, its CRC is {crc}"


@kind("bytes-behind-the-records")
def behind_records(s: Scene) -> str:
    name, entry = s.entry()
    s.swap_in(name, entry, sealed(entry.data + s.rng.randbytes(s.pick([1, 2, 6, 40]))))
    return f"bytes behind the records, inside the entry at {entry.position} of {name}, length and CRC right"


@kind("time-and-producer")
def time_and_producer(s: Scene) -> str:
    name, batch = s.entry(lambda entry: entry.magic == 2)
    new = batch.data
    edges = {
        "base_timestamp": [-1, 0, -(2**63), 2**63 - 1, 10**18],
        "max_timestamp": [-1, -2, 2**63 - 1],
        "base_sequence": [-1, -2, 0, 2**31 - 1, 2**31 - 2, -(2**31)],
        "producer_id": [-1, -2, 0, 2**63 - 1],
        "producer_epoch": [-1, 0, 32767, -32768],
        "last_offset_delta": [-1, 0, 2**31 - 1, -(2**31)],
        "base_offset": [-1, 0, -(2**63), 2**63 - 1, 2**31, 2**32 + 5],
        "partition_leader_epoch": [-1, -2, 2**31 - 1],
    }
    for field in s.rng.sample(sorted(edges), s.rng.randint(1, 3)):
        new = with_field(new, BATCH, field, s.pick(edges[field]))
    attributes = batch.value("attributes") ^ s.pick([0, 0, 8, 16, 64, 80])
    s.swap_in(name, batch, sealed(with_field(new, BATCH, "attributes", attributes)))
    return (
        f"times, offsets and producer fields at their edges in the batch at {batch.position} of {name}, its CRC right"
    )


# ---------------------------------------------------------------- fields of a record


@kind("record-field")
def record_field(s: Scene) -> str:
    name, batch, records = s.opened()
    number = s.rng.randrange(len(records))
    pieces = records[number].pieces()
    where = s.pick(
        [i for i, (field, _) in enumerate(pieces) if field not in ("key", "value", "header_key", "header_value")]
    )
    field, old = pieces[where]
    pieces[where] = (field, odd_varint(s, field, old))
    told_length = None if s.rng.random() < 0.8 else varint(s.odd_number(4, len(build_record(pieces))))
    built = [
        build_record(pieces, told_length) if i == number else build_record(r.pieces()) for i, r in enumerate(records)
    ]
    s.swap_in(name, batch, with_body(batch, b"".join(built)))
    length = "" if told_length is None else f" and its length is {told_length.hex()}"
    return f"{field} of record {number} of the batch at {batch.position} of {name} is {pieces[where][1].hex()}{length}"


def odd_varint(s: Scene, field: str, old: bytes) -> bytes:
    if field == "attributes":
        return s.rng.randbytes(1)
    bits = 64 if field == "timestamp_delta" else 32
    numbers = [0, 1, -1, -2, -5, 5, 63, 64, 127, 128, 1000, 1 << 20, (1 << bits - 1) - 1, -(1 << bits - 1)]
    return s.pick(
        [
            varint(s.pick(numbers), bits),
            varint(s.pick(numbers), bits),
            longer(old, s.rng.randint(1, 5)),
            longer(old, 10 - len(old)),
            b"\xff" * s.rng.randint(4, 12) + b"\x01",
            b"\xff" * s.pick([4, 9]) + s.rng.randbytes(1),
            b"\x80" * s.pick([4, 9]) + s.rng.randbytes(1),
            unsigned_varint(s.rng.randrange(1 << bits + 4)),
        ]
    )


@kind("record-length")
def record_length(s: Scene) -> str:
    name, batch, records = s.opened()
    number = s.rng.randrange(len(records))
    pieces = records[number].pieces()
    length = odd_varint(s, "length", varint(len(build_record(pieces)) - 1))
    built = [build_record(r.pieces(), length if i == number else None) for i, r in enumerate(records)]
    s.swap_in(name, batch, with_body(batch, b"".join(built)))
    return f"the length of record {number} of the batch at {batch.position} of {name} is {length.hex()}"


@kind("record-content")
def record_content(s: Scene) -> str:
    name, batch, records = s.opened()
    number = s.rng.randrange(len(records))
    old = records[number]
    texts = [
        None,
        b"",
        b"\xff\xfe",
        "ä€😀".encode(),
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xf0\x9f\x98",
        b"a\r\nb\tc",
        bytes(8),
        b"\xc0\x80\xe0\x80",
        s.rng.randbytes(9),
    ]
    headers = [
        (),
        ((b"", None),),
        ((b"k", b"v"), (b"k", b"")),
        (("ü,]".encode(), b"\0"),),
        ((b"\xff\xc3", None),),
        tuple((b"h%d" % i, b"x") for i in range(20)),
    ]
    new = s.pick(
        [
            replace(old, key=s.pick(texts)),
            replace(old, value=s.pick(texts)),
            replace(old, key=s.pick(texts), value=s.pick(texts)),
            replace(old, headers=s.pick(headers)),
            replace(old, value=s.rng.randbytes(20_000)),
            replace(old, offset_delta=s.odd_number(4, old.offset_delta)),
            replace(old, timestamp_delta=s.odd_number(8, old.timestamp_delta)),
        ]
    )
    records[number] = new
    s.swap_in(name, batch, with_body(batch, build_records(records)))
    return f"record {number} of the batch at {batch.position} of {name} has another key, value, headers, offset or time"


@kind("typed-content")
def typed_content(s: Scene) -> str:
    """Keys and values as internal topics and control batches have them: versions, counts and tags a little off."""
    name, batch, records = s.opened()
    for number in s.rng.sample(range(len(records)), min(len(records), s.rng.randint(1, 4))):
        old = records[number]
        if s.rng.random() < 0.3:
            records[number] = replace(old, key=a_little_off(s, old.key))
        else:
            records[number] = replace(old, value=a_little_off(s, old.value))
    s.swap_in(name, batch, with_body(batch, build_records(records)))
    return f"keys and values of the batch at {batch.position} of {name} are a little off"


@kind("any-record-type")
def any_record_type(s: Scene) -> str:
    """Keys and values of any type and version an internal topic might hold, their fields short and simple."""
    name, batch, records = s.opened()

    def fields(most: int) -> bytes:
        return bytes(s.rng.choices((0, 1, 2, 3, 65, 127, 255), (6, 9, 4, 1, 2, 0.2, 0.4), k=s.rng.randrange(most)))

    for number in range(len(records)):
        type_id, version = s.rng.randrange(-1, 33), s.rng.randrange(-1, 6)
        if s.rng.random() < 0.5:  # __cluster_metadata, __remote_log_metadata
            framed = b"\1" + unsigned_varint(max(0, type_id)) + unsigned_varint(max(0, version)) + fields(50)
            records[number] = replace(records[number], value=framed)
        else:  # the coordinators' topics
            key = struct.pack(">h", s.rng.randrange(-1, 20)) + fields(24)
            value = s.pick([None, struct.pack(">h", version) + fields(60), struct.pack(">h", version) + bytes(60)])
            records[number] = replace(records[number], key=key, value=value)
    s.swap_in(name, batch, with_body(batch, build_records(records)))
    return f"the records of the batch at {batch.position} of {name} are of other types"


def a_little_off(s: Scene, data: bytes | None) -> bytes | None:
    if not data:
        return s.pick([b"", None, bytes(2), s.rng.randbytes(3)])
    at, version = s.rng.randrange(len(data)), s.rng.randrange(-1, 12) & 0xFFFF
    return s.pick(
        [
            struct.pack(">H", version) + data[2:],
            put(data, 1, bytes([s.rng.randrange(30)])) if len(data) > 1 else data,
            put(data, min(2, len(data) - 1), bytes([s.rng.randrange(12)])),
            put(data, at, s.rng.randbytes(1)),
            put(data, at, bytes([data[at] + s.pick([1, 255]) & 255])),
            put(data, at, s.pick([b"\0", b"\xff", b"\x80", b"\x7f"])),
            data[:at],
            data[:at] + data[at + 1 :],
            data[:at] + s.rng.randbytes(1) + data[at:],
            data + s.pick([b"\0", b"\1\0\0", s.rng.randbytes(5)]),
            data[:-1] + b"\1" + unsigned_varint(s.rng.randrange(40)) + b"\2ab",  # an unknown tagged field
            put(data, at, b"\xff\xff\xff\xff\x0f"),
            None,
        ]
    )


@kind("control-batch")
def control_batch(s: Scene) -> str:
    name, batch, records = s.opened()
    number = s.rng.randrange(len(records))
    kind_id = s.pick([0, 1, 2, 3, 4, 5, 6, 7, 99, 0xFFFF])
    key = s.pick(
        [
            struct.pack(">HH", s.pick([0, 0, 0, 1, 0xFFFF]), kind_id),
            struct.pack(">HHH", 0, kind_id, 7),
            b"\0\0\0",
            b"",
            None,
        ]
    )
    old = records[number].value or b""
    uuid = s.rng.randbytes(16)
    values = {
        0: struct.pack(">hi", 0, s.odd_number(4)),
        1: struct.pack(">hi", s.pick([0, 1, -1, 5]), 7),
        2: s.pick(
            [
                struct.pack(">hi", 0, 3) + b"\2\0\0\0\1\0\1\0",
                struct.pack(">hi", 1, 3) + b"\2\0\0\0\1" + uuid + b"\0\2\0\0\0\1" + uuid + b"\0\0",
            ]
        ),
        3: struct.pack(">hq", 0, 1_600_000_000_000) + b"\0",
        4: struct.pack(">h", 0) + b"\0",
        5: struct.pack(">hh", 0, s.pick([0, 1, -1, 300])) + b"\0",
        6: struct.pack(">h", 0)
        + b"\2"
        + struct.pack(">i", 1)
        + uuid
        + b"\2\x05NAME\x04h.x\x23\x85\0"
        + struct.pack(">hh", 0, 1)
        + b"\0\0\0",
    }
    value = s.pick(
        [
            values.get(kind_id, old),
            values.get(kind_id, old),
            a_little_off(s, values.get(kind_id, old)),
            old,
            s.pick(list(values.values())),
        ]
    )
    records[number] = replace(records[number], key=key, value=value)
    control = with_field(batch.data, BATCH, "attributes", batch.value("attributes") | s.pick([0x20, 0x20, 0x30]))
    s.swap_in(name, batch, with_body(Entry(batch.position, control), build_records(records)))
    told = f"key {key and key.hex()} and value {value and value.hex()}"
    return f"the batch at {batch.position} of {name} is a control batch with {told}"


# ---------------------------------------------------------------- compression


@kind("recompressed")
def recompressed(s: Scene) -> str:
    name, batch, _ = s.opened()
    codec = s.rng.randrange(5)
    s.swap_in(name, batch, with_body(batch, body_of(batch), codec=codec))
    return f"the batch at {batch.position} of {name} is compressed with {CODECS[codec]}, in good order"


@kind("framing")
def framing(s: Scene) -> str:
    name, batch, _ = s.opened()
    codec = s.rng.randrange(1, 5)
    way, body = s.pick(sorted(framings(codec, body_of(batch)).items()))
    s.swap_in(name, batch, with_body(batch, body, codec=codec, ready=True))
    return f"the batch at {batch.position} of {name} is compressed with {CODECS[codec]}: {way}"


@kind("large-framing", rare=True)
def large_framing(s: Scene) -> str:
    name, batch, records = s.opened()
    filler = s.pick([bytes(200_000), s.rng.randbytes(150_000), b"0123456789" * 15_000])
    body, codec = build_records([*records, replace(records[-1], value=filler)]), s.rng.randrange(1, 5)
    way, packed = s.pick(sorted(framings(codec, body).items()))
    new = with_body(batch, packed, codec=codec, ready=True)
    s.swap_in(name, batch, sealed(with_field(new, BATCH, "records_count", len(records) + 1)))
    return f"the batch at {batch.position} of {name} has one large record more, compressed with {CODECS[codec]}: {way}"


@kind("compressed-bytes")
def compressed_bytes(s: Scene) -> str:
    name, batch, records = s.opened()
    codec = batch.codec or s.rng.randrange(1, 5)
    body = compress(codec, build_records(records))
    at = s.rng.randrange(len(body))
    near = s.rng.randrange(min(len(body), 24))
    changed = s.pick(
        [
            put(body, at, bytes([body[at] ^ 1 << s.rng.randrange(8)])),
            put(body, near, s.rng.randbytes(1)),
            put(body, near, s.rng.randbytes(4)[: len(body) - near]),
            body[:at],
            body[:-1],
            body[:at] + body[at + 1 :],
            body + s.rng.randbytes(s.rng.randint(1, 20)),
            b"",
            s.rng.randbytes(len(body)),
        ]
    )
    s.swap_in(name, batch, with_body(batch, changed, codec=codec, ready=True))
    return f"the {CODECS[codec]} bytes of the batch at {batch.position} of {name} are damaged, its CRC right"


# ---------------------------------------------------------------- magic 0 and 1


@kind("as-old-messages")
def as_old_messages(s: Scene) -> str:
    name, batch, records = s.opened()
    magic, codec = s.rng.randrange(2), s.rng.randrange(4)
    s.swap_in(name, batch, wrapped(old_messages(batch, records, magic), magic, codec))
    return f"the batch at {batch.position} of {name} is a message set of magic {magic}, {CODECS[codec]}, in good order"


def old_messages(batch: Entry, records: Sequence[Record], magic: int) -> list[Message]:
    first, time = batch.value("base_offset"), batch.value("base_timestamp")
    stamp = 2**63 - 1
    return [
        Message(
            first + r.offset_delta,
            magic,
            0,
            max(-stamp, min(stamp, time + r.timestamp_delta)) if magic else -1,
            r.key,
            r.value,
        )
        for r in records
    ]


def an_old_wrapper(s: Scene) -> tuple[str, Entry, Message, list[Message]]:
    """Where a wrapper message lies (or what it shall replace), the wrapper, and its inner messages."""
    name, entry = s.entry(
        lambda e: (e.magic < 2 and e.codec != NONE) or (e.magic == 2 and e.value("records_count") > 0)
    )
    if entry.magic == 2:
        magic = s.rng.randrange(2)
        made = wrapped(old_messages(entry, parse_records(body_of(entry)), magic), magic, s.rng.randrange(1, 4))
        wrapper = parse_message(Entry(0, made))
    else:
        wrapper = parse_message(entry)
    return name, entry, wrapper, inner_messages(wrapper)


@kind("inner-message")
def inner_message(s: Scene) -> str:
    name, entry, wrapper, inner = an_old_wrapper(s)
    number = s.rng.randrange(len(inner))
    old = inner[number]
    edges: dict[str, list[Any]] = {
        "offset": [0, -1, 1, 2**63 - 1, -(2**63), wrapper.offset, wrapper.offset + 1, s.rng.randrange(1 << 40)],
        "magic": [0, 1, 2, 3, 127, 255],
        "attributes": [1, 2, 3, 4, 5, 8, 9, 0x80, s.rng.randrange(256)],
        "timestamp": [-1, -2, 0, 2**63 - 1, -(2**63)],
        "key": [None, b"", b"\xff"],
        "value": [None, b"", b"\xff"],
    }
    field = s.pick(sorted(edges))
    inner[number] = replace(old, **{field: s.pick(edges[field])})
    body = b"".join(message.build() for message in inner)
    s.swap_in(name, entry, replace(wrapper, value=compress(wrapper.attributes & 7, body)).build())
    value = getattr(inner[number], field)
    return f"{field} of inner message {number} of the wrapper at {entry.position} of {name} is {value!r}"


@kind("inner-bytes")
def inner_bytes(s: Scene) -> str:
    name, entry, wrapper, inner = an_old_wrapper(s)
    body = b"".join(message.build() for message in inner)
    at = s.pick([0, s.rng.randrange(len(body)), s.pick(walk(body)).position])
    numbers = [struct.pack(">i", n) for n in (0, -1, 13, 14, 15, 2**31 - 1, -(2**31), 1 << 24, s.rng.randrange(60))]
    changed = s.pick(
        [
            put(body, s.rng.randrange(len(body)), s.rng.randbytes(1)),
            put(body, at + 8, s.pick(numbers)),
            put(body, at + s.pick([18, 22, 26, 30]), s.pick(numbers)),
            body[: s.rng.randrange(len(body))],
            body[:-1],
            body + s.rng.randbytes(s.rng.randint(1, 30)),
            body + bytes(s.rng.randint(1, 30)),
            body[:at] + s.rng.randbytes(5) + body[at:],
            b"",
            body + body,
        ]
    )
    s.swap_in(name, entry, replace(wrapper, value=compress(wrapper.attributes & 7, changed[:100_000])).build())
    return f"the inner message set of the wrapper at {entry.position} of {name} is damaged, the wrapper's CRC right"


@kind("wrapper")
def wrapper_field(s: Scene) -> str:
    name, entry, wrapper, inner = an_old_wrapper(s)
    count, codec = len(inner), wrapper.attributes & 7
    body = decompress(codec, wrapper.value or b"", wrapper.magic)
    way, packed = s.pick(sorted(framings(s.rng.randrange(1, 5), body).items()))
    new = s.pick(
        [
            replace(wrapper, offset=s.pick([0, 1, -1, count - 2, count - 1, count, 2**63 - 1, -(2**63)])),
            replace(wrapper, magic=1 - wrapper.magic),
            replace(wrapper, attributes=wrapper.attributes & ~7 | s.pick([0, 1, 2, 3, ZSTD, 5, 6, 7])),
            replace(wrapper, attributes=wrapper.attributes ^ s.pick([8, 16, 128])),
            replace(wrapper, timestamp=s.pick([-1, 0, 2**63 - 1, -(2**63)])),
            replace(wrapper, value=None),
            replace(wrapper, value=b""),
            replace(wrapper, key=b"a key"),
            replace(wrapper, value=compress(codec, wrapper.build())),
            replace(wrapper, value=packed),
            replace(wrapper, value=s.rng.choice(list(framings(codec, body).values()))),
            replace(
                wrapper, attributes=9, value=compress(1, b"".join(replace(m, attributes=8).build() for m in inner))
            ),
        ]
    )
    s.swap_in(name, entry, new.build())
    return f"the wrapper message at {entry.position} of {name} is odd (offset, magic, codec, time, value, or {way})"


@kind("message-lengths")
def message_lengths(s: Scene) -> str:
    name, entry = s.entry(lambda e: e.magic < 2 or e.value("records_count") > 0)
    data = entry.data
    if entry.magic == 2:
        magic = s.rng.randrange(2)
        data = wrapped(old_messages(entry, parse_records(body_of(entry))[:1], magic), magic, NONE)
    old = Entry(entry.position, data)
    at = old.fields["key_length"][0]
    key = old.value("key_length")
    if s.rng.random() < 0.5 and key >= 0:
        at += 4 + key
    real, room = int.from_bytes(data[at : at + 4], "big", signed=True), len(data) - at - 4
    value = s.pick([-1, -2, -(2**31), 0, 1, real - 1, real + 1, room, room + 1, 2**31 - 1])
    new, crc = s.maybe_sealed(put(data, at, struct.pack(">i", value)), 0.9)
    s.swap_in(name, entry, new)
    return f"the length at {at} of the message at {entry.position} of {name} is {value} instead of {real}, {crc}"


# ---------------------------------------------------------------- side files


@kind("index-entry")
def index_entry(s: Scene) -> str:
    name = s.one(".index", ".timeindex")
    data, size = s.files[name], 8 if name.endswith(".index") else 12
    number = s.rng.randrange(max(1, len(data) // size))
    at, width = s.pick([(0, 4), (4, 4)] if size == 8 else [(0, 8), (8, 4)])
    at += number * size
    old = int.from_bytes(data[at : at + width], "big", signed=True)
    value = s.pick([s.odd_number(width, old), old + 1, old - 1, 0])
    s.files[name] = put(data, at, (value % (1 << 8 * width)).to_bytes(width, "big"))[: len(data)]
    return f"the {width} bytes at {at} of {name} are {value} instead of {old}"


@kind("index-bytes")
def index_bytes(s: Scene) -> str:
    name = s.one(".index", ".timeindex", ".txnindex", filled=False)
    data, count = s.files[name], s.rng.randint(1, 40)
    how, new = s.pick(
        [
            ("cut", data[: s.rng.randrange(len(data) + 1)]),
            ("longer by zeros", data + bytes(s.pick([1, 4, 8, 12, 24, 34, count, 200]))),
            ("longer by garbage", data + s.rng.randbytes(s.pick([1, 8, 12, 24, 34, count]))),
            ("garbage", s.rng.randbytes(s.pick([1, 7, 8, 11, 12, 16, 24, 34, 68, count]))),
            ("empty", b""),
            ("zeros", bytes(s.pick([1, 4, 8, 12, 16, 24, 34, 40, 96]))),
            ("doubled", data + data),
            ("reversed by entries", b"".join(reversed([data[i : i + 4] for i in range(0, len(data), 4)]))),
        ]
    )
    s.files[name] = new
    return f"{name} is {how}"


@kind("other-file-gone")
def other_file_gone(s: Scene) -> str:
    name = s.one(".index", ".timeindex", ".log", filled=False)
    del s.files[name]
    return f"{name} is missing"


@kind("dense-index")
def dense_index(s: Scene) -> str:
    """An index entry for every entry of a log, as recovery with index.interval.bytes 0 would write."""
    name = s.one(".log")
    base, found, largest = int(name.rpartition("/")[2][:-4]), [b"", b""], -1
    for entry in walk(s.files[name]):
        if entry.magic >= 2:
            last, time = entry.value("base_offset") + entry.value("last_offset_delta"), entry.value("max_timestamp")
        else:
            last, time = entry.value("offset"), entry.value("timestamp") if entry.magic == 1 else -1
        found[0] += struct.pack(">ii", last - base, entry.position)
        if time > largest:
            found[1] += struct.pack(">qi", time, last - base)
            largest = time
    s.files[name[:-4] + ".index"], s.files[name[:-4] + ".timeindex"] = found
    return f"the indexes of {name} have an entry for every batch"


@kind("transaction-index")
def transaction_index(s: Scene) -> str:
    stem = s.one(".log", filled=False)[:-4]
    data = s.files.get(stem + ".txnindex", b"")
    for _ in range(s.rng.randint(0, 3)):
        version = s.pick([0, 0, 0, 0, 1, 255, 256, 0x7FFF, 0xFFFF])
        data += struct.pack(
            ">Hqqqq", version, s.odd_number(8), s.odd_number(8), s.odd_number(8), s.rng.randrange(1 << 40)
        )
    s.files[stem + ".txnindex"] = data[: len(data) - s.pick([0, 0, 0, 1, 8, 33])]
    return f"{stem}.txnindex has entries of its own"


@kind("producer-snapshot")
def producer_snapshot(s: Scene) -> str:
    name = s.one(".snapshot", filled=False)
    data = s.files[name]
    entry = struct.pack(
        ">qhiqiqiq", 7, 1, s.odd_number(4), s.odd_number(8), s.odd_number(4), 10**12, 3, s.odd_number(8)
    )
    if len(data) < 10:
        data = bytes.fromhex("000148674bc700000000")
    count = int.from_bytes(data[6:10], "big")
    at = s.rng.randrange(len(data))
    changed = s.pick(
        [
            put(data, at, s.rng.randbytes(1)),
            put(data, 6, struct.pack(">i", s.pick([-1, 0, count + 1, count - 1, 2**31 - 1, 1 << 20]))),
            put(data, 0, struct.pack(">h", s.pick([0, 2, -1, 256]))),
            put(data, 6, struct.pack(">i", count + 1))[: 10 + 46 * count] + entry,
            data[:at],
            data + s.rng.randbytes(s.rng.randint(1, 50)),
            b"",
            data[: s.pick([1, 2, 3, 5, 6, 7, 9, 10])],
        ]
    )
    told = "its CRC wrong"
    if len(changed) >= 6 and s.rng.random() < 0.7:
        changed, told = put(changed, 2, struct.pack(">I", crc32c(changed[6:]))), "its CRC right"
    s.files[name] = changed
    return f"{name} is damaged, {told}"


# ---------------------------------------------------------------- names


@kind("other-name", rare=True)
def other_name(s: Scene) -> str:
    name = s.one(".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", filled=False)
    folder, _, plain = name.rpartition("/")
    stem, dot, suffix = plain.partition(".")
    number = stem.lstrip("0") or "0"
    stems = [
        number,
        f"+{number}",
        f"-{number}",
        "abc",
        "",
        "9" * 20,
        "1" * 19,
        stem + "0",
        f" {stem}",
        "٣",
        "0x10",
        f"{stem}-0000000001",
        "bootstrap",
        f"{stem}-0000000002-extra",
    ]
    new = s.pick(
        [
            *(f"{x}{dot}{suffix}" for x in stems),
            stem,
            f"{plain}.deleted",
            f"{plain}.swap",
            f"{plain}.cleaned",
            f"{stem}.1.{suffix}",
            f"{plain}.",
            f"{stem}{dot}{suffix.upper()}",
            f"{plain}.log",
        ]
    )
    path = f"{folder}/{new}" if folder else new
    if not new or path in s.files:
        raise Unfit
    s.files[path] = s.files[name] if s.rng.random() < 0.5 else s.files.pop(name)
    return f"{name} is (also) called {new!r}"


@kind("folder-for-a-file", rare=True)
def folder_for_file(s: Scene) -> str:
    name = s.one(".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", filled=False)
    del s.files[name]
    s.files[name + "/"] = b""
    return f"{name} is a folder"
