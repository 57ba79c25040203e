"""Pieces of a file, mapped and not read. Mapping saves a copy, for kernels that go over every byte of large files.

If somebody truncates a mapped file, or a sector is bad, SIGBUS would kill the process. So the extension watches each
piece, and puts zeros where the file has no bytes (kernels/_mapped.h). After each piece, and before any result is given
out, the caller asks whether that happened. If it did, the result is discarded, and the file is read instead: reading
says what is wrong. Bytes may also change while a kernel works; a kernel for mapped pieces loads each value once.

The watch is in kernels/_mapped.pxi.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool import kernels
from klogtool.errors import became_shorter
from klogtool.log.file import LogFile
from klogtool.log.windows import BufferPool, Reads, Window, walk_windows

MAPPED_FROM_BYTES = 1 << 20  # a smaller file is read before it would be mapped
FETCHED_UP_TO_BYTES = 16 << 20  # of a larger piece, only the pages that are looked at come into memory
HEADERS_BYTES = 2 * FETCHED_UP_TO_BYTES


def should_map(file: LogFile) -> bool:
    """Whether mapping pays for this file, and can be watched."""
    return kernels.native.CAN_WATCH and file.is_mappable and file.size >= MAPPED_FROM_BYTES


class MappedReads(Reads):
    """Gives mapped pieces, and read ones where mapping fails. For one thread, in a `with` statement.

    hit: whether a piece that was given back had bytes that the file no longer has, or cannot give.
    """

    def __init__(self, file: LogFile, pool: BufferPool | None = None) -> None:
        super().__init__(file, pool or BufferPool())
        self.hit = False
        self._watched: list[tuple[int, memoryview, kernels.native.Watch]] = []

    def read(self, at: int, size: int) -> memoryview:
        """Return `size` bytes from byte `at`, fewer if the file ends earlier."""
        if size <= 0 or at >= self.file.size:
            return super().read(at, size)
        try:
            view = self.file.map(at, size)
            watch = kernels.native.Watch(view, len(view) <= FETCHED_UP_TO_BYTES)
        except (OSError, ValueError):  # no mapping here, or the file is shorter by now
            return super().read(at, size)
        self._watched.append((at + len(view), view, watch))
        return view

    def read_entry(self, at: int, size: int) -> memoryview:
        """Return the bytes of an entry, mapped as all others are, whatever its size."""
        return self.read(at, size)

    def give_back(self, view: memoryview) -> None:
        """Take back a piece that nobody uses any more."""
        for n, (end, watched, watch) in enumerate(self._watched):
            if watched is view:
                # A page that the file's new end lies in is zeros behind it, without a signal.
                self.hit = self.hit or watch.was_hit() or self.file.size_now() < end
                watch.let_go()
                del self._watched[n]
                return
        super().give_back(view)

    def __enter__(self) -> MappedReads:
        return self

    def __exit__(self, *_: object) -> None:
        for view in [view for _, view, _ in self._watched]:
            self.give_back(view)


def walk_header_windows(file: LogFile, *, start: int = 0, end: int | None = None) -> Iterator[Window]:
    """Yield the windows of `walk_windows`, each valid until the next one, for who looks at little more than headers: of
    a large local file only the pages that are looked at come into memory. Raises Changed if the file was cut."""
    if not should_map(file):
        pool = BufferPool()
        for window in walk_windows(file, start=start, end=end, pool=pool):
            yield window
            if not window.last:
                pool.give_back(window.data)
        return
    with MappedReads(file) as reads:
        for window in walk_windows(file, start=start, end=end, size=HEADERS_BYTES, reads=reads):
            yield window
            reads.give_back(window.data)
            if reads.hit:
                raise became_shorter(file.path, window.base)
