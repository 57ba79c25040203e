"""Waiting until something changes in a folder: by inotify where the system has it, otherwise by looking again.

Nothing is lost if a change is missed (network file systems report none): each wait has an end.
"""

from __future__ import annotations

import ctypes
import os
import select
import time

LONGEST_WAIT_MS = 1000
POLL_MS = 200  # without inotify
EVENT_BYTES = 1 << 16
# <sys/inotify.h>
IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF = 0x400, 0x800
WATCHED = IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF


class Changes:
    """Changes of the files in a folder. by_inotify: whether the system reports them; otherwise each wait is a pause.

    reader: a descriptor of a pipe that we write to, or None. `wait` also returns if its reader is gone.
    """

    def __init__(self, folder: str, *, reader: int | None = None, use_inotify: bool = True) -> None:
        self._folder, self._poll, self._fd = folder, select.poll(), -1
        if use_inotify:
            self._fd = _watch(folder)
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)
        self._reader = reader
        if reader is not None:
            self._poll.register(reader, 0)  # POLLERR comes unasked

    @property
    def by_inotify(self) -> bool:
        """Whether the system reports changes."""
        return self._fd >= 0

    def wait(self) -> bool:
        """Wait for a change, or for at most a second. False if nobody reads the pipe any more."""
        ready = self._poll.poll(LONGEST_WAIT_MS if self.by_inotify else POLL_MS)
        if any(fd == self._reader for fd, _ in ready):
            return False
        if ready:
            os.read(self._fd, EVENT_BYTES)
            time.sleep(0.005)  # a broker's write is several changes
        return True

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _watch(folder: str) -> int:
    """Return a descriptor that reports changes; -1 if the system has no inotify, or no more watches for us."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = int(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, AttributeError):
        return -1
    if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(folder), WATCHED) < 0:
        os.close(fd)
        return -1
    return fd
