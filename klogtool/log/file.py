"""A file of a log dir, opened read-only.

Read by pread, unless log/mapped.py maps it. If somebody cuts a mapped file, or it is on a bad sector, the process gets
SIGBUS, unless that is handled; a read reports what happened.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable
from typing import Self

from klogtool.errors import AboveLimit, KlogError
from klogtool.log.expected_files import read_before
from klogtool.log.gentle import DirectReads, Pace, pace

_COMPARED_BYTES = 1 << 20
_OF_DISK = (errno.EIO, errno.EREMOTEIO, errno.EUCLEAN, errno.ESTALE, errno.EBADMSG)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
)


class Unreadable(KlogError):
    """The system does not let us read: no such file, no permission, an I/O error, not a regular file.

    errno: the system's number, or None. at_start: a broker reads this, too, when it loads the log.
    """

    errno: int | None = None
    at_start = False

    @property
    def is_denied(self) -> bool:
        """Return whether owner or mode do not let klogtool's user read it."""
        return self.errno in (errno.EACCES, errno.EPERM)

    @property
    def is_of_disk(self) -> bool:
        """Return whether the disk, or the server that has it, did not give what the file has."""
        return self.errno in _OF_DISK


class LogFile:
    """An open file. path: as given. size: bytes at opening; later appends are not seen.

    Raises Unreadable if it cannot be opened, or is not a regular file (it does not wait for a FIFO).
    """

    is_mappable = True  # False for files that are not on this machine, and for gentle reading
    inode: tuple[int, int] | None = None  # its device and number; None for files that are not on this machine
    _gentle: Pace | None = None
    _reads: DirectReads | None = None

    def __init__(self, path: str | os.PathLike[str], *, or_folder: bool = False) -> None:
        """or_folder: a folder opens like an empty file; Kafka notices only when it reads it."""
        self.path = os.fspath(path)
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise unreadable(self.path, error) from error
        except ValueError:
            check_path(self.path)
            raise
        self._look(or_folder=or_folder)
        if self.size:
            self._read_gently(pace())

    @classmethod
    def over(cls, fd: int, path: str) -> LogFile:
        """Return the file behind a descriptor, which it closes at its end. path: what it is called. It is never read
        gently: others may read from what is open there, and could not past the cache. Raises Unreadable if it is not a
        regular file."""
        file = cls.__new__(cls)
        file.path, file._fd = path, fd
        file._look()
        return file

    def _read_gently(self, gentle: Pace | None) -> None:
        self._gentle, self.is_mappable = gentle, gentle is None

    def _direct(self) -> DirectReads | None:
        """Return what reads it gently, made at the first read: many files are opened, and not read."""
        if self._reads is None and self._gentle is not None:
            direct = DirectReads(self._fd, self._gentle, read_before(self.path, self.inode))
            self.__dict__.setdefault("_reads", direct)  # another thread may have made it meanwhile
        return self._reads

    def _look(self, *, or_folder: bool = False) -> None:
        """Take the size of what was opened. Raises Unreadable, and closes it, if that is not a regular file."""
        state = os.fstat(self._fd)
        kind = next((name for test, name in _KINDS if test(state.st_mode)), None)
        if kind is not None and not (or_folder and stat.S_ISDIR(state.st_mode)):
            self.close()
            raise Unreadable(f"{kind}, not a file", path=self.path, kafka_class="IOException")
        self.size = state.st_size if kind is None else 0
        self.inode = state.st_dev, state.st_ino

    def begins_with(self, beginning: LogFile) -> bool:
        """Return whether the file begins with all that another one has. Raises KlogError on an I/O error."""
        if self.size < beginning.size:
            return False
        starts = range(0, beginning.size, _COMPARED_BYTES)
        chunks = ((at, min(_COMPARED_BYTES, beginning.size - at)) for at in starts)
        return all(self.read(*chunk) == beginning.read(*chunk) for chunk in chunks)

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from byte `position`, fewer if the file ends earlier. Raises KlogError on an I/O
        error."""
        if (direct := self._direct()) is not None:
            known = direct.find(position, size) if position + size <= self.size else None
            if known is not None:
                return known
            return bytes(self.read_into(bytearray(max(0, min(size, self.size_now() - position))), position, size))
        chunks = []
        try:
            while size > 0 and (chunk := os.pread(self._fd, size, position)):
                chunks.append(chunk)
                position, size = position + len(chunk), size - len(chunk)
        except OSError as error:
            raise unreadable(self.path, error, position) from error
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """Read `size` bytes from byte `position` into a buffer that has room for them; the view is shorter if the file
        ends earlier. Raises KlogError on an I/O error."""
        view, done, direct = memoryview(buffer), 0, self._direct()
        try:
            while done < size:
                part, at = view[done:size], position + done
                count = os.preadv(self._fd, [part], at) if direct is None else direct.read_into(part, at)
                if not count:
                    break
                done += count
        except OSError as error:
            raise unreadable(self.path, error, position + done) from error
        return view[:done]

    def map(self, position: int, size: int) -> memoryview:
        """Return the bytes from a position on, mapped: see the module docstring. Raises OSError or ValueError if that
        is impossible."""
        before = position % mmap.ALLOCATIONGRANULARITY
        size = min(size, self.size - position)
        mapped = mmap.mmap(self._fd, before + size, prot=mmap.PROT_READ, offset=position - before)
        return memoryview(mapped)[before:]

    def again(self) -> LogFile:
        """Return this file with a descriptor of its own, for another reader, who closes it."""
        file = LogFile.over(os.dup(self._fd), self.path)
        file._read_gently(self._gentle)
        return file

    def about(self) -> os.stat_result:
        """Return what the system knows of it now."""
        return os.fstat(self._fd)

    def size_now(self) -> int:
        """Return the current size; if it is less than `size`, the file was cut."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the file."""
        if self._reads is not None:
            self._reads.close()
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_whole(path: str | os.PathLike[str], *, limit: int) -> bytes:
    """Return the bytes of a small file. Raises KlogError, also if it has more than `limit` bytes."""
    with LogFile(path) as file:
        if file.size > limit:
            raise AboveLimit(
                f"{file.size} bytes are more than this kind of file can have (limit: {limit})", path=file.path
            )
        return file.read(0, file.size)


