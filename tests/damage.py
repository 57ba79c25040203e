"""Wounds for copies of fixtures, by name."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

from construct import Struct

from klogtool.format.batch import CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD
from klogtool.format.checksums import crc32, crc32c
from klogtool.format.fields import field_positions
from klogtool.format.framing import LOG_OVERHEAD, Frame, find_frame
from klogtool.format.layouts import BATCH_HEADER
from klogtool.format.message import CRC_COVERS_FROM as MESSAGE_CRC_COVERS_FROM


def tear_at(path: pathlib.Path, size: int) -> None:
    """The file ends after `size` bytes."""
    path.write_bytes(path.read_bytes()[:size])


def flip_bit(path: pathlib.Path, position: int, bit: int = 0) -> None:
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 1 << bit]))


def zero_from(path: pathlib.Path, position: int) -> None:
    """Zeros from there to the end, as where sizes reached the disk before the data."""
    data = path.read_bytes()
    path.write_bytes(data[:position] + bytes(len(data) - position))


def overwrite(path: pathlib.Path, position: int, new: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:position] + new + data[position + len(new) :])


def append_bytes(path: pathlib.Path, new: bytes) -> None:
    path.write_bytes(path.read_bytes() + new)


def shuffle_blocks(path: pathlib.Path, size: int = 64, seed: int = 1) -> None:
    """Blocks of the file in another order."""
    data = path.read_bytes()
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    random.Random(seed).shuffle(blocks)
    path.write_bytes(b"".join(blocks))


# ---------------------------------------------------------------- so that a CRC does not tell


def frames_of(data: bytes | bytearray) -> Iterator[Frame]:
    at = 0
    while isinstance(found := find_frame(data, at, len(data)), Frame):
        yield found
        at += found.size


def heal_checksums(data: bytearray) -> None:
    """Every entry's CRC made right again, so that what lies under it is looked at."""
    for frame in list(frames_of(data)):
        at, end = frame.position, frame.position + frame.size
        if frame.magic == 2 and frame.size >= RECORD_BATCH_OVERHEAD:
            put_crc(data, at + field_at(BATCH_HEADER, "crc"), crc32c(data[at + CRC_COVERS_FROM : end]))
        elif frame.magic in (0, 1) and frame.size > LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM:
            message = at + LOG_OVERHEAD
            put_crc(data, message, crc32(data[message + MESSAGE_CRC_COVERS_FROM : end]))


def put_crc(data: bytearray, at: int, crc: int) -> None:
    data[at : at + 4] = crc.to_bytes(4, "big")


def field_at(head: Struct, name: str) -> int:
    return next(at for field, at, _ in field_positions(head) if field == name)
