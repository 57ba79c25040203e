"""Compressed bytes in, records out. What is expected here, Kafka 4.3.1 on JDK 17 answered, asked by the same bytes."""

from __future__ import annotations

import struct
import threading
import tracemalloc
import zlib
from contextlib import suppress

import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from mutate import mutations

from klogtool.errors import AboveLimit, Corrupt, Refused, Unsupported
from klogtool.format.codecs import CODECS, compress, decompress
from klogtool.format.codecs.lz4 import xxh32

COMPRESSING = CODECS[1:]

XERIAL = "82534e4150505900 00000001 00000001"
GZIP = "1f8b 08 00 00000000 00 ff"
LZ4 = "04224d18 60 40 82"
ZSTD = "28b52ffd 00 58"
END_MARK = "00000000"


def inflate(codec: str, text: str, magic: int = 2) -> bytes:
    return decompress(codec, bytes.fromhex(text), magic=magic)


def assert_corrupt(codec: str, data: bytes | str, reason: str, kafka_class: str = "KafkaException") -> None:
    """Refused for this reason, where Kafka throws this."""
    with pytest.raises(Corrupt, match=reason) as raised:
        decompress(codec, bytes.fromhex(data) if isinstance(data, str) else data, magic=2)
    assert raised.value.kafka_class == kafka_class


# ---- what brokers and producers write

K_TO_V = "1fecd70a 00 00 00000001 6b 00000001 76"
K2_TO_V = "2d2f1a0e 00 00 00000002 6b32 00000001 76"
A_TO_B_AND_C_TO_HUNDRED_B = "10 00 00 00 02 61 02 62 00  d801 00 02 02 02 61 c801" + 100 * "62" + "00"

WRITTEN_BY_KAFKA = {
    "gzip, magic 0": (
        "gzip",
        0,
        GZIP + "63600003662016907f739d0bcc63cc061165102906162016d4d597e203f398b28dc09200 f775da33 39000000",
        "0000000000000003 00000010" + K_TO_V + "0000000000000004 00000011" + K2_TO_V,
    ),
    "snappy, magic 0": (
        "snappy",
        0,
        XERIAL + "00000036 39000009012405000000101fecd70a00010118016b0000000176010b6000000006000000112d2f1a0e0000000000"
        "026b320000000176",
        "0000000000000005 00000010" + K_TO_V + "0000000000000006 00000011" + K2_TO_V,
    ),
    "lz4, magic 0, wrong header checksum": (
        "lz4",
        0,
        "04224d18 60 40 1a 32000000 120001009107000000101fecd70a0f0071016b00000001760c00b0000008000000112d2f1a0e0d00"
        "9000026b320000000176" + END_MARK,
        "0000000000000007 00000010" + K_TO_V + "0000000000000008 00000011" + K2_TO_V,
    ),
    "gzip, magic 1": (
        "gzip",
        1,
        GZIP + "6360800309fd1fe7e73102198c25ed790dac204636882883ca83a4246f562799c0d580184cd946604500 5df45d79 49000000",
        "0000000000000000 00000018 2ff8cf9e 01 00 00000174876e8005 00000001 6b 00000001 76"
        "0000000000000001 00000019 d97b6234 01 00 00000174876e8001 00000002 6b32 00000001 76",
    ),
    "lz4, magic 1": (
        "lz4",
        1,
        LZ4
        + "35000000 16000100f00518a85fb8e8010800000174876ea70f000000016b050013762300990100000019639c2a35240080026b32"
        "0000000176" + END_MARK,
        "0000000000000000 00000018 a85fb8e8 01 08 00000174876ea70f 00000001 6b 00000001 76"
        "0000000000000001 00000019 639c2a35 01 08 00000174876ea70f 00000002 6b32 00000001 76",
    ),
    "gzip": (
        "gzip",
        2,
        GZIP + "13606060604a644a62b8c1c8c0c4c494788231890e800100 34a5ba70 77000000",
        A_TO_B_AND_C_TO_HUNDRED_B,
    ),
    "snappy": (
        "snappy",
        2,
        XERIAL + "0000001d 7748100000000261026200d8010002020261c80162fe01008a01000000",
        A_TO_B_AND_C_TO_HUNDRED_B,
    ),
    "lz4": (
        "lz4",
        2,
        LZ4 + "1e000000 ff04100000000261026200d8010002020261c8016201004c506262626200" + END_MARK,
        A_TO_B_AND_C_TO_HUNDRED_B,
    ),
    "zstd": (
        "zstd",
        2,
        ZSTD + "d40000 a0100000000261026200d8010002020261c80162000100410ac2 010000",
        A_TO_B_AND_C_TO_HUNDRED_B,
    ),
    "nothing by gzip": ("gzip", 2, GZIP + "0300 00000000 00000000", ""),
    "nothing by snappy": ("snappy", 2, XERIAL, ""),
    "nothing by lz4": ("lz4", 2, LZ4 + END_MARK, ""),
    "nothing by zstd": ("zstd", 2, "28b52ffd 20 00 010000", ""),
    "xerial hello": ("snappy", 2, XERIAL + "00000007 05 10 68656c6c6f", b"hello".hex()),
    "uncompressed": ("none", 2, "000102", "000102"),
}


