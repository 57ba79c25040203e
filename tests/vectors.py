"""Entries as Kafka's own classes wrote them, byte for byte, and what is in them.

Split at field boundaries; every number can be read off. The compressed ones hold what their codec's library made of
the records, so another version of it may build other bytes for the same records.
"""

from __future__ import annotations

from dataclasses import dataclass

from klogtool.format.batch import Header, Record

NO_ID = "ffffffffffffffff ffff ffffffff"  # producer id, epoch, base sequence of a batch without a producer


@dataclass(frozen=True)
class Vector:
    """One entry: its bytes and its records. codec: none, gzip, snappy, lz4 or zstd."""

    name: str
    data: bytes
    records: tuple[Record, ...]
    codec: str = "none"

    def __str__(self) -> str:
        return self.name


def vector(name: str, pieces: tuple[str, ...], *records: Record, codec: str = "none") -> Vector:
    return Vector(name, bytes.fromhex("".join(pieces)), records, codec)


# ---------------------------------------------------------------- magic 0
# offset, size, crc, magic and attributes, key, value

MAGIC_0 = vector(
    "magic 0",
    ("0000000000000000", "00000010", "1fecd70a", "00 00", "00000001 6b", "00000001 76"),
    Record(0, -1, b"k", b"v", crc=0x1FECD70A, crc_valid=True),
)
MAGIC_0_NULL_KEY = vector(
    "magic 0, null key",
    ("0000000000000001", "0000000f", "d20cbff5", "00 00", "ffffffff", "00000001 76"),
    Record(1, -1, None, b"v", crc=0xD20CBFF5, crc_valid=True),
)
MAGIC_0_NULL_VALUE = vector(
    "magic 0, null value",
    ("0000000000000002", "0000000f", "908204f6", "00 00", "00000001 6b", "ffffffff"),
    Record(2, -1, b"k", None, crc=0x908204F6, crc_valid=True),
)


def _two_of_magic_0(first: int) -> tuple[Record, ...]:
    return (
        Record(first, -1, b"k", b"v", crc=0x1FECD70A, crc_valid=True),
        Record(first + 1, -1, b"k2", b"v", crc=0x2D2F1A0E, crc_valid=True),
    )


# A wrapper's offset is that of its last message; inner offsets of magic 0 are absolute.
MAGIC_0_GZIP = vector(
    "magic 0, gzip",
    (
        *("0000000000000004", "00000044", "bf5e4739", "00 01", "ffffffff", "00000036"),
        "1f8b08000000000000ff63600003662016907f739d0bcc63cc061165102906162016d4d597e203f398b28dc09200f775da3339000000",
    ),
    *_two_of_magic_0(3),
    codec="gzip",
)
MAGIC_0_SNAPPY = vector(
    "magic 0, snappy",
    (
        *("0000000000000006", "00000058", "e2060a5d", "00 02", "ffffffff", "0000004a"),
        *("82534e41505059 00 00000001 00000001", "00000036"),
        "39000009012405000000101fecd70a00010118016b0000000176010b6000000006000000112d2f1a0e0000000000026b320000000176",
    ),
    *_two_of_magic_0(5),
    codec="snappy",
)
# The header checksum of the frame is the wrong one of KAFKA-3160, 1a in place of 82.
MAGIC_0_LZ4 = vector(
    "magic 0, lz4 with the wrong header checksum",
    (
        *("0000000000000008", "0000004f", "9f332608", "00 03", "ffffffff", "00000041"),
        *("04224d18 60 40 1a", "32000000"),
        "120001009107000000101fecd70a0f0071016b00000001760c00b0000008000000112d2f1a0e0d009000026b320000000176",
        "00000000",
    ),
    *_two_of_magic_0(7),
    codec="lz4",
)

# ---------------------------------------------------------------- magic 1
# the same, and a timestamp behind the attributes

