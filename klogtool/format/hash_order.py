"""The order in which maps with keys of type Long iterate over them: that of producers in Kafka's snapshots.

`java.util.HashMap`: by bucket, and within a bucket by insertion: `put` appends, `computeIfAbsent` inserts at the front.
If a bucket of a table of 64 or more gets more than eight keys, Java turns it into a tree, whose order is not reproduced
here. `scala.collection.mutable.HashMap` of Scala 2.13: by bucket, and within a bucket by hash code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from klogtool.format.java_numbers import wrap_int

_SMALLEST_TABLE = 16
_SMALLEST_TABLE_WITH_TREES = 64
_CROWDED_BUCKET = 8  # HashMap.TREEIFY_THRESHOLD


class LongHashKeys:
    """The keys of such a map; keys are never removed, except all at once."""

    def __init__(self, keys: Iterable[int] = ()) -> None:
        """keys: put in this order."""
        self._table: list[list[int]] = [[] for _ in range(_SMALLEST_TABLE)]
        self._known: set[int] = set()
        for key in keys:
            self.put(key)

    @property
    def in_order(self) -> list[int]:
        """The keys as the map iterates over them."""
        return [key for bucket in self._table for key in bucket]

    @property
    def buckets(self) -> list[list[int]]:
        """Return a copy of the table: maps whose tables are equal behave the same."""
        return [list(bucket) for bucket in self._table]

    def put(self, key: int) -> None:
        """HashMap.put: the table grows as soon as it is three quarters full."""
        if key in self._known:
            return
        bucket = self._bucket_of(key)
        bucket.append(key)
        self._known.add(key)
        self._grow_if_crowded(len(bucket) - 1)
        self._grow_if_full()

    def compute_if_absent(self, key: int) -> None:
        """HashMap.computeIfAbsent: the table grows at the next call, also at one for a key that is there."""
        self._grow_if_full()
        if key in self._known:
            return
        bucket = self._bucket_of(key)
        bucket.insert(0, key)
        self._known.add(key)
        self._grow_if_crowded(len(bucket))

    def clear(self) -> None:
        """HashMap.clear: no keys; the table stays as large as it was."""
        self._known.clear()
        for bucket in self._table:
            bucket.clear()

    def _grow_if_full(self) -> None:
        if len(self._known) > len(self._table) * 3 // 4:
            self._grow()

    def _grow_if_crowded(self, others: int) -> None:
        """treeifyBin, by the nodes that Java counted on its way: a small table grows in place of making a tree."""
        if others >= _CROWDED_BUCKET and len(self._table) < _SMALLEST_TABLE_WITH_TREES:
            self._grow()

    def _grow(self) -> None:
        keys = self.in_order
        self._table = [[] for _ in range(2 * len(self._table))]
        for key in keys:
            self._bucket_of(key).append(key)

    def _bucket_of(self, key: int) -> list[int]:
        return self._table[_hash_of(key) % len(self._table)]


class ScalaLongHashKeys:
    """The keys of scala.collection.mutable.HashMap; keys are never removed. Its order depends on the set of keys, and
    for keys of the same hash code on their insertion."""

    def __init__(self) -> None:
        self._known: dict[int, None] = {}

    @property
    def in_order(self) -> list[int]:
        """The keys as the map iterates over them."""
        buckets = _SMALLEST_TABLE
        while len(self._known) >= buckets * 3 // 4:  # growTable, before it is three quarters full
            buckets *= 2
        return sorted(self._known, key=lambda key: (_hash_of(key) % buckets, wrap_int(_hash_of(key))))

    def compute_if_absent(self, key: int) -> None:
        """HashMap.getOrElseUpdate."""
        self._known.setdefault(key)


UpdatedProducers: TypeAlias = LongHashKeys | ScalaLongHashKeys


def _hash_of(key: int) -> int:
    """java.util.HashMap.hash, and HashMap.improveHash of Scala, of a Long that is not negative."""
    hash_code = (key ^ (key >> 32)) % (1 << 32)
    return hash_code ^ (hash_code >> 16)
