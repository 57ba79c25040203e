"""The lock of a log dir, taken as a broker takes it: a record lock (fcntl) on all of `.lock`.

A broker (LogManager.lockLogDirs, by Java's FileChannel.tryLock) leaves the file behind when it stops. If the file did
not exist, we delete ours at the end, to leave no trace. But a lock file that somebody else has just opened must not be
deleted: he would then lock a file that nobody else can find. So we delete it only while we hold a lease on it, which
the system grants if nobody else has the file open. If there is no lease, the file stays, as a broker's does.

One process must not open `.lock` twice: closing either descriptor releases the lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from klogtool.disk.attributes import attributes_of, attributes_of_new_file
from klogtool.disk.causes import RunRefusal
from klogtool.disk.disk import Disk, keep_time
from klogtool.errors import LogDirInUse
from klogtool.format.names import FileKind
from klogtool.log.holder import find_holder

_F_SETSIG = 10  # Linux; Python does not define it


@contextmanager
def locked(disk: Disk, folder: str, *, ours: bool = False, without_if_full: bool = False) -> Iterator[bool]:
    """Context in which no broker and no other klogtool can lock the folder. Raises LogDirInUse if one has it; OSError.

    Yields whether the file is ours and will be deleted: this run created it, or a killed run of ours did.
    without_if_full: if the file does not exist and there is no space to create it, continue without; no broker can hold
    it or start.
    """
    path = os.path.join(folder, FileKind.LOCK.value)
    try:
        ours = _make(disk, folder, path) or ours
    except OSError as error:
        if not without_if_full or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        yield False
        return
    lock = _take(path)
    try:
        yield ours
    finally:
        try:
            if ours:
                _remove(disk, folder, path, lock)
        finally:
            os.close(lock)


def check_free(folder: str) -> None:
    """Raises LogDirInUse if somebody holds the lock now. If we may not lock the folder, that error appears later."""
    path = os.path.join(folder, FileKind.LOCK.value)
    if os.path.isfile(path) and os.access(path, os.W_OK):
        os.close(_take(path))


def _make(disk: Disk, folder: str, path: str) -> bool:
    """Create the file; return whether it did not exist. If the file stays, a broker has to be able to open it."""
    before = attributes_of(folder)
    if os.path.lexists(path):
        return False
    try:
        disk.write(path, (), attributes_of_new_file(folder))
        keep_time(disk, folder, before.mtime_ns)
    except FileExistsError:
        return False
    except OSError:
        with suppress(OSError):
            if os.path.lexists(path):
                disk.delete(path)
            keep_time(disk, folder, before.mtime_ns)
        raise
    return True


def _take(path: str) -> int:
    """Return a descriptor of the locked file."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                error.filename = path
                raise
            holder = find_holder(path) or RunRefusal.ANOTHER()
            raise LogDirInUse(RunRefusal.IN_USE(holder=holder), path=path) from None
        os.close(descriptor)  # its last holder deleted it between our open and our lock


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _remove(disk: Disk, folder: str, path: str, lock: int) -> None:
    if not hasattr(fcntl, "F_SETLEASE"):  # macOS: the file stays, as a broker leaves it
        return
    before = attributes_of(folder)
    with suppress(OSError):
        fcntl.fcntl(
            lock, _F_SETSIG, signal.SIGURG
        )  # another process that opens the file waits; the signal tells us, and must not kill us
        fcntl.fcntl(lock, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        disk.delete(path)
        keep_time(disk, folder, before.mtime_ns)
