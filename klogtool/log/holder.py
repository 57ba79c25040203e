"""Who holds the lock of a log dir, asked without taking it: a broker that starts meanwhile notices nothing.

A broker has a record lock (fcntl) on all of `.lock` as long as it runs. What it writes meanwhile may be read in halves.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Iterator

from klogtool.format.names import FileKind

_UP = 2  # a file lies in a partition dir, and that in a log dir


def walk_held(path: str) -> Iterator[tuple[str, str]]:
    """Locks that somebody holds, and who: of the log dir that a path is, or lies in, by its name or really."""
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
    """`process 4711`, or `another process` where the system does not tell; None if nobody holds it, or it is not there,
    or may not be read."""
    if not sys.platform.startswith("linux") or not os.path.isfile(lock):
        return None
    try:
        found = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        kind, process = _asked(found)
    except OSError as error:
        return "another process" if error.errno in (errno.EACCES, errno.EAGAIN) else None
    finally:
        os.close(found)
    if kind == fcntl.F_UNLCK:
        return None
    return f"process {process}" if process > 0 else "another process"


def _asked(found: int) -> tuple[int, int]:
    """Kind and process of a lock that a lock on all of the file would meet (F_GETLK; struct flock of 64-bit Linux)."""
    numbers = ((fcntl.F_WRLCK, 2), (os.SEEK_SET, 2), (0, 4), (0, 8), (0, 8), (0, 4), (0, 4))
    asked = b"".join(number.to_bytes(size, sys.byteorder) for number, size in numbers)
    told = fcntl.fcntl(found, fcntl.F_GETLK, asked)
    return int.from_bytes(told[:2], sys.byteorder), int.from_bytes(told[24:28], sys.byteorder, signed=True)
