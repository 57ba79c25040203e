"""Sends bytes of files to a pipe, a socket or another file, in the kernel and not through our memory.

This is the zero copy of a broker's fetch. If the kernel cannot copy between two kinds of files, small chunks are read
and written.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable

from klogtool.broker.content import Content, FileRange, Spooled
from klogtool.errors import became_shorter
from klogtool.log.file import ReadErrors

CHUNK_BYTES = 8 << 20  # the kernel moves this much per call
BUFFER_BYTES = 1 << 20  # for copies that go through our memory
_SYSTEM_DOES_NOT_MOVE = frozenset(
    (
        *(errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.ETXTBSY),
        *(errno.EBADF, errno.ESPIPE, errno.ENOTSOCK),  # ENOTSOCK: sendfile of macOS sends to sockets only
    )
)

Move = Callable[[int, int, int, int], int]  # (sink, source, start, size) -> bytes moved


def send(sink: int, content: Content) -> None:
    """Write all of a content to a descriptor, at its current position. Raises KlogError if a source file cannot be read
    or has become shorter; OSError (BrokenPipeError) from the sink."""
    for part in content:
        if isinstance(part, Spooled):
            part = part.as_range()
        if isinstance(part, FileRange):
            _send_range(sink, part)
        else:
            _write_all(sink, part)


def _send_range(sink: int, part: FileRange) -> None:
    with ReadErrors(part.path):
        source = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        start = part.start
        for move in (_copy_range, os.sendfile, _by_hand):
            start = _move(move, sink, source, start, part)
    finally:
        os.close(source)


def _move(move: Move, sink: int, source: int, start: int, part: FileRange) -> int:
    """Move bytes in this way as far as possible; return where it stopped."""
    while start < part.stop:
        try:
            done = move(sink, source, start, min(part.stop - start, CHUNK_BYTES))
        except BlockingIOError:
            select.select((), (sink,), ())
            continue
        except OSError as error:
            if move is _by_hand or error.errno not in _SYSTEM_DOES_NOT_MOVE:
                raise
            return start
        if done == 0:
            raise became_shorter(part.path, start)
        start += done
    return start


def _copy_range(sink: int, source: int, start: int, size: int) -> int:
    """Copy between files; the file system may share the blocks."""
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.copy_file_range(source, sink, size, start)


def _by_hand(sink: int, source: int, start: int, size: int) -> int:
    data = os.pread(source, min(size, BUFFER_BYTES), start)
    _write_all(sink, data)
    return len(data)


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            select.select((), (sink,), ())
