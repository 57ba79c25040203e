"""New bytes on the device while it is still being decided what becomes of them.

They wait in a folder of files that is where a rename puts them in their place: in the journal, or beside the result of
--output. It comes to be with the first byte, and goes when whoever made it is done with it. One that a kill has left
in a journal is known by its lock, which nobody holds: whoever works with the journal next removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from klogtool.broker.content import Content, FileRange, Made, Part, content_size, crc_of, part_size
from klogtool.disk.about import About
from klogtool.disk.disk import Disk
from klogtool.disk.putting import put
from klogtool.disk.readback import WrittenFile, differs
from klogtool.kernels import crc32c
from klogtool.log.file import LogFile
from klogtool.log.in_order import in_order
from klogtool.plans.plan import Write
from klogtool.plans.saved_plan import SavedPlan

PREFIX = "made-"
CHUNK_BYTES = 256 << 10
TRIES = 1000  # to have a folder that nobody takes away


class SpoolFolder:
    """The folder, to be left by `with`. before, behind: what else there is to do when it comes to be, and has gone."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        before: Callable[[], object] = lambda: None,
        behind: Callable[[], object] = lambda: None,
    ) -> None:
        self.path, self.disk = path, disk
        self._before, self._behind = before, behind
        self._making = threading.Lock()
        self._lock: int | None = None
        self._files = 0

    def make_spool(self) -> FileSpool:
        """For one new file; on any thread."""
        return FileSpool(self)

    def add_file(self) -> str:
        """A file in it, new and empty; its path. Raises OSError, KlogError."""
        with self._making:
            if self._lock is None:
                self._lock = _make_and_lock(self.disk, self.path, self._before)
            self._files += 1
            path = os.path.join(self.path, str(self._files))
        self.disk.write(path, ())
        return path

    def __enter__(self) -> SpoolFolder:
        return self

    def __exit__(self, *_: object) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            with suppress(OSError):  # it has a name that says what it is, and the error that led here is told
                _remove(self.disk, self.path)
        finally:
            os.close(lock)
        self._behind()


class FileSpool:
    """broker.spools.Spool over a file: what it gives lies there, in its place in what is to come to be."""

    def __init__(self, folder: SpoolFolder) -> None:
        self._folder, self._path = folder, ""
        self._position = self._size = self._crc = 0

    def write(self, data: bytes) -> None:
        """More bytes. Raises OSError where they cannot be written."""
        self._path = self._path or self._folder.add_file()
        self._folder.disk.extend(self._path, self._position + self._size, (data,))
        self._size += len(data)
        self._crc = crc32c(data, self._crc)

    def skip(self, size: int) -> None:
        """A hole, for now."""
        self._position += size

    def end_part(self) -> Part:
        """What was written."""
        part = Made(self._size, self._crc, self._path, self._position)
        self._position += self._size
        self._size = self._crc = 0
        return part


def _make_and_lock(disk: Disk, path: str, before: Callable[[], object]) -> int:
    """The descriptor of a new folder, which is locked as long as that is open. Raises OSError, KlogError.

    Until it is locked, somebody else may take it for one that is left, or the folder around it for an empty one.
    """
    for _ in range(TRIES):
        with suppress(FileNotFoundError):
            before()
            disk.mkdir(path)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.path.isdir(path):
                return folder
            os.close(folder)
    raise FileNotFoundError(errno.ENOENT, "another process keeps deleting this folder", path)


def clear_left(disk: Disk, journal: str) -> None:
    """Folders that kills have left in a journal go."""
    try:
        left = [name for name in os.listdir(journal) if name.startswith(PREFIX)]
    except FileNotFoundError:
        return
    for name in left:
        path = os.path.join(journal, name)
        with suppress(OSError):  # somebody's, or gone by now
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(disk, path)
            finally:
                os.close(folder)


def new_name() -> str:
    """Of a folder in a journal."""
    return PREFIX + uuid.uuid4().hex


def _remove(disk: Disk, folder: str) -> None:
    for name in os.listdir(folder):
        disk.delete(os.path.join(folder, name))
    disk.rmdir(folder)


# --- into place -------------------------------------------------------------------------------------------------------


Laid = list[tuple[str, Content]]  # files that are in their place, and what is to be in them


def put_made(disk: Disk, path: str, content: Content, like: About) -> None:
    """A new file, synced and read back: what waits for it is renamed, where it can be. Raises as `putting.put`."""
    if lay_made(disk, path, content, like):
        check_made([(path, content)])


def lay_made(disk: Disk, path: str, content: Content, like: About) -> bool:
    """The same; true where it is still to be read back, by `check_made`."""
    waiting = _find_waiting(content, os.path.dirname(path))
    if waiting is None:
        put(disk, path, content, like)
        return False
    disk.rename(waiting, path)
    disk.fill(path, content, like)
    disk.sync(path)
    return True


def check_made(laid: Laid, jobs: int = 1) -> None:
    """Read back what was laid, by sums: what was to be written is nowhere else any more. Raises as `check_written`."""
    for _ in in_order(lambda: _check, iter(laid), jobs):
        pass


def spooled_bytes(plan: SavedPlan) -> int:
    """How many of those that it writes lie on the device already."""
    steps = () if plan.plan is None else plan.plan.steps
    parts = (part for step in steps if isinstance(step, Write) for part in step.content)
    return sum(part.size for part in parts if isinstance(part, Made) and part.path is not None)


def _find_waiting(content: Content, folder: str) -> str | None:
    """The file that has all new bytes of a content where they belong, in the folder's file system."""
    at, found = 0, set[str | None]()
    for part in content:
        if isinstance(part, bytes) or (isinstance(part, Made) and part.start != at):
            return None
        if isinstance(part, Made):
            found.add(part.path)
        at += part_size(part)
    path = found.pop() if len(found) == 1 else None
    is_here = path is not None and os.path.exists(path) and os.stat(path).st_dev == os.stat(folder).st_dev
    return path if is_here else None


def _check(laid: tuple[str, Content]) -> None:
    path, content = laid
    with WrittenFile(path) as written:
        if written.size != content_size(content):
            raise differs(path, min(written.size, content_size(content)))
        at = 0
        for part in content:
            if _crc_in(written, at, part_size(part)) != _crc(part):
                raise differs(path, at)
            at += part_size(part)


def _crc(part: Part) -> int:
    if not isinstance(part, FileRange):
        return crc_of(part)
    with LogFile(part.path) as file:
        return _crc_in(file, part.start, part.size)


def _crc_in(file: LogFile, start: int, size: int) -> int:
    buffer, crc = bytearray(CHUNK_BYTES), 0  # used again, and stays in the processor's cache
    for position in range(start, start + size, CHUNK_BYTES):
        crc = crc32c(file.read_into(buffer, position, min(CHUNK_BYTES, start + size - position)), crc)
    return crc
