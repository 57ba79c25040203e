"""Standard input as a file that can be read at any position, and twice.

A pipe is copied into a temporary file that has no name: it is gone when klogtool ends, however it ends. Where it lies
is the system's decision (TMPDIR). A file behind standard input is read where it is.
"""

from __future__ import annotations

import os
import stat
import tempfile
from typing import BinaryIO

from klogtool.disk.causes import OutputRefusal
from klogtool.errors import AboveLimit, FileCause, KlogError
from klogtool.log.file import LogFile, ReadErrors

NAME = "-"
MOST_BYTES = 2**31 - 1  # of a segment, in Kafka
PIECE_BYTES = 1 << 20


def open_standard_input(stream: BinaryIO | None, *, most_bytes: int = MOST_BYTES) -> LogFile:
    """Return all bytes of the stream as a file with the path `-`. Waits for the end of the stream.

    Raises AboveLimit for more than `most_bytes`, Unreadable if the stream cannot be read, or the copy not be written.
    """
    if stream is None:
        raise KlogError(FileCause.STDIN_CLOSED(), path=NAME)
    with ReadErrors(NAME):
        kind = os.fstat(stream.fileno()).st_mode
        if stat.S_ISREG(kind) and stream.tell() == 0:
            return LogFile.over(os.dup(stream.fileno()), NAME)
        with tempfile.TemporaryFile(prefix="klogtool-") as copy:
            size = 0
            while chunk := stream.read(PIECE_BYTES):
                size += len(chunk)
                if size > most_bytes:
                    raise AboveLimit(OutputRefusal.LARGER_THAN_SEGMENT(most=most_bytes), path=NAME)
                copy.write(chunk)
            copy.flush()
            return LogFile.over(os.dup(copy.fileno()), NAME)
