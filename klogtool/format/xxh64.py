"""xxHash64 with seed 0, the fingerprint of a record.

It finds what disks, networks and programs do to bytes. It is no cryptography: somebody can make two records with the
same fingerprint on purpose. The description is https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.

This is the reference of kernels/_digest.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

import struct

_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME_4, _PRIME_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = 0xFFFFFFFFFFFFFFFF
_STRIPE = struct.Struct("<4Q")


def xxh64(data: bytes | memoryview) -> int:
    """Hash of `data` as an unsigned number. Plain Python: some 10 MB/s."""
    striped = len(data) - len(data) % _STRIPE.size
    hashed = (_mix_stripes(data[:striped]) if striped else _PRIME_5) + len(data) & _MASK
    words, halves = len(data) - len(data) % 8, len(data) - len(data) % 4
    for at in range(striped, words, 8):
        hashed ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        hashed = _rotate(hashed, 27) * _PRIME_1 + _PRIME_4 & _MASK
    for at in range(words, halves, 4):
        hashed ^= int.from_bytes(data[at : at + 4], "little") * _PRIME_1 & _MASK
        hashed = _rotate(hashed, 23) * _PRIME_2 + _PRIME_3 & _MASK
    for byte in data[halves:]:
        hashed = _rotate(hashed ^ byte * _PRIME_5 & _MASK, 11) * _PRIME_1 & _MASK
    hashed = (hashed ^ hashed >> 33) * _PRIME_2 & _MASK
    hashed = (hashed ^ hashed >> 29) * _PRIME_3 & _MASK
    return hashed ^ hashed >> 32


def _mix_stripes(data: bytes | memoryview) -> int:
    lanes = [_PRIME_1 + _PRIME_2 & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
    for stripe in _STRIPE.iter_unpack(data):
        lanes = [_round(lane, word) for lane, word in zip(lanes, stripe, strict=True)]
    hashed = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        hashed = (hashed ^ _round(0, lane)) * _PRIME_1 + _PRIME_4 & _MASK
    return hashed


def _round(lane: int, word: int) -> int:
    return _rotate(lane + word * _PRIME_2 & _MASK, 31) * _PRIME_1 & _MASK


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & _MASK
