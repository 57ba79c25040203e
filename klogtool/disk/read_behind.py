"""A large file is synced and read back behind whoever writes it, stretch by stretch: so the device is never idle, and
one core copies while another compares."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Thread

from klogtool.disk.readback import ReadBack
from klogtool.repair.draft import Content


class ReadBehind:
    """A thread that syncs and reads back a file while it is written; to be left by `with`."""

    def __init__(self, path: str, content: Content, stretch_bytes: int) -> None:
        self._path, self._content, self._stretch_bytes, self._told = path, content, stretch_bytes, 0
        self._places: SimpleQueue[int | None] = SimpleQueue()  # how far it is written; None: to the end, or given up
        self._is_finished, self._is_given_up = False, False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._read, name="read back", daemon=True)

    def reach(self, position: int) -> None:
        """So much is written."""
        if position - self._told >= self._stretch_bytes:
            self._told = position
            self._places.put(position)

    def finish(self) -> None:
        """All is written and synced. Raises as `check_written` does."""
        self._is_finished = True
        self._places.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> ReadBehind:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_given_up = True
        self._places.put(None)
        self._thread.join()

    def _read(self) -> None:
        try:
            place = self._places.get()
            with ReadBack(self._path, self._content) as found:
                while place is not None and not self._is_given_up:
                    found.check_up_to(min(place, found.written.sync()))
                    place = self._places.get()
                if self._is_finished:
                    found.check_all()
        except BaseException as error:  # for whoever waits for it
            self._error = error
