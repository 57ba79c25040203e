"""Reading that a running broker does not feel: past the page cache, while nobody else wants the disk, at a pace.

A broker serves its consumers' tail from the page cache. Who reads a whole log through the cache evicts that tail. With
O_DIRECT (open(2)) the cache stays as it is: pages that were not in it do not come into it, and those in it stay.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import sys
import threading
import time
from contextlib import suppress

CHUNK_BYTES = 4 << 20  # what is read ahead where reads follow each other; a disk gives it as fast as more
BLOCK_BYTES = 4096  # a position and size that every disk takes for a direct read
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # numbers of the system call; libc has no function for it
_WHO_PROCESS, _CLASS_NONE, _CLASS_IDLE = 1, 0, 3 << 13  # NONE: what the nice value says


class Pace:
    """How fast all files together are read. rate: bytes a second; None: as fast as the disk."""

    def __init__(self, rate: int | None = None) -> None:
        self.rate = rate
        self._due = time.monotonic()
        self._lock = threading.Lock()

    def spend(self, size: int) -> None:
        """Wait until so many further bytes are within the rate."""
        if self.rate is None:
            return
        with self._lock:
            # What reading took counts, up to a chunk: else the rate would be missed by the time of each read.
            self._due = max(self._due, time.monotonic() - CHUNK_BYTES / self.rate) + size / self.rate
            wait = self._due - time.monotonic()
        time.sleep(max(0.0, wait))


_pace: Pace | None = None


def begin_gently(rate: int | None = None) -> None:
    """From now on, read all files gently in this process, with the disk's idle class where the system has one."""
    global _pace
    _pace = Pace(rate)
    _set_disk_class(_CLASS_IDLE)


def end_gently() -> None:
    """Read as usual again."""
    global _pace
    _pace = None
    _set_disk_class(_CLASS_NONE)


def _set_disk_class(number: int) -> None:
    """Set the class of this thread and of those that it starts. Where the system refuses, the class stays."""
    call = _IOPRIO_SET.get(platform.machine())
    if call is not None and sys.platform == "linux":
        ctypes.CDLL(None).syscall(call, _WHO_PROCESS, 0, number)


def pace() -> Pace | None:
    """Return the pace of gentle reading; None if files are read as usual."""
    return _pace


class _Chunk:
    """Bytes [start, stop) of a file, in memory that begins at a page, as a direct read wants it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, CHUNK_BYTES)  # taken only for what is written
        self.start = self.stop = 0
        self.is_near_damage = False
        self._error: OSError | None = None

    def fill(self, fd: int, start: int, size: int, pace: Pace) -> None:
        """Read `size` bytes from byte `start`, both multiples of BLOCK_BYTES; fewer if the file ends earlier. Where the
        disk gives an error for all of it, only the first block is read: the error may be of a later one."""
        self.start = self.stop = start
        self.is_near_damage, self._error = False, None
        for part_size in (size, BLOCK_BYTES):
            try:
                with memoryview(self._memory) as memory, memory[:part_size] as part:
                    self.stop += os.preadv(fd, [part], start)
                break
            except OSError as error:
                self.is_near_damage = True
                self._error = error if part_size == BLOCK_BYTES else None
        pace.spend(self.stop - start)

    def holds(self, position: int) -> bool:
        """Return whether the byte is here. Raises OSError if it would be, but for an error of the disk."""
        if self._error is not None and self.start <= position < self.start + BLOCK_BYTES:
            raise self._error
        return self.start <= position < self.stop

    def copy_into(self, view: memoryview, position: int) -> int:
        """Copy what is here from a position on; return how many bytes."""
        count = min(self.stop - position, len(view))
        with memoryview(self._memory) as memory:
            view[:count] = memory[position - self.start : position - self.start + count]
        return count


class DirectReads:
    """Reads of an open file past the page cache, where its file system has such reads. Threads may share it.

    Where reads follow each other, a thread reads the next chunk while the caller works on this one.
    """

    def __init__(self, fd: int, pace: Pace) -> None:
        with suppress(OSError):  # some file systems read only through the cache: then that is so
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | getattr(os, "O_DIRECT", 0))
        self._fd, self.pace, self._lock = fd, pace, threading.Lock()
        self._chunk: _Chunk | None = None
        self._next: _Chunk | None = None  # what is read ahead, by:
        self._reader: threading.Thread | None = None
        self._reached = -1  # where the last read ended

    def read_into(self, view: memoryview, position: int) -> int:
        """Read bytes from a position on; return how many: fewer than there is room for only at the file's end. Raises
        OSError."""
        with self._lock:
            done = 0
            while done < len(view):
                chunk = self._chunk_of(position + done, len(view) - done)
                if chunk is None:
                    break
                done += chunk.copy_into(view[done:], position + done)
            self._reached = position + done
            return done

    def close(self) -> None:
        """End reading ahead: the descriptor will be closed."""
        if self._reader is not None:
            self._reader.join()

    def _chunk_of(self, at: int, size: int) -> _Chunk | None:
        """Return the chunk with a position, read now if need be; None if the file ends before it. Only what is wanted
        is read, unless that follows what was read before."""
        if self._chunk is None:
            self._chunk = _Chunk()
        if self._chunk.holds(at):
            return self._chunk
        follows = (at == self._reached or 0 < self._chunk.stop == at) and not self._chunk.is_near_damage
        start = at - at % BLOCK_BYTES
        if self._take_next(at):
            follows = True
        elif follows:
            self._chunk.fill(self._fd, start, CHUNK_BYTES, self.pace)
        else:
            blocks = -(-(at + size - start) // BLOCK_BYTES)
            self._chunk.fill(self._fd, start, min(CHUNK_BYTES, blocks * BLOCK_BYTES), self.pace)
        if not self._chunk.holds(at):
            return None
        if follows and self._chunk.stop - self._chunk.start == CHUNK_BYTES:
            self._next = self._next or _Chunk()
            self._reader = threading.Thread(
                target=self._next.fill, args=(self._fd, self._chunk.stop, CHUNK_BYTES, self.pace)
            )
            self._reader.start()
        return self._chunk

    def _take_next(self, at: int) -> bool:
        """Take what was read ahead, if it has a position."""
        if self._reader is None or self._next is None or self._chunk is None:
            return False
        self._reader.join()
        self._reader = None
        if not self._next.holds(at):
            return False
        self._chunk, self._next = self._next, self._chunk
        return True
