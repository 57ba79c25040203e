"""Checks all batches of a log without making objects of them: whether they are sound, where they end, and whether their
leader epochs agree with a checkpoint.

Where the kernel (kernels/_recover.pxi) stops, the batches are checked one by one.
"""

from __future__ import annotations

from itertools import islice

from klogtool import kernels
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import walk_entries, walk_valid
from klogtool.broker.unified_log.mapped_windows import MappedWindow, walk_mapped
from klogtool.format.framing import Frame, find_frame
from klogtool.format.java_numbers import wrap_long
from klogtool.log.entries import Entry, read_entry
from klogtool.log.leader_epochs import LeaderEpochFileCache


def find_sound_end(file: ContentFile, jobs: int) -> tuple[int | None, int]:
    """Return the offset after the last batch (None without batches), and the position after it.

    Bytes at the end that are less than a batch are ignored. Raises Corrupt at a damaged batch.
    """
    reader = _SoundBatches(file)
    walk_mapped(file, reader, jobs=jobs, are_checked=jobs > 1)
    return reader.next_offset, reader.position


class _SoundBatches:
    """Checks batches (a mapped_windows.Reader). next_offset, position: after the last batch."""

    def __init__(self, file: ContentFile) -> None:
        self._path = file.path
        self.next_offset: int | None = None
        self.position = 0

    def note(self, entry: Entry) -> None:
        self.next_offset, self.position = wrap_long(entry.last_offset + 1), entry.position + entry.size

    def take(self, window: MappedWindow) -> int:
        """Take batches whose checksums match. They may have been checked in advance."""
        if window.reached < window.checked:
            self._note_last(window)
        why = window.check()
        self._note_last(window)
        return why

    def _note_last(self, window: MappedWindow) -> None:
        window.reached = window.checked
        frame = find_frame(window.data, max(0, window.last_checked - window.base), len(window.data))
        if window.last_checked >= 0 and isinstance(frame, Frame):
            self.note(read_entry(window, frame, self._path))

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        count = size = 0
        for entry in islice(walk_valid(file, position), most):
            count, size = count + 1, size + entry.size
            self.note(entry)
        return count, size


def has_epochs_of(file: ContentFile, known: LeaderEpochFileCache, log_start_offset: int) -> bool:
    """Whether every batch that ends at or above the log start has the leader epoch that is known for its last offset.

    Batches without an epoch are ignored, and checksums are not checked. Raises Corrupt if the log cannot be walked.
    """
    reader = _Epochs(known, log_start_offset)
    walk_mapped(file, reader)
    return reader.agrees


class _Epochs:
    """Compares leader epochs (a mapped_windows.Reader)."""

    def __init__(self, known: LeaderEpochFileCache, log_start_offset: int) -> None:
        self._known, self._log_start_offset = known, log_start_offset
        self.agrees = True

    def take(self, window: MappedWindow) -> int:
        """Take runs of batches of one epoch. The smallest and the largest offset of a run are compared."""
        to, why, runs = kernels.native.epoch_runs(
            window.data, window.reached - window.base, window.stop - window.base, self._log_start_offset
        )
        window.reached = window.base + to
        for epoch, smallest, largest in runs:
            self._compare(epoch, smallest)
            self._compare(epoch, largest)
        return why

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        count = size = 0
        for entry in islice(walk_entries(file, position), most):
            count, size = count + 1, size + entry.size
            if entry.partition_leader_epoch >= 0 and entry.last_offset >= self._log_start_offset:
                self._compare(entry.partition_leader_epoch, entry.last_offset)
        return count, size

    def _compare(self, epoch: int, last_offset: int) -> None:
        self.agrees = self.agrees and self._known.epoch_for_offset(last_offset) == epoch
