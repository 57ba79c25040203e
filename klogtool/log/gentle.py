"""Reading that a running broker does not feel: past the page cache, while nobody else wants the disk, at a pace.

A broker serves its consumers' tail from the page cache. Who reads a whole log through the cache evicts that tail. With
O_DIRECT (open(2)) the cache stays as it is: pages that were not in it do not come into it, and those in it stay.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import sys
import threading
import time
from collections import defaultdict, deque
from contextlib import suppress
from functools import partial

CHUNK_BYTES = 4 << 20  # what is read ahead where reads follow each other; a disk gives it as fast as more
BLOCK_BYTES = 4096  # a position and size that every disk takes for a direct read
MADE_UP_SECONDS = 0.5  # of what was not read in its time, so much may be read at once
SMALLEST_CHUNK_BYTES = 16 << 10
MOST_FREE_CHUNKS = 4  # of each size, kept for the next files: new memory costs as much as reading into it
NICE = (
    10  # who wakes up beside it runs at once; where all want the processor, a tenth of it is left, and 19 would starve
)
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # numbers of the system call; libc has no function for it
_WHO_PROCESS, _CLASS_NONE, _CLASS_IDLE = 1, 0, 3 << 13  # NONE: what the nice value says


class Pace:
    """How fast all files together are read. rate: bytes a second; None: as fast as the disk."""

    def __init__(self, rate: int | None = None) -> None:
        self.rate = rate
        self._due: float | None = None  # when the next bytes may be read
        self._lock = threading.Lock()

    def spend(self, size: int) -> None:
        """Wait until so many further bytes are within the rate."""
        if self.rate is None:
            return
        with self._lock:
            now = time.monotonic()
            # What reading took, and waking up too late, is made up for: else the rate would be missed by their time.
            earliest = now - max(MADE_UP_SECONDS, CHUNK_BYTES / self.rate)
            self._due = (now if self._due is None else max(self._due, earliest)) + size / self.rate
            wait = self._due - now
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
    _free_chunks.clear()
    _set_disk_class(_CLASS_NONE)


def _set_disk_class(number: int) -> None:
    """Set the class of this thread and of those that it starts. Where the system refuses, the class stays."""
    call = _IOPRIO_SET.get(platform.machine())
    if call is not None and sys.platform == "linux":
        ctypes.CDLL(None).syscall(call, _WHO_PROCESS, 0, number)


def yield_processor() -> None:
    """Let others have the processor first: this thread, and those that it starts, get the nice value NICE, if theirs is
    not higher. Without privileges nobody can take it back, so this is for a process that ends after it. Where the
    system refuses, all stays."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))


def pace() -> Pace | None:
    """Return the pace of gentle reading; None if files are read as usual."""
    return _pace


class Chunk:
    """Bytes [start, stop) of a file, in memory that begins at a page, as a direct read wants it."""

    def __init__(self, room: int) -> None:
        """room: for how many bytes, at most CHUNK_BYTES."""
        self.room = room
        self._memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.clear()

    def clear(self) -> None:
        """Have no bytes of any file."""
        self.start = self.stop = 0
        self.is_near_damage = False
        self._error: OSError | None = None

    def fill(self, fd: int, start: int, size: int, pace: Pace) -> None:
        """Read `size` bytes from byte `start`, both multiples of BLOCK_BYTES; fewer if the file ends earlier. Where the
        disk gives an error for all of it, only the first block is read: the error may be of a later one."""
        self.clear()
        self.start = self.stop = start
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

    def copy(self, position: int, size: int) -> bytes:
        """Return bytes that are here."""
        return self._memory[position - self.start : position - self.start + size]

    def copy_into(self, view: memoryview, position: int) -> int:
        """Copy what is here from a position on; return how many bytes."""
        count = min(self.stop - position, len(view))
        with memoryview(self._memory) as memory:
            view[:count] = memory[position - self.start : position - self.start + count]
        return count


_free_chunks: defaultdict[int, deque[Chunk]] = defaultdict(partial(deque, maxlen=MOST_FREE_CHUNKS))


