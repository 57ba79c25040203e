"""The root checkpoints of a log dir and its clean shutdown marker, against the logs.

How a broker reacts to each state was observed on real brokers, or read in LogManager and CheckpointFile.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints
from klogtool.causes import Cause, Reason, from_text
from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.names import METADATA_TOPIC, OFFSET_CHECKPOINTS, FileKind, TopicPartition
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.folder import is_broken_link, is_loop, is_socket
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.second_reading import has_changed
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.causes import CheckpointCause, CureRemark, FindingCause
from klogtool.verify.cures import drop_line, edit, move_out, number_of_lines, parent_of, remove, set_line
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.stops import Stop, StopOutcome, offline, stop_of

MOST_ENTRIES_TOLD = 20


class PartitionEnds(Struct, frozen=True):
    """What the check of a partition dir reported of its log; None if it did not get there.

    base_offset: of the first segment. log_end_offset: after the last sound batch. damaged_tail: the last segment, and
    the byte from which on it is damaged. put_back: what to do before a start deletes the only copy of records.
    """

    partition: Partition
    base_offset: int | None = None
    log_end_offset: int | None = None
    last_segment: str | None = None
    damaged_tail: int | None = None
    put_back: Reason | None = None


def unreadable_file(path: str, error: Unreadable) -> Finding:
    """Return the finding of a file that cannot be opened. If a folder, a socket or a link to nothing has its name, a
    broker cannot open it either (CheckpointFile makes its file only where no name is); a file that we may not read may
    be open to a broker."""
    stop = None
    if os.path.isdir(path):
        stop = offline("IOException", "Is a directory")
    elif is_socket(path):
        stop = offline("IOException", f"{path}: No such device or address")
    elif is_loop(path):
        stop = offline("FileSystemException", f"{path}: Too many levels of symbolic links")
    elif is_broken_link(path):
        stop = offline("NoSuchFileException", path)
    cure = None if stop is None else move_out(path, parent_of(path))
    return Finding(Kind.UNREADABLE, path, from_text(error.reason), cured_by=cure, stop=stop)


class Stated(Struct, frozen=True):
    """What the root files of a log dir say of its logs. offsets: by checkpoint, for those that can be read."""

    path: str
    offsets: Mapping[FileKind, Mapping[TopicPartition, int]]
    is_clean: bool

    def of(self, wanted: Collection[TopicPartition | None]) -> Stated:
        """Return what they say of these partitions."""
        offsets = {
            kind: {name: offset for name, offset in by_name.items() if name in wanted}
            for kind, by_name in self.offsets.items()
        }
        return Stated(self.path, offsets, self.is_clean)


def verify_against_logs(
    log_dir: LogDir, ends: Sequence[PartitionEnds], *, only: FileKind | None = None
) -> Iterator[Finding]:
    """Yield findings of the root checkpoints and of the clean marker.

    ends: of the partition dirs in this log dir, without offsets for those that were left out. only: one checkpoint.
    """
    stated, unreadable = read_stated(log_dir, OFFSET_CHECKPOINTS if only is None else (only,))
    yield from unreadable
    yield from verify_stated(stated, ends, with_marker=only is None)


def read_stated(log_dir: LogDir, kinds: Sequence[FileKind] = OFFSET_CHECKPOINTS) -> tuple[Stated, list[Finding]]:
    """Return the contents of the root files, and findings of checkpoints that cannot be read."""
    read: dict[FileKind, dict[TopicPartition, int]] = {}
    findings: list[Finding] = []
    for kind in kinds:
        path = os.path.join(log_dir.path, kind.value)
        if os.path.lexists(path):
            findings += _read_checkpoint(path, kind, read)
    return Stated(log_dir.path, read, Checkpoints(log_dir.path).has_clean_marker), findings


def verify_stated(stated: Stated, ends: Sequence[PartitionEnds], *, with_marker: bool = True) -> Iterator[Finding]:
    """Yield findings of entries that do not fit the logs. with_marker: also of the clean marker."""
    starts = stated.offsets.get(FileKind.LOG_START_CHECKPOINT, {})
    for kind, offsets in stated.offsets.items():
        path = os.path.join(stated.path, kind.value)
        false = list(_false_entries(kind, offsets, ends, starts if stated.is_clean else None))
        cure = _put_back_first(false, ends) or _cure_of_entries(path, kind, offsets, false)
        for entry in false[:MOST_ENTRIES_TOLD]:
            first_offset = None if entry.is_nowhere else entry.offset
            of = str(entry.topic_partition)
            yield Finding(
                Kind.CHECKPOINT_ENTRY,
                path,
                entry.reason,
                first_offset=first_offset,
                entry=of,
                cured_by=cure,
                loses=entry.wrong.cause is CheckpointCause.LOG_START_BEYOND and _has_records(entry, ends),
            )
        if len(false) > MOST_ENTRIES_TOLD:
            more = FindingCause.MORE(count=len(false) - MOST_ENTRIES_TOLD)
            yield Finding(Kind.CHECKPOINT_ENTRY, path, more, cured_by=cure)
    if stated.is_clean and with_marker:
        yield from _false_markers(stated, ends)


_COSTS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: CureRemark.RECOVERS_ALL(),
    FileKind.REPLICATION_CHECKPOINT: CureRemark.FREE_IN_SYNC(),
    FileKind.LOG_START_CHECKPOINT: CureRemark.READABLE_AGAIN(),
    FileKind.CLEANER_CHECKPOINT: CureRemark.LONG_CLEANING(),
}
_WITHOUT_NUMBERS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: CheckpointCause.RECOVERY_POINT_LOST,
    FileKind.REPLICATION_CHECKPOINT: CheckpointCause.REPLICATION_LOST,
    FileKind.LOG_START_CHECKPOINT: CheckpointCause.LOG_START_LOST,
    FileKind.CLEANER_CHECKPOINT: CheckpointCause.CLEANER_LOST,
}


def _read_checkpoint(path: str, kind: FileKind, read: dict[FileKind, dict[TopicPartition, int]]) -> Iterator[Finding]:
    try:
        read[kind] = parse_offset_checkpoint(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        if not has_changed(error):  # else it went away: a broker writes it anew
            yield unreadable_file(path, error)
    except KlogError as error:
        stop: Stop | None = stop_of(error)
        cause: Cause = FindingCause.OFFLINE
        if stop is not None and stop.outcome is StopOutcome.REFUSES:  # a broker catches it in this place
            is_unserved = kind is FileKind.REPLICATION_CHECKPOINT
            stop = Stop(StopOutcome.UNSERVED, stop.kafka_class, stop.message) if is_unserved else None
            cause = _WITHOUT_NUMBERS[kind]
        cure = remove(path, _COSTS[kind])
        yield Finding(Kind.CHECKPOINT_CORRUPT, path, cause(wrong=error.reason), cured_by=cure, stop=stop)


class _FalseEntry(Struct, frozen=True):
    """A line of a checkpoint. right: the offset that it should have; None if there is no such partition."""

    topic_partition: TopicPartition
    offset: int
    wrong: Reason
    right: int | None

    @property
    def is_nowhere(self) -> bool:
        return self.right is None

    @property
    def reason(self) -> Reason:
        return CheckpointCause.ENTRY(partition=str(self.topic_partition), offset=self.offset, wrong=self.wrong)


def _false_entries(
    kind: FileKind,
    offsets: Mapping[TopicPartition, int],
    ends: Sequence[PartitionEnds],
    starts: Mapping[TopicPartition, int] | None,
) -> Iterator[_FalseEntry]:
    """starts: the log start offsets, if a clean stop wrote all checkpoints at the same time."""
    by_name: dict[TopicPartition | None, list[PartitionEnds]] = defaultdict(list)
    for end in ends:
        by_name[end.partition.topic_partition].append(end)
    for topic_partition, offset in offsets.items():
        here = by_name.get(topic_partition)
        if here is None:
            yield _FalseEntry(topic_partition, offset, CheckpointCause.NOWHERE(), None)
            continue
        alive = [end for end in here if end.partition.state.is_live]
        wrong = _wrong_offset(kind, offset, alive, None if starts is None else starts.get(topic_partition, 0))
        if wrong is not None:
            yield _FalseEntry(topic_partition, offset, *wrong)


def _wrong_offset(
    kind: FileKind, offset: int, alive: list[PartitionEnds], log_start_offset: int | None
) -> tuple[Reason, int] | None:
    """Return what is wrong with an entry, and its right offset: the nearest one that the log allows; but if the entry
    would delete or skip records, the log's beginning."""
    known = [end.log_end_offset for end in alive if end.log_end_offset is not None]
    starts = [end.base_offset for end in alive if end.base_offset is not None]
    if offset < 0:
        return CheckpointCause.BELOW_ZERO(), min(starts, default=0)
    if not known or len(known) < len(alive):
        return None
    if offset > max(known):
        right = max(known) if kind in _NEVER_BELOW else min(starts, default=0)
        return _BEYOND[kind](end=max(known)), right
    if log_start_offset is not None and kind in _NEVER_BELOW and starts:
        start = max(min(starts), log_start_offset if log_start_offset <= max(known) else 0)
        if offset < start:
            return CheckpointCause.LOG_STARTS(start=start), start
    return None


