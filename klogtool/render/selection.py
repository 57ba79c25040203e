"""Which records are wanted; shared by text, JSON and Arrow, by the kernel and by the reference."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from klogtool.format.typed import parse_moment

SMALLEST, LARGEST = -(2**63), 2**63 - 1


class Selection(Struct, frozen=True):
    """Which records are wanted. Bounds are inclusive. Timestamps are ms after `in_ms`.

    key: the whole key. grep: bytes that are in the key or the value.
    """

    offsets: tuple[int, int] = (SMALLEST, LARGEST)
    timestamps: tuple[int, int] = (SMALLEST, LARGEST)
    producer_id: int | None = None
    key: bytes | None = None
    grep: bytes | None = None

    def in_ms(self) -> Selection:
        """Return the same selection with timestamps in ms, which may be given as ISO 8601 or datetimes."""
        first, last = map(parse_moment, self.timestamps)
        return replace(self, timestamps=(first, last))

    @property
    def needs_records(self) -> bool:
        """Whether the headers of batches are not enough to decide."""
        return self.key is not None or self.grep is not None

    def may_hold(self, batch: Any) -> bool:
        """Whether a batch of any magic may contain wanted records, by its header."""
        first = batch.base_offset
        return (
            batch.last_offset >= self.offsets[0]
            and (first is None or first <= self.offsets[1])
            and batch.max_timestamp >= self.timestamps[0]
            and self.producer_id in (None, batch.producer_id)
        )

    def wants(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bool:
        """Whether a record is wanted, given that its batch passed `may_hold`."""
        return (
            self.offsets[0] <= offset <= self.offsets[1]
            and self.timestamps[0] <= timestamp <= self.timestamps[1]
            and self.key in (None, key)
            and (self.grep is None or self.grep in (value or b"") or self.grep in (key or b""))
        )
