"""A file of a draft, opened: pieces of files and new bytes, read as if they were one file on disk.

So the same code loads and scans a log on disk and a log in a draft.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from klogtool.broker.content import Content, FileRange, Spooled, part_size, part_span
from klogtool.errors import KlogError, became_shorter
from klogtool.log.file import LogFile


class ContentFile(LogFile):
    """A LogFile over content. path: the file's future name, for errors; size: bytes.

    Each source file is opened once. Raises Unreadable if one cannot be.
    """

    def __init__(self, path: str | os.PathLike[str], content: Content) -> None:
        self.path = os.fspath(path)
        self._content = content
        self._parts = [part.as_range() if isinstance(part, Spooled) else part for part in content]
        self._starts = [0, *accumulate(map(part_size, content))]
        self.size = self._starts[-1]
        self._files: dict[str, LogFile] = {}
        try:
            for part in self._parts:
                if isinstance(part, FileRange) and part.path not in self._files:
                    self._files[part.path] = LogFile(part.path)
        except KlogError:
            self.close()
            raise
        self.is_mappable = all(file.is_mappable for file in self._files.values())

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes from byte `position`, fewer where the file ends. Raises KlogError on an I/O error."""
        chunks = [self._read_part(part, start, stop) for part, start, stop in self._parts_of(position, size)]
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """Read `size` bytes from byte `position` into a buffer with room for them; the view is shorter at the file's
        end. Raises KlogError on an I/O error."""
        view, done = memoryview(buffer), 0
        parts = list(self._parts_of(position, size))
        if len(parts) == 1 and isinstance(part := parts[0][0], FileRange):
            start, stop = parts[0][1:]  # of one file, without a copy
            view = self._files[part.path].read_into(buffer, part.start + start, stop - start)
            if len(view) < stop - start:
                self._read_part(part, start, stop)  # raises the error
            return view
        for part, start, stop in parts:
            chunk = self._read_part(part, start, stop)
            view[done : done + len(chunk)] = chunk
            done += len(chunk)
        return view[:done]

    def map(self, position: int, size: int) -> memoryview:
        """Return the bytes from a position on, mapped if they are from one file, else copied to anonymous
        memory. Raises OSError, ValueError if that is impossible."""
        size = min(size, self.size - position)
        parts = list(self._parts_of(position, size))
        if len(parts) == 1 and isinstance(part := parts[0][0], FileRange):
            return self._files[part.path].map(part.start + parts[0][1], size)
        return self.read_into(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), position, size)

    def content_of(self, start: int, stop: int) -> Content:
        """The content of bytes [start, stop)."""
        return tuple(part_span(self._content[n], first, last) for n, first, last in self._spans_of(start, stop - start))

    def size_now(self) -> int:
        """Return the current size; less than `size` if a source file was cut."""
        sizes = {path: file.size_now() for path, file in self._files.items()}
        for part, start in zip(self._parts, self._starts, strict=False):
            if isinstance(part, FileRange) and sizes[part.path] < part.stop:
                return start + max(0, sizes[part.path] - part.start)
        return self.size

    def close(self) -> None:
        """Close its source files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _parts_of(self, position: int, size: int) -> Iterator[tuple[FileRange | bytes, int, int]]:
        """Yield the parts that hold these bytes, each with its range."""
        return ((self._parts[n], first, last) for n, first, last in self._spans_of(position, size))

    def _spans_of(self, position: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield the numbers of the parts that hold these bytes, each with its range."""
        end = min(position + size, self.size)
        n = bisect_right(self._starts, position) - 1
        while position < end:
            start, stop = self._starts[n], self._starts[n + 1]
            if position < stop:
                yield n, position - start, min(end, stop) - start
                position = min(end, stop)
            n += 1

    def _read_part(self, part: FileRange | bytes, start: int, stop: int) -> bytes:
        if isinstance(part, bytes):
            return part[start:stop]
        data = self._files[part.path].read(part.start + start, stop - start)
        if len(data) < stop - start:
            raise became_shorter(part.path, part.start + start + len(data))
        return data
