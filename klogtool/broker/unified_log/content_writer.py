"""The content of a file that grows: bytes that are copied from elsewhere, and new ones.

Long runs of copied bytes are pieces of the file they are in, which the system moves without anybody reading them; short
ones are read, since a piece takes memory, and time, too. So are those of a file that is only being made.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.content import Content, FileRange, Made, Part, part_size
from klogtool.broker.spools import PART_BYTES, InMemory, Spool
from klogtool.broker.unified_log.content_file import ContentFile

SMALLEST_PIECE_BYTES = 256 << 10


class ContentWriter:
    """size: bytes so far. The source of a run must be open until another one begins, or the content is asked for.

    spool: takes the new bytes; they stay in memory without one.
    """

    def __init__(self, spool: Spool | None = None) -> None:
        self.size = 0
        self._spool = InMemory() if spool is None else spool
        self._parts: list[Part] = []
        self._spooled = 0  # bytes of the part that is not ended
        self._source: ContentFile | None = None
        self._start = self._stop = 0

    def copy(self, source: ContentFile, start: int, stop: int) -> None:
        """Bytes [start, stop) of another content."""
        if source is not self._source or start != self._stop:
            self.end_run()
            self._source, self._start = source, start
        self._stop = stop
        self.size += stop - start

    def write(self, data: bytes) -> None:
        """New bytes."""
        self.end_run()
        self._put(data)
        self.size += len(data)

    def content(self) -> Content:
        """All of it, so far."""
        self.end_run()
        self._end_part()
        return tuple(self._parts)

    def end_run(self) -> None:
        """What is copied next is of another source. Raises KlogError where the last one cannot be read."""
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
    """All of it, some at a time."""
    if isinstance(part, bytes):
        yield part
        return
    piece = part.as_range() if isinstance(part, Made) else part
    with ContentFile(piece.path, (piece,)) as file:
        for start in range(0, part_size(part), PART_BYTES):
            yield file.read(start, PART_BYTES)
