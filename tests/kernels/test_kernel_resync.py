"""The search for the next batch equals format.resync.find_batch, on random and damaged bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from damage import heal_checksums
from hypothesis import given
from hypothesis import strategies as st
from kafka import layout
from kafka.damage import KINDS, harm
from kafka.generated import by_klogtool, shapes
from vectors import BATCH, BATCH_EMPTIED, BATCHES, MAGIC_1, MESSAGES

from klogtool import kernels
from klogtool.format.batch import CODEC_NAMES
from klogtool.format.resync import GAVE_UP, Sought, checksum_budget, find_batch, find_head, walk_unproved

EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))


def assert_alike(data: bytes, at: int, stop: int, lowest: int, end: int) -> tuple[int, int]:
    expected = find_batch(data, at, stop, Sought(lowest, end))
    assert kernels.native.find_batch(data, at, stop, lowest, end) == expected
    assert kernels.native.find_head(data, at, stop, lowest, end) == find_head(data, at, stop, Sought(lowest, end))
    for last in (-1, lowest):
        walked = walk_unproved(data, at, Sought(lowest, end), last)
        assert kernels.native.walk_unproved(data, at, lowest, end, last) == walked
    return expected


def test_every_position_of_a_log(native: Any) -> None:
    found = {assert_alike(EVERY_KIND, at, len(EVERY_KIND), 0, len(EVERY_KIND)) for at in range(len(EVERY_KIND))}
    starts, at = [], 0
    for vector in (*MESSAGES, *BATCHES):
        starts.append((at, 0))
        at += len(vector.data)
    assert found >= set(starts)  # and what lies inside of some


def test_cut_at_every_length(native: Any) -> None:
    data = b"junk" + BATCH.data
    for size in range(len(data) + 1):
        for end in (size, len(data), len(data) + 100):
            assert_alike(data[:size], 0, size, 0, end)


@pytest.mark.parametrize("vector", [BATCH, BATCH_EMPTIED, MAGIC_1], ids=str)
def test_every_byte_of_a_header_changed(native: Any, vector: Any) -> None:
    for position in range(34 if vector is MAGIC_1 else 61):
        for value in (0, 1, 2, 3, 4, 5, 8, 0x7F, 0x80, 0xFF):
            wounded = bytearray(layout.put(vector.data, position, bytes([value])))
            heal_checksums(wounded)
            for end in (len(wounded), 1 << 30):
                assert_alike(bytes(wounded), 0, len(wounded), 0, end)


@pytest.mark.parametrize("number", [0, 1, 2, 3, -1, -2, 48, 49, 2**31 - 1, -(2**31)])
def test_numbers_at_their_edges(native: Any, number: int) -> None:
    for vector in (BATCH, BATCH_EMPTIED):
        for field in ("length", "attributes", "last_offset_delta", "records_count"):
            wounded = bytearray(layout.with_field(vector.data, layout.BATCH, field, number))
            heal_checksums(wounded)
            for end in (len(wounded), 1 << 40):
                assert_alike(bytes(wounded), 0, len(wounded), 0, end)


@pytest.mark.parametrize("lowest", [0, 1, 2**31, 2**63 - 1, -(2**63), -1])
def test_offsets_at_their_edges(native: Any, lowest: int) -> None:
    for offset in (0, 1, -1, 2**31, 2**31 + 1, 2**32, 2**63 - 1, -(2**63), lowest):
        data = layout.with_field(BATCH.data, layout.BATCH, "base_offset", offset)
        assert_alike(data, 0, len(data), lowest, len(data))


@given(st.binary(max_size=120), st.integers(-5, 200), st.integers(0, 300))
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_any_bytes(data: bytes, stop: int, more: int) -> None:
    for log in (data, data + BATCH.data, bytes(8) + b"\0\0\0" + data):
        assert_alike(log, 0, stop, 0, len(log) + more)


@pytest.mark.parametrize("seed", range(25))
def test_damaged_logs(native: Any, seed: int) -> None:
    rng = random.Random(f"resync {seed}")
    name = "t-0/00000000000000000000.log"
    drawn = shapes(rng, codecs=CODEC_NAMES)
    files = {name: b"".join(by_klogtool(shape) for shape in drawn)[:20_000]}
    harm(files, rng, only=rng.choice([kind for kind in KINDS if "byte" in kind or "header" in kind or "entr" in kind]))
    data = next(iter(files.values()))
    at, lowest = 0, rng.choice((0, drawn[0].base_offset))
    for _ in range(30):
        position, _ = assert_alike(data, at, len(data), lowest, len(data) + rng.choice((0, 5000)))
        if position < 0:
            return
        at = position + 1


@pytest.mark.slow
def test_both_give_up_at_the_same_header(native: Any) -> None:
    """Plausible headers one behind the other, each over half a megabyte: a checksum each would take for ever."""
    size, offset = 512 << 10, 1 << 40
    sound = layout.with_field(BATCH.data, layout.BATCH, "base_offset", offset)
    claim = layout.with_field(sound[:61], layout.BATCH, "length", size - 12)
    for claims, given_up in ((140, False), (150, True)):
        data = claim * claims + bytes(size) + sound
        assert (claims * size > checksum_budget(len(data))) == given_up
        expected = (GAVE_UP, 0) if given_up else (len(data) - len(sound), 0)
        assert assert_alike(data, 0, len(data), offset, len(data)) == expected


def test_a_position_before_the_start_finds_nothing(native: Any) -> None:
    assert native.find_batch(BATCH.data, -1, 81, 0, 81) == (-1, 0)
    assert native.find_batch(b"", 0, 0, 0, 0) == (-1, 0)
