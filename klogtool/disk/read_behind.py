"""Syncs and reads back a large file while it is still being written. The device is never idle, and one core copies
while another compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Thread

from klogtool.broker.content import Content
from klogtool.disk.readback import ReadBack, WrittenFile


class ReadBehind:
    """Two threads: one syncs and one reads back a file while it is written. Use it with `with`."""

    def __init__(self, path: str, content: Content, stretch_bytes: int) -> None:
        self._path, self._content, self._stretch_bytes, self._told = path, content, stretch_bytes, 0
        self._is_written = False
        self._followers = _Follower("sync", self._sync), _Follower("read back", self._read)

    def reach(self, position: int) -> None:
        """Note that the file is written up to `position`."""
        if position - self._told >= self._stretch_bytes:
            self._told = position
            for follower in self._followers:
                follower.tell(position)

    def finish(self) -> None:
        """Note that all is written and synced. Raises as `check_written` does, and if an earlier sync failed."""
        self._is_written = True
        for follower in self._followers:
            follower.end()
        for follower in self._followers:
            follower.raise_error()

    def __enter__(self) -> ReadBehind:
        return self

    def __exit__(self, *_: object) -> None:
        for follower in self._followers:
            follower.end()

    def _sync(self, places: Iterator[int]) -> None:
        for _ in places:
            with WrittenFile(self._path) as file:
                file.sync()

    def _read(self, places: Iterator[int]) -> None:
        place = next(places, None)  # the file may not exist before that
        if place is None and not self._is_written:
            return
        with ReadBack(self._path, self._content) as found:
            while place is not None:
                found.check_up_to(min(place, found.written.size_now()))  # the file is shorter while it ends in a hole
                place = next(places, None)
            if self._is_written:
                found.check_all()


class _Follower:
    """A thread that is told how far a file is written."""

    def __init__(self, name: str, work: Callable[[Iterator[int]], None]) -> None:
        self._places: SimpleQueue[int | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, args=(work,), name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no memory for its stack, or a limit for the user's threads
            raise MemoryError from error

    def tell(self, position: int) -> None:
        self._places.put(position)

    def end(self) -> None:
        """Note that nothing more comes; may be called twice."""
        self._places.put(None)
        self._thread.join()

    def raise_error(self) -> None:
        """Raise the error of the thread, which has ended."""
        if self._error is not None:
            raise self._error

    def _run(self, work: Callable[[Iterator[int]], None]) -> None:
        try:
            work(iter(self._places.get, None))
        except BaseException as error:  # kept for the thread that waits for this one
            self._error = error
