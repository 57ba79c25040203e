"""A folder as it should become: names, and the source of each file's bytes. Nothing is written.

Kafka's loading, recovery, rolling and cleaning change a draft as a broker would change the folder. The difference
between the draft and the folder is the plan. So what is shown and what is done cannot differ.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from klogtool.broker.content import Content, FileRange, Part, content_size, part_size, part_span, read_content
from klogtool.broker.spools import MakeSpool, Spool
from klogtool.errors import Corrupt
from klogtool.format.names import is_visible_to_java
from klogtool.log.file import LogFile, ReadErrors
from klogtool.log.folder import is_fifo, is_file, is_folder, is_socket, why_leads_nowhere
from klogtool.log.second_reading import read_again
from klogtool.values import PartlyCompared


class DraftFile(PartlyCompared, frozen=True, eq=False):
    """A file as it should be. mtime_ns: None for a file that is written now.

    ino, ctime_ns: of a file that was found. Every change of a file changes its ctime, and nobody can set it.
    """

    uncompared = frozenset({"ino", "ctime_ns"})

    content: Content
    mtime_ns: int | None = None
    ino: int | None = None
    ctime_ns: int | None = None

    @property
    def size(self) -> int:
        """Size in bytes."""
        return content_size(self.content)


def file_on_disk(path: str, stat: os.stat_result) -> DraftFile:
    """Return a file as found on disk."""
    return DraftFile((FileRange(path, 0, stat.st_size),), stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns)


class Draft:
    """The regular files of one folder, by name. `before` is the state as found, and does not change; `files` does.

    folders, devices: names of other things, which block files of the same name. links: names of links that lead to no
    file; one is made through them, if it can be. make_spool: for one large new file.
    """

    def __init__(
        self, path: str, files: dict[str, DraftFile], folders: Iterable[str] = (), devices: Iterable[str] = ()
    ) -> None:
        self.path, self.folders, self.devices = path, frozenset(folders), frozenset(devices)
        self.before = dict(files)
        self.files = files
        self.links: frozenset[str] = frozenset()
        self.make_spool: MakeSpool | None = None
        self.listed: tuple[int, frozenset[str]] | None = None  # the folder's mtime, read first, and the names in it

    @classmethod
    def of(cls, path: str, *, passes_over_links: bool = False) -> Draft:
        """Read a folder; again, if a file goes away meanwhile. passes_over_links: leave links that lead nowhere out, as
        a broker does: they are no files for it. Raises KlogError if the folder cannot be listed, or at such a link."""
        return read_again(lambda: cls._of(path, passes_over_links))

    @classmethod
    def _of(cls, path: str, passes_over_links: bool) -> Draft:
        with ReadErrors(path):
            mtime_ns = os.stat(path).st_mtime_ns
            with os.scandir(path) as scanned:
                entries = list(scanned)
        for entry in () if passes_over_links else entries:
            if entry.is_symlink() and not os.path.exists(entry):
                LogFile(entry.path).close()  # Unreadable: the target disk may not be mounted
        files = []
        for entry in filter(is_file, entries):
            with ReadErrors(entry.path):
                files.append((entry.name, entry.stat()))
        draft = cls(
            path,
            {name: file_on_disk(os.path.join(path, name), stat) for name, stat in sorted(files)},
            (entry.name for entry in entries if is_folder(entry)),
            (entry.name for entry in entries if not is_folder(entry) and not is_file(entry) and os.path.exists(entry)),
        )
        draft.links = frozenset(entry.name for entry in entries if not os.path.exists(entry))
        draft.listed = mtime_ns, frozenset(entry.name for entry in entries)
        return draft

    def new_spool(self) -> Spool | None:
        """Return a spool for the bytes of a large new file; None: keep them in memory."""
        return None if self.make_spool is None else self.make_spool()

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(self.files)

    def names_found(self) -> list[str]:
        """Return the names of the files that a broker finds, sorted."""
        return list(filter(is_visible_to_java, self.names()))

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def is_folder(self, name: str) -> bool:
        """Return whether a folder has this name, so that no file can get it."""
        return name in self.folders

    def check_opens(self, name: str, kafka_class: str = "FileSystemException") -> None:
        """Raises Corrupt if a folder, a socket or a link through which no file can be made has this name, with the
        class that Kafka throws when it opens one as a file. A FIFO and a device open."""
        path = os.path.join(self.path, name)
        if self.is_folder(name):
            raise Corrupt("Is a directory", path=path, kafka_class=kafka_class)
        if name in self.devices and is_socket(path):
            raise Corrupt("No such device or address", path=path, kafka_class=kafka_class)
        if name in self.links and (wrong := why_leads_nowhere(path)) is not None:
            is_absent = kafka_class == "FileSystemException" and wrong == os.strerror(errno.ENOENT)
            raise Corrupt(wrong, path=path, kafka_class="NoSuchFileException" if is_absent else kafka_class)

    def check_has_position(self, name: str) -> None:
        """Raises Corrupt as `check_opens`, and if a FIFO has this name: Kafka moves to its end when it opens it."""
        self.check_opens(name)
        if name in self.devices and is_fifo(path := os.path.join(self.path, name)):
            raise Corrupt("Illegal seek", path=path, kafka_class="IOException")

    def check_takes_bytes(self, name: str) -> None:
        """Raises Corrupt as `check_opens`, and if a FIFO or a device has this name: no device can be synced. To open a
        FIFO for writing never ends, which no class of Kafka tells."""
        self.check_opens(name)
        if name in self.devices and is_fifo(path := os.path.join(self.path, name)):
            raise Corrupt("nobody reads this FIFO, so that the writing to it never ends", path=path)
        if name in self.devices:
            raise Corrupt("Invalid argument", path=path, kafka_class="IOException")

    def size(self, name: str) -> int:
        """Return the size of an existing file."""
        return self.files[name].size

    def read(self, name: str) -> bytes:
        """Return the bytes of an existing side file."""
        return read_content(self.files[name].content)

    def write(self, name: str, content: Content | bytes, mtime_ns: int | None = None) -> None:
        """Write a file with this content, new or in place of an existing one."""
        whole = (content,) if isinstance(content, bytes) else content
        self.files[name] = DraftFile(tuple(part for part in whole if part != b""), mtime_ns)

    def truncate(self, name: str, size: int) -> None:
        """Cut a file to `size` bytes; a smaller file does not change."""
        file = self.files[name]
        if size < file.size:
            self.files[name] = DraftFile(span_of(file.content, 0, size))

    def move(self, name: str, to: str) -> None:
        """Rename a file; an existing file of the new name is replaced."""
        self.files[to] = self.files.pop(name)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        self.files.pop(name, None)

    def changed(self) -> set[str]:
        """Return the names whose file is new, gone or replaced."""
        return {name for name in {*self.before, *self.files} if self.before.get(name) != self.files.get(name)}


def span_of(content: Content, start: int, size: int) -> Content:
    """Return `size` bytes of a content from byte `start` on, fewer if it ends earlier."""
    parts: list[Part] = []
    for part in content:
        length = part_size(part)
        first, last = max(0, start), min(length, start + size)
        if first < last:
            parts.append(part_span(part, first, last))
        start -= length
    return tuple(parts)