def _has_records(entry: _FalseEntry, ends: Iterable[PartitionEnds]) -> bool:
    """Return whether a start that deletes the log deletes more than an empty one."""
    of_it = (end for end in ends if end.partition.topic_partition == entry.topic_partition)
    return any(end.log_end_offset is not None and end.log_end_offset > (end.base_offset or 0) for end in of_it)


def _put_back_first(false: Sequence[_FalseEntry], ends: Iterable[PartitionEnds]) -> Reason | None:
    """Return what to do before a line is lowered: that shows how far a log reached, so that it is not forgotten what a
    start deletes."""
    lowered = {entry.topic_partition for entry in false if entry.right is not None}
    return next((end.put_back for end in ends if end.put_back and end.partition.topic_partition in lowered), None)


def _cure_of_entries(
    path: str, kind: FileKind, offsets: Mapping[TopicPartition, int], false: Sequence[_FalseEntry]
) -> Reason:
    """Return one command for all false lines of a file, so that the number of lines in its second line stays right."""
    if len(false) > MOST_ENTRIES_TOLD:
        return remove(path, _COSTS[kind])
    gone = sum(entry.is_nowhere for entry in false)
    keys = [(entry.topic_partition, entry.right) for entry in false]
    commands = [drop_line(key) if right is None else set_line(key, right) for key, right in keys]
    if gone:
        commands.append(number_of_lines(len(offsets) - gone))
    is_loss = kind in _NEVER_BELOW and any(entry.right is not None and entry.right < entry.offset for entry in false)
    remarks = [CureRemark.SEARCH_REPLICA()] * is_loss + [CureRemark.WAS_HERE()] * bool(gone)
    return edit(path, commands, CureRemark.SEVERAL(remarks=tuple(remarks)) if remarks else None)