MAGIC_1 = vector(
    "magic 1",
    ("0000000000000009", "00000018", "5eaf63dc", "01 00", "00000174876e8000", "00000001 6b", "00000001 76"),
    Record(9, 1600000000000, b"k", b"v", crc=0x5EAF63DC, crc_valid=True),
)
MAGIC_1_NULLS = vector(
    "magic 1, null key and null value",
    ("000000000000000a", "00000016", "cceea8ae", "01 00", "00000174876e8001", "ffffffff", "ffffffff"),
    Record(10, 1600000000001, None, None, crc=0xCCEEA8AE, crc_valid=True),
)
# The wrapper's timestamp is the largest; inner offsets are relative: 0 and 1.
MAGIC_1_GZIP = vector(
    "magic 1, gzip",
    (
        *("000000000000000c", "00000052", "c9c11ca8", "01 01", "00000174876e8005", "ffffffff", "0000003c"),
        "1f8b08000000000000ff6360800309fd1fe7e73102198c25ed790dac204636882883ca83a4246f562799c0d580184cd9466045005df45d79",
        "49000000",
    ),
    Record(11, 1600000000005, b"k", b"v", crc=804835230, crc_valid=True),
    Record(12, 1600000000001, b"k2", b"v", crc=3648741940, crc_valid=True),
    codec="gzip",
)
# Attribute bit 3 in wrapper and inner messages: all have the wrapper's time.
MAGIC_1_LZ4_APPEND_TIME = vector(
    "magic 1, lz4, LogAppendTime",
    (
        *("000000000000000e", "0000005a", "465f229c", "01 0b", "00000174876ea70f", "ffffffff", "00000044"),
        *("04224d18 60 40 82", "35000000"),
        "16000100f00518a85fb8e8010800000174876ea70f000000016b050013762300990100000019639c2a35240080026b320000000176",
        "00000000",
    ),
    Record(13, 1600000009999, b"k", b"v", crc=0xA85FB8E8, crc_valid=True),
    Record(14, 1600000009999, b"k2", b"v", crc=0x639C2A35, crc_valid=True),
    codec="lz4",
)

PLAIN_MESSAGES = (MAGIC_0, MAGIC_0_NULL_KEY, MAGIC_0_NULL_VALUE, MAGIC_1, MAGIC_1_NULLS)
WRAPPERS = (MAGIC_0_GZIP, MAGIC_0_SNAPPY, MAGIC_0_LZ4, MAGIC_1_GZIP, MAGIC_1_LZ4_APPEND_TIME)
MESSAGES = (*PLAIN_MESSAGES, *WRAPPERS)

# ---------------------------------------------------------------- magic 2
# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp, producer, count;
# a record: length, attributes, timestamp and offset delta, key, value, headers

BATCH = vector(
    "magic 2",
    (
        *("0000000000000000", "00000045", "00000003", "02", "5f3e3f81", "0000", "00000001"),
        *("00000174876e8000", "00000174876e8005", NO_ID, "00000002"),
        *("14", "00 00 00", "04 6b30", "04 7630", "00"),
        *("10", "00 0a 02", "04 6b30", "01", "00"),
    ),
    Record(0, 1600000000000, b"k0", b"v0"),
    Record(1, 1600000000005, b"k0", None),
)
BATCH_WITH_HEADERS = vector(
    "magic 2, headers",
    (
        *("0000000000000014", "0000004a", "00000004", "02", "69911087", "0000", "00000001"),
        *("00000174876e83e8", "00000174876e83e9", NO_ID, "00000002"),
        *("22", "00 00 00", "02 61", "02 62", "04", "04 6831 02 78", "04 6832 01"),
        *("0c", "00 02 02", "01", "01", "00"),
    ),
    Record(20, 1600000001000, b"a", b"b", (Header(b"h1", b"x"), Header(b"h2", None))),
    Record(21, 1600000001001, None, None),
)


def _compressed(name: str, start: str, codec: int, crc: str, body: str, first: int) -> Vector:
    return vector(
        f"magic 2, {name}",
        (
            *(start, "00000004", "02", crc, f"{codec:04x}", "00000001"),
            *("00000174876e87d0", "00000174876e87d1", NO_ID, "00000002", body),
        ),
        Record(first, 1600000002000, b"a", b"b"),
        Record(first + 1, 1600000002001, b"a", b"b" * 100),
        codec=name,
    )