@pytest.mark.parametrize(("codec", "magic", "compressed", "inflated"), WRITTEN_BY_KAFKA.values(), ids=WRITTEN_BY_KAFKA)
def test_what_kafka_wrote_is_read(codec: str, magic: int, compressed: str, inflated: str) -> None:
    assert inflate(codec, compressed, magic) == bytes.fromhex(inflated)


@pytest.mark.parametrize(
    ("codec", "magic", "compressed", "inflated"),
    [vector for name, vector in WRITTEN_BY_KAFKA.items() if name != "snappy, magic 0"],  # the one with other matches
)
def test_what_kafka_wrote_is_written_again(codec: str, magic: int, compressed: str, inflated: str) -> None:
    assert compress(codec, bytes.fromhex(inflated), magic=magic) == bytes.fromhex(compressed)


# ---- laws for every codec


@given(st.binary(max_size=2000), st.integers(1, 200), st.sampled_from(CODECS), st.sampled_from((0, 1, 2)))
def test_what_is_compressed_comes_back(piece: bytes, times: int, codec: str, magic: int) -> None:
    data = piece * times
    assert decompress(codec, compress(codec, data, magic=magic), magic=magic) == data


@pytest.mark.parametrize("codec", CODECS)
def test_any_buffer_will_do(codec: str) -> None:
    data = b"some records, some records" * 10
    compressed = compress(codec, memoryview(data), magic=2)
    for buffer in (compressed, bytearray(compressed), memoryview(b"x" + compressed)[1:]):
        assert decompress(codec, buffer, magic=2) == data


