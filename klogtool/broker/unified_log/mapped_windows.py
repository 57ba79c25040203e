"""A log in mapped pieces, for kernels that go from batch to batch. The reference takes the entries that they leave.

With several threads, the other threads check the checksums in advance. One thread does the rest, in the order of the
batches.
"""

from __future__ import annotations

from contextlib import closing
from typing import Protocol

from klogtool import kernels
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import became_shorter
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from klogtool.log.mapped import MappedReads, should_map
from klogtool.log.spans import Span, find_start, walk_spans
from klogtool.log.walking import Steps, walk_steps
from klogtool.log.windows import BEHIND_BYTES, BufferPool, Reads, Window


class Reader(Protocol):
    """Takes the entries of a log."""

    def take(self, window: MappedWindow) -> int:
        """Take entries of a piece from `reached` on, and move `reached`. Return why it stopped.

        The reasons are those of native.Recovery.take. If it sets the piece's `last`, the walk ends.
        """

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        """Take at most `most` entries. Return their count and their bytes. Raises KlogError at a wrong entry."""


SPAN_BYTES = 8 << 20
LARGEST_ENTRY_BYTES = 16 << 20  # a larger one is the reference's, as is most of what only looks like one
MOST_IN_TURN = 64


class MappedWindow(Window):
    """The entries of a span, in memory. `data` begins at byte `base` of the log. The caller closes it.

    start, reached, last: see log.spans. stop: entries that begin at or after this byte belong to another piece.
    checked: the checksums match up to this byte; last_checked: where the last entry before it begins, or -1.
    """

    is_enough = False

    def __init__(self, file: ContentFile, span: Span, reads: Reads) -> None:
        self._file, self._reads = file, reads
        self.start = find_start(file, span, file.size)
        self.base = self.reached = self.checked = span.start if self.start is None else self.start
        self.last_checked = -1
        self.stop = span.stop
        data = self._read()
        super().__init__(self.base, data, len(data), last=False)

    @property
    def path(self) -> str:
        """Of the log."""
        return self._file.path

    def check(self) -> int:
        """Check checksums from `reached` on. Return why the check ended, as native.check_batches does."""
        to, why, last = kernels.native.check_batches(self.data, self.reached - self.base, self.stop - self.base)
        self.checked, self.last_checked = self.base + to, self.base + last if last >= 0 else -1
        return why

    def fits_another(self) -> bool:
        """Whether the entry at `reached`, which is not whole here, would be whole in a piece that begins with it."""
        at = self.reached - self.base
        return 0 < at <= len(self.data) - HEADER_SIZE_UP_TO_MAGIC and _size_at(self.data, at) <= self._most(
            self.reached
        )

    def close(self) -> None:
        """Release the memory. Raises KlogError if the file no longer has the bytes that were read."""
        self._reads.give_back(self.data)
        if isinstance(self._reads, MappedReads) and self._reads.hit:
            self._file.read(self.base, len(self.data))  # what is wrong shows there, mostly
            raise became_shorter(self._file.path, self.base)

    def _read(self) -> memoryview:
        """Read the entries of the span: nearly always all of them, and always the first one."""
        data = self._reads.read(self.base, max(0, min(self.stop + BEHIND_BYTES, self._file.size) - self.base))
        needed = _size_at(data, 0) if len(data) > HEADER_SIZE_UP_TO_MAGIC else 0
        if not len(data) < needed <= self._most(self.base):
            return data
        self._reads.give_back(data)
        return self._reads.read(self.base, needed)

    def _most(self, position: int) -> int:
        return min(LARGEST_ENTRY_BYTES, self._file.size - position)


def _size_at(data: memoryview, at: int) -> int:
    return LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)


def walk_mapped(
    file: ContentFile,
    reader: Reader,
    *,
    start: int = 0,
    jobs: int = 1,
    are_checked: bool = False,
    most_in_turn: int = MOST_IN_TURN,
) -> None:
    """Give a reader all entries of a log from byte `start` on, in order.

    jobs: threads. are_checked: the checksums of each piece are checked in advance. most_in_turn: how many entries the
    reference takes at a time, at most. Raises KlogError if the file cannot be read, and the errors of the reader.
    """
    pool = BufferPool()

    def read(span: Span) -> MappedWindow:
        window = MappedWindow(file, span, MappedReads(file, pool) if should_map(file) else Reads(file, pool))
        if are_checked:
            window.check()
        return window

    steps = _PieceSteps(file, reader, most_in_turn)
    for window in walk_spans(file, lambda: read, start=start, end=file.size, span_bytes=SPAN_BYTES, jobs=jobs):
        with closing(window):
            # An entry that ends the data is one for the reference, if any: the kernel has no bytes of the next one.
            stop = min(window.stop - window.base, len(window.data) + 1)
            for _ in walk_steps(steps, window, stop, None, at=window.reached - window.base):
                window.last = window.last or steps.is_enough


class _PieceSteps(Steps):
    """Gives a reader the entries of pieces (log.walking.Steps). Readers inflate records themselves.

    is_enough: the reader takes no further entry.
    """

    is_enough = False

    def __init__(self, file: ContentFile, reader: Reader, most_in_turn: int) -> None:
        self._file, self._reader, self._most_in_turn = file, reader, most_in_turn
        self._in_turn = 1

    def step(self, window: Window, at: int, stop: int, _: bytes | None) -> tuple[int, int]:
        """Let the reader's kernel take entries."""
        assert isinstance(window, MappedWindow)
        why = self._reader.take(window)
        self.is_enough = window.last
        reached = window.reached - window.base
        self._in_turn = 1 if reached > at else min(2 * self._in_turn, self._most_in_turn)
        if why == kernels.native.CUT_OFF and not window.fits_another():
            why = kernels.native.REFERENCE
        return reached, why

    def take_entry(self, window: Window, at: int) -> int:
        """Let the reference take entries: more each time, if the kernel finds nothing regular between them."""
        assert isinstance(window, MappedWindow)
        count, size = self._reader.take_by_reference(self._file, window.reached, self._in_turn)
        window.reached += size
        self.is_enough = count < self._in_turn
        return window.reached - window.base
