"""Headers of batches as columns, by the kernel: thousands at a time, without an object for each.

What the kernel does not handle (messages of magic 0 and 1, damage, values that no broker writes) becomes a `Head`, as
from `heads.walk_heads`. A large local file is mapped, so that only the headers of large batches are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool import kernels
from klogtool.format.batch import CODEC_MASK, HEAD_COLUMNS
from klogtool.log.file import LogFile
from klogtool.log.mapped import HEADERS_BYTES, MappedReads, should_map
from klogtool.spark.heads import FAR_BYTES, NEAR_PIECE_BYTES, Head, walk_heads

if TYPE_CHECKING:
    import pyarrow as pa

ROOM = 1 << 14  # headers at a time


class HeadRows(Struct, frozen=True):
    """Headers of consecutive batches. end: where the last batch ends."""

    numbers: memoryview[int]
    count: int
    end: int

    def column(self, name: str) -> pa.Array:
        """Return a field of HEAD_COLUMNS."""
        import pyarrow as pa

        n = HEAD_COLUMNS.index(name)
        return pa.Array.from_buffers(pa.int64(), self.count, [None, pa.py_buffer(self.numbers)], offset=n * ROOM)

    def number(self, name: str, row: int) -> int:
        """Return a field of one header."""
        return self.numbers[HEAD_COLUMNS.index(name) * ROOM + row]

    def first(self, count: int) -> HeadRows:
        """Return only the first `count` headers."""
        return HeadRows(self.numbers, count, self.number("position", count))

    def find_gap(self) -> int | None:
        """Return the first header whose offsets do not follow those of the one before it; None if there is none."""
        import pyarrow.compute as pc

        follows = pc.equal(self.column("base_offset")[1:], pc.add(self.column("last_offset")[:-1], 1))
        gap = pc.index(follows, False).as_py()
        return None if gap < 0 else gap + 1

    def find_disorder(self, after: int, lowest: int, highest: int) -> int | None:
        """Return where the first one begins whose offsets do not lie behind `after` and all before it, or are not
        between lowest and highest; None if there is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        first, last = self.column("base_offset"), self.column("last_offset")
        before = pc.cumulative_max(pa.concat_arrays([pa.array([after], pa.int64()), last[:-1]]))
        is_wrong = pc.or_(pc.less_equal(first, before), pc.or_(pc.less(first, lowest), pc.greater(last, highest)))
        row = pc.index(is_wrong, value=True).as_py()
        return None if row < 0 else self.number("position", row)

    def may_hold(self, first: int, last: int) -> bool:
        """Return whether one of them has offsets from first to last, inclusive."""
        import pyarrow.compute as pc

        ends = pc.greater_equal(self.column("last_offset"), first)
        begins = pc.less_equal(self.column("base_offset"), last)
        return bool(pc.any(pc.and_(ends, begins)).as_py())

    def has_bit(self, bit: int) -> pa.Array:
        """Return whether a bit of the attributes is set."""
        import pyarrow.compute as pc

        return pc.not_equal(pc.bit_wise_and(self.column("attributes"), bit), 0)

    def codec_ids(self) -> pa.Array:
        """Return the codecs' ids."""
        import pyarrow.compute as pc

        return pc.bit_wise_and(self.column("attributes"), CODEC_MASK)


def walk_head_rows(
    file: LogFile, start: int, end: int, *, may_be_preallocated: bool = False
) -> Iterator[HeadRows | Head]:
    """Yield the same headers as `walk_heads`, most of them in columns. Raises as that does."""
    at, count = start, 0
    while at < end:
        # What is not mapped is fetched: if batches are far apart, only their headers.
        near = should_map(file) or (count > 0 and at - start <= count * FAR_BYTES)
        rows = _rows_at(file, at, end) if near else None
        if rows is not None and rows.count:
            yield rows
            at, count = rows.end, count + rows.count
            continue
        head = next(walk_heads(file, at, end, may_be_preallocated=may_be_preallocated), None)
        if head is None:
            return
        yield head
        at, count = head.end, count + 1


def _rows_at(file: LogFile, at: int, end: int) -> HeadRows | None:
    """Return headers as columns; None if the mapped file was cut meanwhile."""
    if not should_map(file):
        return _rows_of(memoryview(file.read(at, min(NEAR_PIECE_BYTES, end - at))), at, end)
    with MappedReads(file) as reads:
        data = reads.read(at, min(HEADERS_BYTES, end - at))
        rows = _rows_of(data, at, end)
        del data
    return None if reads.hit else rows


def _rows_of(data: memoryview, at: int, end: int) -> HeadRows:
    import pyarrow as pa

    numbers = memoryview(pa.allocate_buffer(8 * ROOM * len(HEAD_COLUMNS))).cast("q")  # array() would write zeros first
    until, count = kernels.native.batch_heads(data, 0, end - at, at, numbers, ROOM)
    return HeadRows(numbers, count, at + until)