def find_disk_error(path: str) -> Unreadable | None:
    """Return the disk's error at a file, which is read whole; None if there is none."""
    if not os.path.isfile(path):
        return None
    try:
        with LogFile(path) as file:
            buffer = bytearray(_COMPARED_BYTES)
            for at in range(0, file.size, _COMPARED_BYTES):
                file.read_into(buffer, at, min(_COMPARED_BYTES, file.size - at))
    except Unreadable as error:
        return error if error.is_of_disk else None
    return None


def check_path(path: str) -> None:
    """Raises KlogError for text that cannot be a path: system calls would raise errors of another type."""
    try:
        impossible = b"\0" in os.fsencode(path)
    except UnicodeEncodeError:
        impossible = True
    if impossible:
        raise KlogError("this text cannot be a path", path=ascii(path))


def is_denied(path: str) -> bool:
    """Return whether the system does not let us read a file or a folder. One call asks it: beside a running broker a
    name that was there a moment ago is not denied, but gone, and os.access does not tell which."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def denied(path: str) -> Unreadable:
    """Return the error about what `is_denied` found."""
    return unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def unreadable(path: str, error: OSError, position: int | None = None) -> Unreadable:
    """Turn an OSError into klogtool's error. A broken link gets a message of its own."""
    is_missing = isinstance(error, FileNotFoundError)
    leads_nowhere = is_missing and os.path.islink(path)
    refusal = Unreadable(
        "a link to a file that is not there" if leads_nowhere else (error.strerror or str(error)).lower(),
        path=path,
        position=position,
        kafka_class="NoSuchFileException" if is_missing else "IOException",
    )
    refusal.errno = None if leads_nowhere else error.errno
    return refusal


class ReadErrors:
    """Makes klogtool's errors of the system's, in a block that reads: `with ReadErrors(path): ...`. Raises KlogError
    for text that cannot be a path."""

    error_of: Callable[[str, OSError], Unreadable] = staticmethod(unreadable)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        check_path(self._path)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            raise self.error_of(self._path, error) from error
