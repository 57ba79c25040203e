"""The same work on many pieces, on a few threads, its results in the order of the pieces."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

AHEAD = 2  # pieces under way for each thread


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


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


class _Slot:
    """A piece on its way: set when its result, or its error, is there."""

    __slots__ = ("done", "error", "piece", "result")

    def __init__(self, piece: object) -> None:
        self.piece, self.result, self.error = piece, None, None  # type: ignore[var-annotated]
        self.done = threading.Event()


def _threaded(
    make_work: Callable[[], Callable[[Piece], Result]], pieces: Iterator[Piece], jobs: int
) -> Iterator[tuple[Piece, Result]]:
    todo: queue.SimpleQueue[_Slot | None] = queue.SimpleQueue()
    for _ in range(jobs):
        threading.Thread(target=_serve, args=(make_work, todo), daemon=True).start()
    waiting: list[_Slot] = []
    try:
        for piece in pieces:
            slot = _Slot(piece)
            waiting.append(slot)
            todo.put(slot)
            if len(waiting) >= jobs * AHEAD:
                yield _result(waiting.pop(0))
        while waiting:
            yield _result(waiting.pop(0))
    finally:
        for _ in range(jobs):
            todo.put(None)


def _serve(make_work: Callable[[], Callable[[Piece], Result]], todo: queue.SimpleQueue[_Slot | None]) -> None:
    work = None
    while (slot := todo.get()) is not None:
        try:
            work = work or make_work()
            slot.result = work(slot.piece)  # type: ignore[arg-type]
        except BaseException as error:  # raised again by who waits for it
            slot.error = error
        slot.done.set()


def _result(slot: _Slot) -> tuple[Piece, Result]:  # type: ignore[type-var]
    slot.done.wait()
    if slot.error is not None:
        raise slot.error
    return slot.piece, slot.result  # type: ignore[return-value]
