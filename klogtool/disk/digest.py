"""Whether a file has the bytes that it had: by a sum of all of them, or of samples where there are many.

A segment has a gigabyte, and a run may delete hundreds of them without reading one. So of a large file the sum is over
its beginning, its middle and its end; with its size and its times that tells a file from any other that was not made to
deceive.
"""

from __future__ import annotations

from klogtool.kernels import crc32c
from klogtool.log.file import LogFile

WHOLE_BYTES = 4 << 20  # of smaller files all bytes count
SAMPLE_BYTES = 64 << 10
CHUNK_BYTES = 256 << 10


def digest_of(path: str, size: int) -> str:
    """Eight hex digits of the first `size` bytes of a file. Raises KlogError where it cannot be read."""
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
