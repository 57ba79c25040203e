"""The lock of a log dir, as a broker takes it: a record lock (fcntl) on all of `.lock`.

A broker (LogManager.lockLogDirs, by Java's FileChannel.tryLock) leaves the file lying when it stops. Where there was
none, ours goes again, so that nothing tells that we were here; but a lock file that somebody has just opened must not
go: he would lock what nobody else can find. So it goes only while the system lends it to us alone (a lease: nobody else
has it open), and stays where that cannot be had, as a broker's does.

One process must not open `.lock` twice: closing either of both gives up the lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from klogtool.disk.about import about, about_new_file
from klogtool.disk.disk import Disk, keep_time
from klogtool.errors import LogDirInUse
from klogtool.format.names import FileKind

_F_SETSIG = 10  # Linux; Python has no name for it


@contextmanager
def locked(disk: Disk, folder: str, *, ours: bool = False, without_if_full: bool = False) -> Iterator[bool]:
    """Meanwhile no broker and no other klogtool gets the folder. Raises LogDirInUse if one has it; OSError.

    Gives whether the file is ours, and will go: it had to be made, or a run of ours that was killed had made it.
    without_if_full: where there is none and no room for one, no broker has it, nor can one start; go on without.
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
    """Raises LogDirInUse if somebody has the folder at this moment. Where we may not lock it that shows later."""
    path = os.path.join(folder, FileKind.LOCK.value)
    if os.path.isfile(path) and os.access(path, os.W_OK):
        os.close(_take(path))


def _make(disk: Disk, folder: str, path: str) -> bool:
    """Whether the file had to be made. A broker is to be able to open it, should it stay."""
    before = about(folder)
    if os.path.lexists(path):
        return False
    try:
        disk.write(path, (), about_new_file(folder))
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
    """A descriptor of the file that has the lock."""
    while True:
        found = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(found, path):
                return found
        except OSError as error:
            os.close(found)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                error.filename = path
                raise
            raise LogDirInUse(f"in use: {_holder(path)} holds the lock; stop it first", path=path) from None
        os.close(found)  # it was removed by its last holder between open and lock


def _is_at(found: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(found), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(path: str) -> str:
    """Who holds the lock, as far as the system tells: a line of /proc/locks ends `PID MAJOR:MINOR:INODE START END`."""
    inode = str(os.stat(path).st_ino)
    with suppress(OSError, ValueError), open("/proc/locks", encoding="ascii") as locks:
        for fields in map(str.split, locks):
            if fields[1] == "POSIX" and fields[-3].rpartition(":")[2] == inode:
                return f"process {fields[-4]}"
    return "a broker or another klogtool process"


def _remove(disk: Disk, folder: str, path: str, lock: int) -> None:
    before = about(folder)
    with suppress(OSError):
        fcntl.fcntl(
            lock, _F_SETSIG, signal.SIGURG
        )  # who opens it meanwhile waits, and we are told, but do not die of it
        fcntl.fcntl(lock, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        disk.delete(path)
        keep_time(disk, folder, before.mtime_ns)
