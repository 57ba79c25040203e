"""A log file in spans that several threads work on at a time, each finding for itself where its first entry begins.

Entries can only be found one after another, and a thread that did this for the others would read the whole file alone.
So each thread searches for the first entry in its span that proves itself. It is a real entry, and not bytes inside a
record, if the span before ends exactly there. If it does not, a single thread continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from msgspec import Struct

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.log.file import LogFile
from klogtool.log.resync import find_next_batch
from klogtool.log.thread_pool import in_order


class Done(Protocol):
    """The result for a span, or for its first part.

    start: where its first entry begins, None if none was found. reached: the byte after its last entry. last: no
    entry follows. is_enough: it ends early, perhaps inside the entry at `reached`, because it is large already.
    """

    start: int | None
    reached: int
    last: bool

    @property
    def is_enough(self) -> bool:
        """Whether the span ends early here."""


Result = TypeVar("Result", bound=Done)


OFFSET_BYTES = 8
NEAR_BYTES = 64 << 10  # most batches are smaller: where the next one is looked for at first


class Span(Struct, frozen=True):
    """The entries that begin in [start, stop).

    guessed: it is not known whether an entry begins at `start`; the first one that proves itself is the first entry.
    lowest: the smallest offset that an entry may have.
    """

    start: int
    stop: int
    guessed: bool = False
    lowest: int = 0


def walk_spans(
    file: LogFile,
    make_work: Callable[[], Callable[[Span], Result]],
    *,
    start: int,
    end: int,
    span_bytes: int,
    jobs: int,
) -> Iterator[Result]:
    """Yield the result for each span of [start, end), in order: at least one. An entry begins at `start`.

    Raises KlogError if a result takes no entry, although it says that there is one.
    """
    work, at = make_work(), start
    if jobs > 1 and kernels.native.RUNS_IN_THREADS and end - start > span_bytes:
        for span, result in in_order(make_work, _guesses(file, start, end, span_bytes), jobs):
            if at >= span.stop:  # an entry that began before this span reaches beyond it: none begins in it
                continue
            if result.start != at:
                break
            yield result
            at = _next_entry(file, at, result)
            while not result.last and at < span.stop:
                result = work(Span(at, span.stop))
                yield result
                at = _next_entry(file, at, result)
            if result.last:
                return
    while True:
        result = work(Span(at, at + span_bytes))
        yield result
        at = _next_entry(file, at, result)
        if result.last:
            return


def _next_entry(file: LogFile, at: int, result: Done) -> int:
    if result.reached <= at and not result.last and not result.is_enough:
        raise KlogError("klogtool does not get past this entry", path=file.path, position=at)
    return result.reached


def find_start(file: LogFile, span: Span, end: int) -> int | None:
    """Return where the first entry of a span begins, in a log that ends at `end`; None if a guessed span has none.

    Entries that begin at or after the stop belong to another span.
    """
    if not span.guessed:
        return span.start
    near, lowest = min(span.start + NEAR_BYTES, end), span.lowest
    next_at = find_next_batch(file, span.start, end=near, lowest=lowest, stop=span.stop)
    return next_at if next_at is not None else find_next_batch(file, span.start, end=end, lowest=lowest, stop=span.stop)


def _guesses(file: LogFile, start: int, end: int, span_bytes: int) -> Iterator[Span]:
    lowest = int.from_bytes(file.read(start, OFFSET_BYTES), "big", signed=True)  # the first entry's offset
    yield Span(start, start + span_bytes)
    for at in range(start + span_bytes, end, span_bytes):
        yield Span(at, at + span_bytes, guessed=True, lowest=lowest)
