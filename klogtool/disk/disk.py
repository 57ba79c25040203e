"""The calls that change log dirs and journals. Datasets, exports and scratch have modules of their own.

Only this floor and the output of `cli` change files (tests/test_house.py checks that).

These functions decide nothing. Each is one system call, except `write`, `write_parts`, `extend`, `fill` and
`describe`, which may stop in the middle. So it is enough to test with a disk that dies after n calls, also inside of
these, and loses what was not synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from klogtool.broker.content import Content, FileRange, Spooled, part_size
from klogtool.disk.attributes import FileAttributes, attributes_of, set_attributes
from klogtool.disk.space import BLOCK_BYTES
from klogtool.errors import KlogError, became_shorter
from klogtool.log.file import ReadErrors, Unreadable
from klogtool.log.gentle import DirectReads, pace
from klogtool.plans.image_log import BlankedChunk

CHUNK_BYTES = 8 << 20  # the kernel copies this much per call
BUFFER_BYTES = 1 << 20  # for copies that go through our memory
PART_BYTES = 32 << 20  # written before `reached` is called again
_ZEROS = bytes(BUFFER_BYTES)
_SYSTEM_DOES_NOT_COPY = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY)


def _nobody_asks(_: int) -> None:
    """Ignore how far a file is written."""


class Disk:
    """The real disk. All calls raise OSError with the path if the system refuses."""

    def write(
        self,
        path: str,
        content: Content,
        like: FileAttributes | None = None,
        reached: Callable[[int], None] = _nobody_asks,
    ) -> None:
        """Write a new file; no file of that name may exist. Holes in copied pieces stay holes. reached: is called again
        and again with the number of bytes written.

        Raises KlogError if a source file cannot be read, or has become shorter. After an error the new file does not
        exist.
        """
        with _named(path), _descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as sink:
            try:
                _put(sink, 0, content, reached)
                if like is not None:
                    set_attributes(sink, like)
            except (OSError, KlogError):
                os.unlink(path)
                raise

    def write_parts(self, path: str, parts: Iterable[BlankedChunk], like: FileAttributes) -> None:
        """Write a new file that is made while it is written. Blocks of zeros become holes. Raises as `write`."""
        with _named(path), _descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as sink:
            at = 0
            try:
                for part in parts:
                    if not isinstance(part, int):
                        _put_blocks(sink, at, memoryview(part))
                    at += part if isinstance(part, int) else len(part)
                os.ftruncate(sink, at)
                set_attributes(sink, like)
            except (OSError, KlogError):
                os.unlink(path)
                raise

    def extend(self, path: str, position: int, content: Content) -> None:
        """Replace the bytes from `position` on; the file ends after the new bytes. Raises as `write`."""
        with _named(path), _descriptor(path, os.O_RDWR) as sink:
            os.ftruncate(sink, position)  # an unwritten range must be a hole, not old bytes
            _put(sink, position, content)

    def fill(self, path: str, content: Content, like: FileAttributes) -> None:
        """Complete a file that already has all new bytes of a content in place: write the other bytes, then set
        `like`."""
        with _named(path), _descriptor(path, os.O_RDWR) as sink:
            at = 0
            for part in content:
                if isinstance(part, FileRange):
                    _put_range(sink, at, part, _nobody_asks)
                at += part_size(part)
            os.ftruncate(sink, at)  # extends the file over a hole at its end
            set_attributes(sink, like)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes."""
        os.truncate(path, size)

    def rename(self, path: str, to: str) -> None:
        """Rename a file or folder. An existing file or empty folder of the new name is replaced atomically."""
        os.rename(path, to)

    def link(self, path: str, to: str) -> None:
        """Give a file a second name (hard link) in the same file system; that name must not exist."""
        os.link(path, to)

    def delete(self, path: str) -> None:
        """Delete a name of a file; the last name deletes the file."""
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        """Create a folder that only we can access, until `describe` sets its mode."""
        os.mkdir(path, 0o700)

    def rmdir(self, path: str) -> None:
        """Delete an empty folder."""
        os.rmdir(path)

    def describe(self, path: str, wanted: FileAttributes) -> None:
        """Set mode, owner and times of a file or folder."""
        with _named(path):
            set_attributes(path, wanted)

    def sync(self, path: str) -> None:
        """Return when the file's bytes, size and times are on the device."""
        with _named(path), _descriptor(path, os.O_RDONLY) as file:
            os.fsync(file)

    def sync_dir(self, path: str) -> None:
        """Return when the names in a folder are on the device."""
        with _named(path), _descriptor(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
            os.fsync(folder)


def keep_time(disk: Disk, folder: str, mtime_ns: int | None) -> None:
    """Set a folder's former mtime again. Only the owner may do that; for others it is skipped."""
    with suppress(PermissionError):
        disk.describe(folder, replace(attributes_of(folder), mtime_ns=mtime_ns))


def remove_folder(disk: Disk, folder: str) -> None:
    """Delete a folder with everything in it, if it exists."""
    if not os.path.isdir(folder):
        return
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            remove_folder(disk, entry.path)
        else:
            disk.delete(entry.path)
    disk.rmdir(folder)


@contextmanager
def _descriptor(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Add the path to errors of calls that have only a descriptor."""
    try:
        yield
    except OSError as error:
        if not isinstance(error.filename, str):
            error.filename = path
        raise


def _put(sink: int, at: int, content: Content, reached: Callable[[int], None] = _nobody_asks) -> None:
    """Write the content from byte `at` on, where the file ends now."""
    for part in content:
        if isinstance(part, Spooled):
            part = part.as_range()
        if isinstance(part, FileRange):
            _put_range(sink, at, part, reached)
            at += part.size
        else:
            for start in range(0, len(part), BUFFER_BYTES):
                chunk = part[start : start + BUFFER_BYTES]
                if chunk != _ZEROS:
                    _write_all(sink, chunk, at + start)
            at += len(part)
        reached(at)
    os.ftruncate(sink, at)  # extends the file over a hole at its end


def _put_blocks(sink: int, at: int, data: memoryview) -> None:
    """Write the blocks of the file that are not all zeros."""
    done = start = 0  # data[start:done] is still to be written
    while done < len(data):
        stop = min(len(data), done + BLOCK_BYTES - (at + done) % BLOCK_BYTES)
        if bytes(data[done:stop]) == _ZEROS[: stop - done]:
            _write_all(sink, data[start:done], at + start)
            start = stop
        done = stop
    _write_all(sink, data[start:], at + start)


def _write_all(sink: int, data: bytes | memoryview, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(sink, view, at)
        view, at = view[done:], at + done


def _put_range(sink: int, at: int, part: FileRange, reached: Callable[[int], None]) -> None:
    with ReadErrors(part.path):
        source = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    gentle = pace()
    direct = None if gentle is None else DirectReads(source, gentle)
    try:
        for start, stop in _walk_data(source, part):
            for first in range(start, stop, PART_BYTES):
                last = min(first + PART_BYTES, stop)
                _copy(source, direct, first, sink, at + first - part.start, last - first, part)
                reached(at + last - part.start)
    finally:
        if direct is not None:
            direct.close()
        os.close(source)


def _walk_data(source: int, part: FileRange) -> Iterator[tuple[int, int]]:
    """Yield the spans of the piece that are not holes. The index of an active segment is 10 MiB, nearly all of it a
    hole."""
    if os.fstat(source).st_size < part.stop:
        raise became_shorter(part.path, os.fstat(source).st_size)
    start = part.start
    while start < part.stop:
        try:
            start = os.lseek(source, start, os.SEEK_DATA)
            stop = os.lseek(source, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest is a hole
                return
            stop = part.stop  # this file system does not report holes
        if start < part.stop:
            yield start, min(stop, part.stop)
        start = stop


def _copy(source: int, direct: DirectReads | None, start: int, sink: int, at: int, size: int, part: FileRange) -> None:
    """Copy in the kernel, which shares blocks if the file system can; else, and for gentle reading, through memory."""
    by_system = direct is None and hasattr(os, "copy_file_range")
    while size > 0:
        try:
            if by_system:
                done = os.copy_file_range(source, sink, min(size, CHUNK_BYTES), start, at)
            else:
                done = _copy_by_hand(source, direct, start, sink, at, min(size, BUFFER_BYTES))
        except OSError as error:
            if not by_system or error.errno not in _SYSTEM_DOES_NOT_COPY:
                raise
            by_system = False
            continue
        if done == 0:
            raise became_shorter(part.path, start)
        start, at, size = start + done, at + done, size - done


def _copy_by_hand(source: int, direct: DirectReads | None, start: int, sink: int, at: int, size: int) -> int:
    if direct is None:
        data = memoryview(os.pread(source, size, start))
    else:
        buffer = memoryview(bytearray(size))
        data = buffer[: direct.read_into(buffer, start)]
    _write_all(sink, data, at)
    return len(data)


def not_written(path: str, error: OSError) -> Unreadable:
    """Return klogtool's error for a file or a folder that the system does not let us write."""
    failed = Unreadable(f"cannot be written: {(error.strerror or str(error)).lower()}", path=path)
    failed.errno = error.errno
    return failed


class WriteErrors(ReadErrors):
    """Makes klogtool's errors of the system's, in a block that writes: `with WriteErrors(path): ...`."""

    error_of = staticmethod(not_written)
