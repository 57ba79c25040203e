"""A log file in pieces that hold whole entries: bounded memory, one read for hundreds of batches."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator

from klogtool import kernels
from klogtool.log.file import LogFile

WINDOW_BYTES = 1 << 18  # still in a processor's cache when the kernel comes to it
# A batch may say that it is shorter than its own header; Kafka then reads header fields behind it.
SLACK_BYTES = 64
BEHIND_BYTES = 64 << 10  # most entries that begin before a place end so soon behind it
MAPPED_FROM_BYTES = 64 << 20
LARGEST_KEPT_BYTES = 16 << 20


class BufferPool:
    """Buffers that are used again: a fresh one costs the system a fault a page, as much as reading the page.

    Large ones are not: they are asked for by entries that may need so much, and hardly ever do, and so take no memory
    but what is written to.
    """

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque()

    def take(self, size: int) -> bytearray | mmap.mmap:
        """A buffer of at least so many bytes, with anything in it."""
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
        """The buffer behind a view, which nobody looks at any more."""
        buffer = view.obj
        if isinstance(buffer, bytearray):
            self._free.append(buffer)


class Window:
    """Bytes of a log from file position `base`: entries up to `cut`, and what follows as far as it was read.

    At least SLACK_BYTES follow, unless the file has no more.
    last: nothing but a tail (less than an entry, or one with an impossible length) comes after `cut`.
    """

    def __init__(self, base: int, data: memoryview, cut: int, last: bool) -> None:
        self.base, self.data, self.cut, self.last = base, data, cut, last


class Reads:
    """Hands out pieces of a file, read into buffers of a pool."""

    def __init__(self, file: LogFile, pool: BufferPool) -> None:
        self.file, self._pool = file, pool

    def read(self, at: int, size: int) -> memoryview:
        """`size` bytes from byte `at`, fewer where the file ends."""
        return self.file.read_into(self._pool.take(size), at, size)

    def read_entry(self, at: int, size: int) -> memoryview:
        """The same of a large entry. What a damaged length makes of half a disk is mapped: there is no room for it."""
        return self.file.read_into(bytearray(size), at, size) if size < MAPPED_FROM_BYTES else self.file.map(at, size)

    def give_back(self, view: memoryview) -> None:
        """A piece that nobody looks at any more."""
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
    """The entries of [start, end) of a file, window by window; `end` defaults to the file's. At least one window.

    An entry larger than `size` gets a window of its own. stop: nobody wants entries that begin behind it, so little
    of them is read. pool: who hands one in gives each window's data back to it; so for reads, which say how to read.
    """
    end = file.size if end is None else min(end, file.size)
    reads = reads or Reads(file, pool or BufferPool())
    at, last = start, False
    while not last:
        # So large that a window shows the length of its first entry, at least.
        wanted = max(size if stop is None else min(size, stop - at + BEHIND_BYTES), SLACK_BYTES)
        data = reads.read(at, wanted + SLACK_BYTES)
        cut, needed = kernels.native.whole_frames(data[:wanted], end - at)
        if cut == 0 and needed > wanted:
            reads.give_back(data)
            data = reads.read_entry(at, needed + SLACK_BYTES)
            cut, needed = kernels.native.whole_frames(data[:needed], end - at)
        # An entry that is still not whole: the file has shrunk since it was opened.
        last = needed == 0 or cut == 0
        yield Window(at, data, cut, last)
        at += cut
