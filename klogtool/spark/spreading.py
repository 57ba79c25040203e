"""Runs one function over many items, as tasks of Spark; the results come back in order.

If a task refuses something or finds damage, the task does not fail: the error comes back as a value, and is raised
here. A task that fails in any other way is retried by Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from klogtool.errors import KlogError
from klogtool.spark.reading import spare_collections
from klogtool.spark.starting import Session

Item = TypeVar("Item")
Found = TypeVar("Found")
Joined = TypeVar("Joined")
LOOK_SECONDS = 0.2
PIECE_BYTES = 24 << 18  # of exchanged bytes: rows of Spark must not be large


def spread(
    session: Session,
    work: Callable[[Item], Found],
    items: Sequence[Item],
    *,
    sizes: Sequence[int] | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Found]:
    """Return the result of `work` for each item, in order; one task per item.

    work: a function of a module, or a partial of one. sizes: bytes of each item; the largest are started first.
    on_progress: gets the approximate number of bytes done. Raises the first error that `work` raised, otherwise
    SparkFailed.
    """
    if not items:
        return []
    weights = [1] * len(items) if sizes is None else list(sizes)
    order = sorted(range(len(items)), key=lambda n: -weights[n])
    rows = session.context.parallelize([(n, items[n]) for n in order], len(items)).map(partial(_tried, work))
    return _in_order(dict(_collected(session, rows, sum(weights) // len(items), on_progress)))


def spread_groups(
    session: Session,
    work: Callable[[Item], Found],
    items: Iterable[Item],
    size_of: Callable[[Item], int],
    target: int,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Found]:
    """Return what `spread` returns, by fewer tasks: one for consecutive items that reach the target size."""
    tasks = list(packed(items, size_of, target))
    groups, sizes = [some for some, _ in tasks], [size for _, size in tasks]
    results = spread(session, partial(_each, work), groups, sizes=sizes, on_progress=on_progress)
    return [one for some in results for one in some]


def _each(work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    return [work(item) for item in items]


def _in_order(by_number: dict[int, Any]) -> list[Any]:
    """Return the results in order of the items. Raises the first error among them."""
    results = [by_number[n] for n in sorted(by_number)]
    for result in results:
        if isinstance(result, KlogError):
            raise result
    return results


def _tried(work: Callable[[Any], Any], numbered: tuple[int, Any]) -> tuple[int, Any]:
    spare_collections()
    number, item = numbered
    try:
        return number, work(item)
    except KlogError as error:
        error.__cause__ = error.__context__ = None
        return number, error.with_traceback(None)


def exchange(
    session: Session,
    work: Callable[[Item], tuple[Found, Sequence[bytes]]],
    join: Callable[[list[bytes]], Joined],
    items: Sequence[Item],
    parts: int,
    *,
    sizes: Sequence[int],
) -> tuple[list[Found], list[Joined]]:
    """Return the result of each item, in order, and each of `parts` parts, as joined.

    work: also returns bytes for each part, which Spark moves. join: gets all bytes of a part, in any order. Raises as
    `spread` does.
    """
    order = sorted(range(len(items)), key=lambda n: -sizes[n])
    rows = session.context.parallelize([(n, items[n]) for n in order], len(items))
    rows = rows.flatMap(partial(_dealt, work, parts)).partitionBy(parts, int).mapPartitions(partial(_joined, join))
    results: dict[int, Any] = {}
    joined: list[Joined] = []
    for by_number, result in _collected(session, rows, sum(sizes) // (len(items) + parts), lambda _: None):
        results |= by_number
        joined.append(result)
    return _in_order(results), joined


def _dealt(work: Callable[[Any], Any], parts: int, numbered: tuple[int, Any]) -> Iterator[tuple[int, Any]]:
    """Yield the bytes for each part; one of them also gets the result, by the item's number."""
    number, tried = _tried(work, numbered)
    if isinstance(tried, KlogError):
        yield number % parts, (number, tried)
        return
    result, bytes_of = tried
    yield number % parts, (number, result)
    for part, data in enumerate(bytes_of):
        for at in range(0, len(data), PIECE_BYTES):
            yield part, data[at : at + PIECE_BYTES]


def _joined(join: Callable[[list[bytes]], Any], rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[Any, Any]]:
    chunks: list[bytes] = []
    by_number: dict[int, Any] = {}
    for _, row in rows:
        if isinstance(row, bytes):
            chunks.append(row)
        else:
            by_number[row[0]] = row[1]
    yield by_number, join(chunks)


def _collected(session: Session, rows: Any, size: int, on_progress: Callable[[int], None]) -> list[tuple[Any, Any]]:
    """Run the job in its own thread, so that its progress and an interrupt are seen here."""
    collected: list[tuple[Any, Any]] = []
    errors: list[BaseException] = []

    def collect() -> None:
        try:
            collected.extend(rows.collect())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    try:
        reported = 0
        while thread.is_alive():
            thread.join(LOOK_SECONDS)
            tracker = session.context.statusTracker()
            stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            if done > reported:
                on_progress((done - reported) * size)
                reported = done
    except KeyboardInterrupt:
        session.context.cancelAllJobs()
        raise
    if errors:
        raise session.failed(errors[0]) from errors[0]
    return collected


def packed(items: Iterable[Item], size_of: Callable[[Item], int], target: int) -> Iterator[tuple[list[Item], int]]:
    """Yield groups of consecutive items that reach the target size; and their size."""
    taken: list[Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if taken and total + size > target:
            yield taken, total
            taken, total = [], 0
        taken.append(item)
        total += size
    if taken:
        yield taken, total
