"""Corrects headers of batches that salvage keeps: leader epochs (see epoch_order), last offsets that reach beyond the
records into the next batch, and the offsets of a last batch that is beyond the log's end at a clean stop, by
verify's rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, Checkpoints, Circumstances
from klogtool.format.checkpoints import EpochEntry, assign_leader_epochs
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.names import FileKind
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.partition import Partition
from klogtool.salvage.stretches import (
    MAGIC,
    NO_EPOCH,
    Rejected,
    RejectedCause,
    Run,
    Stretch,
    last_record,
    set_field,
    split_last,
    with_first_offset,
    with_last_offset,
)
from klogtool.verify.closed_end import find_right_offset, is_right_end
from klogtool.verify.epoch_order import wrong_epochs
from klogtool.verify.findings import Kind


def mend_leader_epochs(stretches: Sequence[Stretch], known: LeaderEpochFileCache) -> list[Stretch]:
    """Return the stretches; a single batch with a wrong epoch is corrected, or rejected if no epoch is certain."""
    numbers = [n for n, item in enumerate(stretches) if isinstance(item, Run) and item.magic == MAGIC]
    runs = [run for n in numbers if isinstance(run := stretches[n], Run)]
    results = list(stretches)
    for n, right in wrong_epochs(runs, known).items():
        results[numbers[n]] = _rejected(runs[n]) if right is None else with_epoch(runs[n], right)
    return results


def _rejected(run: Run) -> Rejected:
    return Rejected(
        run.path,
        run.segment,
        run.start,
        run.stop,
        Kind.BATCH_HEADER,
        RejectedCause.EPOCH_DOES_NOT_FIT(epoch=run.epoch),
        run.first_offset,
        run.last_offset,
    )


def with_epoch(run: Run, epoch: int) -> Run:
    """Return a single batch with this leader epoch."""
    if run.epoch == epoch:
        return run
    return replace(set_field(run, "partition_leader_epoch", run.epoch, epoch), epoch=epoch)


def mend_last_offsets(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return the stretches; a batch whose header, but none of its records, reaches up to the next batch ends with
    its last record. Only one that reaches too far is surely wrong (see verify's OrderJudge)."""
    results: list[Stretch] = []
    following: Run | None = None
    for item in reversed(stretches):
        if isinstance(item, Run):
            results += reversed(_ending_before(item, following))
            following = item
        else:
            results.append(item)
    return results[::-1]


def _ending_before(run: Run, following: Run | None) -> list[Run]:
    if following is None or run.magic != MAGIC or not run.first_offset < following.first_offset <= run.last_offset:
        return [run]
    *body, last = split_last(run)
    if last.first_offset >= following.first_offset:
        return [run]
    end = last_record(last)
    return [run] if end is None or end >= following.first_offset else [*body, with_last_offset(last, end)]


def right_entries(entries: Sequence[EpochEntry], runs: Sequence[Run]) -> list[EpochEntry]:
    """Return the entries of a leader-epoch-checkpoint that the batches do not contradict: all batches before an entry's
    start have lower epochs, all batches from there on have that epoch or a higher one. The start of the first entry
    moves with the log start, so batches before it may have its epoch."""
    with_epoch = sorted((run for run in runs if run.epoch > NO_EPOCH), key=lambda run: run.first_offset)
    firsts = [run.first_offset for run in with_epoch]
    # highest, last: of the runs before n; lowest: of the runs from n on.
    highest = list(accumulate((run.epoch for run in with_epoch), max, initial=NO_EPOCH))
    last = list(accumulate((run.last_offset for run in with_epoch), max, initial=-1))
    lowest = list(accumulate((run.epoch for run in reversed(with_epoch)), min, initial=MAX_INT))[::-1]

    def is_right(entry: EpochEntry) -> bool:
        n = bisect_left(firsts, entry.start_offset)
        return lowest[n] >= entry.epoch > highest[n] and last[n] < entry.start_offset

    first = [entry for entry in entries[:1] if all(_allows_first(entry, run) for run in with_epoch)]
    return first + [entry for entry in entries[1:] if is_right(entry)]


def _allows_first(entry: EpochEntry, run: Run) -> bool:
    if run.first_offset >= entry.start_offset:
        return run.epoch >= entry.epoch
    return run.epoch == entry.epoch or (run.epoch < entry.epoch and run.last_offset < entry.start_offset)


def entries_of(runs: Sequence[Run], known: Sequence[EpochEntry]) -> list[EpochEntry]:
    """Return all epochs of the batches, and the known ones (which do not contradict them), with their starts."""
    starts = {entry.epoch: entry.start_offset for entry in known}
    for run in runs:
        if run.epoch > NO_EPOCH:
            starts.setdefault(run.epoch, run.first_offset)
    return assign_leader_epochs(EpochEntry(epoch, starts[epoch]) for epoch in sorted(starts))


def find_closed_end(path: str, circumstances: Circumstances, checkpoints: Checkpoints | None = None) -> int | None:
    """Return where the log ended when it was closed; None if it was not closed, or that is unknown. checkpoints: of the
    log dir, for callers that look at several of its partitions; default: those beside the partition."""
    checkpoints, name = checkpoints or Checkpoints.beside(path), Partition(path).topic_partition
    is_clean = checkpoints.has_clean_marker if circumstances.last_stop is None else circumstances.last_stop == CLEAN
    if not is_clean or name is None:
        return None
    if circumstances.recovery_point is not None:
        return circumstances.recovery_point
    return checkpoints.find_line(FileKind.RECOVERY_POINT_CHECKPOINT, name)


def mend_by_closed_end(stretches: Sequence[Stretch], closed_at: int | None) -> list[Stretch]:
    """Return the stretches; the last batch gets the last or the base offset that the log's end proves."""
    results = list(stretches)
    run = results[-1] if results else None
    if closed_at is None or not isinstance(run, Run) or run.last_offset < closed_at:
        return results
    *body, last = split_last(run)
    if is_right_end(last.first_offset, last_record(last), closed_at):
        return [*results[:-1], *body, with_last_offset(last, closed_at - 1)]
    before = next((item for item in (*body[::-1], *results[-2::-1]) if isinstance(item, Run)), None)
    lowest = max(run.segment, 0 if before is None else before.last_offset + 1)
    right = find_right_offset(last.first_offset, last.last_offset, lowest, closed_at)
    return results if right is None else [*results[:-1], *body, with_first_offset(last, right)]
