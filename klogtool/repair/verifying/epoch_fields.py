"""Leader epochs in the headers of batches, which no checksum covers: they never go down along a log."""

from __future__ import annotations

from collections.abc import Sequence

from klogtool.format.checkpoints import EpochEntry, assign_leader_epochs
from klogtool.lazy_dataclasses import replace
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.repair.salvaging.heaviest import heaviest_row
from klogtool.repair.salvaging.stretches import MAGIC, NO_EPOCH, Rejected, Run, Stretch, set_field


def mend_leader_epochs(stretches: Sequence[Stretch], known: LeaderEpochFileCache) -> list[Stretch]:
    """The same stretches; single batches whose epoch stands out of the row are mended, or rejected.

    The right epoch is certain if it is the same on both sides, or if leader-epoch-checkpoint has one for the offset
    that goes between them; so is it of an epoch that this file does not know, where it has that of a neighbour. known:
    what it has, or nothing. Several batches in a row with an epoch out of order
    stay as they are: that is no damaged field.
    """
    numbers = [n for n, item in enumerate(stretches) if isinstance(item, Run) and item.magic == MAGIC]
    runs = [run for n in numbers if isinstance(run := stretches[n], Run)]
    possible = [n for n, run in enumerate(runs) if run.epoch >= NO_EPOCH]
    row = heaviest_row((runs[n].epoch, runs[n].batches) for n in possible)
    found, in_order = list(stretches), {possible[n] for n in row}
    for n, run in enumerate(runs):
        if run.batches > 1:
            continue
        before = next((runs[m].epoch for m in range(n - 1, -1, -1) if m in in_order), None)
        behind = next((runs[m].epoch for m in range(n + 1, len(runs)) if m in in_order), None)
        expected = known.epoch_for_offset(run.first_offset)
        if n in in_order and run.epoch != NO_EPOCH:
            # It goes there, but the checkpoint, which has every epoch that was written, does not know it.
            is_unknown = run.epoch not in (entry.epoch for entry in known.entries)
            if expected is not None and is_unknown and expected in (before, behind):
                found[numbers[n]] = with_epoch(run, expected)
        else:
            found[numbers[n]] = _settled(run, before, behind, expected)
    return found


def _settled(run: Run, before: int | None, behind: int | None, known: int | None) -> Stretch:
    lowest = NO_EPOCH if before is None else before
    if before is not None and before == behind:
        return with_epoch(run, before)
    if run.epoch == NO_EPOCH:
        return run
    if known is not None and lowest <= known and (behind is None or known <= behind):
        return with_epoch(run, known)
    return Rejected(
        run.path,
        run.segment,
        run.start,
        run.stop,
        "batch-header",
        f"leader epoch {run.epoch} does not go between those before and behind it",
        run.first_offset,
        run.last_offset,
    )


def with_epoch(run: Run, epoch: int) -> Run:
    """A single batch with this leader epoch."""
    if run.epoch == epoch:
        return run
    return replace(set_field(run, "partition_leader_epoch", run.epoch, epoch), epoch=epoch)


def right_entries(entries: Sequence[EpochEntry], runs: Sequence[Run]) -> list[EpochEntry]:
    """Those of a leader-epoch-checkpoint that the batches do not contradict: all before an epoch's start are of lower
    epochs, all from there on of none below it. Of the first entry, whose start rises with that of the log, batches
    before it may be of its own epoch."""
    with_epoch = [run for run in runs if run.epoch > NO_EPOCH]
    return [entry for n, entry in enumerate(entries) if all(_allows(entry, run, is_first=n == 0) for run in with_epoch)]


def _allows(entry: EpochEntry, run: Run, *, is_first: bool) -> bool:
    if run.first_offset >= entry.start_offset:
        return run.epoch >= entry.epoch
    if run.epoch == entry.epoch:
        return is_first
    return run.epoch < entry.epoch and run.last_offset < entry.start_offset


def entries_of(runs: Sequence[Run], known: Sequence[EpochEntry]) -> list[EpochEntry]:
    """All epochs that the batches have, and the known ones (which they do not contradict), with where each began."""
    starts = {entry.epoch: entry.start_offset for entry in known}
    for run in runs:
        if run.epoch > NO_EPOCH:
            starts.setdefault(run.epoch, run.first_offset)
    return assign_leader_epochs(EpochEntry(epoch, starts[epoch]) for epoch in sorted(starts))
