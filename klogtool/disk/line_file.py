"""A file of lines that one process at a time adds to. A process that is killed leaves whole lines, and a part of one at
most, which the next one overwrites."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from klogtool.disk.causes import OutputRefusal
from klogtool.disk.disk import Disk, WriteErrors
from klogtool.disk.facts import check_rewritable
from klogtool.errors import AboveLimit, Refused

MOST_BYTES = 1 << 30
CHUNK_BYTES = 8 << 20


class LineFile:
    """The open file, which others that open it so find in use. data: what it had when it was opened."""

    def __init__(self, path: str, fd: int) -> None:
        if (size := os.fstat(fd).st_size) > MOST_BYTES:
            raise AboveLimit(OutputRefusal.TOO_MANY_BYTES(size=size, most=MOST_BYTES), path=path)
        self.path, self._disk = path, Disk()
        self.data = b"".join(iter(lambda: os.read(fd, CHUNK_BYTES), b""))
        self._size = self.data.rfind(b"\n") + 1

    def add(self, line: bytes) -> None:
        """Add a line after the whole lines. It survives the end of this process; a power failure only once the system
        has written it. Raises KlogError."""
        with WriteErrors(self.path):
            self._disk.extend(self.path, self._size, (line,))
            self._size += len(line)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Replace the file by one with other lines, at once, on the device; the last thing that may be done. Raises
        KlogError."""
        part = f"{self.path}.part"
        with WriteErrors(self.path):
            with suppress(FileNotFoundError):  # of a process that was killed: this one has the lock now
                self._disk.delete(part)
            try:
                self._disk.write(part, (b"".join(lines),))
                self._disk.sync(part)
                self._disk.rename(part, self.path)
                self._disk.sync_dir(os.path.dirname(os.path.abspath(self.path)))
            finally:
                with suppress(FileNotFoundError):
                    self._disk.delete(part)


@contextmanager
def open_line_file(path: str) -> Iterator[LineFile]:
    """Open the file, or make it. Raises Refused if another process has it open, or it is in a log dir, or no file;
    KlogError if its folder does not exist, or the system refuses."""
    check_rewritable(path)
    with WriteErrors(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        _lock(fd, path)
        yield LineFile(path, fd)
    finally:
        os.close(fd)


def _lock(fd: int, path: str) -> None:
    with WriteErrors(path):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(fd), os.stat(path))
        except (BlockingIOError, FileNotFoundError):
            is_there = False
    if not is_there:  # or it has just been replaced
        raise Refused(OutputRefusal.IN_USE(), path=path)
