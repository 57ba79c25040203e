"""Runs the work of log/in_order.py on threads."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

AHEAD = 2  # pieces in progress for each thread


class _Slot:
    """A piece in progress: `done` is set when its result or its error is there."""

    def __init__(self, item: Any) -> None:
        self.item = item
        self.done = threading.Event()
        self._results: list[Any] = []
        self._error: BaseException | None = None

    def fill(self, work: Callable[[Any], Any]) -> None:
        """Do the work; an exception is kept for `wait`."""
        try:
            self._results.append(work(self.item))
        except BaseException as error:
            self._error = error
        self.done.set()

    def wait(self) -> tuple[Any, Any]:
        """Return the piece and its result; raise what the work raised."""
        self.done.wait()
        if self._error is not None:
            raise self._error
        return self.item, self._results[0]


def in_threads(
    make_work: Callable[[], Callable[[Any], Any]], items: Iterator[Any], jobs: int
) -> Iterator[tuple[Any, Any]]:
    """Yield (piece, work(piece)) for each piece, in order, by `jobs` threads; by fewer if the machine gives no more."""
    todo: queue.SimpleQueue[_Slot | None] = queue.SimpleQueue()
    jobs = _start(make_work, todo, jobs)
    if jobs == 0:
        work = make_work()
        yield from ((item, work(item)) for item in items)
        return
    waiting: deque[_Slot] = deque()
    try:
        for item in items:
            waiting.append(_Slot(item))
            todo.put(waiting[-1])
            if len(waiting) >= jobs * AHEAD:
                yield waiting.popleft().wait()
        while waiting:
            yield waiting.popleft().wait()
    finally:
        for _ in range(jobs):
            todo.put(None)


def _start(make_work: Callable[[], Callable[[Any], Any]], todo: queue.SimpleQueue[_Slot | None], jobs: int) -> int:
    """Start the threads, and return how many there are."""
    for started in range(jobs):
        try:
            threading.Thread(target=_serve, args=(make_work(), todo), daemon=True).start()
        except RuntimeError:  # no memory for its stack, or a limit for the user's threads
            return started
    return jobs


def _serve(work: Callable[[Any], Any], todo: queue.SimpleQueue[_Slot | None]) -> None:
    while (slot := todo.get()) is not None:
        slot.fill(work)
