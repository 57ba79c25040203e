"""The source of a file's bytes: ranges of existing files, and new bytes. Nothing is written."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from klogtool.errors import became_shorter
from klogtool.kernels import crc32c
from klogtool.log.file import LogFile
from klogtool.values import PartlyCompared


class FileRange(Struct, frozen=True):
    """Bytes [start, stop) of the file at `path`, as it is before anything is written."""

    path: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.stop - self.start


class Spooled(PartlyCompared, frozen=True, eq=False):
    """New bytes that are not in memory: their number and CRC-32C (None for a part of such bytes).

    path, start: where they are stored meanwhile; path is None if only the plan is wanted, so they are not stored. The
    place is not part of their identity.
    """

    uncompared = frozenset({"path", "start"})

    size: int
    crc: int | None
    path: str | None = None
    start: int = 0

    def as_range(self) -> FileRange:
        """Return where they can be read. Raises ValueError if they are not stored."""
        if self.path is None:
            raise ValueError("what was made only to be told of cannot be read")
        return FileRange(self.path, self.start, self.start + self.size)


# The bytes of a file: pieces of existing files, and new bytes, in order.
Part: TypeAlias = FileRange | Spooled | bytes
Content: TypeAlias = tuple[Part, ...]


def part_size(part: Part) -> int:
    """Return the size in bytes."""
    return len(part) if isinstance(part, bytes) else part.size


def part_span(part: Part, start: int, stop: int) -> Part:
    """Return bytes [start, stop) of a part that contains them."""
    if isinstance(part, bytes):
        return part[start:stop]
    if isinstance(part, FileRange):
        return FileRange(part.path, part.start + start, part.start + stop)
    return part if stop - start == part.size else Spooled(stop - start, None, part.path, part.start + start)


def crc_of(part: Spooled | bytes) -> int:
    """Return the CRC-32C of new bytes. Raises KlogError if they have to be read for that, and cannot be."""
    if isinstance(part, Spooled) and part.crc is not None:
        return part.crc
    return crc32c(_read_part(part))


def content_size(content: Content) -> int:
    """Return the total size in bytes."""
    return sum(map(part_size, content))


def read_content(content: Content) -> bytes:
    """Read all of it into memory: for side files. Raises KlogError if a file cannot be read or has become shorter."""
    return b"".join(map(_read_part, content))


def _read_part(part: Part) -> bytes:
    if isinstance(part, bytes):
        return part
    return _read_range(part if isinstance(part, FileRange) else part.as_range())


def _read_range(file_range: FileRange) -> bytes:
    with LogFile(file_range.path) as file:
        data = file.read(file_range.start, file_range.size)
    if len(data) < file_range.size:
        raise became_shorter(file_range.path, file_range.start + len(data))
    return data


def add_part(parts: list[Part], part: Part) -> bool:
    """Append a part to others. If a range continues the last one in the same file, that one is extended, and False is
    returned."""
    last = parts[-1] if parts else None
    if not (isinstance(last, FileRange) and isinstance(part, FileRange)):
        parts.append(part)
        return True
    if (last.path, last.stop) != (part.path, part.start):
        parts.append(part)
        return True
    parts[-1] = FileRange(last.path, last.start, part.stop)
    return False


def joined(before: Content, behind: Content) -> Content:
    """Join two contents; adjacent ranges of one file become one."""
    parts = list(before)
    for part in behind:
        add_part(parts, part)
    return tuple(parts)
