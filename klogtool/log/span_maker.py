"""Makes lines of text or Arrow record batches from the entries of a log file, span by span, on several threads.

Large files are mapped. If a mapped file is truncated meanwhile, it shows zeros: the result is discarded and made again
by reading the file (log/mapped).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format.framing import Frame, walk_frames
from klogtool.log.file import LogFile
from klogtool.log.late_zstd import LateZstd
from klogtool.log.mapped import MappedReads, should_map
from klogtool.log.spans import Span, find_start, walk_spans
from klogtool.log.walking import walk_steps
from klogtool.log.windows import BEHIND_BYTES, BufferPool, Window, walk_windows


class SpanResult(Struct):
    """The result for a span, or for its first part: a `log.spans.Done`. tail: the error of an impossible length after
    the last entry."""

    start: int | None = None
    reached: int = 0
    last: bool = False
    tail: Corrupt | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the span ends early here."""
        return False


ResultT = TypeVar("ResultT", bound=SpanResult)


class SpanMaker(ABC, Generic[ResultT]):
    """Makes results from spans. Each thread has its own maker, because a maker keeps its buffers.

    result: that of the current span so far. work: the kernel's workspace for inflating. can_begin_again: whether a
    result can be discarded; if not, no file is mapped.
    """

    result: ResultT
    can_begin_again = True

    def __init__(self) -> None:
        self.work = kernels.native.Workspace()
        self._zstd, self._buffers = LateZstd(self.work), BufferPool()

    # What is to be made: for subclasses.

    @abstractmethod
    def begin(self, span: Span) -> ResultT:
        """Return an empty result for a span."""

    @abstractmethod
    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel take entries in [at, stop). Return where the next one begins, and why it was not taken."""

    def make_room(self, window: Window, at: int) -> bool:
        """Make room after FULL. False: there is no room for the entry at `at`, and the reference takes it."""
        return True

    @abstractmethod
    def take_frame(self, window: Window, frame: Frame) -> None:
        """Take one entry by the reference. Raises KlogError if the span cannot be continued after it."""

    @abstractmethod
    def finish(self, error: KlogError | None) -> None:
        """Complete `result` at the end of a span. error: why the span ended early."""

    @abstractmethod
    def throw_away(self, span: Span) -> None:
        """Discard what was made of a span."""

    # How.

    def make(self, file: LogFile, end: int, span: Span) -> ResultT:
        """Return the result for a span of a file that ends at byte `end`."""
        if self.can_begin_again and should_map(file):
            with MappedReads(file, self._buffers) as reads:
                result = self._make(file, end, span, reads)
            if not reads.hit:
                return result
            self.throw_away(span)
        return self._make(file, end, span, None)

    @property
    def is_enough(self) -> bool:
        """Whether the walk ends here, because the result is large already."""
        return self.result.is_enough

    def take_entry(self, window: Window, at: int) -> int:
        """Take the entry at `at` by the reference. Return where the next one begins; `at` ends the walk."""
        frame = next(walk_frames(window.data, at, window.cut, base=window.base), None)
        if frame is None:  # bytes that changed under a map: no entry begins here any more
            return at
        self.take_frame(window, frame)
        return frame.position + frame.size

    def _make(self, file: LogFile, end: int, span: Span, reads: MappedReads | None) -> ResultT:
        result, ended_by = self.begin(span), None
        self.result = result
        try:
            result.start = find_start(file, span, end)
            if result.start is not None:
                result.reached = result.start
                self._walk(file, end, span.stop, reads)
        except KlogError as error:
            ended_by, result.last = error, True
        self.finish(ended_by)
        return result

    def _walk(self, file: LogFile, end: int, stop: int, reads: MappedReads | None) -> None:
        """Take window after window, until all entries that begin before `stop` are done, or it is enough."""
        result = self.result
        if reads is not None:
            # All of it at once, as far as the kernel gets: it finds the entries itself, and a separate walk over their
            # headers would load the memory once more.
            at = result.reached
            data = reads.read(at, min(stop + BEHIND_BYTES, end) - at)
            self._take_window(Window(at, data, len(data), last=False), min(stop - at, len(data)), alone=True)
            reads.give_back(data)
            if result.reached >= stop or result.is_enough:
                return
        for window in walk_windows(file, start=result.reached, end=end, stop=stop, pool=self._buffers, reads=reads):
            whole = min(window.cut, stop - window.base)
            self._take_window(window, whole)
            result.last = window.last and result.reached >= window.base + window.cut
            if result.last and result.reached < end:
                result.tail = window.length_error(end)
            (reads or self._buffers).give_back(window.data)
            # Bytes that changed under a map may end the walk inside a window.
            if result.last or result.reached >= stop or result.is_enough or result.reached < window.base + whole:
                break

    def _take_window(self, window: Window, stop: int, *, alone: bool = False) -> None:
        for at in walk_steps(self, window, stop, self._zstd, alone=alone):
            self.result.reached = window.base + at


def walk_results(
    file: LogFile, make_maker: Callable[[], SpanMaker[ResultT]], *, start: int, end: int, span_bytes: int, jobs: int
) -> Iterator[ResultT]:
    """Yield the results for [start, end), in order; an entry begins at `start`. jobs: threads, each with a maker."""

    def make_work() -> Callable[[Span], ResultT]:
        maker = make_maker()
        return lambda span: maker.make(file, end, span)

    return walk_spans(file, make_work, start=start, end=end, span_bytes=span_bytes, jobs=jobs)
