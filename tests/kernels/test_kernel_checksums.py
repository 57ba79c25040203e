"""The kernels' checksums equal crcmod's and zlib's, whatever the length and wherever the bytes lie."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klogtool import kernels
from klogtool.format import checksums

BYTES = random.Random(1).randbytes(20_000)
# Around the sizes at which a kernel goes over to longer steps, or to three streams at once.
LENGTHS = [*range(80), 127, 128, 129, 255, 256, 257, 511, 512, 513, 767, 768, 769, 1023, 1024, 1025, 3071, 3072, 3073]
LENGTHS += [4095, 4096, 4097, 8191, 8192, 8193, 12287, 12288, 12289, 19_000]


def same_in_every_way(native: Any, data: bytes | memoryview, so_far: int = 0) -> None:
    expected = checksums.crc32c(data, so_far)
    assert native.crc32c(data, so_far) == expected, len(data)
    for way in native.crc32c_ways():
        assert native.crc32c_in_way(way, data, so_far) == expected, (way, len(data))


def test_every_length(native: Any) -> None:
    for length in LENGTHS:
        data = BYTES[:length]
        same_in_every_way(native, data)
        assert native.crc32(data) == zlib.crc32(data), length


@pytest.mark.parametrize("start", range(1, 17))
def test_every_alignment(native: Any, start: int) -> None:
    view = memoryview(BYTES)
    for length in (0, 1, 7, 8, 9, 63, 64, 1000, 5000):
        data = view[start : start + length]
        same_in_every_way(native, data, so_far=start * 0x01234567)
        assert native.crc32(data) == zlib.crc32(data), length


@given(st.binary(max_size=700), st.integers(min_value=0, max_value=2**32 - 1))
@settings(deadline=None)
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_every_way(data: bytes, so_far: int) -> None:
    same_in_every_way(kernels.native, data, so_far)


@pytest.mark.parametrize(("data", "crc"), [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"", 0)])
def test_crc32c_is_castagnolis(native: Any, data: bytes, crc: int) -> None:
    assert native.crc32c(data) == crc


@given(st.binary(max_size=300), st.binary(max_size=300))
@settings(deadline=None)
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_a_checksum_goes_on_where_another_ended(first: bytes, second: bytes) -> None:
    native = kernels.native
    assert native.crc32c(second, native.crc32c(first)) == checksums.crc32c(first + second)
    assert native.crc32(second, native.crc32(first)) == zlib.crc32(first + second)


def test_it_says_how_it_computes(native: Any) -> None:
    ways = native.crc32c_ways()
    assert ways[0] == "tables"
    assert native.CRC32C_WAYS[: len(ways)] == ways
    with pytest.raises(ValueError, match="x not in tuple"):
        native.crc32c_in_way("a way that there is not", b"")


def test_what_is_no_buffer_of_bytes_is_refused(native: Any) -> None:
    for wrong in (None, "text", 5):
        with pytest.raises((TypeError, BufferError)):
            native.crc32c(wrong)
    with pytest.raises((TypeError, BufferError, ValueError)):
        native.crc32c(memoryview(BYTES)[::2])
