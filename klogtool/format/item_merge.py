"""Two copies' items, merged by their offsets: what both have, what only one has, and where they are unlike.

An item is a row of five numbers: first offset, last offset, fingerprint, leader epoch, position.
Items of one copy ascend and do not overlap. A leader epoch of DAMAGED marks offsets that could not be read.

This is the reference of kernels/_merge.pxi: a rule that changes here must change there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from msgspec import Struct, field
from msgspec.structs import astuple

from klogtool.format.batch import RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.buffers import Buffer
from klogtool.format.framing import Frame, find_frame
from klogtool.format.record_digests import ITEM_FIELDS

DAMAGED = -2
MOST_STRETCHES = 1000
ANY_EPOCH = -1


class StretchKind(IntEnum):
    """What a stretch of offsets is."""

    SAME = 0
    """Both have it, alike."""
    OTHER_EPOCH = 1
    """Both have it, alike but for the leader epoch."""
    UNLIKE = 2
    """Both have it at the same offsets and in the same leader epoch, and it is not alike."""
    UNLIKE_EPOCH = 3
    """Both have these offsets, in different leader epochs, and they are not alike."""
    REBATCHED = 4
    """Both have these offsets, in batches with other boundaries."""
    ONLY_A = 5
    """Only A has it, before the end of B."""
    ONLY_B = 6
    """Only B has it, before the end of A."""
    AFTER_A = 7
    """A goes on behind the end of B."""
    AFTER_B = 8
    """B goes on behind the end of A."""
    UNCOMPARED = 9
    """A or B is damaged there."""


class Stretch(Struct, frozen=True):
    """Items of one kind that follow each other. items_a, items_b: how many; epoch_a, epoch_b: -1 if they do not
    matter."""

    kind: int
    first_offset: int
    last_offset: int
    items_a: int
    items_b: int
    epoch_a: int
    epoch_b: int


class _Cluster(Struct):
    """Items that overlap. For each copy: how many, the leader epochs of the first and of the last one."""

    first_offset: int
    last_offset: int
    items: list[int] = field(default_factory=lambda: [0, 0])
    epochs: list[int] = field(default_factory=lambda: [ANY_EPOCH, ANY_EPOCH])
    latest_epochs: list[int] = field(default_factory=lambda: [ANY_EPOCH, ANY_EPOCH])
    is_damaged: bool = False

    def absorb(self, item: tuple[int, ...], side: int) -> int:
        """Take an item of one copy; returns 1."""
        self.last_offset = max(self.last_offset, item[1])
        if item[3] == DAMAGED:
            self.is_damaged = True
            return 1
        if not self.items[side]:
            self.epochs[side] = item[3]
        self.items[side] += 1
        self.latest_epochs[side] = item[3]
        return 1

    def stretch(self) -> tuple[int, int, int, int, int, int, int]:
        epoch_a, epoch_b = self.epochs if self.epochs[0] != self.epochs[1] else self.latest_epochs
        kind = StretchKind.REBATCHED if epoch_a == epoch_b else StretchKind.UNLIKE_EPOCH
        kind = StretchKind.UNCOMPARED if self.is_damaged else kind
        epochs = (epoch_a, epoch_b) if kind == StretchKind.UNLIKE_EPOCH else (ANY_EPOCH, ANY_EPOCH)
        return kind, self.first_offset, self.last_offset, self.items[0], self.items[1], *epochs


class ItemMerge:
    """The stretches so far. Of those that are not SAME, the first MOST_STRETCHES are kept.

    left_out: how many more there were.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._stretches: list[Stretch] = []
        self._totals: dict[int, Stretch] = {}
        self._now: Stretch | None = None
        self._cluster: _Cluster | None = None

    def note(self, stretch: tuple[int, int, int, int, int, int, int]) -> None:
        """Add a stretch."""
        new = Stretch(*stretch)
        self._totals[new.kind] = joined(self._totals.get(new.kind), new)
        now = self._now
        if now is not None and (now.kind, now.epoch_a, now.epoch_b) == (new.kind, new.epoch_a, new.epoch_b):
            self._now = joined(now, new)
            return
        self._keep_now()
        self._now = new

    def _keep_now(self) -> None:
        if self._now is not None and self._now.kind != StretchKind.SAME:
            if len(self._stretches) < MOST_STRETCHES:
                self._stretches.append(self._now)
            else:
                self.left_out += 1
        self._now = None

    @property
    def is_open(self) -> bool:
        """Whether items that overlap may go on with the next ones."""
        return self._cluster is not None

    def merge(self, a: Buffer, at_a: int, b: Buffer, at_b: int, a_ends: bool, b_ends: bool) -> tuple[int, int]:
        """Take items from number at_a and at_b on, until one side needs more. a_ends, b_ends: no more will come.

        Returns the numbers of the first items that were not taken.
        """
        rows_a, rows_b = _rows(a), _rows(b)
        while True:
            one = rows_a[at_a] if at_a < len(rows_a) else None
            other = rows_b[at_b] if at_b < len(rows_b) else None
            if self._cluster is not None:
                if one is not None and one[0] <= self._cluster.last_offset:
                    at_a += self._cluster.absorb(one, 0)
                elif other is not None and other[0] <= self._cluster.last_offset:
                    at_b += self._cluster.absorb(other, 1)
                elif (one is None and not a_ends) or (other is None and not b_ends):
                    return at_a, at_b
                else:
                    self.note(self._cluster.stretch())
                    self._cluster = None
                continue
            if (one is None and not a_ends) or (other is None and not b_ends) or (one is None and other is None):
                return at_a, at_b
            taken_a, taken_b = self._take(one, other)
            at_a, at_b = at_a + taken_a, at_b + taken_b

    def _take(self, one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, int]:
        if other is None or (one is not None and one[1] < other[0]):
            assert one is not None
            if one[3] != DAMAGED:
                self.note((StretchKind.AFTER_A if other is None else StretchKind.ONLY_A, one[0], one[1], 1, 0, -1, -1))
            return 1, 0
        if one is None or other[1] < one[0]:
            if other[3] != DAMAGED:
                self.note(
                    (StretchKind.AFTER_B if one is None else StretchKind.ONLY_B, other[0], other[1], 0, 1, -1, -1)
                )
            return 0, 1
        if one[:2] == other[:2] and DAMAGED not in (one[3], other[3]):
            epochs = (ANY_EPOCH, ANY_EPOCH) if one[3] == other[3] else (one[3], other[3])
            same, another = StretchKind.SAME, StretchKind.OTHER_EPOCH
            if one[2] != other[2]:
                same, another = StretchKind.UNLIKE, StretchKind.UNLIKE_EPOCH
            self.note((same if one[3] == other[3] else another, one[0], one[1], 1, 1, *epochs))
            return 1, 1
        self._cluster = _Cluster(min(one[0], other[0]), max(one[1], other[1]))
        return 0, 0

    def stretches(self) -> list[tuple[int, ...]]:
        """The stretches that are not SAME, as far as they were kept."""
        self._keep_now()
        return list(map(astuple, self._stretches))

    def totals(self) -> list[tuple[int, ...]]:
        """A stretch from the first to the last of each kind that there was."""
        return [astuple(self._totals[kind]) for kind in sorted(self._totals)]


