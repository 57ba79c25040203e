"""Who holds the lock of a log dir. It is found out without taking the lock, so a broker that starts meanwhile is not
affected.

A broker has a record lock (fcntl) on all of `.lock` while it runs. A record that it is just writing may be read
incompletely.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Iterator

from klogtool.format.names import FileKind

_UP = 2  # levels from a file up to the log dir: file, partition dir, log dir


def walk_held(path: str) -> Iterator[tuple[str, str]]:
    """Yield held locks and their holders: of the log dir of a path, by its name and by its real path."""
    seen: set[str] = set()
    for folder in (os.path.abspath(path), os.path.realpath(path)):
        for _ in range(_UP + 1):
            lock = os.path.join(folder, FileKind.LOCK.value)
            folder = os.path.dirname(folder)
            real = os.path.realpath(lock)
            if real not in seen and (holder := find_holder(lock)) is not None:
                yield lock, holder
            seen.add(real)


def find_holder(lock: str) -> str | None:
    """Return `process 4711`, or `another process` if the system does not say; None if nobody holds it, or it does not
    exist, or may not be read."""
    if not sys.platform.startswith("linux") or not os.path.isfile(lock):
        return None
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        kind, process = _conflicting_lock(descriptor)
    except OSError as error:
        return "another process" if error.errno in (errno.EACCES, errno.EAGAIN) else None
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return None
    return f"process {process}" if process > 0 else "another process"


def _conflicting_lock(descriptor: int) -> tuple[int, int]:
    """Return kind and process of a lock that conflicts with a lock on the whole file (F_GETLK; struct flock of 64-bit
    Linux)."""
    numbers = ((fcntl.F_WRLCK, 2), (os.SEEK_SET, 2), (0, 4), (0, 8), (0, 8), (0, 4), (0, 4))
    query = b"".join(number.to_bytes(size, sys.byteorder) for number, size in numbers)
    reply = fcntl.fcntl(descriptor, fcntl.F_GETLK, query)
    return int.from_bytes(reply[:2], sys.byteorder), int.from_bytes(reply[24:28], sys.byteorder, signed=True)
