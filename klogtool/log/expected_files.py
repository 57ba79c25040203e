"""Files that are opened soon, read gently before that: many small files would leave the disk waiting between them.

Who goes over files announces the next ones (`announced`). Threads read the first chunk of each, and LogFile takes it
when it opens the same file. What nobody takes is dropped; a file that was not read yet is read as ever.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from klogtool.log.gentle import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    Chunk,
    Pace,
    give_back_chunk,
    pace,
    read_past_cache,
    take_chunk,
)

Item = TypeVar("Item")

THREADS = 2  # one reads small files, while the other one waits for a large one
AHEAD_BYTES = 16 << 20  # of all that nobody has taken yet
MOST_AHEAD = 16  # things whose files are announced at a time
MOST_FILES = 128  # the oldest are dropped


class _Expected(Struct):
    """A file that was announced. inode: of the file that was read. chunk: None if that failed."""

    path: str
    has_begun: bool = False
    is_done: bool = False
    is_dropped: bool = False
    inode: tuple[int, int] | None = None
    chunk: Chunk | None = None
    reserved: int = 0


class ExpectedFiles:
    """The files that were announced, in order. Threads may share it."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._files: dict[str, _Expected] = {}
        self._waiting: deque[_Expected] = deque()
        self._changed = threading.Condition()
        self._held_bytes = self._threads = 0

    def add(self, path: str) -> None:
        """Announce a file, after all others."""
        with self._changed:
            if path in self._files:
                return
            self._files[path] = file = _Expected(path)
            self._waiting.append(file)
            if len(self._files) > MOST_FILES:
                self._drop(next(iter(self._files)))
            self._start_thread()

    def take(self, path: str, inode: tuple[int, int] | None) -> Chunk | None:
        """Return the beginning of a file that is open; None if that file was not read."""
        if path not in self._files:
            return None
        with self._changed:
            file = self._files.get(path)
            if file is None:
                return None
            while file.has_begun and not file.is_done:
                self._changed.wait()
            is_same = file.inode is not None and file.inode == inode
            chunk = file.chunk if is_same else None
            file.chunk = None if is_same else file.chunk
            self._drop(path)
            self._start_thread()
            return chunk

    def _drop(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is None:
            return
        file.is_dropped = True
        if file.is_done or not file.has_begun:
            self._let_go(file)

    def _let_go(self, file: _Expected) -> None:
        give_back_chunk(file.chunk)
        self._held_bytes -= file.reserved
        file.chunk, file.reserved = None, 0

    def _start_thread(self) -> None:
        if self._threads < THREADS and self._find_next() is not None:
            with suppress(RuntimeError):  # a limit for threads: then everything is read as it is opened
                threading.Thread(target=self._read_all, daemon=True).start()
                self._threads += 1

    def _find_next(self) -> _Expected | None:
        """Return the next file to read, if there is room for it."""
        while self._waiting and self._waiting[0].is_dropped:
            self._waiting.popleft()
        return self._waiting[0] if self._waiting and self._held_bytes < AHEAD_BYTES else None

    def _read_all(self) -> None:
        """Read while there is something to read, and room."""
        while True:
            with self._changed:
                file = self._find_next()
                if file is None:
                    self._threads -= 1
                    return
                self._waiting.popleft()
                file.has_begun = True
            try:
                self._read(file)
            finally:
                self._finish(file)

    def _finish(self, file: _Expected) -> None:
        with self._changed:
            file.is_done = True
            if file.is_dropped:
                self._let_go(file)
            self._changed.notify_all()

    def _read(self, file: _Expected) -> None:
        """Read the beginning of a file. An error is told when the file is opened, or its bytes are wanted."""
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode) or not about.st_size:
                return
            with self._changed:
                file.reserved = min(about.st_size, CHUNK_BYTES)
                self._held_bytes += file.reserved
            read_past_cache(fd)
            chunk = take_chunk(file.reserved)
            chunk.fill(fd, 0, min(CHUNK_BYTES, -(-file.reserved // BLOCK_BYTES) * BLOCK_BYTES), self.pace)
            file.inode, file.chunk = (about.st_dev, about.st_ino), chunk
        except OSError:
            return
        finally:
            os.close(fd)


_expected: ExpectedFiles | None = None


def _forget() -> None:
    """In a forked process: the threads are not there, and a lock may never be let go."""
    global _expected
    _expected = None


os.register_at_fork(after_in_child=_forget)


def _expected_now() -> ExpectedFiles | None:
    """Return the files that are expected; None if files are read as usual."""
    global _expected
    if (gentle := pace()) is None:
        _expected = None
    elif _expected is None or _expected.pace is not gentle:
        _expected = ExpectedFiles(gentle)
    return _expected


def announced(items: Sequence[Item], files_of: Callable[[Item], Iterable[str]]) -> Iterator[Item]:
    """Yield each thing. If files are read gently, those of the next few things are read meanwhile.

    files_of: the files that will be opened for it, in that order; all of each will be read.
    """
    begun = 0
    for number, item in enumerate(items):
        expected = _expected_now()
        # Not those of the thing itself: the caller opens them right now.
        begun = max(begun, number + 1)
        while expected is not None and begun < min(len(items), number + 1 + MOST_AHEAD):
            for path in files_of(items[begun]):
                expected.add(path)
            begun += 1
        yield item


def read_before(path: str, inode: tuple[int, int] | None) -> Chunk | None:
    """Return the beginning of a file that is open, if it was announced, and is still the same."""
    expected = _expected_now()
    return None if expected is None else expected.take(path, inode)
