"""Recovery of one segment: its indexes rebuilt from the log, and the log cut at its first damage (LogSegment.recover).

This follows Kafka batch by batch: where the walk ends silently and where it fails, what goes into the indexes, the
epochs and the producers' state, and which errors it does not notice. Whether a batch is bad, and Kafka's words for it:
`log_segment.ensure_valid`.

This is the reference of kernels/_recover.pxi: change a rule in both places.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.broker.draft import DraftFile
from klogtool.broker.unified_log.kernel_recovery import NO_OFFSET, RegularBatches
from klogtool.broker.unified_log.log_segment import IndexMarks, LogSegment
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import RecordBatch
from klogtool.log.entries import Entry
from klogtool.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochFileCache
from klogtool.log.producer_state import ProducerStateManager

# What ends a walk without failing it.
END_OF_VALID = ("CorruptRecordException", "InvalidRecordException")


class Recovered(Struct, frozen=True):
    """A recovery that found a segment sound: its input and its result.

    A segment whose index is missing is recovered when it is loaded and, after an unclean shutdown, once more
    (LogLoader). If nothing changed in between, the second recovery has the same result as the first.
    """

    log: DraftFile
    before: object
    producers: ProducerStateManager
    latest_epoch: int
    marks: IndexMarks

    @classmethod
    def of(
        cls, segment: LogSegment, epochs: LeaderEpochFileCache, producers: ProducerStateManager, before: object
    ) -> Recovered:
        """A recovery that has just ended. before: the state of the producers when it began."""
        log = segment.draft.files[segment.log_name]
        return cls(log, before, producers, _latest(epochs), segment.index_marks())

    def would_repeat(self, segment: LogSegment, epochs: LeaderEpochFileCache, producers: ProducerStateManager) -> bool:
        """Whether recovering the segment now would change neither the segment nor the epochs."""
        return (
            segment.draft.files.get(segment.log_name) is self.log
            and _latest(epochs) >= self.latest_epoch
            and segment.index_marks() == self.marks
            and producers.state() == self.before
        )


def _latest(epochs: LeaderEpochFileCache) -> int:
    return UNDEFINED_EPOCH if epochs.latest_epoch is None else epochs.latest_epoch


class SegmentRecovery:
    """The state of a running recovery. The recovery also fills parts of the segment anew.

    valid_bytes: how far the log is sound. bytes_since_entry: bytes from the batch of the last index entry to there.
    stopped_by: the error that ended the walk before the file did, or None (also where it ends inside a batch).
    previous_offset: the last offset of the batch before, -1 up to the second one. needs_order: there are batches
    of which an index cannot have entries in this order, so `index.interval.bytes` decides whether this recovery fails.
    """

    def __init__(
        self, segment: LogSegment, epochs: LeaderEpochFileCache, producers: ProducerStateManager, jobs: int
    ) -> None:
        """jobs: threads."""
        self.segment, self.epochs, self.producers, self._jobs = segment, epochs, producers, jobs
        self.valid_bytes = 0
        self.bytes_since_entry = 0
        self.stopped_by: KlogError | None = None
        self.previous_offset, self.needs_order = NO_OFFSET, False

    def run(self) -> int:
        """Run the whole recovery. Return how many bytes were cut from the `.log`.

        Raises LogSegmentOffsetOverflow; Corrupt or Refused where Kafka gives the segment up (InvalidOffsetException)
        or the log (all others). The `.log` is then as it was, the indexes are where the walk left them.
        """
        segment = self.segment
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.txn_index.reset()
        segment.max_timestamp_so_far = None
        self._walk()
        truncated = segment.truncate_log(self.valid_bytes)
        segment.offset_index.trim_to_valid_size()
        # A segment that is closed in an orderly way has its largest timestamp in the index; so has this one.
        segment.append_time_entry(skip_full_check=True)
        segment.time_index.trim_to_valid_size()
        return truncated

    def _walk(self) -> None:
        try:
            with self.segment.open_log() as file:
                RegularBatches(self).walk(file, self._jobs)
        except Corrupt as error:
            error.at_path(self.segment.path)
            if error.kafka_class not in END_OF_VALID:
                raise
            self.stopped_by = error

    def take(self, entry: Entry) -> None:
        """Take one more batch, whose checksum matches."""
        segment = self.segment
        segment.ensure_offset_in_range(entry.last_offset)
        self._note_order(entry)
        self.bytes_since_entry = segment.index_batch(entry, self.valid_bytes, self.bytes_since_entry)
        self.valid_bytes += entry.size
        if isinstance(entry, RecordBatch):
            self.epochs.assign_if_later(entry.partition_leader_epoch, entry.base_offset)
            aborted = self.producers.apply(entry)
            if aborted is not None:
                segment.txn_index.append(aborted)

    def _note_order(self, entry: Entry) -> None:
        """Note whether entries of this batch and of those before could not stand in one index (InvalidOffsetException).

        The smallest interval makes an entry for each batch but the first: if that goes well, so does every other one.
        """
        latest = self.segment.read_max_timestamp_so_far()
        if self.previous_offset != NO_OFFSET:
            is_late = entry.max_timestamp > latest.timestamp and entry.last_offset < latest.offset
            self.needs_order |= is_late or entry.last_offset <= self.previous_offset
        if self.valid_bytes:
            self.previous_offset = entry.last_offset
