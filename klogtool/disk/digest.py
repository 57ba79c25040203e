"""Whether a file still has the same bytes: compares a sum of all bytes, or of samples if the file is large.

A segment has a gigabyte, and a run may delete hundreds of them without reading one. So for a large file the sum covers
its beginning, its middle and its end. Together with size and times that distinguishes the file from any other that was
not made to deceive.
"""

from __future__ import annotations

from klogtool.kernels import crc32c
from klogtool.log.file import LogFile

WHOLE_BYTES = 4 << 20  # the sum of a file up to this size covers all bytes
SAMPLE_BYTES = 64 << 10
CHUNK_BYTES = 256 << 10


def digest_of(path: str, size: int) -> str:
    """Return eight hex digits for the first `size` bytes of a file. Raises KlogError if it cannot be read."""
    crc = 0
    with LogFile(path) as file:
        buffer = bytearray(CHUNK_BYTES)
        for start, stop in _spans(size):
            for at in range(start, stop, CHUNK_BYTES):
                crc = crc32c(file.read_into(buffer, at, min(CHUNK_BYTES, stop - at)), crc)
    return f"{crc:08x}"


def _spans(size: int) -> list[tuple[int, int]]:
    if size <= WHOLE_BYTES:
        return [(0, size)]
    starts = (0, (size - SAMPLE_BYTES) // 2, size - SAMPLE_BYTES)
    return [(start, start + SAMPLE_BYTES) for start in starts]
