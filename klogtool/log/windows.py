"""A log file in pieces that hold whole entries: bounded memory, one read a megabyte.

What walks the entries is handed in, so that the reference and the kernel read the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from klogtool.log.file import LogFile

WINDOW_BYTES = 1 << 20
# A batch may say that it is shorter than its own header; Kafka then reads header fields behind it.
SLACK_BYTES = 64

# (data, end of the log relative to data) -> (end of the last whole entry, size of the one that is cut off or 0)
WholeFrames = Callable[[bytes, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Window:
    """Bytes of a log from file position `base`: entries up to `cut`, and what follows as far as it was read.

    last: nothing but a tail (less than an entry, or one with an impossible length) comes after `cut`.
    """

    base: int
    data: bytes
    cut: int
    last: bool


def walk_windows(
    file: LogFile, whole_frames: WholeFrames, *, start: int = 0, end: int | None = None, size: int = WINDOW_BYTES
) -> Iterator[Window]:
    """The entries of [start, end) of a file, window by window; `end` defaults to the file's. At least one window.

    An entry larger than `size` gets a window of its own.
    """
    stop = file.size if end is None else min(end, file.size)
    at, last = start, False
    while not last:
        data = file.read(at, size + SLACK_BYTES)
        cut, needed = whole_frames(data, stop - at)
        if cut == 0 and needed > len(data):
            data = file.read(at, needed + SLACK_BYTES)
            cut, needed = whole_frames(data, stop - at)
        # An entry that is still not whole: the file has shrunk since it was opened.
        last = needed == 0 or cut == 0
        yield Window(at, data, cut, last)
        at += cut
