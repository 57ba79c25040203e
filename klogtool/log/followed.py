"""A partition that is being written to: what is new in its segments, look by look.

Reads only, so a broker that has the log dir is no obstacle. A segment stays open while it is followed: what retention
deletes is read to its end. A batch that is not whole yet is left for the next look. A log that is cut (a leader has
changed) is followed from the last place that is still as it was read.

To wait until something changes in the folder is inotify where the system has it, otherwise looking again. Nothing is
lost if a change is missed (network file systems report none): each wait has an end.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator

from klogtool.causes import Cause, Reason, some
from klogtool.errors import KlogError
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.folder import list_folder

MARK_BYTES = 64
MOST_MARKS = 10_000
MOST_SEGMENTS_KEPT = 16


Read = Callable[["FollowedSegment", LogFile], None]


class LogEvent(Cause):
    """What happens to a partition that is followed; see klogtool.causes."""

    DELETED, DELETED_UNREAD, GONE, BACK, REPLACED, WENT_BACK, CUT = some(7)


class FollowedSegment:
    """A segment, and how far it was read. marks: places between batches, with the bytes before each of them."""

    def __init__(self, path: str) -> None:
        self.path, self.base_offset = path, _base_offset(path)
        self.at = 0
        self._marks: deque[tuple[int, bytes]] = deque([(0, b"")], MOST_MARKS)
        self._file: LogFile | None = None

    def open(self) -> LogFile:
        """Return the file with its size of now. Raises Unreadable."""
        self._file = self._file or LogFile(self.path)
        return self._file.again()

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def is_replaced(self) -> bool:
        """Whether its name belongs to another file now, or to none."""
        if self._file is None:
            return not os.path.lexists(self.path)
        try:
            return not os.path.samestat(os.stat(self.path), self._file.about())
        except OSError:
            return True

    def move_to(self, log: LogFile, at: int) -> None:
        """Note that everything up to byte `at` was read."""
        if at != self.at:
            self.at = at
            self._marks.append((at, _before(log, at)))

    def cut_back(self, log: LogFile) -> int | None:
        """Return how many bytes that were read are no longer there as they were, after going back before them; None if
        all are."""
        was = self.at
        while self._marks and (log.size < self._marks[-1][0] or _before(log, self._marks[-1][0]) != self._marks[-1][1]):
            self._marks.pop()
        if not self._marks:
            self._marks.append((0, b""))
        self.at = self._marks[-1][0]
        return None if self.at == was else was - self.at


def _before(log: LogFile, at: int) -> bytes:
    return log.read(max(0, at - MARK_BYTES), min(at, MARK_BYTES))


def is_unwritten(log: LogFile, at: int) -> bool:
    """Whether there are only zeros where the next entry would begin: a file with room for more."""
    return not any(log.read(at, HEADER_SIZE_UP_TO_MAGIC))


class FollowedPartition:
    """The segments of a partition dir, from `first` on (a path; None: from its first segment).

    tell: takes what happened to the log. lowest: segments that end below this offset are left out.
    """

    def __init__(self, folder: str, first: str | None, tell: Callable[[Reason], None], *, lowest: int = 0) -> None:
        self.folder, self._tell, self._lowest = folder, tell, lowest
        self._first = None if first is None else _base_offset(first)
        self._segment: FollowedSegment | None = None
        self._done: deque[FollowedSegment] = deque(maxlen=MOST_SEGMENTS_KEPT)
        self._is_gone = False

    def look(self, read: Read) -> None:
        """Read everything that is new. `read` reads a segment from `at` on, and says by `move_to` how far it came."""
        for segment in self._segments_to_read():
            self._read(segment, read)

    def _segments_to_read(self) -> Iterator[FollowedSegment]:
        """Yield the segment that is followed, and then those behind it. Names are listed before bytes are read: a
        segment that has another behind it gets no more bytes."""
        paths = self._paths()
        if self._segment is None:
            wanted = [path for path in paths if self._first is None or _base_offset(path) >= self._first]
            while len(wanted) > 1 and _base_offset(wanted[1]) <= self._lowest:
                wanted.pop(0)
            self._segment = FollowedSegment(wanted[0]) if wanted else None
        while self._segment is not None:
            segment = self._segment
            yield segment
            behind = [path for path in paths if _base_offset(path) > segment.base_offset]
            if not behind:
                self._go_back(segment, paths)
                return
            if segment.is_replaced():
                self._tell((LogEvent.DELETED if segment.at else LogEvent.DELETED_UNREAD)(path=segment.path))
            segment.close()
            self._done.append(segment)
            self._segment = FollowedSegment(behind[0])

    def _paths(self) -> list[str]:
        try:
            files = list_folder(self.folder).files
        except Unreadable:
            if not self._is_gone:
                self._tell(LogEvent.GONE(path=self.folder))
            self._is_gone = True
            return []
        if self._is_gone:
            self._tell(LogEvent.BACK(path=self.folder))
            self._is_gone, self._segment, self._first = False, None, None
            self._done.clear()
        logs = [
            name for name in files if name.kind is FileKind.LOG and not name.suffix and name.base_offset is not None
        ]
        return [os.path.join(self.folder, name.name) for name in sorted(logs, key=lambda name: name.base_offset or 0)]

    def _go_back(self, segment: FollowedSegment, paths: list[str]) -> None:
        """After a truncation the last segment may be one that was read before."""
        if not paths or not segment.is_replaced():
            return
        segment.close()
        same = segment.path in paths
        instead = LogEvent.WENT_BACK(path=segment.path, other=os.path.basename(paths[-1]))
        self._tell(LogEvent.REPLACED(path=segment.path) if same else instead)
        known = [done for done in self._done if done.path == paths[-1]]
        self._segment = known[-1] if known and not same else FollowedSegment(paths[-1])

    def _read(self, segment: FollowedSegment, read: Read) -> None:
        try:
            log = segment.open()
        except Unreadable:
            if os.path.lexists(segment.path):
                raise
            return  # deleted between the list and this, or not there yet
        with log:
            if (lost := segment.cut_back(log)) is not None:
                self._tell(LogEvent.CUT(path=segment.path, lost=lost, at=segment.at))
            read(segment, log)

    def close(self) -> None:
        """Let the open file go."""
        if self._segment is not None:
            self._segment.close()


def _base_offset(path: str) -> int:
    offset = parse_file_name(os.path.basename(path)).base_offset
    if offset is None:
        raise KlogError("the name is no base offset", path=path)
    return offset


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
