"""Leader epochs in the headers of batches: no CRC covers them, but they never go down along a log.

One rule decides which of them are wrong, for verify and for salvage.
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
        """Consecutive batches with the same leader epoch."""

        @property
        def epoch(self) -> int:
            """Their leader epoch."""

        @property
        def first_offset(self) -> int:
            """Offset of the first batch."""

        @property
        def batches(self) -> int:
            """Number of batches."""


def wrong_epochs(runs: Sequence[HasEpoch], known: LeaderEpochFileCache) -> dict[int, int | None]:
    """Return the single batches whose epoch does not fit: number in `runs` -> the right epoch, or None if no epoch is
    certain.

    The right epoch is certain if both sides have the same one, or if leader-epoch-checkpoint has an epoch for the
    offset that fits between them. The same holds for an epoch that this file does not know, if it has that of a
    neighbour. known: the contents of the file, or nothing. Several consecutive batches with an epoch out of order are
    not a damaged field. If two single batches contradict each other, the one that agrees with the file is right.
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
            # It fits, but the checkpoint, which has every written epoch, does not know it.
            is_false = run.epoch not in known_epochs and expected is not None and expected in (before, behind)
            right = expected if is_false else run.epoch
        if right != run.epoch:
            wrong[n] = right
    return wrong


def _row(runs: Sequence[HasEpoch], known: LeaderEpochFileCache) -> list[int]:
    """Return the numbers of runs whose epochs never go down, with as many batches as possible."""
    possible = [n for n, run in enumerate(runs) if run.epoch >= NO_EPOCH]
    epochs = [runs[n].epoch for n in possible]
    if all(map(le, epochs, epochs[1:])):
        return possible
    weights = (2 * runs[n].batches + (runs[n].epoch == known.epoch_for_offset(runs[n].first_offset)) for n in possible)
    return [possible[n] for n in heaviest_row(zip(epochs, weights, strict=True))]


def _settled(epoch: int, before: int | None, behind: int | None, known: int | None) -> int | None:
    """Return the right epoch of a batch without one, or whose epoch does not fit its neighbours; None: it is not
    certain."""
    lowest = NO_EPOCH if before is None else before
    if before is not None and before == behind:
        return before
    if epoch == NO_EPOCH:
        return epoch
    if known is not None and lowest <= known and (behind is None or known <= behind):
        return known
    return None
