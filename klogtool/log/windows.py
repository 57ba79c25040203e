"""A log file in pieces that hold whole entries: bounded memory, one read for hundreds of batches."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator

from klogtool import kernels
from klogtool.errors import Corrupt
from klogtool.format.framing import FrameStop, corrupt_length, find_frame
from klogtool.log.file import LogFile

WINDOW_BYTES = 1 << 18  # small enough to stay in the processor's cache until the kernel reads it
# A batch may claim to be shorter than its own header; Kafka then reads header fields after it.
SLACK_BYTES = 64
BEHIND_BYTES = 64 << 10  # most entries that begin before a position end within this distance after it
MAPPED_FROM_BYTES = 64 << 20
LARGEST_KEPT_BYTES = 16 << 20


class BufferPool:
    """Buffers for reuse: a new one costs a page fault per page, as much as reading the page.

    Large ones are not reused. They are for entries whose length field claims that much, which is rarely true; memory is
    taken only for what is written.
    """

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque()

    def take(self, size: int) -> bytearray | mmap.mmap:
        """Return a buffer of at least `size` bytes, with arbitrary contents."""
        if size > LARGEST_KEPT_BYTES:
            try:
                return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except OSError as error:
                raise MemoryError from error
        try:
            buffer = self._free.pop()
        except IndexError:
            return bytearray(size)
        return buffer if len(buffer) >= size else bytearray(size)

    def give_back(self, view: memoryview) -> None:
        """Take back the buffer of a view that nobody uses any more."""
        buffer = view.obj
        if isinstance(buffer, bytearray):
            self._free.append(buffer)


class Window:
    """Bytes of a log from file position `base`: entries up to `cut`, and the bytes after it that were read.

    At least SLACK_BYTES follow, unless the file ends. last: after `cut` there is only a tail: less than an entry, or
    one with an impossible length.
    """

    def __init__(self, base: int, data: memoryview, cut: int, last: bool) -> None:
        self.base, self.data, self.cut, self.last = base, data, cut, last

    def length_error(self, end: int) -> Corrupt | None:
        """Return the error if an entry with an impossible length is at `cut`, in a log that ends at byte `end`."""
        end = min(end - self.base, len(self.data))  # a file that was cut meanwhile ends where it now ends
        if find_frame(self.data, self.cut, end) is FrameStop.LENGTH:
            return corrupt_length(self.data, self.cut, self.base)
        return None


class Reads:
    """Reads pieces of a file into buffers of a pool."""

    def __init__(self, file: LogFile, pool: BufferPool) -> None:
        self.file, self._pool = file, pool

    def read(self, at: int, size: int) -> memoryview:
        """Return `size` bytes from byte `at`, fewer if the file ends earlier."""
        return self.file.read_into(self._pool.take(size), at, size)

    def read_entry(self, at: int, size: int) -> memoryview:
        """Return the bytes of an entry. A large one is mapped, because a damaged length may claim more than fits in
        memory."""
        return self.file.read_into(bytearray(size), at, size) if size < MAPPED_FROM_BYTES else self.file.map(at, size)

    def give_back(self, view: memoryview) -> None:
        """Take back a piece that nobody uses any more."""
        self._pool.give_back(view)


def walk_windows(
    file: LogFile,
    *,
    start: int = 0,
    end: int | None = None,
    size: int = WINDOW_BYTES,
    stop: int | None = None,
    pool: BufferPool | None = None,
    reads: Reads | None = None,
) -> Iterator[Window]:
    """Yield the entries of [start, end) of a file, in windows, at least one; `end` defaults to the file's end.

    An entry larger than `size` gets its own window. stop: entries that begin after it are not needed, so little of them
    is read. pool: the caller gives each window's data back to it; likewise for reads, which says how to read.
    """
    end = file.size if end is None else min(end, file.size)
    reads = reads or Reads(file, pool or BufferPool())
    at, last = start, False
    while not last:
        # Large enough that a window shows at least the length of its first entry.
        wanted = max(size if stop is None else min(size, stop - at + BEHIND_BYTES), SLACK_BYTES)
        data = reads.read(at, wanted + SLACK_BYTES)
        cut, needed = kernels.native.whole_frames(data[:wanted], end - at)
        if cut == 0 and needed > wanted:
            reads.give_back(data)
            data = reads.read_entry(at, needed + SLACK_BYTES)
            cut, needed = kernels.native.whole_frames(data[:needed], end - at)
        # The entry is still incomplete: the file has shrunk since it was opened.
        last = needed == 0 or cut == 0
        yield Window(at, data, cut, last)
        at += cut
