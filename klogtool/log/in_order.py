"""The same work on many pieces, on a few threads, its results in the order of the pieces."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

AHEAD = 2  # pieces under way for each thread


def in_order(
    make_work: Callable[[], Callable[[Piece], Result]], pieces: Iterator[Piece], jobs: int
) -> Iterator[tuple[Piece, Result]]:
    """(piece, work(piece)) for each piece, in order; each thread makes its own `work`.

    A few pieces are under way at a time, so memory does not grow with their number. One piece, or one job: no thread.
    An exception of the work is raised in its place.
    """
    first = next(pieces, None)
    if first is None:
        return
    second = next(pieces, None) if jobs > 1 else None
    if second is None:
        work = make_work()
        for piece in _chain([first], pieces):
            yield piece, work(piece)
        return
    yield from _threaded(make_work, _chain([first, second], pieces), jobs)


def _chain(head: list[Piece], rest: Iterator[Piece]) -> Iterator[Piece]:
    yield from head
    yield from rest


class _Slot(Generic[Piece, Result]):
    """A piece on its way: `done` is set when its result, or its error, is there."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.done = threading.Event()
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def fill(self, work: Callable[[Piece], Result]) -> None:
        """Do the work; whatever it raises is kept for the one who waits."""
        try:
            self._results.append(work(self.piece))
        except BaseException as error:
            self._error = error
        self.done.set()

    def wait(self) -> tuple[Piece, Result]:
        """The piece and its result; raises what the work raised."""
        self.done.wait()
        if self._error is not None:
            raise self._error
        return self.piece, self._results[0]


def _threaded(
    make_work: Callable[[], Callable[[Piece], Result]], pieces: Iterator[Piece], jobs: int
) -> Iterator[tuple[Piece, Result]]:
    todo: queue.SimpleQueue[_Slot[Piece, Result] | None] = queue.SimpleQueue()
    for _ in range(jobs):
        threading.Thread(target=_serve, args=(make_work(), todo), daemon=True).start()
    waiting: deque[_Slot[Piece, Result]] = deque()
    try:
        for piece in pieces:
            waiting.append(_Slot(piece))
            todo.put(waiting[-1])
            if len(waiting) >= jobs * AHEAD:
                yield waiting.popleft().wait()
        while waiting:
            yield waiting.popleft().wait()
    finally:
        for _ in range(jobs):
            todo.put(None)


def _serve(work: Callable[[Piece], Result], todo: queue.SimpleQueue[_Slot[Piece, Result] | None]) -> None:
    while (slot := todo.get()) is not None:
        slot.fill(work)
