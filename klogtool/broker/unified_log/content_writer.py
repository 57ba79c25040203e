"""The content of a file that grows: bytes copied from elsewhere, and new ones.

A long run of copied bytes becomes a range of its file, which the kernel copies later. A short run is read, because a
range costs memory and time too. Bytes of a file that is still being written are read, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.content import Content, FileRange, Part, Spooled, part_size
from klogtool.broker.spools import PART_BYTES, InMemory, Spool
from klogtool.broker.unified_log.content_file import ContentFile

SMALLEST_PIECE_BYTES = 256 << 10


class ContentWriter:
    """size: bytes so far. The source of a run must stay open until another run begins, or the content is asked for.

    spool: takes the new bytes; without one they stay in memory.
    """

    def __init__(self, spool: Spool | None = None) -> None:
        self.size = 0
        self._spool = InMemory() if spool is None else spool
        self._parts: list[Part] = []
        self._spooled = 0  # bytes of the part that is not finished
        self._source: ContentFile | None = None
        self._start = self._stop = 0

    def copy(self, source: ContentFile, start: int, stop: int) -> None:
        """Copy bytes [start, stop) of another content."""
        if source is not self._source or start != self._stop:
            self.end_run()
            self._source, self._start = source, start
        self._stop = stop
        self.size += stop - start

    def write(self, data: bytes) -> None:
        """Append new bytes."""
        self.end_run()
        self._put(data)
        self.size += len(data)

    def content(self) -> Content:
        """Return all of it so far."""
        self.end_run()
        self._end_part()
        return tuple(self._parts)

    def end_run(self) -> None:
        """Finish the run; the next copy has another source. Raises KlogError if the last source cannot be read."""
        source, self._source = self._source, None
        for part in source.content_of(self._start, self._stop) if source is not None else ():
            self._take(part)

    def _take(self, part: Part) -> None:
        if isinstance(part, FileRange) and part.size >= SMALLEST_PIECE_BYTES:
            self._end_part()
            self._spool.skip(part.size)
            self._parts.append(part)
            return
        for data in _walk_bytes(part):
            self._put(data)

    def _put(self, data: bytes) -> None:
        if self._spooled + len(data) > PART_BYTES:
            self._end_part()
        self._spool.write(data)
        self._spooled += len(data)

    def _end_part(self) -> None:
        if self._spooled:
            self._parts.append(self._spool.end_part())
            self._spooled = 0


def _walk_bytes(part: Part) -> Iterator[bytes]:
    """Yield all bytes of the part in chunks."""
    if isinstance(part, bytes):
        yield part
        return
    stored = part.as_range() if isinstance(part, Spooled) else part
    with ContentFile(stored.path, (stored,)) as file:
        for start in range(0, part_size(part), PART_BYTES):
            yield file.read(start, PART_BYTES)
