"""The content of a file that grows: bytes that are copied from elsewhere, and new ones.

Long runs of copied bytes are pieces of the file they are in, which the system moves without anybody reading them; short
ones are read, since a piece takes memory, and time, too.
"""

from __future__ import annotations

from klogtool.repair.draft import Content, Piece
from klogtool.repair.unified_log.content_file import ContentFile

SMALLEST_PIECE_BYTES = 16 << 10
PART_BYTES = 8 << 20  # new bytes are joined up to here


class ContentWriter:
    """size: bytes so far. The source of a run must be open until another one begins, or the content is asked for."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Piece | bytes] = []
        self._bytes: list[bytes] = []
        self._joined = 0
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
        self._end_bytes()
        return tuple(self._parts)

    def end_run(self) -> None:
        """What is copied next is of another source. Raises KlogError where the last one cannot be read."""
        source, self._source = self._source, None
        for part in source.content_of(self._start, self._stop) if source is not None else ():
            self._take(part)

    def _take(self, part: Piece | bytes) -> None:
        if isinstance(part, bytes):
            self._put(part)
        elif part.size < SMALLEST_PIECE_BYTES:
            with ContentFile(part.path, (part,)) as file:
                self._put(file.read(0, part.size))
        else:
            self._end_bytes()
            self._parts.append(part)

    def _put(self, data: bytes) -> None:
        if self._joined + len(data) > PART_BYTES:
            self._end_bytes()
        self._bytes.append(data)
        self._joined += len(data)

    def _end_bytes(self) -> None:
        if self._bytes:
            self._parts.append(self._bytes[0] if len(self._bytes) == 1 else b"".join(self._bytes))
            self._bytes.clear()
            self._joined = 0