BATCH_GZIP = _compressed(
    "gzip",
    "0000000000000016 0000005b",
    1,
    "932c14ec",
    "1f8b08000000000000ff13606060604a644a62b8c1c8c0c4c494788231890e80010034a5ba7077000000",
    22,
)
BATCH_SNAPPY = _compressed(
    "snappy",
    "0000000000000018 00000062",
    2,
    "c562e8ff",
    "82534e41505059 00 00000001 00000001 0000001d 7748100000000261026200d8010002020261c80162fe01008a0100 0000",
    24,
)
BATCH_LZ4 = _compressed(
    "lz4",
    "000000000000001a 0000005e",
    3,
    "bdd1a8bb",
    "04224d18 60 40 82 1e000000 ff04100000000261026200d8010002020261c8016201004c50626262620000000000",
    26,
)
BATCH_ZSTD = _compressed(
    "zstd",
    "000000000000001c 00000057",
    4,
    "d6ad503f",
    "28b52ffd 00 58 d40000 a0100000000261026200d8010002020261c80162000100410ac2010000",
    28,
)
# The horizon stands in the field of the base timestamp, so deltas are large and negative.
BATCH_DELETE_HORIZON = vector(
    "magic 2, delete horizon",
    (
        *("0000000000000003", "0000005d", "00000001", "02", "ba597f2c", "0041", "00000002"),
        *("0000018bcfe56be8", "00000174876e8004", NO_ID, "00000002"),
        "1f8b08000000000000ff936238b97e7bfb4b5606a6442623060986e3601e13530a2303006f050e191b000000",
    ),
    Record(3, 1600000000003, b"a", b"2"),
    Record(4, 1600000000004, b"d", None),
    codec="gzip",
)
BATCH_EMPTIED = vector(
    "magic 2, emptied, transactional",
    (
        *("0000000000000006", "00000031", "00000001", "02", "da2e56d8", "0010", "00000000"),
        *("ffffffffffffffff", "00000174876e800a", "0000000000000032 0000 00000000", "00000000"),
    ),
)
ABORT = vector(
    "abort marker",
    (
        *("0000000000000008", "00000042", "00000001", "02", "a7fe8609", "0030", "00000000"),
        *("00000174876e800c", "00000174876e800c", "0000000000000032 0000 ffffffff", "00000001"),
        *("20", "00 00 00", "08 0000 0000", "0c 0000 00000007", "00"),
    ),
    Record(8, 1600000000012, bytes.fromhex("0000 0000"), bytes.fromhex("0000 00000007")),
)
COMMIT = vector(
    "commit marker",
    (
        *("0000000000000009", "00000042", "00000001", "02", "a24844f6", "0030", "00000000"),
        *("00000174876e800d", "00000174876e800d", "0000000000000033 0000 ffffffff", "00000001"),
        *("20", "00 00 00", "08 0000 0001", "0c 0000 00000007", "00"),
    ),
    Record(9, 1600000000013, bytes.fromhex("0000 0001"), bytes.fromhex("0000 00000007")),
)


def _kraft(name: str, offset: int, length: str, crc: str, record: tuple[str, ...], type_id: int, value: str) -> Vector:
    return vector(
        f"KRaft {name}",
        (
            *(f"{offset:016x}", length, "00000003", "02", crc, "0020", "00000000"),
            *("00000174876e8000", "00000174876e8000", NO_ID, "00000001"),
            *(record[0], "00 00 00", f"08 0000 {type_id:04x}", record[1], value, "00"),
        ),
        Record(offset, 1600000000000, type_id.to_bytes(4, "big"), bytes.fromhex(value)),
    )


KRAFT_HEADER = _kraft("snapshot header", 0, "00000047", "e46734ca", ("2a", "16"), 3, "0000 00000174876e7fff 00")
KRAFT_VERSION = _kraft("version", 1, "00000041", "38227861", ("1e", "0a"), 5, "0000 0001 00")
KRAFT_VOTERS = _kraft(
    "voters",
    2,
    "0000006b",
    "ecb587d8",
    ("72", "5e"),
    6,
    "0000 02 00000001 0000000000000001 0000000000000002 02 0b434f4e54524f4c4c4552 0268 2385 00 0000 0001 00 00 00",
)
KRAFT_LEADER_CHANGE = _kraft(
    "leader change", 3, "0000004a", "08b6a84d", ("30", "1c"), 2, "0000 00000001 02 00000001 00 01 00"
)
KRAFT_FOOTER = _kraft("snapshot footer", 4, "0000003f", "e5820f4b", ("1a", "06"), 4, "0000 00")

PLAIN_BATCHES = (BATCH, BATCH_WITH_HEADERS)
COMPRESSED_BATCHES = (BATCH_GZIP, BATCH_SNAPPY, BATCH_LZ4, BATCH_ZSTD, BATCH_DELETE_HORIZON)
MARKERS = (ABORT, COMMIT)
KRAFT_BATCHES = (KRAFT_HEADER, KRAFT_VERSION, KRAFT_VOTERS, KRAFT_LEADER_CHANGE, KRAFT_FOOTER)
BATCHES = (*PLAIN_BATCHES, *COMPRESSED_BATCHES, BATCH_EMPTIED, *MARKERS, *KRAFT_BATCHES)
