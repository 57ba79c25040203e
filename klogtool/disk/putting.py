"""Writes files, syncs them, and checks that they are as intended: a large file while it is still being written. Then
the device is never idle, and one core copies while another compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Thread

from klogtool.broker.content import Content, content_size
from klogtool.disk.attributes import FileAttributes
from klogtool.disk.disk import Disk
from klogtool.disk.readback import ReadBack, WrittenFile, check_size, check_written


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
        with ReadBack(self._path, self._content) as read_back:
            while place is not None:
                read_back.check_up_to(
                    min(place, read_back.written.size_now())
                )  # the file is shorter while it ends in a hole
                place = next(places, None)
            if self._is_written:
                read_back.check_all()


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


STRETCH_BYTES = 32 << 20  # a larger file is synced and read back during the write; a smaller one after it


def put(disk: Disk, path: str, content: Content, like: FileAttributes | None) -> None:
    """Write a new file, sync it and read it back. Raises as `Disk.write` and `check_written` do."""
    if content_size(content) <= STRETCH_BYTES:
        disk.write(path, content, like)
        disk.sync(path)
        check_written(path, content)
        return
    with ReadBehind(path, content, STRETCH_BYTES) as reader:
        disk.write(path, content, like, reader.reach)
        disk.sync(path)
        reader.finish()


def copy(disk: Disk, path: str, content: Content, like: FileAttributes | None) -> None:
    """Copy pieces of other files to a new file, and sync it. The kernel copies, so only the size is checked. Raises as
    `put`."""
    disk.write(path, content, like)
    disk.sync(path)
    check_size(path, content)
