"""Turns Spark's filters into bounds, which are applied to files, batches and records before they are decoded.

Bounds never drop a row that the filters keep; Spark filters again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from klogtool.render.selection import LARGEST, SMALLEST

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS_A_MS = 1000


class Bounds(Struct, frozen=True):
    """The bounds of what is wanted. offsets, timestamps (ms): inclusive; topics, partitions: None for all; key: the
    whole key, None for any."""

    offsets: tuple[int, int] = (SMALLEST, LARGEST)
    timestamps: tuple[int, int] = (SMALLEST, LARGEST)
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    key: bytes | None = None

    def may_hold(self, topic: str | None, partition: int | None) -> bool:
        """Return whether a partition may have rows."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )


def bounds_of(filters: Iterable[Any], prefix: str = "") -> Bounds:
    """Return the common bounds of all these filters of pyspark.sql.datasource; filters that it cannot use are
    ignored. prefix: what the names of the columns of records begin with."""
    bounds = Bounds()
    for each in filters:
        kind: str = type(each).__name__
        column: tuple[str, ...] = getattr(each, "attribute", ())
        if kind in TAKEN and len(column) == 1 and column[0].startswith(prefix):
            bounds = _narrowed(bounds, column[0].removeprefix(prefix).lower(), kind, each.value)
    return bounds


def _narrowed(bounds: Bounds, column: str, kind: str, value: Any) -> Bounds:
    if column == "offset":
        return replace(bounds, offsets=_meet(bounds.offsets, _interval(kind, value, _same)))
    if column == "timestamp":
        return replace(bounds, timestamps=_meet(bounds.timestamps, _interval(kind, value, _ms)))
    if kind not in ("EqualTo", "EqualNullSafe", "In"):
        return bounds
    values = value if kind == "In" else (value,)
    if column == "topic":
        return replace(bounds, topics=_common(bounds.topics, frozenset(values)))
    if column == "partition":
        return replace(bounds, partitions=_common(bounds.partitions, frozenset(values)))
    if column == "key" and len(values) == 1 and isinstance(values[0], bytes | bytearray):
        return replace(bounds, key=bytes(values[0]))
    return bounds


def _common(one: frozenset[Any] | None, other: frozenset[Any]) -> frozenset[Any]:
    return other if one is None else one & other


def _meet(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _interval(kind: str, value: Any, rounded: Callable[[Any], tuple[int, int] | None]) -> tuple[int, int]:
    """Return the numbers, inclusive, that a comparison can let through. rounded: the value as numbers, rounded down and
    up."""
    values = [rounded(v) for v in (value if kind == "In" else (value,)) if v is not None]
    known = [v for v in values if v is not None]
    if len(known) < len(values) or not known:
        return SMALLEST, LARGEST
    return TAKEN[kind](min(down for down, _ in known), max(up for _, up in known))


TAKEN: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "EqualTo": lambda down, up: (down, up),
    "EqualNullSafe": lambda down, up: (down, up),
    "In": lambda down, up: (down, up),
    "GreaterThan": lambda down, _: (down + 1, LARGEST),
    "GreaterThanOrEqual": lambda _, up: (up, LARGEST),
    "LessThan": lambda _, up: (SMALLEST, up - 1),
    "LessThanOrEqual": lambda down, _: (SMALLEST, down),
}
"""By the name of the filter: the smallest and the largest number that it lets through, from its value (or values)
rounded down and up."""


def _same(value: Any) -> tuple[int, int] | None:
    return (value, value) if type(value) is int else None


def _ms(value: Any) -> tuple[int, int] | None:
    """Return the milliseconds; a time without a zone gives none, because it may mean any."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    microseconds = (value - EPOCH) // timedelta(microseconds=1)
    return microseconds // MICROSECONDS_A_MS, -(-microseconds // MICROSECONDS_A_MS)
