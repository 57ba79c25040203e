"""CRC-32C and CRC-32: the values that RFC 3720 and the catalogues name."""

from __future__ import annotations

import mmap

import pytest

from klogtool.format.checksums import crc32, crc32c

CASTAGNOLI = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
]


@pytest.mark.parametrize(("data", "crc"), CASTAGNOLI, ids=["empty", "digits", "zeros", "ones", "rising", "falling"])
def test_crc32c(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@pytest.mark.parametrize(("data", "crc"), [(b"", 0), (b"123456789", 0xCBF43926), (bytes(32), 0x190A55AD)])
def test_crc32(data: bytes, crc: int) -> None:
    assert crc32(data) == crc


def test_any_buffer_will_do() -> None:
    mapped = mmap.mmap(-1, 9)
    mapped[:] = b"123456789"
    for data in (bytearray(b"123456789"), memoryview(b"0123456789")[1:], mapped):
        assert (crc32c(data), crc32(data)) == (0xE3069283, 0xCBF43926)
