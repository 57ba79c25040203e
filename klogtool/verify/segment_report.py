"""What the check of a segment gets, and what it reports beside its findings."""

from __future__ import annotations

from msgspec import Struct, field

from klogtool.broker.config import LogConfig
from klogtool.format.indexes import NO_TIMESTAMP
from klogtool.log.producer_replay import KeptHeaders


class EpochRun(Struct, frozen=True):
    """Consecutive batches of a segment with the same leader epoch.

    first_offset: of the first; last_offset: of the last. magic, position: of the first.
    """

    epoch: int
    first_offset: int
    last_offset: int
    batches: int = 1
    magic: int = 2
    position: int = 0


class SegmentContext(Struct, frozen=True):
    """What is known of a segment from its surroundings.

    now_ms: later timestamps are implausible. next_base: base offset of the next segment, None for the last. is_active:
    the last segment of a log, which a broker appends to. is_clean: the log dir has the marker of a clean stop.
    index_interval_bytes: so many bytes of a log may be without an index entry.
    closed_at: where the log ended at a clean stop; None if that is unknown. keeps_headers: the producers of its
    partition are looked at afterwards.
    """

    now_ms: int
    next_base: int | None = None
    is_active: bool = False
    is_clean: bool = False
    index_interval_bytes: int = LogConfig().index_interval_bytes
    closed_at: int | None = None
    keeps_headers: bool = False


class SegmentReport(Struct):
    """What was found in a segment's log, besides damage.

    next_offset: after the last sound batch; the base offset if there is none. bytes: of sound batches. sound: byte
    ranges of consecutive sound batches. is_damaged: some bytes are not a sound batch. has_damaged_tail: such bytes
    follow the last sound batch. is_complete: False if the log could not be read to its end. has_changed: because
    another process changed it meanwhile. has_gaps: offsets are missing between its batches, or in one.
    largest_timestamp: -1 if there is none. epochs: leader epochs in the order of the log, -1 for a batch or message
    without one. false_epochs: position, first and last offset of each batch whose epoch was reported as false or out
    of order. headers: of its batches, where reading the log again costs much.
    """

    path: str
    base_offset: int
    next_offset: int
    size: int = 0
    first_offset: int | None = None
    batches: int = 0
    records: int = 0
    bytes: int = 0
    sound: tuple[tuple[int, int], ...] = ()
    is_damaged: bool = False
    has_damaged_tail: bool = False
    is_complete: bool = True
    has_changed: bool = False
    has_gaps: bool = False
    has_producers: bool = False
    has_transactions: bool = False
    has_old_messages: bool = False
    largest_timestamp: int = NO_TIMESTAMP
    epochs: list[EpochRun] = field(default_factory=list)
    false_epochs: list[tuple[int, int, int]] = field(default_factory=list)
    headers: KeptHeaders | None = None

    @property
    def begins(self) -> int:
        """The offset at which the segment begins: by its name, or its first batch if that is lower."""
        return self.base_offset if self.first_offset is None else min(self.base_offset, self.first_offset)

    @property
    def last_offset(self) -> int | None:
        """Last offset of the last sound batch."""
        return self.next_offset - 1 if self.batches else None
