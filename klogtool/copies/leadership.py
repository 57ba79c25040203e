"""Which copy a leader keeps: what a follower with one copy truncates if the other copy is its leader's.

The rule is Kafka's: a follower asks for the end of its latest epoch (LeaderEpochFileCache.endOffsetFor), and truncates
(AbstractFetcherThread.getOffsetTruncationState). It may take several rounds.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.batch_proof import FACTS
from klogtool.format.checkpoints import EpochEntry
from klogtool.format.succession import facts_at
from klogtool.log.file import LogFile
from klogtool.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, LeaderEpochFileCache
from klogtool.log.partition import Partition
from klogtool.log.proving import RowPool, walk_proved


class CopyEpochs(Struct, frozen=True):
    """The leader epochs of a copy, with their start offsets, and its log end offset."""

    epochs: tuple[EpochEntry, ...]
    log_end_offset: int

    @property
    def latest_epoch(self) -> int:
        """The latest epoch; UNDEFINED_EPOCH if there is none."""
        return self.epochs[-1].epoch if self.epochs else UNDEFINED_EPOCH

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of an offset; None if it is not known."""
        return LeaderEpochFileCache(self.epochs).epoch_for_offset(offset)

    def truncated(self, end_offset: int) -> CopyEpochs:
        """Return the history of the log after it is truncated to an offset."""
        cache = LeaderEpochFileCache(self.epochs)
        cache.truncate_from_end(end_offset)
        return CopyEpochs(tuple(cache.entries), min(self.log_end_offset, end_offset))

    def elected(self, above: int) -> CopyEpochs:
        """Return the history after its broker became leader: an epoch higher than all begins at its end."""
        epoch = max(self.latest_epoch, above) + 1
        return CopyEpochs((*self.epochs, EpochEntry(epoch, self.log_end_offset)), self.log_end_offset)


class LeaderChange(Struct, frozen=True):
    """What happens if the other copy's broker becomes leader: this copy is truncated to `truncates_to`, and loses that
    many offsets."""

    truncates_to: int
    loses: int


def history_of(partition: Partition, log_end_offset: int, *, by_batches: bool = True) -> CopyEpochs:
    """Return the epochs by leader-epoch-checkpoint. by_batches: by the batches if there is no such file.

    Epochs from the log end on do not count, as when a broker loads the log.
    """
    try:
        lines = partition.leader_epochs
        cache = LeaderEpochFileCache(lines or ())
    except KlogError:
        lines = None
    if lines is None:
        cache = LeaderEpochFileCache()
    if lines is None and by_batches:
        cache = _epochs_of_batches(partition)
    cache.truncate_from_end(log_end_offset)
    return CopyEpochs(tuple(cache.entries), log_end_offset)


def _epochs_of_batches(partition: Partition) -> LeaderEpochFileCache:
    """The epochs of sound batches, up to the first damage of each segment."""
    cache, pool = LeaderEpochFileCache(), RowPool()
    for segment in partition.segments:
        with LogFile(segment.path) as file:
            for proved in walk_proved(file, 0, pool, end=file.size) if file.size else ():
                for rows, count in proved.rows:
                    _note_epochs(cache, rows, count)
    return cache


def _note_epochs(cache: LeaderEpochFileCache, rows: array[int], count: int) -> None:
    column = FACTS.index("partition_leader_epoch")
    before = cache.latest_epoch
    for number, epoch in enumerate(rows[column : count * len(FACTS) : len(FACTS)]):
        if epoch >= 0 and epoch != before:
            cache.assign_if_later(epoch, facts_at(rows, number).lowest_offset)
            before = epoch


def truncation_by(leader: CopyEpochs, follower: CopyEpochs) -> LeaderChange | None:
    """Return what a follower's copy loses to a leader's copy; None if the follower has no leader epochs: then a broker
    truncates to the high watermark."""
    before, leading = follower.log_end_offset, leader.elected(follower.latest_epoch)
    while follower.latest_epoch != UNDEFINED_EPOCH:
        epoch, end_offset = _end_offset_for(leading, follower.latest_epoch)
        own_epoch, own_end = _end_offset_for(follower, epoch)
        target = min(end_offset, follower.log_end_offset)
        is_last = own_end == UNDEFINED_EPOCH_OFFSET or own_epoch == epoch
        if own_end != UNDEFINED_EPOCH_OFFSET:
            target = min(own_end, follower.log_end_offset, *((end_offset,) if is_last else ()))
        follower = follower.truncated(target)
        if is_last:
            return LeaderChange(target, before - target)
    end_offset = follower.log_end_offset
    return None if before == end_offset else LeaderChange(end_offset, before - end_offset)


def _end_offset_for(history: CopyEpochs, epoch: int) -> tuple[int, int]:
    return LeaderEpochFileCache(history.epochs).end_offset_for(epoch, history.log_end_offset)


def better_leader(a: CopyEpochs, b: CopyEpochs) -> str | None:
    """Return which copy is more up to date, "a" or "b": by the latest epoch first, then by the log end offset.

    None: both are the same.
    """
    keys = [(one.latest_epoch, one.log_end_offset) for one in (a, b)]
    return None if keys[0] == keys[1] else "a" if keys[0] > keys[1] else "b"
