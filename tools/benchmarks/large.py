"""A partition of several segments out of one: the same batches again and again, with offsets that go on.

The base offset lies outside of a batch's checksum, so that only eight bytes of each batch change. A program of its own,
`large.py LOG FOLDER COUNT`, which prints the paths: bench.py itself is to take no memory.
"""

from __future__ import annotations

import mmap
import os
import pathlib
import struct
import sys
from typing import BinaryIO

SEGMENT_BYTES = 1 << 30

_HEAD = struct.Struct(">qi")  # base offset, length
_DELTA_AT = 23  # of a record batch: its last offset delta
_LENGTH_ENDS = 12


def make_segments(log: str, folder: pathlib.Path, count: int, segment_bytes: int = SEGMENT_BYTES) -> list[str]:
    """Return the paths of `count` segments of about so many bytes in a partition dir; make them if they are
    missing."""
    made = sorted(folder.glob("*.log"))
    if len(made) == count:
        return [str(path) for path in made]
    folder.mkdir(parents=True, exist_ok=True)
    starts = _starts(log)
    copies = max(1, segment_bytes // os.path.getsize(log))
    paths, next_offset = [], 0
    for _ in range(count):
        path = folder / f"{next_offset:020d}.log"
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            for _ in range(copies):
                next_offset = _copy_to(file, log, starts, next_offset)
        os.replace(unfinished, path)
        paths.append(str(path))
    return paths


def _starts(log: str) -> list[int]:
    """Where batches begin."""
    found, at = [], 0
    with open(log, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        while at < len(data):
            found.append(at)
            at += _HEAD.unpack_from(data, at)[1] + _LENGTH_ENDS
    return found


def _copy_to(file: BinaryIO, log: str, starts: list[int], offset: int) -> int:
    """Append a copy whose offsets begin at `offset`. Return the offset after its last batch."""
    data = bytearray(pathlib.Path(log).read_bytes())
    for at in starts:
        struct.pack_into(">q", data, at, offset)
        offset += struct.unpack_from(">i", data, at + _DELTA_AT)[0] + 1
    file.write(data)
    return offset


if __name__ == "__main__":
    print("\n".join(make_segments(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))))
