"""Two copies of a partition compared: bytes first, and items only where bytes differ."""

from __future__ import annotations

from array import array

from msgspec import Struct
from msgspec.structs import replace

from klogtool import kernels
from klogtool.copies.copy_log import CopyDamage, CopyLog
from klogtool.copies.record_hash import log_start_offset
from klogtool.format.item_merge import DAMAGED, Stretch, StretchKind, joined
from klogtool.format.record_digests import ITEM_FIELDS
from klogtool.log.partition import Partition

WINDOW_BYTES = 4 << 20
FIRST_ITEMS_BYTES, MOST_ITEMS_BYTES = 64 << 10, 4 << 20
MOST_WAITED = 256  # steps between two trials to go on with bytes
_FIRST, _LAST, _EPOCH, _POSITION = 0, 1, 3, 4


class Side(Struct, frozen=True):
    """One copy. first_offset: where its files begin. log_start_offset: below it, records count as deleted.
    log_end_offset: after its last record that could be read."""

    path: str
    first_offset: int
    log_start_offset: int
    log_end_offset: int
    damages: tuple[CopyDamage, ...]

    @property
    def start(self) -> int:
        """The first offset that counts."""
        return max(self.first_offset, self.log_start_offset)


class Compared(Struct, frozen=True):
    """What two copies have in common from offset `start` on, and where they differ.

    stretches: in the order of offsets, without those that are the same; left_out: how many more there were. totals: of
    each kind. equal_bytes: of the entries that are the same byte for byte; equal_batches: how many these are.
    """

    a: Side
    b: Side
    deep: bool
    start: int
    stretches: tuple[Stretch, ...]
    totals: dict[StretchKind, Stretch]
    left_out: int
    equal_bytes: int
    equal_batches: int


def compare(path_a: str, path_b: str, *, deep: bool = False, log_start: int | None = None) -> Compared:
    """Compare two partition dirs.

    deep: records where bytes differ, else headers. log_start: the log start offset, if it is not the checkpoints'.
    Raises KlogError if a file cannot be read, or became shorter meanwhile.
    """
    partitions = Partition(path_a), Partition(path_b)
    starts = [log_start_offset(one) if log_start is None else log_start for one in partitions]
    firsts = [min((segment.base_offset for segment in one.segments), default=0) for one in partitions]
    start = max(*starts, *firsts)
    logs = [CopyLog(one, start, deep=deep) for one in partitions]
    comparing = _Comparing(*logs)
    try:
        comparing.run()
    finally:
        for log in logs:
            log.close()
    sides = (
        Side(one.path, first, own, log.end_offset, tuple(log.damages))
        for one, first, own, log in zip(partitions, firsts, starts, logs, strict=True)
    )
    return comparing.result(*sides, start=start, deep=deep)


class _Items:
    """The items of one copy that were taken, and how far they are merged."""

    def __init__(self, log: CopyLog) -> None:
        self.log, self.rows, self.at, self._place, self._before = log, array("q"), 0, (0, 0), -1

    @property
    def are_merged(self) -> bool:
        """Whether there is none left."""
        return self.at * ITEM_FIELDS >= len(self.rows)

    def fill(self, size: int) -> None:
        """Take more if there is none left."""
        if self.are_merged and not self.log.is_at_end():
            self._before = self.log.before
            self.rows, self.at = self.log.fill(size), 0
            self._place = self.log.place

    def can_rewind(self) -> bool:
        """Whether the next item is the first one of a sound entry."""
        if self.are_merged:
            return True
        row = self.at * ITEM_FIELDS
        is_first = row == 0 or self.rows[row - ITEM_FIELDS + _POSITION] != self.rows[row + _POSITION]
        return is_first and self.rows[row + _EPOCH] != DAMAGED

    def rewind(self) -> None:
        """Set the copy's cursor to the entry of the next item."""
        if not self.are_merged:
            row = self.at * ITEM_FIELDS
            # Deep, the entry may begin before its first record.
            before = self._before if row == 0 else self.rows[row - ITEM_FIELDS + _LAST]
            before = before if self.log.is_deep else self.rows[row + _FIRST] - 1
            self.log.seek((self._place[0], self.rows[row + _POSITION]), before)
        self.rows, self.at = array("q"), 0


