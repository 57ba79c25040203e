"""Checks all batches of a log without making objects of them: whether they are sound, where they end, and whether their
leader epochs agree with a checkpoint.

Where the kernel (kernels/_recover.pxi) stops, the batches are checked one by one.
"""

from __future__ import annotations

from itertools import islice

from klogtool import kernels
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import walk_entries, walk_valid
from klogtool.broker.unified_log.mapped_pieces import MappedPiece, walk_pieces
from klogtool.format.framing import Frame, find_frame
from klogtool.format.java_numbers import wrap_long
from klogtool.log.entries import Entry, read_entry
from klogtool.log.leader_epochs import LeaderEpochFileCache


def find_sound_end(file: ContentFile, jobs: int) -> tuple[int | None, int]:
    """(The offset behind the last batch or None, the position behind it) of a log whose batches are all sound.

    A tail, less than a batch, is not looked at. Raises Corrupt at a batch that is damaged.
    """
    reader = _SoundBatches(file)
    walk_pieces(file, reader, jobs=jobs, are_checked=jobs > 1)
    return reader.next_offset, reader.position


class _SoundBatches:
    """A pieces.Reader; next_offset, position: behind the last batch."""

    def __init__(self, file: ContentFile) -> None:
        self._path = file.path
        self.next_offset: int | None = None
        self.position = 0

    def note(self, entry: Entry) -> None:
        """The last one so far."""
        self.next_offset, self.position = wrap_long(entry.last_offset + 1), entry.position + entry.size

    def take(self, piece: MappedPiece) -> int:
        """Batches that match their checksums, which may have been seen ahead."""
        if piece.reached < piece.checked:
            self._note_last(piece)
        why = piece.check()
        self._note_last(piece)
        return why

    def _note_last(self, piece: MappedPiece) -> None:
        piece.reached = piece.checked
        frame = find_frame(piece.data, max(0, piece.last_checked - piece.base), len(piece.data))
        if piece.last_checked >= 0 and isinstance(frame, Frame):
            self.note(read_entry(piece, frame, self._path))

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        """The same one by one."""
        count = size = 0
        for entry in islice(walk_valid(file, position), most):
            count, size = count + 1, size + entry.size
            self.note(entry)
        return count, size


def has_epochs_of(file: ContentFile, known: LeaderEpochFileCache, log_start_offset: int) -> bool:
    """Whether every batch that ends at or above the log start has the leader epoch that is known for its last offset.

    Batches without an epoch count for nothing, nor do checksums. Raises Corrupt where the log cannot be walked.
    """
    reader = _Epochs(known, log_start_offset)
    walk_pieces(file, reader)
    return reader.agrees


class _Epochs:
    """A pieces.Reader."""

    def __init__(self, known: LeaderEpochFileCache, log_start_offset: int) -> None:
        self._known, self._log_start_offset = known, log_start_offset
        self.agrees = True

    def take(self, piece: MappedPiece) -> int:
        """Runs of batches of the same epoch. An epoch's offsets lie together: the smallest and the largest tell."""
        to, why, runs = kernels.native.epoch_runs(
            piece.data, piece.reached - piece.base, piece.stop - piece.base, self._log_start_offset
        )
        piece.reached = piece.base + to
        for epoch, smallest, largest in runs:
            self._compare(epoch, smallest)
            self._compare(epoch, largest)
        return why

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        """One by one."""
        count = size = 0
        for entry in islice(walk_entries(file, position), most):
            count, size = count + 1, size + entry.size
            if entry.partition_leader_epoch >= 0 and entry.last_offset >= self._log_start_offset:
                self._compare(entry.partition_leader_epoch, entry.last_offset)
        return count, size

    def _compare(self, epoch: int, last_offset: int) -> None:
        self.agrees = self.agrees and self._known.epoch_for_offset(last_offset) == epoch
