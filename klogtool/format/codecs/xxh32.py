"""xxHash32 with seed 0, which LZ4 frames carry as their checksums."""

from __future__ import annotations

import struct

_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF
_STRIPE = struct.Struct("<4I")


def xxh32(data: bytes | memoryview) -> int:
    """Hash of `data` as an unsigned number. Plain Python: some 10 MB/s."""
    striped = len(data) - len(data) % _STRIPE.size
    hashed = (_mix_stripes(data[:striped]) if striped else _PRIME_5) + len(data)
    end = len(data) - len(data) % 4
    for at in range(striped, end, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        hashed = _rotate(hashed + word * _PRIME_3 & _MASK, 17) * _PRIME_4
    for byte in data[end:]:
        hashed = _rotate(hashed + byte * _PRIME_5 & _MASK, 11) * _PRIME_1
    hashed &= _MASK
    hashed = (hashed ^ hashed >> 15) * _PRIME_2 & _MASK
    hashed = (hashed ^ hashed >> 13) * _PRIME_3 & _MASK
    return hashed ^ hashed >> 16


def _mix_stripes(data: bytes | memoryview) -> int:
    one, two, three, four = _PRIME_1 + _PRIME_2 & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK
    for a, b, c, d in _STRIPE.iter_unpack(data):
        one = _rotate(one + a * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
        two = _rotate(two + b * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
        three = _rotate(three + c * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
        four = _rotate(four + d * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
    return _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 32 - by) & _MASK
