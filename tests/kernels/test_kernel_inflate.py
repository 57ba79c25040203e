"""lz4 and snappy in the kernels: the same bytes as format.codecs, or None where that has to look."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import layout

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format import codecs

CODECS = ("lz4", "snappy")
RANDOM = random.Random(5)
TEXTS = {
    "nothing": b"",
    "a byte": b"x",
    "thirteen bytes": b"thirteen byte",
    "a run": b"a" * 5000,
    "short distances": b"ab" * 40 + b"abc" * 40 + b"abcdefg" * 30,
    "words": b" ".join(RANDOM.choice((b"lorem", b"ipsum", b"dolor")) for _ in range(3000)),
    "noise": RANDOM.randbytes(3000),
    "noise of two blocks": RANDOM.randbytes(70_000),
    "a run of three blocks": bytes(200_000),
    "both": RANDOM.randbytes(40_000) + bytes(60_000) + b"tail",
}
# Framings that are legal, and not Kafka's own.
NOT_KAFKAS = ("content size", "content checksum", "block checksum", "raw")


def by_reference(codec: str, data: bytes, magic: int) -> bytes | None:
    """What is inside, None for what is refused."""
    try:
        return codecs.decompress(codec, data, magic=magic)
    except KlogError:
        return None


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("codec", CODECS)
def test_what_kafka_writes_is_inflated_here(native: Any, codec: str, name: str) -> None:
    for magic in (0, 1, 2):
        packed = codecs.compress(codec, TEXTS[name], magic=magic)
        assert native.inflate(codec, packed, magic) == TEXTS[name]


@pytest.mark.parametrize("level", [1, 4, 12, 17])
def test_any_level_of_lz4(native: Any, level: int) -> None:
    for text in TEXTS.values():
        assert native.inflate("lz4", codecs.compress("lz4", text, magic=2, level=level), 2) == text


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("codec", CODECS)
def test_other_framings_are_the_same_or_left_alone(native: Any, codec: str, name: str) -> None:
    for way, packed in layout.framings(codec_id(codec), TEXTS[name]).items():
        for magic in (0, 2):
            found = native.inflate(codec, packed, magic)
            assert found in (None, by_reference(codec, packed, magic)), (way, magic)
            if way in NOT_KAFKAS and TEXTS[name]:
                assert found is None, way


def codec_id(codec: str) -> int:
    return codecs.CODECS.index(codec)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_at_every_length(native: Any, codec: str) -> None:
    packed = codecs.compress(codec, TEXTS["short distances"] + TEXTS["a byte"], magic=2)
    for size in range(len(packed)):
        found = native.inflate(codec, packed[:size], 2)
        assert found is None or found == by_reference(codec, packed[:size], 2), size
    assert native.inflate(codec, packed, 2) is not None


@pytest.mark.parametrize("codec", CODECS)
def test_every_byte_changed(native: Any, codec: str) -> None:
    """Of damaged frames the kernel takes none that the reference would refuse, nor reads it in another way."""
    rng, taken = random.Random(codec), 0
    packed = codecs.compress(codec, b"abcabcabcabcabc" + RANDOM.randbytes(20) + b"z" * 300, magic=2)
    for position in range(len(packed)):
        for value in {packed[position] ^ 1, packed[position] ^ 0x80, 0, 255, rng.randrange(256)}:
            wounded = layout.put(packed, position, bytes([value]))
            found = native.inflate(codec, wounded, 2)
            taken += found is not None
            assert found is None or found == by_reference(codec, wounded, 2), (position, value)
    assert taken  # in literals a change is as good as what was there


@given(st.sampled_from(CODECS), st.binary(max_size=60), st.integers(0, 2))
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_any_bytes_behind_a_sound_header(codec: str, data: bytes, magic: int) -> None:
    head = bytes.fromhex("04224d18 60 40 82") if codec == "lz4" else layout.XERIAL
    found = kernels.native.inflate(codec, head + data, magic)
    assert found is None or found == by_reference(codec, head + data, magic)


@given(st.sampled_from(CODECS), st.lists(st.sampled_from((b"a", b"bc", b"def", bytes(70), b"xyzw" * 9)), max_size=60))
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_what_is_packed_is_unpacked(codec: str, pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert kernels.native.inflate(codec, codecs.compress(codec, data, magic=2), 2) == data


# ---------------------------------------------------------------- bounds


def test_the_header_checksum_counts_above_magic_0(native: Any) -> None:
    wrong = layout.framings(layout.LZ4, b"abc")["header checksum of 0.8"]
    assert native.inflate("lz4", wrong, 0) == b"abc"
    assert native.inflate("lz4", wrong, 1) is None
    assert native.inflate("lz4", wrong, 2) is None


def test_a_snappy_block_that_promises_gigabytes(native: Any) -> None:
    huge = layout.XERIAL + (9).to_bytes(4, "big") + layout.unsigned_varint(2**32 - 1) + b"\0\0\0\0"
    assert native.inflate("snappy", huge, 2) is None
    endless = layout.XERIAL + (6).to_bytes(4, "big") + b"\xff" * 6
    assert native.inflate("snappy", endless, 2) is None


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("00 6162", "a length without literals"),
        ("10 61 0000", "a distance of zero"),
        ("10 61 0200", "a distance before the start"),
        ("f0 ff ff ff", "a length that does not end"),
        ("1f 61 0100 ff ff", "a match that does not end"),
        ("", "nothing"),
    ],
)
def test_lz4_blocks_that_are_none(native: Any, block: str, what: str) -> None:
    data = bytes.fromhex(block)
    frame = bytes.fromhex("04224d18 60 40 82") + len(data).to_bytes(4, "little") + data + bytes(4)
    found = native.inflate("lz4", frame, 2)
    assert found is None or found == by_reference("lz4", frame, 2), what


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("04 00 61", "fewer bytes than promised"),
        ("01 04 6162", "more than promised"),
        ("04 00 61 09 00", "a distance of zero"),
        ("05 00 61 01 02", "a distance before the start"),
        ("05 00 61 0d", "a copy cut off"),
        ("05 fc ffffffff 61", "a literal of four gigabytes"),
        ("05 f0", "a literal cut off"),
        ("80 80 80 80 80 01", "an endless size"),
    ],
)
def test_snappy_blocks_that_are_none(native: Any, block: str, what: str) -> None:
    data = bytes.fromhex(block)
    assert native.inflate("snappy", layout.XERIAL + len(data).to_bytes(4, "big") + data, 2) is None, what
