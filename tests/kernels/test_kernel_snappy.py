"""Snappy blocks: the kernel's are the reference's, the reference's are those of snappy-java, byte for byte."""

from __future__ import annotations

import random

import pytest

from klogtool import kernels
from klogtool.format.codecs import compress, decompress
from klogtool.format.codecs.snappy_block import compress_block

native = kernels.native

# Records of a batch, and the raw blocks that Kafka 4.3.1 (snappy-java 1.1.10.7) made of them; other libraries, others.
MADE_BY_KAFKA = [
    (
        b"\xa8\x01\x00\x00\x00\x01\x9a\x01gamma delta alpha beta gamma iota kappa beta eta bet"
        b"a epsilon delta delta eta\x00",
        "5678a801000000019a0167616d6d612064656c746120616c706861206265746120091720696f7461206b6170700d16011a05"
        "1f1c657073696c6f6e2009382464656c74612065746100",
    ),
    (
        b"\xb2\x02\x00\x00\x00\x01\xa4\x02beta epsilon delta eta epsilon zeta alpha delta alph"
        b"a eta alpha eta theta gamma alpha delta eta beta kappa alpha"
        b" beta kappa delta delta zeta alpha\x00",
        "9b015cb20200000001a4026265746120657073696c6f6e2064656c010e01040d12007a010d14616c70686120091d090c0865"
        "74611d0a04746801100c67616d6d1116092c10657461206201050c6b617070111b1d1109260906287a65746120616c706861"
        "00",
    ),
]


def samples() -> list[bytes]:
    rng = random.Random(1)
    words = [bytes(rng.randrange(97, 123) for _ in range(rng.randint(2, 9))) for _ in range(200)]
    made = [b"", b"a", b"a" * 14, b"a" * 15, b"a" * 16, b"ab" * 40, bytes(range(256)) * 3, b"x" * 70_000]
    for size in (10, 100, 1000, 10_000, 40_000, 140_000):
        made.append(rng.randbytes(size))
        made.append(b" ".join(rng.choice(words) for _ in range(size // 6)))
        made.append(b"".join(bytes([rng.randrange(3)]) * rng.randint(1, 90) for _ in range(size // 45)))
    return made


@pytest.mark.parametrize("data", samples(), ids=lambda data: f"{len(data)}-{data[:4].hex()}")
def test_what_is_compressed_is_read_back_and_the_kernel_makes_the_same(data: bytes) -> None:
    made = compress("snappy", data, magic=2)
    if data:
        assert decompress("snappy", made, magic=2) == data
    if kernels.is_built():
        assert native.compress_snappy(data) == made


@pytest.mark.parametrize(("data", "block"), MADE_BY_KAFKA)
def test_a_block_is_snappy_javas(data: bytes, block: str) -> None:
    assert compress_block(data).hex() == block