_NEVER_BELOW = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)
_BEYOND = {
    FileKind.RECOVERY_POINT_CHECKPOINT: CheckpointCause.RECOVERY_POINT_BEYOND,
    FileKind.REPLICATION_CHECKPOINT: CheckpointCause.REPLICATION_BEYOND,
    FileKind.LOG_START_CHECKPOINT: CheckpointCause.LOG_START_BEYOND,
    FileKind.CLEANER_CHECKPOINT: CheckpointCause.CLEANER_BEYOND,
}


def _false_markers(stated: Stated, ends: Iterable[PartitionEnds]) -> Iterator[Finding]:
    marker = os.path.join(stated.path, FileKind.CLEAN_SHUTDOWN.value)
    removing = remove(marker, CureRemark.REPAIR_FIRST(log_dir=stated.path))
    recovery_points = stated.offsets.get(FileKind.RECOVERY_POINT_CHECKPOINT, {})
    for end in ends:
        partition = end.partition
        if not partition.state.is_live or end.log_end_offset is None or partition.topic == METADATA_TOPIC:
            continue  # the metadata log is recovered in any case
        name = partition.topic_partition
        flushed = recovery_points.get(name, 0) if name is not None else 0
        path, cure = end.last_segment or partition.path, end.put_back or removing
        if end.damaged_tail is not None:
            reason = CheckpointCause.DAMAGED_TAIL()
            yield Finding(Kind.CLEAN_MARKER_FALSE, path, reason, start=end.damaged_tail, cured_by=cure)
        elif flushed > end.log_end_offset:
            reason = CheckpointCause.ENDS_EARLY(end=end.log_end_offset, before=flushed)
            first, last = end.log_end_offset, flushed - 1
            yield Finding(Kind.CLEAN_MARKER_FALSE, path, reason, None, None, first, last, cured_by=cure)
