"""The entries of a log file that prove themselves, as facts, span by span and on several threads.

Each entry is checked by itself, so that threads need not wait for each other. format/succession.py compares an entry
with its neighbours; it takes the facts in their order. An entry that is not plain ends a run: the caller judges it and
starts again after it.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import astuple

from klogtool import kernels
from klogtool.format.batch_proof import FACTS, Judged, judge_entry
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, Frame, find_frame
from klogtool.log.file import LogFile
from klogtool.log.late_zstd import LateZstd
from klogtool.log.mapped import MAPPED_FROM_BYTES, MappedReads, should_map
from klogtool.log.spans import Span, find_start, walk_spans
from klogtool.log.walking import Steps, walk_steps
from klogtool.log.windows import BEHIND_BYTES, BufferPool, Reads, Window

SPAN_BYTES = 8 << 20  # of one thread; where there are others, too, facts of several spans are in memory
FIRST_SPAN_BYTES, SPAN_GROWTH = 64 << 10, 4  # behind damage
ROWS_AT_ONCE = 4096
LARGEST_WHOLE_BYTES = 32 << 20  # a larger entry is not taken into memory by each of several threads
MOST_FREE_ROWS = 32  # buffers, each of 360 KB


class RowPool:
    """Buffers for the facts of ROWS_AT_ONCE entries, used again and again."""

    def __init__(self) -> None:
        self._free: deque[array[int]] = deque(maxlen=MOST_FREE_ROWS)

    def take(self) -> array[int]:
        """Return a buffer. Its content is undefined."""
        try:
            return self._free.pop()
        except IndexError:
            return array("q", [0]) * (len(FACTS) * ROWS_AT_ONCE)

    def give_back(self, rows: array[int]) -> None:
        """Give back a buffer that is no longer used."""
        self._free.append(rows)


# Of all files that are no larger than a span: new buffers for each would cost as much as its bytes.
_BUFFERS_OF_SMALL_FILES = BufferPool()


class Proved(Struct):
    """The plain entries of a span, or of its first part.

    rows: pairs of a buffer with facts, one entry after another, and the number of entries in it. start, reached, last:
    see log.spans; last is also set if the entry at `reached` is not plain.
    """

    start: int | None = None
    reached: int = 0
    last: bool = False
    rows: list[tuple[array[int], int]] = field(default_factory=list)
    is_enough: ClassVar[bool] = False


def walk_proved(
    file: LogFile,
    start: int,
    pool: RowPool,
    *,
    end: int,
    deep: bool = False,
    jobs: int = 1,
    span_bytes: int = SPAN_BYTES,
) -> Iterator[Proved]:
    """Yield the plain entries from byte `start` on, up to the first other one, or to byte `end`, the end of the file.

    The caller uses each result before it asks for the next one. Raises Unreadable if the file cannot be read.
    """

    def make_work() -> Callable[[Span], Proved]:
        return partial(Prover(file, end, pool, deep=deep).prove_span)

    if jobs > 1:
        span_bytes //= 2
    for proved in walk_spans(file, make_work, start=start, end=end, span_bytes=span_bytes, jobs=jobs):
        yield proved
        for rows, _ in proved.rows:
            pool.give_back(rows)


def walk_proved_calmly(
    file: LogFile, at: int, pool: RowPool, *, end: int, calm: bool, deep: bool = False, jobs: int = 1
) -> Iterator[Proved]:
    """Yield plain entries, for a caller that continues after each damage. calm: there was no damage just before.
    Otherwise more damage is likely, and reading ahead would be wasted, so the first spans are small."""
    span_bytes = SPAN_BYTES if calm else FIRST_SPAN_BYTES
    while True:
        is_small = span_bytes < SPAN_BYTES
        threads = 1 if is_small else jobs
        for proved in walk_proved(file, at, pool, end=end, deep=deep, jobs=threads, span_bytes=span_bytes):
            yield proved
            at = proved.reached
            if is_small and not proved.last:
                break
        else:
            return
        span_bytes *= SPAN_GROWTH


class Prover:
    """Proves the entries of one file; one for each thread."""

    def __init__(self, file: LogFile, end: int, pool: RowPool, *, deep: bool) -> None:
        self._file, self._end, self._rows, self._deep = file, end, pool, deep
        self._buffers = _BUFFERS_OF_SMALL_FILES if end <= SPAN_BYTES else BufferPool()
        self._work = kernels.native.Workspace()
        self._zstd = LateZstd(self._work)

    def prove_span(self, span: Span) -> Proved:
        """The plain entries of a span."""
        if should_map(self._file) and span.stop - span.start >= MAPPED_FROM_BYTES:
            with MappedReads(self._file, self._buffers) as reads:
                proved = self._prove(span, reads)
            if not reads.hit:
                return proved
            for rows, _ in proved.rows:  # the facts are of zeros: the file was cut
                self._rows.give_back(rows)
        return self._prove(span, Reads(self._file, self._buffers))

    def _prove(self, span: Span, reads: Reads) -> Proved:
        proved = Proved(find_start(self._file, span, self._end))
        if proved.start is None:
            return proved
        proved.reached, needed = proved.start, 0
        while not proved.last and proved.reached < span.stop:
            at = proved.reached
            wanted = min(max(needed, min(span.stop - at, SPAN_BYTES) + BEHIND_BYTES), self._end - at)
            data = reads.read(at, wanted)
            window = Window(at, data, len(data), last=False)
            steps = _ProofSteps(proved, self._rows, self._work, end=self._end - at, deep=self._deep)
            for reached in walk_steps(steps, window, min(span.stop - at, len(data)), self._zstd):
                proved.reached = at + reached
            done = proved.reached - at
            needed = _needed(data, done, self._end - at)
            # In doubt: it is whole, and was not taken. Or the file is shorter by now.
            in_doubt = needed <= len(data) - done or (done == 0 and len(data) < wanted)
            proved.last = proved.reached >= self._end or (in_doubt and proved.reached < span.stop)
            reads.give_back(data)
        return proved


def _needed(data: memoryview, at: int, end: int) -> int:
    """The size of the entry at byte `at`; 0 if there is none, or if it is too large."""
    if len(data) - at <= HEADER_SIZE_UP_TO_MAGIC < end - at:
        return int(HEADER_SIZE_UP_TO_MAGIC + 1)
    frame = find_frame(data, at, end)
    return frame.size if isinstance(frame, Frame) and frame.size <= LARGEST_WHOLE_BYTES else 0


class _ProofSteps(Steps):
    """The facts of the entries of a window (log.walking.Steps). end: of the log, from the window's start on."""

    def __init__(self, proved: Proved, rows: RowPool, work: kernels.native.Workspace, *, end: int, deep: bool) -> None:
        self._proved, self._rows, self._work, self._end, self._deep = proved, rows, work, end, deep

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        rows = self._rows.take()
        at, count, why = kernels.native.prove(window.data, at, stop, window.base, rows, self._deep, body, self._work)
        if count:
            self._proved.rows.append((rows, count))
        else:
            self._rows.give_back(rows)
        return at, why

    def take_entry(self, window: Window, at: int) -> int:
        """Add the facts of one entry by the reference. The walk ends if the entry is not plain."""
        frame = find_frame(window.data, at, self._end)
        if not isinstance(frame, Frame) or frame.size > len(window.data) - at:
            return at
        judged = judge_entry(window.data, frame, base=window.base, deep=self._deep)
        if judged is None or not judged.is_plain:
            return at
        self._note(judged)
        return at + frame.size

    def _note(self, judged: Judged) -> None:
        rows = self._proved.rows
        if not rows or rows[-1][1] == ROWS_AT_ONCE:
            rows.append((self._rows.take(), 0))
        last, count = rows[-1]
        last[count * len(FACTS) : (count + 1) * len(FACTS)] = array("q", astuple(judged.facts))
        rows[-1] = last, count + 1
