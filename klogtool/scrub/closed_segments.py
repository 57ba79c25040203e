"""The closed segments of log dirs that a broker has flushed: it does not write to them, but replaces or deletes them.

Those are the segments whose successor begins at or below the recovery point of their partition (LogManager
checkpoints it; UnifiedLog.flush moves it). The end of the log is never among them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct, field

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.causes import from_text
from klogtool.errors import KlogError, Unsupported
from klogtool.format.names import FileKind, TopicPartition
from klogtool.log.file import Unreadable, unreadable
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment
from klogtool.verify.choosing_cures import State, with_cures
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentContext
from klogtool.verify.verify_names import METADATA_PARTITION


class SegmentId(Struct, frozen=True):
    """Which file a segment's log is, whatever log dir it is in. topic: the topic id, or the name of a topic without
    one. size, mtime_ns, ino: of the log."""

    topic: str
    partition: int
    base_offset: int
    size: int
    mtime_ns: int
    ino: int


class ClosedSegment(Struct, frozen=True):
    """A closed segment, as it was when it was listed. is_cleaned: a broker may clean this log (compaction)."""

    id: SegmentId
    segment: Segment
    partition: Partition
    topic_partition: TopicPartition
    is_cleaned: bool
    context: SegmentContext

    @property
    def last_offset(self) -> int:
        """The last offset that it may have."""
        return (self.context.next_base or self.id.base_offset + 1) - 1


class Listing(Struct):
    """What is in log dirs. unflushed: how many segments are closed, and not known to be flushed. findings: what could
    not be listed."""

    closed: list[ClosedSegment] = field(default_factory=list)
    unflushed: int = 0
    findings: list[Finding] = field(default_factory=list)


def list_closed_segments(paths: Sequence[str], circumstances: Circumstances) -> Listing:
    """Return the closed segments of log dirs; what goes away meanwhile is left out. Raises KlogError for a path that is
    no log dir, or cannot be listed."""
    listing = Listing()
    for log_dir in [_log_dir_at(path) for path in {os.path.realpath(path): path for path in paths}.values()]:
        checkpoints = Checkpoints.of(log_dir.path)
        for partition in log_dir.partitions:
            if partition.state.is_current:
                _list_partition(partition, checkpoints, circumstances, listing)
    return listing


def _log_dir_at(path: str) -> LogDir:
    opened = open_path(path)
    if not isinstance(opened, LogDir):
        raise Unsupported("not a log dir: scrub reads the partitions of whole log dirs", path=path)
    return opened


def _list_partition(
    partition: Partition, checkpoints: Checkpoints, circumstances: Circumstances, listing: Listing
) -> None:
    named = partition.topic_partition
    if named is None:
        return
    try:
        segments, topic = partition.segments, _topic_of(partition) or named.topic
    except Unreadable as error:
        if os.path.lexists(partition.path):  # else the broker has deleted or moved it
            _note(listing, Finding(Kind.UNREADABLE, partition.path, from_text(error.reason)), partition)
        return
    flushed = circumstances.recovery_point
    if flushed is None:
        flushed = _recovery_point(checkpoints, named, listing)
    is_cleaned, interval = _is_cleaned(checkpoints, named), circumstances.config_for(named.topic).index_interval_bytes
    for segment, following in pairwise(segments):
        # Raft flushes its log before anything in it counts, and has no checkpoint (KafkaRaftLog.flush).
        if named != METADATA_PARTITION and (flushed is None or following.base_offset > flushed):
            listing.unflushed += 1
            continue
        try:
            about = os.stat(segment.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            _note(
                listing,
                Finding(Kind.UNREADABLE, segment.path, from_text(unreadable(segment.path, error).reason)),
                partition,
            )
            continue
        base = segment.base_offset
        key = SegmentId(topic, named.partition, base, about.st_size, about.st_mtime_ns, about.st_ino)
        context = SegmentContext(circumstances.now_ms, following.base_offset, index_interval_bytes=interval)
        listing.closed.append(ClosedSegment(key, segment, partition, named, is_cleaned, context))


def _note(listing: Listing, finding: Finding, partition: Partition) -> None:
    listing.findings += with_cures([finding], State(partition.path, (), is_whole=False, is_clean=False))


def _topic_of(partition: Partition) -> str | None:
    try:
        return partition.topic_id
    except Unreadable:
        raise
    except KlogError:  # a finding of verify
        return None


def _recovery_point(checkpoints: Checkpoints, named: TopicPartition, listing: Listing) -> int | None:
    """Return it; None if there is none. A checkpoint that cannot be read is one finding."""
    try:
        return checkpoints.find(FileKind.RECOVERY_POINT_CHECKPOINT, named)[0]
    except KlogError as error:
        path = os.path.join(checkpoints.log_dir or "", FileKind.RECOVERY_POINT_CHECKPOINT.value)
        if all(finding.path != path for finding in listing.findings):
            listing.findings.append(
                Finding(Kind.CHECKPOINT_CORRUPT, path, from_text(error.reason), start=error.position)
            )
        return None


def _is_cleaned(checkpoints: Checkpoints, named: TopicPartition) -> bool:
    try:
        return checkpoints.find(FileKind.CLEANER_CHECKPOINT, named)[0] is not None
    except KlogError:
        return True
