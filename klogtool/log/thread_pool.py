"""One function over many pieces, on a few threads; results come in the order of the pieces."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from mmap import mmap
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2  # pieces in progress for each thread
_ROOM_BYTES = 16 << 20  # of address space: a stack has 8 MiB


def in_order(
    make_work: Callable[[], Callable[[Item], Result]], items: Iterator[Item], jobs: int
) -> Iterator[tuple[Item, Result]]:
    """Yield (piece, work(piece)) for each piece, in order; each thread makes its own `work`.

    A few pieces are in progress at a time, so memory does not grow with their number. With one piece or one job no
    thread is used, and fewer than `jobs` if the machine gives no more. An exception of the work is raised at its place
    in the order.
    """
    head = list(islice(items, 2 if jobs > 1 else 1))
    if not head:
        return
    items = chain(head, items)
    todo: queue.SimpleQueue[_Slot | None] = queue.SimpleQueue()
    threads = _start(make_work, todo, jobs) if len(head) > 1 else 0
    if threads == 0:
        work = make_work()
        yield from ((item, work(item)) for item in items)
        return
    waiting: deque[_Slot] = deque()
    try:
        for item in items:
            waiting.append(_Slot(item))
            todo.put(waiting[-1])
            if len(waiting) >= threads * AHEAD:
                yield waiting.popleft().wait()
        while waiting:
            yield waiting.popleft().wait()
    finally:
        for _ in range(threads):
            todo.put(None)


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
        self.done.wait()
        if self._error is not None:
            raise self._error
        return self.item, self._results[0]


def _start(make_work: Callable[[], Callable[[Any], Any]], todo: queue.SimpleQueue[_Slot | None], jobs: int) -> int:
    """Start the threads, and return how many there are."""
    for started in range(jobs):
        try:
            start_thread(_serve, make_work(), todo)
        except RuntimeError:
            return started
    return jobs


def start_thread(target: Callable[..., None], *args: object) -> None:
    """Start a thread that does not outlive the process. Raises RuntimeError if there is no memory for its stack, or a
    limit for the user's threads. One that has a stack and no memory for anything else dies before it says that it has
    begun, and who started it would wait for ever (threading.Thread.start): so there has to be room for both."""
    try:
        mmap(-1, _ROOM_BYTES).close()
    except (OSError, MemoryError) as error:
        raise RuntimeError("no memory for a thread") from error
    threading.Thread(target=target, args=args, daemon=True).start()


def _serve(work: Callable[[Any], Any], todo: queue.SimpleQueue[_Slot | None]) -> None:
    while (slot := todo.get()) is not None:
        slot.fill(work)
