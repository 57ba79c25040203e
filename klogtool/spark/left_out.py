"""What reading with PERMISSIVE or DROPMALFORMED leaves out of a range of a log file, and why.

It is found by reading the records once more: nothing is a row here that the table `records` has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool.causes import Reason, Text
from klogtool.errors import KlogError
from klogtool.log.file import LogFile
from klogtool.log.probing import ends_in_zeros
from klogtool.log.windows import SLACK_BYTES
from klogtool.render.arrow import LogPart, RecordQuery, walk_record_batches
from klogtool.render.spark_text import UnreadRange
from klogtool.salvage.mended_entries import SetRight
from klogtool.spark.causes import LogCause
from klogtool.spark.planning import SegmentRange

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("offset", "_position", "_crc_ok")
MOST_REASONS = 1 << 16  # between two rows


def walk_left_out(part: SegmentRange, *, drops_malformed: bool, after: int | None = None) -> Iterator[UnreadRange]:
    """Yield what is left out of a range, in order. drops_malformed: also batches with a wrong checksum. after: also
    offsets that are not above this one, and above all before them."""
    upto = min(part.log.size, part.end + SLACK_BYTES)
    with part.open(upto=upto) as file:
        for unread in _Collector(file, part, drops_malformed=drops_malformed, after=after).walk():
            if (unread.last_offset is None or unread.last_offset >= part.first_offset) and (
                unread.first_offset is None or unread.first_offset <= part.last_offset
            ):
                yield unread


def highest_so_far(offsets: pa.Array, after: int) -> pa.Array:
    """Return the highest offset before each one, `after` before the first; and at the end the highest of all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cumulative_max(pa.concat_arrays([pa.array([after], offsets.type), offsets]))


class _Collector:
    """Collects errors between the rows of a file: what is from an error up to the next row is left out."""

    def __init__(self, file: LogFile, part: SegmentRange, *, drops_malformed: bool, after: int | None) -> None:
        self._file, self._part, self._drops_malformed, self._after = file, part, drops_malformed, after
        self._reasons: dict[int, Text] = {}  # by position, since the last row
        self._own: dict[int, tuple[int, int]] = {}  # likewise: offsets of what is not behind the rows before it
        self._next_offset: int | None = None

    def walk(self) -> Iterator[UnreadRange]:
        part = self._part
        whole = part.next_base_offset is not None and part.end == part.log.size
        end = None if whole else part.end
        is_preallocated = ends_in_zeros if part.is_active else None
        log_part = LogPart(None, None, part.start, end, is_preallocated, ends_at_entry=part.is_cut)
        query = RecordQuery(COLUMNS, on_damage=self._take, resync=True, jobs=1)
        for rows in walk_record_batches(self._file, log_part, query):
            for run in self._runs(rows):
                if run.reason is None:
                    yield from self._ranges(run.position, run.first_offset)
                    self._next_offset = run.last_offset + 1
                else:
                    if run.reason.cause is LogCause.BACKWARD and run.position not in self._reasons:
                        self._own[run.position] = run.first_offset, run.last_offset
                    self._add(run.position, run.reason)
        yield from self._ranges(part.end, part.next_base_offset)

    def _runs(self, rows: pa.RecordBatch) -> Iterator[RowRun]:
        """Yield the rows in runs: those that are read, and single batches that are not."""
        import pyarrow.compute as pc

        lowest, highest = self._part.offsets
        is_sound = rows["_crc_ok"] if self._drops_malformed else pc.is_valid(rows["_crc_ok"])
        is_ours = pc.and_(pc.greater_equal(rows["offset"], lowest), pc.less_equal(rows["offset"], highest))
        is_next = self._is_next(rows["offset"], pc.and_(is_sound, is_ours))
        if pc.all(pc.and_(pc.and_(is_sound, is_ours), is_next)).as_py():
            yield _run_of(rows)
            return
        row = 0
        columns = (is_sound, is_ours, is_next, rows["_position"])
        for (sound, ours, follows, _), same in groupby(zip(*(one.to_pylist() for one in columns), strict=True)):
            count = len(list(same))
            cause = None if follows else LogCause.BACKWARD
            cause = LogCause.WRONG_CRC if not sound else LogCause.ASTRAY if not ours else cause
            yield _run_of(rows.slice(row, count), None if cause is None else cause())
            row += count

    def _is_next(self, offsets: pa.Array, is_read: pa.Array) -> pa.Array:
        """Return which rows lie behind all that were read before them, or before all that are wanted."""
        import pyarrow.compute as pc

        if self._after is None:
            return is_read
        highest = highest_so_far(pc.if_else(is_read, offsets, self._after), self._after)
        self._after = highest[-1].as_py()
        is_before = pc.less(highest.slice(1), self._part.first_offset)
        return pc.or_(pc.greater(offsets, highest.slice(0, len(offsets))), is_before)

    def _take(self, error: KlogError) -> None:
        if not isinstance(error, SetRight):  # it was read
            self._add(self._part.start if error.position is None else error.position, error.reason)

    def _add(self, position: int, reason: Text) -> None:
        """Keep a reason; if there are too many, the last range reaches up to the next row."""
        if len(self._reasons) < MOST_REASONS:
            self._reasons.setdefault(position, reason)

    def _ranges(self, position: int, offset: int | None) -> Iterator[UnreadRange]:
        """Yield what is left out before a row, which is in the batch at a position."""
        first, last = self._next_offset, None if offset is None else offset - 1
        if first is not None and last is not None and first > last:
            first = last = None
        for start, end in pairwise([*self._reasons, position]):
            offsets = self._own.get(start, (first, last))
            yield UnreadRange(self._file.path, start, max(start, end), *offsets, str(self._reasons[start]))
        self._reasons.clear()
        self._own.clear()


class RowRun(Struct, frozen=True):
    """Rows that follow each other. position: of their first batch. reason: why they are no rows of `records`."""

    position: int
    first_offset: int
    last_offset: int
    reason: Reason | None = None


def _run_of(rows: pa.RecordBatch, reason: Reason | None = None) -> RowRun:
    position, first, last = rows["_position"][0], rows["offset"][0], rows["offset"][rows.num_rows - 1]
    return RowRun(position.as_py(), first.as_py(), last.as_py(), reason)
