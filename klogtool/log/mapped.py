"""Pieces of a file mapped, not read, which spares copying it: for kernels that go over every byte of large files.

A mapped file that somebody cuts, or that lies on a bad sector, would kill the process with SIGBUS. So the extension
watches over each piece and puts zeros where the file has nothing to give (kernels/_mapped.h). Whoever maps asks,
behind each piece and before anything of it is told, whether that happened; if so, what was made is thrown away and
made again from a file that is read: that says what is wrong. Bytes may also change while they are looked at; a kernel
for mapped pieces loads what it relies on once.

The watch is in kernels/_mapped.pxi.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from klogtool import kernels
from klogtool.log.windows import BufferPool, Reads

if TYPE_CHECKING:
    from klogtool.log.file import LogFile


MAPPED_FROM_BYTES = 1 << 20  # a smaller file is read before it would be mapped
FETCHED_UP_TO_BYTES = 16 << 20  # of a larger entry, only the pages that are looked at come into memory


def should_map(file: LogFile) -> bool:
    """Whether mapping pays, and can be watched over."""
    return kernels.native.CAN_WATCH and file.is_mappable and file.size >= MAPPED_FROM_BYTES


class MappedReads(Reads):
    """Hands out mapped pieces where it can, read ones where not. For one thread; to be left by `with`.

    hit: whether bytes were handed out that the file does not have any more, or cannot give; known of every piece that
    was given back.
    """

    def __init__(self, file: LogFile, pool: BufferPool | None = None) -> None:
        super().__init__(file, pool or BufferPool())
        self.hit = False
        self._watched: list[tuple[int, memoryview, kernels.native.Watch]] = []

    def read(self, at: int, size: int) -> memoryview:
        """`size` bytes from byte `at`, fewer where the file ends."""
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
        """The same for a piece of any size."""
        return self.read(at, size)

    def give_back(self, view: memoryview) -> None:
        """A piece that nobody looks at any more."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, view, _ in list(self._watched):
            self.give_back(view)
