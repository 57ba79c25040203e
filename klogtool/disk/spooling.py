"""Writes new bytes to disk while it is still being decided what becomes of them.

They wait in a folder from which a rename can put them in place: in the journal, or beside the output of --output. The
folder is created with the first byte and deleted when its creator is done. If a kill left one in a journal, nobody
holds its lock, so the next run that uses the journal removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from klogtool.broker.content import Content, FileRange, Part, Spooled, content_size, crc_of, part_size
from klogtool.disk.attributes import FileAttributes
from klogtool.disk.disk import Disk, remove_folder
from klogtool.disk.putting import put
from klogtool.disk.readback import WrittenFile, differs
from klogtool.kernels import crc32c
from klogtool.log.file import LogFile
from klogtool.log.thread_pool import in_order
from klogtool.plans.plan import Write
from klogtool.plans.saved_plan import SavedPlan

PREFIX = "made-"
CHUNK_BYTES = 256 << 10
TRIES = 1000  # how often to retry if somebody deletes the folder


class SpoolFolder:
    """The folder, for use with `with`. before, behind: further work before it is created and after it was deleted."""

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
        """Return a spool for one new file; may be called on any thread."""
        return FileSpool(self)

    def add_file(self) -> str:
        """Create an empty file in the folder; return its path. Raises OSError, KlogError."""
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
            with suppress(OSError):  # its name says what it is; the first error is the one to report
                remove_folder(self.disk, self.path)
        finally:
            os.close(lock)
        self._behind()


class FileSpool:
    """broker.spools.Spool over a file: the bytes are at the position that they have in the future file."""

    def __init__(self, folder: SpoolFolder) -> None:
        self._folder, self._path = folder, ""
        self._position = self._size = self._crc = 0

    def write(self, data: bytes) -> None:
        """Append bytes. Raises OSError if they cannot be written."""
        self._path = self._path or self._folder.add_file()
        self._folder.disk.extend(self._path, self._position + self._size, (data,))
        self._size += len(data)
        self._crc = crc32c(data, self._crc)

    def skip(self, size: int) -> None:
        """Skip `size` bytes; they stay a hole for now."""
        self._position += size

    def end_part(self) -> Part:
        """Return the part that was written since the last call."""
        part = Spooled(self._size, self._crc, self._path, self._position)
        self._position += self._size
        self._size = self._crc = 0
        return part


def _make_and_lock(disk: Disk, path: str, before: Callable[[], object]) -> int:
    """Create a folder and return a descriptor; the folder is locked while the descriptor is open. Raises OSError,
    KlogError.

    Before it is locked, another process may take it for a leftover, or its parent for an empty folder, and delete it.
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
    """Delete the folders that killed runs left in a journal."""
    try:
        left = [name for name in os.listdir(journal) if name.startswith(PREFIX)]
    except FileNotFoundError:
        return
    for name in left:
        path = os.path.join(journal, name)
        with suppress(OSError):  # in use, or already gone
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(disk, path)
            finally:
                os.close(folder)


def new_name() -> str:
    """Return a new name for a folder in a journal."""
    return PREFIX + uuid.uuid4().hex


# --- into place -------------------------------------------------------------------------------------------------------


Laid = list[tuple[str, Content]]  # files that are in their place, and what they should contain


def put_content(disk: Disk, path: str, content: Content, like: FileAttributes) -> None:
    """Write a new file, sync it and read it back. If a waiting file has its bytes, that is renamed. Raises as
    `putting.put`."""
    if lay_content(disk, path, content, like):
        check_laid([(path, content)])


def lay_content(disk: Disk, path: str, content: Content, like: FileAttributes) -> bool:
    """Write a new file as `put_content` does, but do not read back a waiting file that was renamed: then return True,
    and `check_laid` must follow."""
    waiting = _find_waiting(content, os.path.dirname(path))
    if waiting is None:
        put(disk, path, content, like)
        return False
    disk.rename(waiting, path)
    disk.fill(path, content, like)
    disk.sync(path)
    return True


def check_laid(laid: Laid, jobs: int = 1) -> None:
    """Read the laid files back and compare sums, because the bytes exist nowhere else any more. Raises as
    `check_written`."""
    for _ in in_order(lambda: _check, iter(laid), jobs):
        pass


def spooled_bytes(plan: SavedPlan) -> int:
    """Return how many bytes of the plan's new contents are on disk already."""
    steps = () if plan.plan is None else plan.plan.steps
    parts = (part for step in steps if isinstance(step, Write) for part in step.content)
    return sum(part.size for part in parts if isinstance(part, Spooled) and part.path is not None)


def _find_waiting(content: Content, folder: str) -> str | None:
    """Return the waiting file, in the folder's file system, that has all new bytes of the content in place; else
    None."""
    at, waiting = 0, set[str | None]()
    for part in content:
        if isinstance(part, bytes) or (isinstance(part, Spooled) and part.start != at):
            return None
        if isinstance(part, Spooled):
            waiting.add(part.path)
        at += part_size(part)
    path = waiting.pop() if len(waiting) == 1 else None
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
    buffer, crc = bytearray(CHUNK_BYTES), 0  # reused, so it stays in the processor's cache
    for position in range(start, start + size, CHUNK_BYTES):
        crc = crc32c(file.read_into(buffer, position, min(CHUNK_BYTES, start + size - position)), crc)
    return crc
