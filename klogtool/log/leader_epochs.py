"""The leader epochs of a partition: which epoch began at which offset (LeaderEpochFileCache). Opens no file.

`due` says whether a broker would write leader-epoch-checkpoint again. It does so for every change, even one that leaves
the entries as they were, and it writes its own text, not the one that it read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from klogtool.format.checkpoints import EpochEntry, assign_leader_epochs, build_leader_epoch_checkpoint

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochFileCache:
    """Epochs and their start offsets, both ascending. due: the file has to be written."""

    def __init__(self, lines: Iterable[EpochEntry] = ()) -> None:
        """lines: of the file, unchanged. Raises Corrupt (IllegalArgumentException) if a number is negative."""
        self.entries: list[EpochEntry] = assign_leader_epochs(lines)
        self.due = False

    @property
    def latest_epoch(self) -> int | None:
        """The highest epoch, or None."""
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that the epoch began at this offset; remove entries that contradict it. Nothing changes if the latest
        epoch covers it.

        Raises Corrupt (IllegalArgumentException) for a negative number.
        """
        if assign_leader_epochs([*self.entries[-1:], EpochEntry(epoch, start_offset)]) == self.entries[-1:]:
            return
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))
        self.due = True

    def assign_if_later(self, epoch: int, start_offset: int) -> None:
        """Record a batch's epoch if it is higher than all before, as recovery and loading do (LogSegment.recover).

        Raises Corrupt (IllegalArgumentException) if it begins at a negative offset.
        """
        latest = self.latest_epoch
        if epoch >= 0 and (latest is None or epoch > latest):
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after this offset (truncateFromEndAsyncFlush)."""
        if end_offset < 0:
            return
        kept = len(self.entries)
        while kept and self.entries[kept - 1].start_offset >= end_offset:
            kept -= 1
        self.due = self.due or kept < len(self.entries)
        del self.entries[kept:]

    def truncate_from_start(self, start_offset: int) -> None:
        """Let the epoch that contains this offset begin there, and remove earlier ones
        (truncateFromStartAsyncFlush)."""
        gone = 0
        while gone < len(self.entries) and self.entries[gone].start_offset <= start_offset:
            gone += 1
        if gone:
            self.entries[:gone] = [EpochEntry(self.entries[gone - 1].epoch, start_offset)]
            self.due = True

    def clear(self) -> None:
        """Remove all epochs and write the file (clearAndFlush)."""
        self.entries = []
        self.due = True

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch of an offset, as far as the cache knows (epochForOffset)."""
        n = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[n - 1].epoch if n else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch found, end offset): the largest epoch up to the requested one, and where the next one begins.

        Both are undefined (-1) for an unknown epoch above all. For one below all, the end is the start of the first
        epoch (endOffsetFor).
        """
        if requested_epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if requested_epoch == self.latest_epoch:
            return requested_epoch, log_end_offset
        n = bisect_right(self.entries, requested_epoch, key=lambda entry: entry.epoch)
        if n == len(self.entries):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        return (self.entries[n - 1].epoch if n else requested_epoch), self.entries[n].start_offset

    def checkpoint(self) -> bytes:
        """Return the file as a broker writes it."""
        return build_leader_epoch_checkpoint(self.entries)
