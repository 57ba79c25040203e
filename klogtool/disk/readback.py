"""What was written is read again and held against what was to be written."""

from __future__ import annotations

import errno
import os

from klogtool.log.file import LogFile
from klogtool.repair.draft import Content, content_size
from klogtool.repair.unified_log.content_file import ContentFile

PIECE_BYTES = 256 << 10


def check_written(path: str, content: Content) -> None:
    """Raises OSError (EIO) if the file at `path` is not this content, KlogError if one of them cannot be read.

    The bytes come from the device as far as the system lets go of those that it has in memory: sync before.
    """
    forget_cached(path)
    with LogFile(path) as written, ContentFile(path, content) as wanted:
        if written.size != wanted.size:
            raise _differs(path, min(written.size, wanted.size))
        # Buffers that are used again, and stay in the processor's cache: fresh ones cost more than the reading.
        found, expected = bytearray(PIECE_BYTES), bytearray(PIECE_BYTES)
        for position in range(0, wanted.size, PIECE_BYTES):
            size = len(wanted.read_into(expected, position, PIECE_BYTES))
            if len(written.read_into(found, position, PIECE_BYTES)) != size or found[:size] != expected[:size]:
                raise _differs(path, position)


def check_size(path: str, content: Content) -> None:
    """Raises OSError (EIO) if the file at `path` has not the content's size: for what the system has copied."""
    size = os.stat(path).st_size
    if size != content_size(content):
        raise _differs(path, min(size, content_size(content)))


def forget_cached(path: str) -> None:
    """The system need not keep the file's bytes in memory."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def _differs(path: str, position: int) -> OSError:
    return OSError(errno.EIO, f"from byte {position} on it does not read as it was written", path)