def take_chunk(size: int) -> Chunk:
    """Return a chunk without bytes, with room for so many."""
    room = max(SMALLEST_CHUNK_BYTES, 1 << (size - 1).bit_length())
    try:
        return _free_chunks[room].pop()
    except IndexError:
        return Chunk(room)


def give_back_chunk(chunk: Chunk | None) -> None:
    """Give back a chunk that nobody uses any more."""
    if chunk is not None:
        chunk.clear()
        _free_chunks[chunk.room].append(chunk)


def open_past_cache(path: str) -> int:
    """Return a descriptor whose reads go past the page cache, where the file system has such reads. Raises OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, flags | getattr(os, "O_DIRECT", 0))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags)


def _read_past_cache(fd: int) -> None:
    """Have reads of an open file go past the page cache, where its file system has such reads."""
    with suppress(OSError):  # some file systems read only through the cache: then that is so
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | getattr(os, "O_DIRECT", 0))


class DirectReads:
    """Reads of an open file past the page cache. Threads may share it. chunk: of the file, if it was read already.

    Where reads follow each other, a thread reads the next chunk while the caller works on this one.
    """

    def __init__(self, fd: int, pace: Pace, chunk: Chunk | None = None) -> None:
        self._fd, self.pace, self._lock = fd, pace, threading.Lock()
        self._is_direct = False
        self._chunk = chunk
        # Nobody has begun to read the chunk after the first one.
        self._is_next_due = chunk is not None and chunk.stop == CHUNK_BYTES
        self._next: Chunk | None = None  # what is read ahead, by:
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

    def find(self, position: int, size: int) -> bytes | None:
        """Return bytes if all of them are in memory already."""
        with self._lock:
            chunk = self._chunk
            if chunk is None or self._is_next_due or not chunk.start <= position < position + size <= chunk.stop:
                return None
            self._reached = position + size
            return chunk.copy(position, size)

    def close(self) -> None:
        """End reading ahead: the descriptor will be closed."""
        if self._reader is not None:
            self._reader.join()
        give_back_chunk(self._chunk)
        give_back_chunk(self._next)
        self._chunk = self._next = self._reader = None

    def _chunk_of(self, at: int, size: int) -> Chunk | None:
        """Return the chunk with a position, read now if need be; None if the file ends before it. Only what is wanted
        is read, unless that follows what was read before."""
        chunk = self._chunk
        if chunk is not None and chunk.holds(at):
            if self._is_next_due:
                self._read_next(chunk)
            return chunk
        if not self._is_direct:  # many files are not read, or were read before
            _read_past_cache(self._fd)
            self._is_direct = True
        follows = chunk is not None and not chunk.is_near_damage and (at == self._reached or 0 < chunk.stop == at)
        start = at - at % BLOCK_BYTES
        if self._take_next(at):
            follows = True
        elif follows:
            self._fill(start, CHUNK_BYTES)
        else:
            blocks = -(-(at + size - start) // BLOCK_BYTES)
            self._fill(start, min(CHUNK_BYTES, blocks * BLOCK_BYTES))
        chunk = self._chunk
        if chunk is None or not chunk.holds(at):
            return None
        if follows:
            self._read_next(chunk)
        return chunk

    def _fill(self, start: int, size: int) -> None:
        if self._chunk is None or self._chunk.room < size:
            give_back_chunk(self._chunk)
            self._chunk = take_chunk(size)
        self._chunk.fill(self._fd, start, size, self.pace)

    def _read_next(self, chunk: Chunk) -> None:
        """Begin to read what follows a chunk, unless the file ends there."""
        self._is_next_due = False
        if chunk.stop - chunk.start < CHUNK_BYTES:
            return
        self._next = self._next or take_chunk(CHUNK_BYTES)
        self._reader = threading.Thread(target=self._next.fill, args=(self._fd, chunk.stop, CHUNK_BYTES, self.pace))
        self._reader.start()

    def _take_next(self, at: int) -> bool:
        """Take what was read ahead, if it has a position."""
        if self._reader is None or self._next is None:
            return False
        self._reader.join()
        self._reader = None
        if not self._next.holds(at):
            return False
        self._chunk, self._next = self._next, self._chunk
        return True
