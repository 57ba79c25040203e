#!/usr/bin/env python3
"""How fast CRC-32C is in each way that the processor has, over memory that no cache holds: `crc_rates.py`.

Prints a line for each way and size of piece: way, bytes, bytes a second; the best of some runs, calls from Python
included.
"""

from __future__ import annotations

import time

from klogtool import kernels

RUNS = 5
MEMORY_BYTES = 256 << 20
PIECES = (8 << 20, 32 << 10, 14 << 10)  # a span, and batches such as of the lz4 and the plain data


def rate(way: str, memory: memoryview, size: int) -> float:
    crc32c, seconds = kernels.native.crc32c_in_way, []
    for _ in range(RUNS):
        begin = time.perf_counter()
        for at in range(0, len(memory), size):
            crc32c(way, memory[at : at + size])
        seconds.append(time.perf_counter() - begin)
    return len(memory) / min(seconds)


if __name__ == "__main__":
    memory = memoryview(bytes(range(256)) * (MEMORY_BYTES // 256))
    for way in kernels.native.crc32c_ways():
        for size in PIECES:
            print(way, size, rate(way, memory, size), sep="\t")
