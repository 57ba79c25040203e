"""What a recovery, or the loading before another change, does to a log: the values of an answer (docs/contract.md)."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from klogtool.causes import Reason, Text
from klogtool.plans.recover_gaps import Gap
from klogtool.plans.recover_reach import BehindEnd
from klogtool.plans.results import Result
from klogtool.verify.swaps import SwapLoss


class TruncatedSegment(Struct, frozen=True):
    """A segment whose `.log` is cut at a byte. bytes: how many go. reason: None if they are no whole batch."""

    segment: int
    position: int
    bytes: int
    reason: Text | None


class OffsetSpan(Struct, frozen=True):
    """Offsets, both ends inclusive."""

    first_offset: int
    last_offset: int


class MayLose(Struct, frozen=True):
    """Offsets that go if recovery empties a segment, and all of its later ones with it. A setting decides that, and
    nobody knows the topic's. is_offline: such a recovery fails, and a broker takes the log dir offline."""

    segment: int
    first_offset: int
    last_offset: int
    is_offline: bool = False


class BelowHighWatermark(Struct, frozen=True):
    """Offsets that are gone, or will be, although they were replicated: all in-sync replicas had them, and producers
    were told so."""

    high_watermark: int
    first_offset: int
    last_offset: int
    offsets: int


class RecoveryLoss(Struct, frozen=True):
    """What loading removes. lost: which offsets recovery removes, judged by sound batches and the header of the damaged
    one; why: what is wrong. lost_by_swap: offsets of segments that a `.swap` file replaces, which lacks them."""

    truncated: list[TruncatedSegment]
    deleted_segments: list[int]
    lost: OffsetSpan | None
    why: Reason | None
    lost_by_swap: SwapLoss | UnsetType = UNSET


class LoadingLosses(Struct, frozen=True):
    """What a log lost when it was loaded, and what is missing after its end; each only if there is something. missing:
    gaps of which nothing tells after the plan."""

    lost_by_recovery: RecoveryLoss | UnsetType = UNSET
    behind_end: BehindEnd | UnsetType = UNSET
    below_high_watermark: BelowHighWatermark | UnsetType | None = UNSET
    missing: list[Gap] | UnsetType = UNSET

    @property
    def loses(self) -> bool:
        """Whether there is any loss."""
        return bool(self.lost_by_recovery or self.behind_end or self.missing)


class Recovery(Result, frozen=True):
    """The answer of `recover` for a stopped log. loses_records: whether it removes more than zeros; lost, why,
    lost_by_swap: as in RecoveryLoss. behind_end: what shows offsets after the end; missing: gaps. stray: why a broker
    hides the partition. guessed: a setting of the topic that decides what is in rebuilt indexes, and that is only
    Kafka's default here. may_lose: what it decides as well, if batches are out of order. perhaps_missing: what
    retention deleted before the first segment, or somebody; the disk does not tell which. renamed: files that may have
    what is missing, under names such as `.log.bak`, which no broker reads.
    """

    recovered: list[int]
    truncated: list[TruncatedSegment]
    deleted_segments: list[int]
    split: bool
    rebuilt: list[str]
    loses_records: bool
    lost: OffsetSpan | None
    why: Reason | None
    log_start_offset: int
    log_end_offset: int
    behind_end: BehindEnd | None
    missing: list[Gap]
    below_high_watermark: BelowHighWatermark | None
    stray: Reason | None
    guessed: str | UnsetType = UNSET
    lost_by_swap: SwapLoss | UnsetType = UNSET
    may_lose: MayLose | UnsetType = UNSET
    perhaps_missing: list[OffsetSpan] | UnsetType = UNSET
    renamed: list[str] | UnsetType = UNSET

    @property
    def loses(self) -> bool:
        """Whether records go or are gone, or a broker hides the partition."""
        return bool(self.loses_records or self.behind_end or self.missing or self.stray or self.may_lose)
