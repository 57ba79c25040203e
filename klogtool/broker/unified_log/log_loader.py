"""How a broker loads a partition dir, and what it leaves when it stops: LogLoader, UnifiedLog, over a draft.

The passes are Kafka's, in its order: leftovers of an interrupted cleaning or split, segments and their side files,
recovery, leader epochs, producer state. All changes are made to the draft.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec import field

from klogtool.broker.circumstances import LoadTerms
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.left_overs import LeftOvers, base_of, settle_left_overs
from klogtool.broker.unified_log.log_segment import LogSegment, LogSegmentOffsetOverflow
from klogtool.broker.unified_log.log_segments import LogSegments
from klogtool.broker.unified_log.overflow_split import split_overflowed_segment
from klogtool.broker.unified_log.producer_snapshots import SnapshotNames, SnapshottedProducers
from klogtool.broker.unified_log.replayed_batches import rebuild_producer_state
from klogtool.broker.unified_log.segment_recovery import Recovered, SegmentRecovery
from klogtool.errors import AtPath, Corrupt, KlogError, Refused
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.identity import parse_partition_metadata
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import INDEX_KINDS, FileKind, build_file_name
from klogtool.log.folder import own_name
from klogtool.log.leader_epochs import LeaderEpochFileCache

_Result = TypeVar("_Result")


_TEMPORARY = ".tmp"
# These errors empty a segment in recovery; all others fail the load. Kafka has I/O errors also for a folder in place of
# a file. Real I/O errors are reported as such, and nothing is done about them.
_EMPTIES = ("InvalidOffsetException",)
_IO_ERRORS = ("IOException", "FileSystemException", "FileNotFoundException", "NoSuchFileException")
_IO_EXCEPTION = "KafkaStorageException"  # LogManager turns an IOException at such files into this one


class LoadReport(LeftOvers):
    """What loading did. recovered, deleted_segments: base offsets, in order. below_start: those deleted because the log
    ends below its start. was_split: a segment was split.

    epochs_added: the file did not have all epochs. epochs_appended: appended batches have changed the epochs. unfit:
    base offsets of segments that were recovered after any stop, because of their transaction index. stopped_by: base
    offset -> the error at which its log was cut. emptied: the same of segments that were given up. After loading:
    cleaned: base offsets of segments that the log cleaner made. dropped: oldest segments that retention deletes.
    cut_off: segments that a truncation removes. began_anew: base offset of the empty segment that replaces all others,
    if a truncation removed them all. overlapped: base offset of the segment that contained its offset. needing_order:
    segments in which `index.interval.bytes` decides whether their recovery fails. has_odd_txn_version: releases load
    the log in different ways.
    """

    recovered: list[int] = field(default_factory=list)
    deleted_segments: list[int] = field(default_factory=list)
    below_start: list[int] = field(default_factory=list)
    was_split: bool = False
    epochs_added: bool = False
    epochs_appended: bool = False
    unfit: set[int] = field(default_factory=set)
    stopped_by: dict[int, KlogError] = field(default_factory=dict)
    emptied: dict[int, KlogError] = field(default_factory=dict)
    needing_order: set[int] = field(default_factory=set)
    dropped: list[int] = field(default_factory=list)
    cleaned: set[int] = field(default_factory=set)
    cut_off: list[int] = field(default_factory=list)
    began_anew: int | None = None
    overlapped: int | None = None
    has_odd_txn_version: bool = False


class LogParts:
    """What the recovery of a segment needs to know of a log. epochs: as in leader-epoch-checkpoint."""

    def __init__(self, draft: Draft, terms: LoadTerms, jobs: int = 1) -> None:
        """jobs: threads for each segment. Raises Corrupt if the leader epochs cannot be read."""
        self.draft, self.terms, self.report, self.jobs = draft, terms, LoadReport(), jobs
        self.segments = LogSegments()
        self.epochs = open_leader_epochs(draft)
        # Loading drops epochs after the log's end; that they existed shows how far the log reached.
        self.last_epoch_start = max((entry.start_offset for entry in self.epochs.entries), default=0)
        self.first_epoch_start = min((entry.start_offset for entry in self.epochs.entries), default=0)
        self.recovered: dict[int, Recovered] = {}  # by base offset
        self.snapshots: SnapshotNames | None = (
            None  # listed once for recovering segments; None if others have changed them
        )


class LoadedLog(LogParts):
    """A log as a broker has it in memory after loading. All changes go to `draft`; `stop` is the last one.

    first_unstable_offset: where the first transaction begins that is open, or ended above the high watermark.
    looked_up_unstable: whether there was one when the log was loaded, with the high watermark at the log start.
    local_log_start_offset: where this disk begins to have the log; the log starts below it if older segments are in
    remote storage only. tiered_log_start_offset: the log start if the topic is tiered, which may not be known.
    """

    first_unstable_offset: int | None = None

    def __init__(self, draft: Draft, terms: LoadTerms, jobs: int = 1) -> None:
        """Load it. Raises Corrupt, Refused or Unsupported, with Kafka's class, if a broker refuses to."""
        super().__init__(draft, terms, jobs)
        self.producers = SnapshottedProducers(draft, terms.config, terms.loaded_at_ms)
        loader = _Loader(self)
        self.log_end_offset, self.recovery_point = loader.load()
        self.log_start_offset = loader.log_start_offset
        self.local_log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)
        self.tiered_log_start_offset = terms.log_start_offset
        self.high_watermark = self.local_log_start_offset
        self.recovery_point = max(self.recovery_point, self.local_log_start_offset)
        self._flushes: list[int] = []
        self._placed_txns: set[int] = set()  # by first offset
        self._find_first_unstable_offset()
        self.looked_up_unstable = self.first_unstable_offset is not None
        name = FileKind.PARTITION_METADATA.value
        if name not in self.draft.links:  # PartitionMetadataFile.exists; it is renamed over the link
            self.draft.check_opens(name, _IO_EXCEPTION)
        if name in self.draft:
            _parsed(self.draft, name, parse_partition_metadata)
        write_leader_epochs(draft, self.epochs)
        self.update_high_watermark(self.log_end_offset if terms.high_watermark is None else terms.high_watermark)
        self.producers.now_ms = terms.now_ms

    @property
    def log_start_checkpoint(self) -> int | None:
        """The value for log-start-offset-checkpoint, or None if it needs no line (checkpointLogStartOffsetsInDir).

        A line that a tiered topic may need stays: without it, such a log starts at offset 0. Other topics do not mind a
        line below their first segment.
        """
        if self.terms.is_tiered or self.log_start_offset > self.segments.first.base_offset:
            return self.log_start_offset
        return self.tiered_log_start_offset if self.terms.keeps_start_line else None

    def update_high_watermark(self, high_watermark: int) -> None:
        """Set the high watermark, limited to the range from log start to log end; transactions that ended below it are
        settled (updateHighWatermark)."""
        self._set_high_watermark(min(max(high_watermark, self.log_start_offset), self.log_end_offset))

    def keep_high_watermark_in_log(self) -> None:
        """Lower the high watermark to the log end, or find its place again, after the end moved
        (updateHighWatermarkWithLogEndOffset)."""
        if self.high_watermark >= self.log_end_offset:
            self._set_high_watermark(self.log_end_offset)

    def move_log_end(self, offset: int) -> None:
        """Move the log end; the recovery point is lowered to it (LocalLog.updateLogEndOffset)."""
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)

    def flush(self, offset: int, *, including: bool = False) -> None:
        """Flush segments up to an offset, for which a broker opens their indexes; then move the recovery point
        (UnifiedLog.flush)."""
        behind = offset + 1 if including else offset
        if behind > self.recovery_point:
            for segment in self.segments.values(self.recovery_point, behind):
                _ = segment.offset_index, segment.time_index
            self.recovery_point = max(self.recovery_point, offset)

    def flush_later(self, offset: int) -> None:
        """Schedule a flush, which a broker does after the operation (`run_scheduled`)."""
        self._flushes.append(offset)

    def run_scheduled(self) -> None:
        """Do what the scheduler does between two operations: the flushes that are due."""
        flushes, self._flushes = self._flushes, []
        for offset in flushes:
            self.flush(offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset; return whether it changed (maybeIncrementLogStartOffset).

        Raises Refused (OffsetOutOfRangeException) for an offset above the high watermark.
        """
        if offset > self.high_watermark:
            raise Refused(
                f"Cannot increment the log start offset to {offset} of partition {own_name(self.draft.path)} since it "
                f"is larger than the high watermark {self.high_watermark}",
                kafka_class="OffsetOutOfRangeException",
            )
        self.local_log_start_offset = max(self.local_log_start_offset, offset)
        self.tiered_log_start_offset = max(self.tiered_log_start_offset, offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.epochs.truncate_from_start(offset)
        self.producers.on_log_start_offset_incremented(offset)
        self._find_first_unstable_offset()
        return True

    def raise_start_of_kept(self, offset: int) -> None:
        """Raise the log start offset because segments below were deleted; a tiered log still has them in remote
        storage. Without remote storage the epochs of all older ones go, and so they go from there at its return."""
        tiered_start = self.tiered_log_start_offset
        self.maybe_increment_log_start_offset(offset)
        if not self.terms.is_remote_off:
            self.tiered_log_start_offset = tiered_start

    def stop(self) -> None:
        """Make what a clean stop leaves: flushing opens side files, the producer state gets its snapshot, indexes are
        cut."""
        self.run_scheduled()
        self.flush(self.log_end_offset, including=True)
        self.producers.take_snapshot()
        for segment in self.segments.all:
            if self.terms.rules.trims_every_index or segment is self.segments.last:
                segment.close()
            else:
                segment.write_back()
        write_leader_epochs(self.draft, self.epochs)

    def _set_high_watermark(self, offset: int) -> None:
        if offset < 0:
            raise Refused("High watermark offset should be non-negative", kafka_class="IllegalArgumentException")
        self.high_watermark = offset
        self.producers.on_high_watermark_updated(offset)
        self._find_first_unstable_offset()

    def note_appended(self, end_offset: int, begun: Iterable[int]) -> None:
        """Note that batches were appended up to an offset. begun: first offsets of transactions that begin in them;
        their place is known and needs no lookup."""
        self.move_log_end(end_offset)
        self.keep_high_watermark_in_log()
        self.producers.map_end_offset = end_offset
        self._placed_txns.update(begun)
        self._find_first_unstable_offset()

    def _find_first_unstable_offset(self) -> None:
        """Find the first unstable offset. Kafka looks it up, which opens the index of its segment, and fails if the
        search meets damage. It uses the base offset of the batch that it finds (before 4.0 the offset as it is), or the
        log's end if there is none."""
        self.first_unstable_offset = self.producers.first_unstable_offset
        if self.first_unstable_offset is None:
            return
        offset = max(self.first_unstable_offset, self.log_start_offset)
        if offset == self.first_unstable_offset and offset in self._placed_txns:
            return
        segment, batch = self.segments.floor(offset) if offset < self.log_end_offset else None, None
        while segment is not None and (batch := segment.translate_offset(offset)) is None:
            segment = self.segments.higher(segment.base_offset)
        first = offset if batch is None or not self.terms.rules.moves_watermark_to_batch else batch.base_offset
        self.first_unstable_offset = self.log_end_offset if batch is None else first


def open_leader_epochs(draft: Draft) -> LeaderEpochFileCache:
    """Return the epochs of leader-epoch-checkpoint; a missing file is created empty. Raises Corrupt, also for a link
    that leads to no file."""
    name = FileKind.LEADER_EPOCH_CHECKPOINT.value
    draft.check_opens(name, _IO_EXCEPTION)
    if name in draft.links:  # CheckpointFile makes its file only where no name is, and reads it then
        raise Corrupt("No such file or directory", path=os.path.join(draft.path, name), kafka_class=_IO_EXCEPTION)
    if name not in draft:
        draft.write(name, b"")
        return LeaderEpochFileCache()
    return _parsed(draft, name, lambda data: LeaderEpochFileCache(parse_leader_epoch_checkpoint(data)))


def write_leader_epochs(draft: Draft, epochs: LeaderEpochFileCache) -> None:
    """Write leader-epoch-checkpoint if the epochs changed; Kafka does it through a `.tmp`, which is gone afterwards."""
    name = FileKind.LEADER_EPOCH_CHECKPOINT.value
    if not epochs.due:
        return
    data = epochs.checkpoint()
    if draft.read(name) != data:
        draft.write(name, data)
    draft.delete(name + _TEMPORARY)
    epochs.due = False


def recover_segment(log: LogParts, segment: LogSegment, *, remembers: bool = False) -> int:
    """Recover one segment with the producer state of the segments below it; return how many bytes of its log were cut.

    remembers: the segment may be recovered again; the second recovery is skipped if nothing has changed. As in Kafka,
    snapshots above the segment are deleted (LogLoader.recoverSegment).
    """
    if log.snapshots is None:
        log.snapshots = SnapshotNames(log.draft)
    producers = SnapshottedProducers(log.draft, log.terms.config, log.terms.loaded_at_ms, log.snapshots)
    log.report.recovered.append(segment.base_offset)
    rebuild_producer_state(producers, log.segments, log.terms.log_start_offset, segment.base_offset, is_clean=False)
    producers.keeps_ended = False
    known = log.recovered.get(segment.base_offset)
    if known is not None and known.would_repeat(segment, log.epochs, producers):
        producers.share(known.producers)
        truncated = 0
    else:
        truncated = _recover(log, segment, producers, remembers=remembers)
    producers.take_snapshot()
    return truncated


def _recover(log: LogParts, segment: LogSegment, producers: SnapshottedProducers, *, remembers: bool) -> int:
    before = producers.state() if remembers else None
    recovery = SegmentRecovery(segment, log.epochs, producers, log.jobs)
    try:
        truncated = recovery.run()
    finally:
        if recovery.needs_order:
            log.report.needing_order.add(segment.base_offset)
    if recovery.stopped_by is not None:
        log.report.stopped_by[segment.base_offset] = recovery.stopped_by
    elif remembers and not truncated:
        log.recovered[segment.base_offset] = Recovered.of(segment, log.epochs, producers, before)
    return truncated


class _Loader:
    """LogLoader: fills the segments, epochs and producers of a log."""

    def __init__(self, log: LoadedLog) -> None:
        self.log, self.draft, self.report, self.segments = log, log.draft, log.report, log.segments
        self.terms, self.config = log.terms, log.terms.config
        self.known_epochs = {entry.epoch for entry in log.epochs.entries}
        self.log_start_offset = self.terms.log_start_offset

    def load(self) -> tuple[int, int]:
        """Return the log end offset and the recovery point.

        A folder with the suffix -delete is loaded like any other. A broker does not look for the end of such a log,
        because it deletes it; whoever asks about one here wants its records.
        """
        settle_left_overs(self.draft, self.config, self.terms.rules, self.report)
        self._retry_on_overflow(self._load_segment_files)
        end_offset, recovery_point = self._retry_on_overflow(self._recover_log)
        self.segments.last.resize_indexes()
        epochs, producers, log_start = self.log.epochs, self.log.producers, self.terms.log_start_offset
        self.report.epochs_added = bool({entry.epoch for entry in epochs.entries} - self.known_epochs)
        epochs.truncate_from_end(end_offset)
        # The file is written some time after the log start is raised: a broker may have been killed in between.
        epochs.truncate_from_start(log_start)
        producers.remove_stray_snapshots(self.segments.base_offsets)
        self.log_start_offset = log_start if self._starts_in_remote_storage() else max(log_start, self._first_base)
        rebuild_producer_state(
            producers, self.segments, self.log_start_offset, end_offset, is_clean=self.terms.is_clean
        )
        return end_offset, recovery_point

    @property
    def _first_base(self) -> int:
        return self.segments.first.base_offset

    def _starts_in_remote_storage(self) -> bool:
        """Return whether the checkpointed log start counts also below the first segment. Where nobody says that the
        topic is tiered, the epochs decide: retention that deletes segments for good removes their epochs first."""
        if self.terms.is_tiered is None:
            return self.terms.has_remote_storage and self.log.first_epoch_start < self._first_base
        return self.terms.is_tiered

    # Segments (loadSegmentFiles).

    def _load_segment_files(self) -> None:
        for segment in self.segments.all:
            segment.close()
        self.segments.clear()
        for name in self.draft.names_found():
            if name.endswith(tuple(kind.value for kind in INDEX_KINDS)):
                if not self._exists(build_file_name(FileKind.LOG, base_of(self.draft, name))):
                    self.draft.delete(name)
            elif name.endswith(FileKind.LOG.value):
                self.segments.add(self._load_segment(base_of(self.draft, name)))

    def _load_segment(self, base_offset: int) -> LogSegment:
        is_time_index_new = not self._exists(build_file_name(FileKind.TIME_INDEX, base_offset))
        segment = LogSegment(self.draft, base_offset, self.config, rules=self.terms.rules)
        try:
            whole_version = self.terms.rules.reads_whole_txn_version
            is_sound = segment.sanity_check(is_time_index_new=is_time_index_new, whole_version=whole_version)
            self.report.has_odd_txn_version |= is_sound and segment.txn_index.has_odd_version
        except Corrupt as error:
            if error.kafka_class != "CorruptIndexException":
                raise
            self.report.unfit.add(base_offset)
            is_sound = False
        if not is_sound:
            # After any stop. Only an overflow is handled here; all other failures fail the load.
            recover_segment(self.log, segment, remembers=not self.terms.is_clean)
        return segment

    def _exists(self, name: str) -> bool:
        """Return whether the name exists in the draft, as a file or as something else."""
        return name in self.draft or name in self.draft.folders or name in self.draft.devices

    # Recovery (recoverLog).

    def _recover_log(self) -> tuple[int, int]:
        """Return the log end offset and the recovery point."""
        if not self.terms.is_clean:
            self._recover_unflushed()
        end_offset = self._end_unless_all_are_below_the_start()
        if not self.segments:
            self.segments.add(LogSegment(self.draft, self.terms.log_start_offset, self.config, rules=self.terms.rules))
        if end_offset is None:
            end_offset = self.segments.last.read_next_offset()
        elif self.terms.is_clean:
            return end_offset, end_offset
        return end_offset, min(self.terms.recovery_point, end_offset)

    def _recover_unflushed(self) -> None:
        """Recover from the segment with the recovery point on; after a segment that was cut, no segment stays."""
        unflushed = self.segments.values(self.terms.recovery_point, MAX_LONG)
        for n, segment in enumerate(unflushed):
            try:
                truncated = recover_segment(self.log, segment)
            except Corrupt as error:
                empties = (*_EMPTIES, *_IO_ERRORS) if self.terms.rules.empties_at_io_error else _EMPTIES
                if error.kafka_class not in empties:
                    raise
                self.report.emptied[segment.base_offset] = error
                truncated = segment.truncate_to(segment.base_offset)
            if truncated > 0:
                segment.read_next_offset()  # for a log message; it may fail
                self._delete(unflushed[n + 1 :])
                self._mark_snapshots_deleted(unflushed[n + 1 :])
                return

    def _end_unless_all_are_below_the_start(self) -> int | None:
        if not self.segments:
            return None
        end_offset = self.segments.last.read_next_offset()
        if end_offset >= self.terms.log_start_offset:
            return end_offset
        # Kafka intends to rename their snapshots, but iterates over a view of the segments that is empty by then.
        self.report.below_start = list(self.segments.base_offsets)
        self._delete(self.segments.all)
        self.log.epochs.clear()
        self.log.producers.truncate_fully_and_start_at(self.terms.log_start_offset)
        return None

    def _delete(self, segments: list[LogSegment]) -> None:
        self.report.deleted_segments += [segment.base_offset for segment in segments]
        self.segments.delete(segments)

    def _mark_snapshots_deleted(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            self.log.producers.mark_snapshot_deleted(segment.base_offset)

    def _retry_on_overflow(self, work: Callable[[], _Result]) -> _Result:
        while True:
            self.log.snapshots = None
            try:
                return work()
            except LogSegmentOffsetOverflow as overflow:
                self.report.was_split = True
                overflow.segment.write_back()
                self._mark_snapshots_deleted(split_overflowed_segment(overflow.segment, self.segments))


def _parsed(draft: Draft, name: str, parse: Callable[[bytes], _Result]) -> _Result:
    with AtPath(os.path.join(draft.path, name)):
        return parse(draft.read(name))
