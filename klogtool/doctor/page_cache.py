"""How much of a file is in the page cache: mincore(2) over a private mapping, of a file that is open read-only.

Nothing is read from the disk by this. Linux tells it only to the owner of a file and to those who may write to it; to
everybody else it says that all is in memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os

WINDOW_BYTES = 1 << 30  # of a file at once: 262,144 pages


def cached_bytes(path: str) -> int | None:
    """Return how many bytes of a file are in memory, in whole pages; None where the system does not tell."""
    mincore = _mincore()
    if mincore is None or not _is_told(path):
        return None
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            found = [
                _of_window(mincore, file.fileno(), at, min(WINDOW_BYTES, size - at))
                for at in range(0, size, WINDOW_BYTES)
            ]
    except (OSError, ValueError):  # ValueError: the file was cut meanwhile
        return None
    return None if None in found else min(size, sum(pages or 0 for pages in found) * mmap.PAGESIZE)


def _is_told(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK)
    except OSError:
        return False


def _of_window(mincore: ctypes._FuncPointer, fd: int, start: int, size: int) -> int | None:
    """Return how many pages are in memory; None if mincore fails."""
    pages = -(-size // mmap.PAGESIZE)
    states = (ctypes.c_ubyte * pages)()
    with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, offset=start) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        failed = mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), states)
        del first  # else the mapping cannot be closed
    return None if failed else sum(state & 1 for state in bytes(states))


def _mincore() -> ctypes._FuncPointer | None:
    try:
        return ctypes.CDLL(None, use_errno=True).mincore
    except (AttributeError, OSError):
        return None