def _rows(items: Buffer) -> list[tuple[int, ...]]:
    numbers = memoryview(items).cast("B").cast("q").tolist()
    return list(zip(*(numbers[n::ITEM_FIELDS] for n in range(ITEM_FIELDS)), strict=True))


def joined(before: Stretch | None, new: Stretch) -> Stretch:
    """Return a stretch with both; the first one may be None."""
    if before is None:
        return new
    items = before.items_a + new.items_a, before.items_b + new.items_b
    last = max(before.last_offset, new.last_offset)
    return Stretch(before.kind, before.first_offset, last, *items, before.epoch_a, before.epoch_b)


def equal_entries(a: Buffer, b: Buffer, before: int) -> tuple[int, int, int, int, int]:
    """Return how many bytes are equal, and of the entries that lie whole in them: bytes, number, first and last offset.

    before: the last offset so far. The entries end before a length or a magic that is impossible, and before an offset
    that is not higher than those before.
    """
    data, alike = memoryview(a), _equal_bytes(memoryview(a), memoryview(b))
    at, count, first = 0, 0, before
    for offset, last, size in _walk_entries(data[:alike], before):
        first = offset if count == 0 else first
        at, count, before = at + size, count + 1, last
    return alike, at, count, first, before


def _equal_bytes(a: memoryview, b: memoryview) -> int:
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle)
    return low


def _walk_entries(data: memoryview, before: int) -> Iterator[tuple[int, int, int]]:
    """Yield first offset, last offset and size of each."""
    at = 0
    while isinstance(frame := find_frame(data, at, len(data)), Frame) and frame.magic <= 2:
        if frame.magic == 2 and frame.size < RECORD_BATCH_OVERHEAD:
            return
        first, last = frame.offset, frame.offset
        if frame.magic == 2:
            last = parse_batch(data, at).last_offset
        if first <= before or last < first:
            return
        yield first, last, frame.size
        at, before = at + frame.size, last
