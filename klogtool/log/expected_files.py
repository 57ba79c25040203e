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
from typing import TypeVar

from msgspec import Struct

from klogtool.log.gentle import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    Chunk,
    Pace,
    give_back_chunk,
    open_past_cache,
    pace,
    take_chunk,
)
from klogtool.log.thread_pool import start_thread

Item = TypeVar("Item")

THREADS = 2  # one reads small files, while the other one waits for a large one
AHEAD_BYTES = 16 << 20  # of all that nobody has taken yet
MOST_AHEAD = 16  # things whose files are announced at a time
MOST_FILES = 128  # the oldest are dropped
IDLE_SECONDS = 1.0  # a thread that has nothing to do ends after that: to start one costs as much as a small read


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
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # a file was read
        self._has_work = threading.Condition(self._lock)  # there is a file to read, and room for it
        self._held_bytes = self._threads = self._idle = 0

    def add(self, paths: Iterable[str]) -> None:
        """Announce files, after all others."""
        with self._lock:
            for path in paths:
                if path not in self._files:
                    self._files[path] = file = _Expected(path)
                    self._waiting.append(file)
            while len(self._files) > MOST_FILES:
                self._drop(next(iter(self._files)))
        self._use_threads()

    def take(self, path: str, inode: tuple[int, int] | None) -> Chunk | None:
        """Return the beginning of a file that is open; None if that file was not read."""
        if path not in self._files:
            return None
        with self._lock:
            file = self._files.get(path)
            if file is None:
                return None
            while file.has_begun and not file.is_done:
                self._changed.wait()
            is_same = file.inode is not None and file.inode == inode
            chunk = file.chunk if is_same else None
            file.chunk = None if is_same else file.chunk
            self._drop(path)
        self._use_threads()
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

    def _use_threads(self) -> None:
        """Have a thread read what is next, if there is room for it."""
        with self._lock:
            if self._find_next() is None:
                return
            if self._idle:
                self._has_work.notify()
                return
            if self._threads == THREADS:
                return
            self._threads += 1
        try:
            start_thread(self._read_all)
        except RuntimeError:  # a limit for threads: then everything is read as it is opened
            self._threads -= 1

    def _find_next(self) -> _Expected | None:
        """Return the next file to read, if there is room for it."""
        while self._waiting and self._waiting[0].is_dropped:
            self._waiting.popleft()
        return self._waiting[0] if self._waiting and self._held_bytes < AHEAD_BYTES else None

    def _read_all(self) -> None:
        """Read while there is something to read, and room."""
        while (file := self._begin_next()) is not None:
            try:
                self._read(file)
            finally:
                self._finish(file)

    def _begin_next(self) -> _Expected | None:
        """Return the next file, which nobody else will read then; None if there was none for a while."""
        with self._lock:
            while (file := self._find_next()) is None:
                self._idle += 1
                has_work = self._has_work.wait(IDLE_SECONDS)
                self._idle -= 1
                if not has_work and self._find_next() is None:
                    self._threads -= 1
                    return None
            self._waiting.popleft()
            file.has_begun = True
            return file

    def _finish(self, file: _Expected) -> None:
        with self._lock:
            file.is_done = True
            if file.is_dropped:
                self._let_go(file)
            self._changed.notify_all()

    def _read(self, file: _Expected) -> None:
        """Read the beginning of a file. An error is told when the file is opened, or its bytes are wanted."""
        try:
            fd = open_past_cache(file.path)
        except OSError:
            return
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode) or not about.st_size:
                return
            with self._lock:
                file.reserved = min(about.st_size, CHUNK_BYTES)
                self._held_bytes += file.reserved
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
            expected.add(files_of(items[begun]))
            begun += 1
        yield item


def read_before(path: str, inode: tuple[int, int] | None) -> Chunk | None:
    """Return the beginning of a file that is open, if it was announced, and is still the same."""
    expected = _expected_now()
    return None if expected is None else expected.take(path, inode)
