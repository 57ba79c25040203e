"""Reads written bytes again and compares them with the bytes that were to be written."""

from __future__ import annotations

import errno
import os

from klogtool.broker.content import Content, content_size
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import KlogError
from klogtool.log.file import LogFile

PIECE_BYTES = 256 << 10


def check_written(path: str, content: Content) -> None:
    """Raises OSError (EIO) if the file at `path` is not this content, KlogError if one of them cannot be read.

    The bytes may come from the page cache. That they are on the device is ensured by `Disk.sync`.
    """
    with ReadBack(path, content) as read_back:
        read_back.check_all()


def check_size(path: str, content: Content) -> None:
    """Raises OSError (EIO) if the file at `path` does not have the content's size. For files that the kernel copied."""
    size = os.stat(path).st_size
    if size != content_size(content):
        raise differs(path, min(size, content_size(content)))


class WrittenFile(LogFile):
    """A file that is being written, or was."""

    def __enter__(self) -> WrittenFile:
        return self

    def sync(self) -> None:
        """Return when the current bytes are on the device."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(self._fd)
        else:  # macOS
            os.fsync(self._fd)


class ReadBack:
    """Compares a file that is being written, or was, with its content. Bytes before `position` are known to be
    right."""

    def __init__(self, path: str, content: Content) -> None:
        self.written, self.position = WrittenFile(path), 0
        try:
            self.wanted = ContentFile(path, content)
        except KlogError:
            self.written.close()
            raise
        # These buffers are reused, so they stay in the processor's cache: fresh ones cost more than the reading.
        self._read, self._expected = bytearray(PIECE_BYTES), bytearray(PIECE_BYTES)

    def check_up_to(self, end: int) -> None:
        """Compare the written bytes up to `end` with the wanted bytes."""
        while self.position < end:
            size = len(self.wanted.read_into(self._expected, self.position, min(PIECE_BYTES, end - self.position)))
            is_whole = len(self.written.read_into(self._read, self.position, size)) == size
            one, other = self._read, self._expected
            if not is_whole or not (one == other if size == PIECE_BYTES else one[:size] == other[:size]):
                raise differs(self.wanted.path, self.position)
            self.position += size

    def check_all(self) -> None:
        """Compare the rest; the file is complete now."""
        size = self.written.size_now()
        if size != self.wanted.size:
            raise differs(self.wanted.path, min(size, self.wanted.size))
        self.check_up_to(size)

    def __enter__(self) -> ReadBack:
        return self

    def __exit__(self, *_: object) -> None:
        self.written.close()
        self.wanted.close()


def differs(path: str, position: int) -> OSError:
    """Return the error for a file that differs from what was written to it."""
    return OSError(errno.EIO, f"reading back from byte {position} gives other bytes than were written", path)
