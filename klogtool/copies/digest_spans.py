"""The offsets and fingerprints of a log file's records, span by span and on several threads.

Every entry that is gone over has to prove itself. The first one that does not ends the walk: a digest of a damaged log
would look like a digest of fewer records.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format.framing import Frame
from klogtool.format.message import Message
from klogtool.format.record_digests import digest_row, sound_entry
from klogtool.log.file import LogFile
from klogtool.log.span_maker import SpanMaker, walk_results
from klogtool.log.spans import Span
from klogtool.log.windows import Window

SPAN_BYTES = 4 << 20
ENOUGH_BYTES = 16 << 20  # rows of one result


class DigestRange(Struct, frozen=True):
    """Offsets from `start` on, and below `end`."""

    start: int
    end: int

    def may_have(self, first_offset: int, last_offset: int) -> bool:
        """Whether one of these offsets is wanted."""
        return first_offset < self.end and last_offset >= self.start


class DigestSpan(Struct):
    """The rows of a span, or of its first part.

    start, reached, last, tail: see log.span_maker. rows: 16 bytes for each of `records` records, from first_offset to
    last_offset. is_past: no further entry has a wanted offset. error: why the walk ends at `reached`.
    """

    start: int | None = None
    reached: int = 0
    last: bool = False
    tail: Corrupt | None = None
    rows: bytes = b""
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    is_past: bool = False
    is_enough: bool = False
    error: KlogError | None = None


class DigestMaker(SpanMaker[DigestSpan]):
    """Makes rows from the spans of a file; one for each thread."""

    def __init__(self, file: LogFile, wanted: DigestRange) -> None:
        super().__init__()
        self._file, self._wanted = file, wanted
        self._digests = self._new_digests()

    def _new_digests(self) -> kernels.native.Digests:
        return kernels.native.Digests(self._wanted.start, self._wanted.end, kernels.native.DIGEST_ROWS)

    def begin(self, span: Span) -> DigestSpan:
        """See SpanMaker."""
        self._digests = self._new_digests()
        return DigestSpan()

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel make rows."""
        at, why = self._digests.take(window.data, at, stop, window.base, body, self.work)
        self._note_end()
        return at, why

    def take_frame(self, window: Window, frame: Frame) -> None:
        """Let the reference make the rows of one entry. Raises KlogError if it does not prove itself."""
        entry = sound_entry(window.data, frame, base=window.base, deep=True)
        before = self._digests.before
        first = entry.last_offset if isinstance(entry, Message) else entry.base_offset
        if before is not None and first <= before:
            raise Corrupt(
                f"offset {first} does not lie behind offset {before}",
                position=entry.position,
                kafka_class="CorruptRecordException",
            )
        results = [r for r in entry.records() if self._wanted.may_have(r.offset, r.offset)]
        rows = b"".join(digest_row(record, is_control=entry.is_control) for record in results)
        ends = (results[0].offset, results[-1].offset) if results else (-1, -1)
        self._digests.add(rows, len(results), *ends, entry.last_offset)
        self._note_end()

    def _note_end(self) -> None:
        before = self._digests.before
        self.result.is_past = self._digests.is_past or (before is not None and before + 1 >= self._wanted.end)
        self.result.is_enough = self.result.is_past or self._digests.records * 16 >= ENOUGH_BYTES

    def finish(self, error: KlogError | None) -> None:
        """See SpanMaker."""
        result, digests = self.result, self._digests
        result.rows, result.records = digests.fetch(), digests.records
        result.first_offset, result.last_offset = digests.first_offset, digests.last_offset
        if error is None and result.last and not result.is_past and result.reached < self._file.size:
            left = self._file.size - result.reached
            error = result.tail or Corrupt(f"{left} bytes at the end are not a whole batch", position=result.reached)
        result.error = None if error is None else error.at_path(self._file.path)

    def throw_away(self, span: Span) -> None:
        """See SpanMaker."""


def walk_digests(file: LogFile, wanted: DigestRange, *, jobs: int) -> Iterator[DigestSpan]:
    """Yield the rows of a log file, some at a time, in order; the last one may have an error. jobs: threads."""
    if not file.size:
        return

    for result in walk_results(
        file, lambda: DigestMaker(file, wanted), start=0, end=file.size, span_bytes=SPAN_BYTES, jobs=jobs
    ):
        yield result
        if result.is_past or result.error is not None:
            return
