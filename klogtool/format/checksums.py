"""The two checksums of Kafka's log: CRC-32C over record batches and snapshots, CRC-32 over old messages.

crcmod is the reference; the kernels have a faster CRC-32C of their own and are tested against this one.

This is the reference of kernels/_crc.h and kernels/_walk.pxi: a rule that changes here changes there, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache

import crcmod.predefined

from klogtool.format.buffers import Buffer

PIECE_BYTES = 1 << 20  # crcmod takes bytes only: a copy of so many at a time


@cache
def _crc32c_function() -> Callable[[bytes, int], int]:
    function: Callable[[bytes, int], int] = crcmod.predefined.mkCrcFun("crc-32c")
    return function


def crc32c(data: Buffer, so_far: int = 0) -> int:
    """CRC-32C (Castagnoli), unsigned (org.apache.kafka.common.utils.Crc32C). so_far: that of the bytes before these."""
    crc, function, view = so_far, _crc32c_function(), memoryview(data)
    for at in range(0, len(view), PIECE_BYTES):
        crc = function(bytes(view[at : at + PIECE_BYTES]), crc)
    return crc


def crc32(data: Buffer, so_far: int = 0) -> int:
    """CRC-32 (IEEE), unsigned, as messages of magic 0 and 1 carry it (java.util.zip.CRC32)."""
    return zlib.crc32(data, so_far)
