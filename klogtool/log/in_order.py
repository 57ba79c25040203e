"""The same work on many pieces, on a few threads; results come in the order of the pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from klogtool.log.in_threads import in_threads

if TYPE_CHECKING:
    Item = TypeVar("Item")
    Result = TypeVar("Result")


def in_order(
    make_work: Callable[[], Callable[[Item], Result]], items: Iterator[Item], jobs: int
) -> Iterator[tuple[Item, Result]]:
    """Yield (piece, work(piece)) for each piece, in order; each thread makes its own `work`.

    A few pieces are in progress at a time, so memory does not grow with their number. With one piece or one job no
    thread is used. An exception of the work is raised at its place in the order.
    """
    first = next(items, None)
    if first is None:
        return
    second = next(items, None) if jobs > 1 else None
    if second is None:
        work = make_work()
        for item in _chain([first], items):
            yield item, work(item)
        return
    yield from in_threads(make_work, _chain([first, second], items), jobs)


def _chain(head: list[Item], rest: Iterator[Item]) -> Iterator[Item]:
    yield from head
    yield from rest
