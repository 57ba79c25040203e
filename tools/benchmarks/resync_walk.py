#!/usr/bin/env python3
"""The search for the next good batch through damage of several kinds: `resync_walk.py FOLDER LOG MIB`.

Prints a line for each kind: its name, bytes a second, what came of it. The damage lies in a file in FOLDER, so many MiB
of it, with one good batch behind; LOG is a sound one, for a kind that is batches with a wrong checksum.
"""

from __future__ import annotations

import os
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterator

from klogtool.format.batch import Record, build_batch
from klogtool.format.framing import Frame, find_frame
from klogtool.log.file import LogFile
from klogtool.log.resync import search_next_batch

BLOCK_BYTES = 16 << 20
RUNS = 3
CRC_AT = 17


def wrong_batches(log: str) -> bytes:
    """Batches that are all there, each with one bit of its checksum flipped."""
    with open(log, "rb") as file:
        data = bytearray(file.read(BLOCK_BYTES))
    at = 0
    while isinstance(frame := find_frame(data, at, len(data)), Frame):
        data[at + CRC_AT] ^= 1
        at += frame.size
    return bytes(data[:at])


def kinds(log: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Each with what makes a block of it."""
    rng = random.Random(1)
    yield "zeros", lambda: bytes(BLOCK_BYTES)
    yield "random", lambda: rng.randbytes(BLOCK_BYTES)
    yield (
        "text",
        lambda: (b"2026-11-22 02:20:00,000 INFO nothing happened (kafka.Nobody)\n" * BLOCK_BYTES)[:BLOCK_BYTES],
    )
    yield "all 1", lambda: b"\1" * BLOCK_BYTES
    yield "all 2", lambda: b"\2" * BLOCK_BYTES
    yield "ints", lambda: b"".join(n.to_bytes(4, "big") for n in range(BLOCK_BYTES // 4))
    yield "longs", lambda: b"".join(n.to_bytes(8, "big") for n in range(BLOCK_BYTES // 8))
    yield "0, 1, 2", lambda: bytes(rng.choices(range(3), k=1 << 20)) * (BLOCK_BYTES >> 20)
    yield "wrong CRCs", lambda: wrong_batches(log)


def main(folder: pathlib.Path, log: str, mib: int) -> None:
    path = folder / "damage"
    good = build_batch([Record(1 << 20, 1_700_000_000_000, b"k", b"v")])
    for name, make in kinds(log):
        block = make()
        with path.open("wb") as file:
            for _ in range(max(1, (mib << 20) // len(block))):
                file.write(block)
            damaged = file.tell()
            file.write(good)
        seconds = []
        for _ in range(RUNS):
            with LogFile(path) as log_file:
                begin = time.process_time()
                found, is_sure = search_next_batch(log_file, 0, end=log_file.size, lowest=0)
                seconds.append(time.process_time() - begin)
        outcome = "found" if found == damaged else "gave up" if not is_sure else f"found at {found}"
        print(name, damaged / min(seconds), outcome, sep="\t", flush=True)
        path.unlink()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]))