class _Comparing:
    """Two copies on the way."""

    def __init__(self, a: CopyLog, b: CopyLog) -> None:
        self._a, self._b = _Items(a), _Items(b)
        self._merge: kernels.native.ItemMerge = kernels.native.ItemMerge()
        self._items_bytes, self._wait, self._waited = FIRST_ITEMS_BYTES, 0, 0
        self._equal_bytes = self._equal_batches = 0

    def run(self) -> None:
        """Go over both copies."""
        for items in (self._a, self._b):  # over what lies below the common start
            items.fill(FIRST_ITEMS_BYTES)
            if items.can_rewind():
                items.rewind()
        while not (self._is_done(self._a) and self._is_done(self._b)):
            if self._may_go_by_bytes() and self._go_by_bytes():
                self._items_bytes, self._wait = FIRST_ITEMS_BYTES, 0
            else:
                self._go_by_items()
        self._merge_items(is_all=True)

    def _is_done(self, items: _Items) -> bool:
        return items.are_merged and items.log.is_at_end()

    def _may_go_by_bytes(self) -> bool:
        """Whether both are where an entry begins. After each failure it takes longer to the next trial."""
        self._waited += 1
        if self._waited <= self._wait or self._merge.is_open:
            return False
        if not (self._a.can_rewind() and self._b.can_rewind()):
            return False
        self._waited, self._wait = 0, min(2 * self._wait + 1, MOST_WAITED)
        self._a.rewind()
        self._b.rewind()
        return True

    def _go_by_bytes(self) -> bool:
        """Go over entries that are equal byte for byte. Return whether there was one."""
        a, b, size, has_gone, goes_on = self._a.log, self._b.log, WINDOW_BYTES, False, True
        while goes_on and not a.is_at_end() and not b.is_at_end():
            left = min(a.left, b.left)
            done, is_alike = self._go_by_window(min(left, size))
            has_gone = has_gone or done > 0
            goes_on = is_alike and (done > 0 or size < left)
            size = WINDOW_BYTES if done else 8 * size  # there is a larger entry
        return has_gone

    def _go_by_window(self, size: int) -> tuple[int, bool]:
        """Go over equal entries in the next bytes of both segments. Return the bytes of these entries, and whether all
        bytes that were compared are equal."""
        a, b = self._a.log, self._b.log
        with a.window(size) as one, b.window(size) as other:
            before = max(a.before, b.before)
            alike, done, count, first, last = kernels.native.equal_entries(one, other, before)
        if done:
            self._merge.note((StretchKind.SAME, first, last, count, count, -1, -1))
            self._equal_bytes += done
            self._equal_batches += count
            self._a.log.skip(done, last)
            self._b.log.skip(done, last)
        return done, alike == size

    def _go_by_items(self) -> None:
        """Merge items of some bytes of each copy."""
        a, b = self._a, self._b
        a.fill(self._items_bytes)
        b.fill(self._items_bytes)
        self._items_bytes = min(2 * self._items_bytes, MOST_ITEMS_BYTES)
        self._merge_items()
        if self._is_done(a) and b.are_merged and not self._merge.is_open:
            b.log.skip_to_last_segment()
        if self._is_done(b) and a.are_merged and not self._merge.is_open:
            a.log.skip_to_last_segment()

    def _merge_items(self, *, is_all: bool = False) -> None:
        a, b = self._a, self._b
        ends = is_all or a.log.is_at_end(), is_all or b.log.is_at_end()
        a.at, b.at = self._merge.merge(memoryview(a.rows), a.at, memoryview(b.rows), b.at, *ends)

    def result(self, a: Side, b: Side, *, start: int, deep: bool) -> Compared:
        """What was found."""
        stretches = tuple(_before_the_end(Stretch(*fields), a, b) for fields in self._merge.stretches())
        totals = dict[StretchKind, Stretch]()
        for fields in self._merge.totals():
            total = _before_the_end(Stretch(*fields), a, b)
            totals[StretchKind(total.kind)] = joined(totals.get(StretchKind(total.kind)), total)
        left_out, equal = self._merge.left_out, (self._equal_bytes, self._equal_batches)
        return Compared(a, b, deep, start, stretches, totals, left_out, *equal)


def _before_the_end(stretch: Stretch, a: Side, b: Side) -> Stretch:
    """What lies behind the last record of the other copy may lie before its log end offset: after compaction, the last
    batch may be empty."""
    if stretch.kind == StretchKind.AFTER_A and stretch.first_offset < b.log_end_offset:
        return replace(stretch, kind=StretchKind.ONLY_A)
    if stretch.kind == StretchKind.AFTER_B and stretch.first_offset < a.log_end_offset:
        return replace(stretch, kind=StretchKind.ONLY_B)
    return stretch
