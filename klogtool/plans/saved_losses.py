"""What the answer of a saved plan says of losses. Of an answer, only these fields are read back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from klogtool.plans.fields import JsonObject, WrongField, read_as


class SavedLoss(Struct, frozen=True):
    """Offsets, both ends inclusive; None: nothing shows which. unless_compacted, erased: as in SwapLoss and Gap."""

    first_offset: int | None = None
    last_offset: int | None = None
    unless_compacted: bool = False
    erased: bool = False

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the offsets [first, last], if both are known."""
        if self.first_offset is None or self.last_offset is None:
            return None
        return self.first_offset, max(self.first_offset, self.last_offset)


class SavedChange(Struct, frozen=True):
    """Of a command that loads a log to change it, or that says nothing of losses."""

    lost_by_recovery: SavedLoss | None = None
    behind_end: SavedLoss | None = None
    missing: list[SavedLoss] = []

    @property
    def loses(self) -> bool:
        """Whether records are lost without a request, as `Plan.loses`."""
        return bool(self.lost_by_recovery or self.behind_end or self.missing)

    def walk_gone(self) -> Iterator[SavedLoss]:
        """Yield what the load cuts off, and what was shown to be behind the log's end: the stop after the change lowers
        the checkpoints and deletes the snapshots that showed it; and the gaps of which nothing tells any more."""
        yield from (loss for loss in (self.lost_by_recovery, self.behind_end) if loss is not None)
        yield from (gap for gap in self.missing if gap.erased)


class SavedRecovery(Struct, frozen=True):
    """Of `recover`."""

    loses_records: bool = False
    lost: SavedLoss | None = None
    behind_end: SavedLoss | None = None
    lost_by_swap: SavedLoss | None = None
    missing: list[SavedLoss] = []
    stray: object = None
    may_lose: SavedLoss | None = None

    @property
    def loses(self) -> bool:
        """Whether records go or are gone, or a broker hides the partition, as `Plan.loses`."""
        return bool(self.loses_records or self.behind_end or self.missing or self.stray or self.may_lose)

    def walk_gone(self) -> Iterator[SavedLoss]:
        """Yield what it cuts off, and what was shown to be behind that; what a `.swap` costs, and the gaps of which
        nothing tells any more."""
        yield from (loss for loss in (self.lost, self.behind_end) if loss is not None)
        if self.lost_by_swap is not None and not self.lost_by_swap.unless_compacted:
            yield self.lost_by_swap
        yield from (gap for gap in self.missing if gap.erased)


class SavedSalvage(Struct, frozen=True):
    """Of `salvage`."""

    lost: list[SavedLoss] = []

    @property
    def loses(self) -> bool:
        """Whether offsets are lost, as `Plan.loses`."""
        return any(loss.first_offset is not None for loss in self.lost)

    def walk_gone(self) -> Iterator[SavedLoss]:
        """Yield what it leaves out."""
        yield from self.lost


class SavedRebuild(Struct, frozen=True):
    """Of `rebuild-index` and `transplant`: the offsets that only a deleted file shows to be missing."""

    erased: list[SavedLoss] = []

    @property
    def loses(self) -> bool:
        """Whether records are lost: these commands delete none."""
        return False

    def walk_gone(self) -> Iterator[SavedLoss]:
        """Yield what nothing shows any more."""
        yield from self.erased


def read_losses(command: str, answer: JsonObject) -> SavedChange | SavedRecovery | SavedRebuild | SavedSalvage:
    """Return what a command's answer says of losses: nothing, if somebody has changed the types of its fields.

    An answer is for people; klogtool decides again.
    """
    with suppress(WrongField):
        if command == "recover":
            return read_as(answer, SavedRecovery)
        if command in ("rebuild-index", "transplant"):
            return read_as(answer, SavedRebuild)
        if command == "salvage":
            return read_as(answer, SavedSalvage)
        return read_as(answer, SavedChange)
    return SavedChange()
