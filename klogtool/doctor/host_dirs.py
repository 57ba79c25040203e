"""What the log dirs of a diagnosis need of the machine, in numbers: files, and bytes that a start will write."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence

from klogtool.doctor.answers import Prospect
from klogtool.doctor.host import HostDir, measure_room
from klogtool.format.names import FileKind

_INDEX_BYTES_PER_MIB = 8 << 10  # generous: an entry of both indexes for each 4 KiB, and what file systems round up
_BYTES_PER_PARTITION = 64 << 10  # checkpoints, snapshots
_FILES_PER_PARTITION = 4
MOST_CACHE_BYTES = 64 << 30  # limit of what is looked at for the page cache
WINDOW_BYTES = 1 << 30  # of a file at once: 262,144 pages


def host_dirs(log_dirs: Sequence[str], prospects: Sequence[Prospect]) -> list[HostDir]:
    """Return the numbers of each log dir. What cannot be listed counts as nothing: the diagnosis reports it."""
    return [_host_dir(path, [p for p in prospects if os.path.dirname(p.path) == path]) for path in log_dirs]


def _host_dir(path: str, prospects: Sequence[Prospect]) -> HostDir:
    files = [entry for prospect in prospects for entry in _files(prospect.path)]
    logs = [(name, size) for name, size in files if name.endswith(FileKind.LOG.value)]
    recovered = [prospect for prospect in prospects if prospect.bytes_to_scan]
    scanned = sum(prospect.bytes_to_scan for prospect in recovered)
    free_bytes, free_files = _room(path)
    cached, looked_at = _cached(logs)
    return HostDir(
        os.path.realpath(path),
        len(logs),
        len(prospects),
        sum(1 for name, size in files if size and name.endswith(FileKind.TXN_INDEX.value)),
        scanned * _INDEX_BYTES_PER_MIB // (1 << 20) + len(recovered) * _BYTES_PER_PARTITION,
        len(recovered) * _FILES_PER_PARTITION,
        free_bytes,
        free_files,
        cached,
        looked_at,
    )


def _room(path: str) -> tuple[int | None, int | None]:
    try:
        return measure_room(path)
    except OSError:
        return None, None


def _files(path: str) -> Iterator[tuple[str, int]]:
    """Yield paths and sizes of the files in a folder."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False).st_size
    except OSError:
        return


def _cached(logs: Iterable[tuple[str, int]]) -> tuple[int | None, int | None]:
    """Return how many bytes of how many looked at are in memory; (None, None) where the system does not tell."""
    cached = looked_at = 0
    for path, size in logs:
        if not size or looked_at + size > MOST_CACHE_BYTES:
            continue
        pages = cached_bytes(path)
        if pages is None:
            return None, None
        cached, looked_at = cached + pages, looked_at + size
    return cached, looked_at


# The page cache: mincore(2) over a private mapping, of a file that is open read-only. Nothing is read from the disk by
# this. Linux tells it only to the owner of a file and to those who may write to it; to everybody else it says that all
# is in memory.


def cached_bytes(path: str) -> int | None:
    """Return how many bytes of a file are in memory, in whole pages; None where the system does not tell."""
    mincore = _mincore()
    if mincore is None or not _is_told(path):
        return None
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            counts = [
                _of_window(mincore, file.fileno(), at, min(WINDOW_BYTES, size - at))
                for at in range(0, size, WINDOW_BYTES)
            ]
    except (OSError, ValueError):  # ValueError: the file was cut meanwhile
        return None
    return None if None in counts else min(size, sum(pages or 0 for pages in counts) * mmap.PAGESIZE)


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
