"""Which leaders wrote a log, and where two logs part. Pure: opens no file, knows no brokers.

A leader epoch has one leader, so two copies have the same batches as far as their epochs are the same at the same
offsets. The rules of a follower that cuts its log to its leader's are AbstractFetcherThread's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from klogtool.fleet.collected import CopyFacts, Epoch
from klogtool.format.checkpoints import EpochEntry
from klogtool.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, LeaderEpochFileCache

NO_EPOCH = -1  # of old formats, and of an empty log


class History(Struct, frozen=True):
    """The offsets [start, end) of a log and who wrote them. epochs: ascending; none begins at or after `end`."""

    start: int
    end: int
    epochs: tuple[Epoch, ...] = ()

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of an offset; NO_EPOCH if none is known."""
        n = bisect_right(self.epochs, offset, key=lambda epoch: epoch.start_offset)
        return self.epochs[n - 1].epoch if n else NO_EPOCH

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; NO_EPOCH if there is none."""
        return self.epoch_at(self.end - 1) if self.end > self.start else NO_EPOCH


def history_of(copy: CopyFacts) -> History:
    """Return the history of a copy: by leader-epoch-checkpoint, which compaction does not thin out, if the batches do
    not contradict it; else by the batches."""
    kept = tuple(epoch for epoch in _epochs_of(copy) if epoch.start_offset < copy.log_end_offset)
    return History(copy.log_start_offset, copy.log_end_offset, kept)


def remembered_history(copy: CopyFacts) -> History:
    """Return a copy's history with what it only remembers: a checkpoint that was written before the log lost its end
    says which leaders wrote what is gone."""
    epochs = _epochs_of(copy)
    return History(copy.log_start_offset, max([copy.log_end_offset, *(e.start_offset for e in epochs[-1:])]), epochs)


def _epochs_of(copy: CopyFacts) -> tuple[Epoch, ...]:
    checkpoint = copy.checkpoint_epochs
    if checkpoint is None or checkpoint is copy.epochs:
        return copy.epochs
    return copy.epochs if _contradicts(checkpoint, copy.epochs) else checkpoint


def latest_epoch_of(copy: CopyFacts) -> int:
    """Return the highest leader epoch that the copy took part in. In the last one perhaps nothing was written."""
    return max([NO_EPOCH, *(epoch.epoch for epoch in _epochs_of(copy)[-1:])])


def extends(other: CopyFacts, base: CopyFacts) -> bool:
    """Return whether another copy has all that a copy has, and goes on as far as that one remembers."""
    theirs, ours = history_of(other), remembered_history(base)
    reaches = theirs.end >= base.log_end_offset and theirs.start <= max(base.log_end_offset, base.log_start_offset)
    return reaches and parting_offset(theirs, ours) == min(theirs.end, ours.end)


def last_epoch_of(copy: CopyFacts) -> int:
    """Return the leader epoch of the last batch. A checkpoint may have a later epoch, in which nothing was written."""
    return copy.epochs[-1].epoch if copy.epochs else NO_EPOCH


def parting_offset(one: History, other: History) -> int:
    """Return the first offset at which two logs are not the same: another leader wrote it, or one of them ends.

    Offsets below the start of one of them are not compared.
    """
    low, end = max(one.start, other.start), min(one.end, other.end)
    if one.epochs == other.epochs:
        return end
    edges = {epoch.start_offset for history in (one, other) for epoch in history.epochs}
    for offset in sorted({low} | {edge for edge in edges if low < edge < end}):
        if offset < end and one.epoch_at(offset) != other.epoch_at(offset):
            return offset
    return end


def brokers_cut(follower: CopyFacts, leader: CopyFacts, *, is_clean: bool) -> int:
    """Return the offset to which a broker cuts the follower's log when it follows a leader with the leader's log.

    is_clean: the follower's broker stopped cleanly, so its next start does not look at its batches.
    """
    if _is_of_same_leaders(follower, leader):
        return min(follower.log_end_offset, leader.log_end_offset)
    cache = _cache_after_start(follower, is_clean=is_clean)
    leads = _cache_after_start(leader, is_clean=False)
    lead_epoch = max([NO_EPOCH, *(e.epoch for e in leads.entries), *(e.epoch for e in cache.entries)]) + 1
    leads.assign(lead_epoch, leader.log_end_offset)
    end = follower.log_end_offset
    while cache.latest_epoch is not None:
        epoch, end_offset = leads.end_offset_for(cache.latest_epoch, leader.log_end_offset)
        if end_offset == UNDEFINED_EPOCH_OFFSET or epoch == UNDEFINED_EPOCH:
            break
        if epoch == cache.latest_epoch and end_offset >= end:
            return end
        result, own_end = cache.end_offset_for(epoch, end)
        is_known = own_end != UNDEFINED_EPOCH_OFFSET
        cut = min(own_end if is_known else end_offset, end)
        if not is_known or result == epoch:
            return min(cut, end_offset)
        end = cut
        cache.truncate_from_end(end)
    return min(end, max(follower.high_watermark or 0, follower.log_start_offset))


def _is_of_same_leaders(one: CopyFacts, other: CopyFacts) -> bool:
    """Return whether the same leaders wrote both logs, by batches and checkpoints, up to the last epoch: then one is
    the beginning of the other."""
    epochs, end = one.epochs, min(one.log_end_offset, other.log_end_offset)
    is_same = epochs == other.epochs == one.checkpoint_epochs == other.checkpoint_epochs
    return is_same and bool(epochs) and epochs[-1].start_offset < end


def _cache_after_start(copy: CopyFacts, *, is_clean: bool) -> LeaderEpochFileCache:
    """Return the leader epochs that a broker has after its start: recovery adds those of batches."""
    entries = [EpochEntry(epoch.epoch, epoch.start_offset) for epoch in copy.checkpoint_epochs or ()]
    cache = LeaderEpochFileCache(entries)
    if not is_clean:
        for epoch in copy.epochs:
            cache.assign_if_later(epoch.epoch, epoch.start_offset)
    cache.truncate_from_end(copy.log_end_offset)
    return cache


def _contradicts(checkpoint: Sequence[Epoch], batches: Sequence[Epoch]) -> bool:
    """Return whether the checkpoint has another epoch where the batches of an epoch begin."""
    history = History(0, 1 << 63, tuple(checkpoint))
    return any(history.epoch_at(epoch.start_offset) != epoch.epoch for epoch in batches)