def plain(size: int) -> bytes:
    return b"".join(b'{"id":%d,"seen":%d}' % (n, n * n % 97) for n in range(size // 16 + 1))[:size]


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("size", [1, 100, 40_000])
def test_damage_raises_nothing_but_corrupt_and_unsupported(codec: str, size: int) -> None:
    for damaged in mutations(size, compress(codec, plain(size), magic=2), count=400):
        with suppress(Corrupt, Unsupported):
            decompress(codec, damaged, magic=2, limit=1 << 20)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_is_the_last_size_that_is_taken(codec: str) -> None:
    compressed = compress(codec, bytes(100_000), magic=2)
    assert len(decompress(codec, compressed, magic=2, limit=100_000)) == 100_000
    for limit in (99_999, 1, 0):
        with pytest.raises(AboveLimit, match=f"inflates to more than {limit} bytes"):
            decompress(codec, compressed, magic=2, limit=limit)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_costs_no_more_than_the_limit(codec: str) -> None:
    bomb, limit = BOMBS[codec](), 8 << 20
    tracemalloc.start()
    try:
        with pytest.raises(AboveLimit, match="inflates to more than"):
            decompress(codec, bomb, magic=2, limit=limit)
        assert tracemalloc.get_traced_memory()[1] < 3 * limit
    finally:
        tracemalloc.stop()


def gzip_bomb() -> bytes:
    """1 GiB of zeros in 1 MB."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    mebibyte = deflater.compress(bytes(1 << 20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return bytes.fromhex(GZIP) + mebibyte * 1024


def lz4_bomb() -> bytes:
    """1 GiB of zeros in 4 MB."""
    block = lz4.block.compress(bytes(64 << 10), store_size=False)
    return bytes.fromhex(LZ4) + (struct.pack("<I", len(block)) + block) * (16 << 10)


BOMBS = {
    "gzip": gzip_bomb,
    "snappy": lambda: bytes.fromhex(XERIAL) + chunk(bytes(1 << 20)) * 100,
    "lz4": lz4_bomb,
    "zstd": lambda: zstd_frame(*[(1, 128 << 10, b"\0")] * (8 << 10)),  # 1 GiB in 32 KB
}


@pytest.mark.parametrize("codec", COMPRESSING)
def test_threads_do_not_disturb_each_other(codec: str) -> None:
    wrong: list[int] = []

    def run(seed: int) -> None:
        data = bytes((seed,)) + plain(50_000 + seed)
        if any(decompress(codec, compress(codec, data, magic=2), magic=2) != data for _ in range(20)):
            wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("codec", "levels"), [("gzip", (-1, 1, 9)), ("lz4", (1, 9, 17)), ("zstd", (-131072, 3, 22))])
def test_levels_that_kafka_takes(codec: str, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, plain(3000), magic=2, level=level), magic=2) == plain(3000)
    for level in (levels[-1] + 1, 0 if codec == "lz4" else levels[0] - 1):
        with pytest.raises(Refused, match=f"{codec} doesn't support given compression level: {level}"):
            compress(codec, b"", magic=2, level=level)


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_codecs_without_levels(codec: str) -> None:
    with pytest.raises(Refused, match="not defined"):
        compress(codec, b"", magic=2, level=1)


# ---- gzip


def gzip_member(data: bytes, flags: int = 0, options: bytes = b"") -> bytes:
    """A member whose data is stored, not compressed: 5 bytes longer than the data."""
    deflated = b"\1" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    head = bytes.fromhex("1f8b08") + bytes((flags,)) + bytes(6) + options
    return head + deflated + struct.pack("<II", zlib.crc32(data), len(data))


def test_gzip_header_options_are_skipped() -> None:
    assert decompress("gzip", gzip_member(b"ab", 0x04, b"\3\0xyz"), magic=2) == b"ab"
    assert decompress("gzip", gzip_member(b"ab", 0x18, b"name\0comment\0"), magic=2) == b"ab"
    assert decompress("gzip", gzip_member(b"ab", 0xE1), magic=2) == b"ab"  # reserved bits, and "text"
    assert_corrupt("gzip", gzip_member(b"ab", 0x04, b"\xff\xffxyz"), "ends within the GZIP header")
    assert_corrupt("gzip", gzip_member(b"ab", 0x08, b"x" * 20_000)[:-15], "ends within the GZIP header")


def test_gzip_header_checksum_is_verified() -> None:
    header = bytes.fromhex("1f8b08 02 00000000 00 00")
    crc = struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    assert decompress("gzip", gzip_member(b"ab", 0x02, crc), magic=2) == b"ab"
    assert_corrupt("gzip", gzip_member(b"ab", 0x02, b"\0\0"), "Corrupt GZIP header")


def test_gzip_that_is_none() -> None:
    assert_corrupt("gzip", "", "Not in GZIP format")
    assert_corrupt("gzip", "1f8a 08 00 00000000 00 ff 0300 00000000 00000000", "Not in GZIP format")
    assert_corrupt("gzip", "1f8b 07 00 00000000 00 ff 0300 00000000 00000000", "Unsupported compression method")
    assert_corrupt("gzip", GZIP + "07 00", "invalid block type")


def test_gzip_cut_anywhere_is_corrupt() -> None:
    whole = compress("gzip", plain(500), magic=2)
    for size in range(len(whole)):
        assert_corrupt("gzip", whole[:size], "GZIP|Unsupported|end of ZLIB")


@pytest.mark.parametrize("at", [-1, -5], ids=["size", "crc"])
def test_gzip_trailer_is_verified(at: int) -> None:
    member = bytearray(gzip_member(b"ab"))
    member[at] ^= 1
    assert_corrupt("gzip", bytes(member), "Corrupt GZIP trailer")


def test_gzip_members_follow_one_another() -> None:
    assert decompress("gzip", gzip_member(b"ab") + gzip_member(b"") + gzip_member(b"c" * 9000), magic=2) == (
        b"ab" + b"c" * 9000
    )
    wrong = bytearray(gzip_member(b"ab") + gzip_member(b"cd"))
    wrong[-1] ^= 1
    assert_corrupt("gzip", bytes(wrong), "Corrupt GZIP trailer")


@pytest.mark.parametrize("rest", [b"\0", b"garbage" * 10, gzip_member(b"")[1:], bytes(20_000)])
def test_gzip_ignores_what_is_no_member(rest: bytes) -> None:
    assert decompress("gzip", gzip_member(b"ab") + rest, magic=2) == b"ab"


def test_gzip_looks_for_a_member_only_behind_18_bytes() -> None:
    next_member = gzip_member(b"cd" * 20)
    assert decompress("gzip", gzip_member(b"ab") + next_member[:18], magic=2) == b"ab"
    assert_corrupt("gzip", gzip_member(b"ab") + next_member[:19], "Unexpected end of ZLIB input stream")


def test_gzip_looks_for_a_member_also_where_javas_buffer_ends() -> None:
    full = gzip_member(bytes(8192 - 5 - 8))
    assert_corrupt("gzip", full + gzip_member(b"cd")[:10], "Unexpected end of ZLIB input stream")
    shorter = gzip_member(bytes(8192 - 5 - 8 - 10))
    assert decompress("gzip", shorter + gzip_member(b"cd")[:10], magic=2) == bytes(8192 - 5 - 8 - 10)


# ---- snappy


def chunk(data: bytes) -> bytes:
    block = snappy.compress(data)
    return struct.pack(">i", len(block)) + block


def xerial(*chunks: bytes) -> bytes:
    return bytes.fromhex(XERIAL) + b"".join(chunks)


def test_snappy_without_header_is_one_raw_block() -> None:
    assert inflate("snappy", "05 10 68656c6c6f") == b"hello"
    assert decompress("snappy", snappy.compress(plain(100_000)), magic=2) == plain(100_000)
    assert inflate("snappy", "00") == b""
    assert_corrupt("snappy", XERIAL[:-2], "PARSING_ERROR|FAILED_TO_UNCOMPRESS")  # a header cut short is no header


def test_snappy_of_no_bytes() -> None:
    assert_corrupt("snappy", "", "Cannot decompress empty stream")


RAW_BLOCKS = {
    "literal": ("03 08 616263", b"abc"),
    "literal whose length takes a byte": ("03 f0 02 616263", b"abc"),
    "literal whose length takes four bytes": ("03 fc 02000000 616263", b"abc"),
    "copy of one-byte distance": ("07 08 616263 01 03", b"abcabca"),
    "copy of two-byte distance": ("05 08 616263 06 0300", b"abcab"),
    "copy of four-byte distance": ("05 08 616263 07 03000000", b"abcab"),
    "copy that runs into itself": ("0c 00 61 1d 01", b"a" * 12),
    "length not as short as can be": ("83 00 08 616263", b"abc"),
}
BAD_RAW_BLOCKS = {
    "literal cut short": "03 08 6162",
    "literal length cut short": "03 f4 02",
    "literal of 4 GiB": "03 fc ffffffff 616263",
    "copy from before the start": "07 08 616263 01 04",
    "copy of distance 0": "07 08 616263 01 00",
    "copy cut short": "05 08 616263 06 03",
    "more than the length says": "02 08 616263",
    "copy past the length": "06 08 616263 01 03",
    "less than the length says": "04 08 616263",
    "bytes after the last element": "03 08 616263 00",
    "length that does not end": "8383838383",
    "length of more than 32 bits": "838080801008616263",
    "length of 2 GiB": "ffffffff0f 08 616263",
    "length that these bytes cannot give": "ffffff7f 08 616263",
}


@pytest.mark.parametrize(("block", "inflated"), RAW_BLOCKS.values(), ids=RAW_BLOCKS)
def test_snappy_raw_blocks(block: str, inflated: bytes) -> None:
    raw = bytes.fromhex(block)
    assert decompress("snappy", raw, magic=2) == inflated
    assert decompress("snappy", xerial(struct.pack(">i", len(raw)), raw), magic=2) == inflated


@pytest.mark.parametrize("block", BAD_RAW_BLOCKS.values(), ids=BAD_RAW_BLOCKS)
def test_snappy_bad_raw_blocks(block: str) -> None:
    assert_corrupt("snappy", block, "PARSING_ERROR|FAILED_TO_UNCOMPRESS")


def test_snappy_chunks_end_where_no_size_is_left() -> None:
    assert decompress("snappy", xerial(chunk(b"ab"), chunk(b""), chunk(b"cd")), magic=2) == b"abcd"
    for rest in (b"\0", b"\0\0\0", b"\xff\xff\xff"):
        assert decompress("snappy", xerial(chunk(b"ab")) + rest, magic=2) == b"ab"


def test_snappy_bad_chunks() -> None:
    assert_corrupt("snappy", XERIAL + "ffffffff 00", "chunkSize is too big or negative : -1", "SnappyError")
    assert_corrupt("snappy", XERIAL + "20000001 00", "chunkSize is too big or negative", "SnappyError")
    assert_corrupt("snappy", XERIAL + "20000000 00", "failed to read chunk")
    assert_corrupt("snappy", XERIAL + "00000007 05 10 68656c6c", "failed to read chunk")
    assert_corrupt("snappy", XERIAL + "00000000", "PARSING_ERROR")


def test_snappy_first_versions_are_not_looked_at() -> None:
    assert decompress("snappy", bytes.fromhex("82534e4150505900 00000000 ffffffff") + chunk(b"ab"), magic=2) == b"ab"


def test_snappy_header_in_mid_stream() -> None:
    second = bytes.fromhex(XERIAL)
    assert decompress("snappy", xerial(chunk(b"ab"), second, second, chunk(b"cd")), magic=2) == b"abcd"
    old = bytes.fromhex("82534e4150505900 00000000 00000001")
    assert_corrupt("snappy", xerial(chunk(b"ab"), old, chunk(b"cd")), "incompatible codec version 0")
    assert_corrupt("snappy", xerial(chunk(b"ab"), second[:15]), "Insufficient header size in a concatenated block")


def test_snappy_false_header_in_mid_stream() -> None:
    false = bytes.fromhex("82534e41 50505901 00000001 00000001")
    assert decompress("snappy", xerial(chunk(b"ab"), false, chunk(b"cd")), magic=2) == b"abcd"
    assert decompress("snappy", xerial(chunk(b"ab"), false, false, chunk(b"cd")), magic=2) == b"ab"
    full = bytes(2048)  # fills the buffer through which Kafka reads
    assert decompress("snappy", xerial(chunk(full), false, chunk(b"cd")), magic=2) == full


# ---- lz4


def lz4_frame(flags: int, *rest: bytes, code: int = 4) -> bytes:
    """A frame header with a right checksum, followed by the rest."""
    descriptor = bytes((flags, code << 4))
    return bytes.fromhex("04224d18") + descriptor + bytes((xxh32(descriptor) >> 8 & 0xFF,)) + b"".join(rest)


STORED_AB = bytes.fromhex("02000080 6162")
END = bytes(4)


def test_lz4_stops_at_the_first_end_mark() -> None:
    for rest in (b"", b"garbage", lz4_frame(0x60, STORED_AB, END)):
        assert decompress("lz4", lz4_frame(0x60, STORED_AB, END) + rest, magic=2) == b"ab"
    assert inflate("lz4", LZ4 + "02000080 6162 00000080 ff") == b"ab"  # a stored block of no bytes is an EndMark


def test_lz4_without_end_mark() -> None:
    whole = lz4_frame(0x60, STORED_AB, END)
    for size in range(len(whole)):
        assert_corrupt("lz4", whole[:size], "Stream ended prematurely")


def test_lz4_header_checksum_counts_except_in_magic_0() -> None:
    wrong = "04224d18 60 40 1a 02000080 6162" + END_MARK
    assert inflate("lz4", wrong, magic=0) == b"ab"
    for magic in (1, 2):
        with pytest.raises(Corrupt, match="Stream frame descriptor corrupted"):
            inflate("lz4", wrong, magic)
    assert compress("lz4", b"", magic=0) == bytes.fromhex("04224d18 60 40 1a" + END_MARK)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("04224d19 60 40 82", "invalid magic bytes"),
        ("04224d18 61 40 00", "Reserved bits must be 0"),
        ("04224d18 40 40 c0", "Dependent block stream is unsupported"),
        ("04224d18 20 40 00", "Version 0 is unsupported"),
        ("04224d18 a0 40 00", "Version 2 is unsupported"),
        ("04224d18 60 41 00", "Reserved2 field must be 0"),
        ("04224d18 60 30 00", "Block size value must be between 4 and 7"),
        ("04224d18 60 c0 00", "Reserved3 field must be 0"),
        ("04224d18 60 50 82", "Stream frame descriptor corrupted"),
    ],
)
def test_lz4_bad_headers(start: str, reason: str) -> None:
    assert_corrupt("lz4", start + "02000080 6162" + END_MARK, reason)


def test_lz4_content_size_is_skipped() -> None:
    descriptor = bytes.fromhex("68 40") + b"\xff" * 8
    frame = bytes.fromhex("04224d18") + descriptor + bytes((xxh32(descriptor) >> 8 & 0xFF,)) + STORED_AB + END
    assert decompress("lz4", frame, magic=2) == b"ab"


def test_lz4_content_checksum_must_be_there_but_may_be_wrong() -> None:
    assert decompress("lz4", lz4_frame(0x64, STORED_AB, END, b"\1\2\3\4"), magic=2) == b"ab"
    assert_corrupt("lz4", lz4_frame(0x64, STORED_AB, END, b"\1\2\3"), "ended prematurely", "BufferUnderflowException")


def test_lz4_block_checksum_is_verified() -> None:
    right = struct.pack("<I", xxh32(b"ab"))
    assert decompress("lz4", lz4_frame(0x70, STORED_AB, right, END), magic=2) == b"ab"
    assert_corrupt("lz4", lz4_frame(0x70, STORED_AB, b"\0\0\0\0", END), "Block checksum mismatch")
    assert_corrupt("lz4", lz4_frame(0x70, STORED_AB, right[:3]), "ended prematurely", "BufferUnderflowException")


def test_lz4_block_sizes() -> None:
    full = struct.pack("<I", 65536 | 1 << 31) + bytes(65536)
    assert decompress("lz4", lz4_frame(0x60, full, END), magic=2) == bytes(65536)
    assert_corrupt("lz4", lz4_frame(0x60, struct.pack("<I", 65537 | 1 << 31), bytes(65537), END), "exceeded max: 65536")
    block = lz4.block.compress(bytes(70_000), store_size=False)
    too_full = struct.pack("<I", len(block)) + block
    assert_corrupt("lz4", lz4_frame(0x60, too_full, END), "Error decoding an LZ4 block")
    assert decompress("lz4", lz4_frame(0x60, too_full, END, code=5), magic=2) == bytes(70_000)


def test_lz4_block_of_nothing_is_passed_over() -> None:
    assert decompress("lz4", lz4_frame(0x60, STORED_AB, bytes.fromhex("01000000 00"), STORED_AB, END), magic=2) == (
        b"abab"
    )


@pytest.mark.parametrize("level", [0, 9])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_of_other_writers(level: int, block_size: int) -> None:
    data = plain(300_000)
    frame = lz4.frame.compress(
        data, level, block_size=block_size, block_linked=False, content_checksum=True, block_checksum=True
    )
    assert decompress("lz4", frame, magic=2) == data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected
    assert xxh32(memoryview(data)) == expected


# ---- zstd


def zstd_frame(*blocks: tuple[int, int, bytes], start: str = ZSTD) -> bytes:
    """A frame of blocks (kind, size, bytes): 0 is raw, 1 one byte repeated, 3 reserved."""
    frame = [bytes.fromhex(start)]
    for at, (kind, size, content) in enumerate(blocks):
        frame += ((size << 3 | kind << 1 | (at == len(blocks) - 1)).to_bytes(3, "little"), content)
    return b"".join(frame)


def skippable(content: bytes) -> bytes:
    return bytes.fromhex("532a4d18") + struct.pack("<I", len(content)) + content


AB = zstd_frame((0, 2, b"ab"))


def test_zstd_of_no_bytes_is_no_data() -> None:
    assert decompress("zstd", b"", magic=2) == b""


def test_zstd_frames_follow_one_another() -> None:
    stream = skippable(b"") + AB + skippable(b"xyz") + zstd_frame((1, 3, b"c"), (0, 0, b"")) + AB
    assert decompress("zstd", stream, magic=2) == b"abcccab"
    assert decompress("zstd", skippable(b"xyz"), magic=2) == b""


def test_zstd_cut_anywhere_is_corrupt() -> None:
    whole = compress("zstd", plain(500), magic=2)
    for size in range(1, len(whole)):
        assert_corrupt("zstd", whole[:size], "Truncated source")


@pytest.mark.parametrize("size", range(1, len(AB)))
def test_zstd_cut_after_a_whole_frame_goes_unseen(size: int) -> None:
    """zstd-jni only asks whether a frame has ended since it last read."""
    assert decompress("zstd", AB + AB[:size], magic=2) == b"ab" + b"ab"[: max(0, size - 9)]


def test_zstd_cut_is_seen_once_zstd_jni_has_read_again() -> None:
    rest = zstd_frame((0, 100_000, bytes(100_000)), (0, 100_000, bytes(100_000)))
    assert decompress("zstd", AB + rest[: 131_075 - len(AB)], magic=2)[:3] == b"ab\0"
    assert_corrupt("zstd", AB + rest[: 131_076 - len(AB)], "Truncated source")


@pytest.mark.parametrize("rest", [b"\0", b"garbage", b"\x28\xb5\x2e", b"\x29\xb5\x2f\xfd"])
def test_zstd_garbage_after_a_frame(rest: bytes) -> None:
    assert_corrupt("zstd", AB + rest, "Unknown frame descriptor")


def test_zstd_bad_frames() -> None:
    assert_corrupt("zstd", b"garbage", "Unknown frame descriptor")
    assert_corrupt("zstd", zstd_frame((3, 2, b"ab")), "Data corruption detected")
    assert_corrupt("zstd", zstd_frame((0, 2, b"ab"), start="28b52ffd 08 58"), "Unsupported frame parameter")
    assert_corrupt("zstd", zstd_frame((0, 2, b"ab"), start="28b52ffd 00 ff"), "Frame requires too much memory")
    assert_corrupt("zstd", zstd_frame((0, 2, b"ab"), start="28b52ffd 01 58 07"), "Dictionary mismatch")
    assert_corrupt("zstd", zstd_frame((1, 131_073, b"a")), "Data corruption detected")
    assert_corrupt("zstd", zstd_frame((0, 1025, bytes(1025)), start="28b52ffd 00 00"), "Data corruption detected")


def test_zstd_checksum_is_verified() -> None:
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(plain(500))
    assert decompress("zstd", frame, magic=2) == plain(500)
    assert_corrupt("zstd", frame[:-1] + bytes((frame[-1] ^ 1,)), "Restored data doesn't match checksum")


@pytest.mark.parametrize("size", [1, 200, 300, 16_384, 16_385, 70_000, 400_000])
def test_zstd_content_size_must_be_right(size: int) -> None:
    frame = zstandard.ZstdCompressor().compress(plain(size))
    assert decompress("zstd", frame, magic=2) == plain(size)
    for wrong in (-1, 1, 1000):
        assert_corrupt("zstd", _with_content_size(frame, size + wrong), "corruption|too small|more than its content")


def _with_content_size(frame: bytes, content_size: int) -> bytes:
    """The frame, saying in four bytes that it inflates to this much."""
    assert frame[4] >> 5 & 1, "no window byte to keep"
    width = (1, 2, 4, 8)[frame[4] >> 6]
    return frame[:4] + b"\xa0" + struct.pack("<i", max(content_size, 0)) + frame[5 + width :]


def test_zstd_content_size_may_be_wrong_before_an_empty_last_block() -> None:
    said = zstd_frame((0, 20_000, bytes(20_000)), (0, 0, b""), start="28b52ffd 80 58 ff4f0000")  # 20 479
    assert decompress("zstd", said, magic=2) == bytes(20_000)
    less = zstd_frame((0, 20_000, bytes(20_000)), (0, 0, b""), start="28b52ffd 80 58 1f4e0000")  # 19 999
    assert_corrupt("zstd", less, "Destination buffer is too small")


def test_zstd_content_size_of_a_terabyte_allocates_nothing() -> None:
    said = zstd_frame((0, 2, b"ab"), start="28b52ffd c0 58 0000000000010000")
    assert_corrupt("zstd", said, "Data corruption detected")


def test_zstd_from_before_1_0_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="a format older than zstd"):
        inflate("zstd", "27b52ffd 00 58 010000")


def test_zstd_skippable_frame_that_zstd_jni_takes_for_an_error() -> None:
    assert decompress("zstd", AB + bytes.fromhex("502a4d18 88ffffff"), magic=2) == b"ab"
    assert_corrupt("zstd", AB + bytes.fromhex("502a4d18 89ffffff"), "Error")
