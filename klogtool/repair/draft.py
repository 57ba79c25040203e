"""A folder as it is to become: names, and where the bytes of each file come from. Nothing is written.

Kafka's loading, recovery, rolling and cleaning change a draft just as a broker would change the folder. What differs
from the folder then is the plan; so what is shown and what is done cannot drift apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from klogtool.errors import Corrupt
from klogtool.kernels import crc32c
from klogtool.lazy_dataclasses import dataclass, field
from klogtool.log.file import LogFile, unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from klogtool.repair.spools import MakeSpool, Spool


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, stop) of the file at `path`, as it is before anything is written."""

    path: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Made:
    """New bytes that are not kept in memory: how many, and their CRC-32C (None: of a part of those that were made).

    path, start: where they lie in the meantime; path is None where nobody is to have them, since all that is wanted is
    the plan. Where they lie says nothing of what they are.
    """

    size: int
    crc: int | None
    path: str | None = field(default=None, compare=False)
    start: int = field(default=0, compare=False)

    def as_piece(self) -> Piece:
        """Where they can be read. Raises ValueError where they were not kept."""
        if self.path is None:
            raise ValueError("what was made only to be told of cannot be read")
        return Piece(self.path, self.start, self.start + self.size)


# The bytes of a file: pieces of files that are there, and new bytes, one behind the other.
Part: TypeAlias = Piece | Made | bytes
Content: TypeAlias = tuple[Part, ...]


def part_size(part: Part) -> int:
    """Bytes."""
    return len(part) if isinstance(part, bytes) else part.size


def part_span(part: Part, start: int, stop: int) -> Part:
    """Bytes [start, stop) of a part, which has them."""
    if isinstance(part, bytes):
        return part[start:stop]
    if isinstance(part, Piece):
        return Piece(part.path, part.start + start, part.start + stop)
    return part if stop - start == part.size else Made(stop - start, None, part.path, part.start + start)


def crc_of(part: Made | bytes) -> int:
    """The CRC-32C of new bytes. Raises KlogError where they have to be read for it, and cannot be."""
    if isinstance(part, Made) and part.crc is not None:
        return part.crc
    return crc32c(_read_part(part))


def content_size(content: Content) -> int:
    """Bytes in all."""
    return sum(map(part_size, content))


def read_content(content: Content) -> bytes:
    """All of it, in memory: for side files. Raises KlogError if a file cannot be read or has become shorter."""
    return b"".join(map(_read_part, content))


def _read_part(part: Part) -> bytes:
    if isinstance(part, bytes):
        return part
    return _read_piece(part if isinstance(part, Piece) else part.as_piece())


def _read_piece(piece: Piece) -> bytes:
    with LogFile(piece.path) as file:
        data = file.read(piece.start, piece.size)
    if len(data) < piece.size:
        raise Corrupt(
            "the file has become shorter while it was read", path=piece.path, position=piece.start + len(data)
        )
    return data


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A file to be. mtime_ns: its modification time, or None for a file that is written now."""

    content: Content
    mtime_ns: int | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return content_size(self.content)


class Draft:
    """The regular files of one folder, by name. `before` is how it was found and stays so; `files` is what changes.

    folders, devices: names of what else is there, and in the way of files. make_spool: for one large new file.
    """

    def __init__(
        self, path: str, files: dict[str, DraftFile], folders: Iterable[str] = (), devices: Iterable[str] = ()
    ) -> None:
        self.path, self.folders, self.devices = path, frozenset(folders), frozenset(devices)
        self.before = dict(files)
        self.files = files
        self.make_spool: MakeSpool | None = None

    @classmethod
    def of(cls, path: str) -> Draft:
        """A folder as it is on the disk. Raises KlogError if it cannot be listed."""
        try:
            with os.scandir(path) as scanned:
                entries = list(scanned)
            found = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
        except OSError as error:
            raise unreadable(path, error) from error
        return cls(
            path,
            {
                name: DraftFile((Piece(os.path.join(path, name), 0, stat.st_size),), stat.st_mtime_ns)
                for name, stat in sorted(found)
            },
            (entry.name for entry in entries if entry.is_dir()),
            (entry.name for entry in entries if not entry.is_dir() and not entry.is_file() and os.path.exists(entry)),
        )

    def new_spool(self) -> Spool | None:
        """For the bytes of a large new file; without one they stay in memory."""
        return None if self.make_spool is None else self.make_spool()

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        return sorted(self.files)

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def is_folder(self, name: str) -> bool:
        """Whether a folder has the name, so that no file can come to have it."""
        return name in self.folders

    def check_is_no_folder(self, name: str, kafka_class: str = "FileSystemException") -> None:
        """Raises Corrupt, of the class that Kafka throws when it opens one, if a folder has the name."""
        if self.is_folder(name):
            raise Corrupt("Is a directory", path=os.path.join(self.path, name), kafka_class=kafka_class)

    def size(self, name: str) -> int:
        """Bytes of a file that is there."""
        return self.files[name].size

    def read(self, name: str) -> bytes:
        """The bytes of a side file that is there."""
        return read_content(self.files[name].content)

    def write(self, name: str, content: Content | bytes, mtime_ns: int | None = None) -> None:
        """A file with this content, new or in place of the one of that name."""
        whole = (content,) if isinstance(content, bytes) else content
        self.files[name] = DraftFile(tuple(part for part in whole if part != b""), mtime_ns)

    def truncate(self, name: str, size: int) -> None:
        """Cut a file behind `size` bytes; nothing changes if it has no more."""
        file = self.files[name]
        if size < file.size:
            self.files[name] = DraftFile(span_of(file.content, 0, size))

    def move(self, name: str, to: str) -> None:
        """Give a file another name; a file of that name is replaced."""
        self.files[to] = self.files.pop(name)

    def delete(self, name: str) -> None:
        """A file is gone; nothing happens if there is none."""
        self.files.pop(name, None)

    def changed(self) -> set[str]:
        """Names whose file is new, gone or another one."""
        return {name for name in {*self.before, *self.files} if self.before.get(name) != self.files.get(name)}


def span_of(content: Content, start: int, size: int) -> Content:
    """`size` bytes of a content from byte `start` on, fewer where it ends."""
    found: list[Part] = []
    for part in content:
        length = part_size(part)
        first, last = max(0, start), min(length, start + size)
        if first < last:
            found.append(part_span(part, first, last))
        start -= length
    return tuple(found)
