"""The verbs through which klogtool changes files: nothing else in it does (tests/test_house.py).

They decide nothing. Each is one call of the system, but for `write` and `extend`, which may end in the middle as any
may; so the tests' disk, which dies after n verbs and loses what was not synced, is all there is to try.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from klogtool.broker.content import Content, FileRange, Made, part_size
from klogtool.disk.about import About, about, set_about
from klogtool.errors import Corrupt, KlogError
from klogtool.log.file import unreadable

CHUNK_BYTES = 8 << 20  # copied by the system at a time
BUFFER_BYTES = 1 << 20  # where it has to go through our memory
PART_BYTES = 32 << 20  # of a file, until it is told how far it is
_ZEROS = bytes(BUFFER_BYTES)
_SYSTEM_DOES_NOT_COPY = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY)


def _nobody_asks(_: int) -> None:
    """How far a file is written."""


class Disk:
    """The real one. All verbs raise OSError, with the path in it, where the system refuses."""

    def write(
        self, path: str, content: Content, like: About | None = None, reached: Callable[[int], None] = _nobody_asks
    ) -> None:
        """A new file with this content; there must be none of that name. Holes of what is copied stay holes.
        reached: is told again and again how far it is written.

        Raises KlogError if a file that there are pieces of cannot be read, or has become shorter. After an error there
        is no file.
        """
        with _named(path), _descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as sink:
            try:
                _put(sink, 0, content, reached)
                if like is not None:
                    set_about(sink, like)
            except (OSError, KlogError):
                os.unlink(path)
                raise

    def extend(self, path: str, position: int, content: Content) -> None:
        """The file's bytes from there on become these; it ends behind them. Raises as `write`."""
        with _named(path), _descriptor(path, os.O_RDWR) as sink:
            os.ftruncate(sink, position)  # where nothing is written there is to be a hole, not what was there
            _put(sink, position, content)

    def fill(self, path: str, content: Content, like: About) -> None:
        """A file that has all new bytes of a content where they belong gets the others, and is as `like` says."""
        with _named(path), _descriptor(path, os.O_RDWR) as sink:
            at = 0
            for part in content:
                if isinstance(part, FileRange):
                    _put_piece(sink, at, part, _nobody_asks)
                at += part_size(part)
            os.ftruncate(sink, at)  # a hole at the end has no bytes that were written
            set_about(sink, like)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file behind `size` bytes."""
        os.truncate(path, size)

    def rename(self, path: str, to: str) -> None:
        """Give a file or folder another name; a file of that name, or an empty folder, is replaced in the same step."""
        os.rename(path, to)

    def link(self, path: str, to: str) -> None:
        """A second name for a file, in the same file system; there must be none of that name."""
        os.link(path, to)

    def delete(self, path: str) -> None:
        """A name of a file goes, and the file with its last one."""
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        """A new folder, only for us until `describe` says more."""
        os.mkdir(path, 0o700)

    def rmdir(self, path: str) -> None:
        """An empty folder goes."""
        os.rmdir(path)

    def describe(self, path: str, wanted: About) -> None:
        """Mode, owner and times of a file or folder become these."""
        with _named(path):
            set_about(path, wanted)

    def sync(self, path: str) -> None:
        """A file's bytes, size and times are on the device when this returns."""
        with _named(path), _descriptor(path, os.O_RDONLY) as file:
            os.fsync(file)

    def sync_dir(self, path: str) -> None:
        """The names in a folder are on the device when this returns."""
        with _named(path), _descriptor(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
            os.fsync(folder)


def keep_time(disk: Disk, folder: str, mtime_ns: int | None) -> None:
    """A folder gets its former time back; where only its owner may do that, it does not."""
    with suppress(PermissionError):
        disk.describe(folder, replace(about(folder), mtime_ns=mtime_ns))


@contextmanager
def _descriptor(path: str, flags: int) -> Iterator[int]:
    found = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield found
    finally:
        os.close(found)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors of calls that know only a descriptor get the path."""
    try:
        yield
    except OSError as error:
        if not isinstance(error.filename, str):
            error.filename = path
        raise


def _put(sink: int, at: int, content: Content, reached: Callable[[int], None] = _nobody_asks) -> None:
    """The content from byte `at` on, where the file ends, and will end behind it."""
    for part in content:
        if isinstance(part, Made):
            part = part.as_range()
        if isinstance(part, FileRange):
            _put_piece(sink, at, part, reached)
            at += part.size
        else:
            _put_bytes(sink, at, part)
            at += len(part)
        reached(at)
    os.ftruncate(sink, at)  # a hole at the end has no bytes that were written


def _put_bytes(sink: int, at: int, data: bytes) -> None:
    for start in range(0, len(data), BUFFER_BYTES):
        chunk = data[start : start + BUFFER_BYTES]
        if chunk != _ZEROS:
            _write_all(sink, chunk, at + start)


def _write_all(sink: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(sink, view, at)
        view, at = view[done:], at + done


def _put_piece(sink: int, at: int, piece: FileRange, reached: Callable[[int], None]) -> None:
    try:
        source = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise unreadable(piece.path, error) from error
    try:
        for start, stop in _walk_data(source, piece):
            for first in range(start, stop, PART_BYTES):
                last = min(first + PART_BYTES, stop)
                _copy(source, first, sink, at + first - piece.start, last - first, piece)
                reached(at + last - piece.start)
    finally:
        os.close(source)


def _walk_data(source: int, piece: FileRange) -> Iterator[tuple[int, int]]:
    """Spans of the piece that are no holes. The index of an active segment is 10 MiB, nearly all of it a hole."""
    if os.fstat(source).st_size < piece.stop:
        raise _shorter(piece, os.fstat(source).st_size)
    start = piece.start
    while start < piece.stop:
        try:
            start = os.lseek(source, start, os.SEEK_DATA)
            stop = os.lseek(source, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return
            stop = piece.stop  # a file system that does not tell
        if start < piece.stop:
            yield start, min(stop, piece.stop)
        start = stop


def _copy(source: int, start: int, sink: int, at: int, size: int, piece: FileRange) -> None:
    """By the system, which shares the blocks where the file system can; else through memory."""
    by_system = hasattr(os, "copy_file_range")
    while size > 0:
        try:
            if by_system:
                done = os.copy_file_range(source, sink, min(size, CHUNK_BYTES), start, at)
            else:
                done = _copy_by_hand(source, start, sink, at, min(size, BUFFER_BYTES))
        except OSError as error:
            if not by_system or error.errno not in _SYSTEM_DOES_NOT_COPY:
                raise
            by_system = False
            continue
        if done == 0:
            raise _shorter(piece, start)
        start, at, size = start + done, at + done, size - done


def _copy_by_hand(source: int, start: int, sink: int, at: int, size: int) -> int:
    data = os.pread(source, size, start)
    _write_all(sink, data, at)
    return len(data)


def _shorter(piece: FileRange, position: int) -> Corrupt:
    return Corrupt("the file became shorter while it was read", path=piece.path, position=position)
