"""Leader epochs in the headers of batches, which no checksum covers: they never go down along a log.

One rule says which of them are wrong, for verify and for salvage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import le
from typing import TYPE_CHECKING, Protocol

from klogtool.format.batch import NO_PARTITION_LEADER_EPOCH as NO_EPOCH
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.verify.heaviest_row import heaviest_row

if TYPE_CHECKING:

    class HasEpoch(Protocol):
        """Batches that follow each other and carry the same leader epoch."""

        @property
        def epoch(self) -> int:
            """That epoch."""

        @property
        def first_offset(self) -> int:
            """Of the first batch."""

        @property
        def batches(self) -> int:
            """How many there are."""


def wrong_epochs(runs: Sequence[HasEpoch], known: LeaderEpochFileCache) -> dict[int, int | None]:
    """The single batches whose epoch stands out of the row: number in `runs`, and the right epoch, None if no epoch is
    certain.

    The right epoch is certain if it is the same on both sides, or if leader-epoch-checkpoint has one for the offset
    that goes between them; so is it of an epoch that this file does not know, where it has that of a neighbour. known:
    what it has, or nothing. Several batches in a row with an epoch out of order are no damaged field. Of two single
    batches that contradict each other, the one is right that agrees with the file.
    """
    row = _row(runs, known)
    in_order, known_epochs = set(row), {entry.epoch for entry in known.entries}
    wrong: dict[int, int | None] = {}
    for n, run in enumerate(runs):
        if run.batches > 1:
            continue
        at = bisect_left(row, n)
        before = runs[row[at - 1]].epoch if at else None
        at += n in in_order
        behind = runs[row[at]].epoch if at < len(row) else None
        expected = known.epoch_for_offset(run.first_offset)
        if n not in in_order or run.epoch == NO_EPOCH:
            right = _settled(run.epoch, before, behind, expected)
        else:
            # It goes there, but the checkpoint, which has every epoch that was written, does not know it.
            is_false = run.epoch not in known_epochs and expected is not None and expected in (before, behind)
            right = expected if is_false else run.epoch
        if right != run.epoch:
            wrong[n] = right
    return wrong


def _row(runs: Sequence[HasEpoch], known: LeaderEpochFileCache) -> list[int]:
    """Numbers of the runs whose epochs never go down, so that as many batches as can be are among them."""
    possible = [n for n, run in enumerate(runs) if run.epoch >= NO_EPOCH]
    epochs = [runs[n].epoch for n in possible]
    if all(map(le, epochs, epochs[1:])):
        return possible
    weights = (2 * runs[n].batches + (runs[n].epoch == known.epoch_for_offset(runs[n].first_offset)) for n in possible)
    return [possible[n] for n in heaviest_row(zip(epochs, weights, strict=True))]


def _settled(epoch: int, before: int | None, behind: int | None, known: int | None) -> int | None:
    """The right epoch of a batch whose own is none, or does not go between its neighbours'; None: it is not certain."""
    lowest = NO_EPOCH if before is None else before
    if before is not None and before == behind:
        return before
    if epoch == NO_EPOCH:
        return epoch
    if known is not None and lowest <= known and (behind is None or known <= behind):
        return known
    return None
