"""What is wrong with a partition dir, beside the findings of its segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from klogtool.causes import Reason, from_text
from klogtool.errors import KlogError
from klogtool.format.identity import parse_partition_metadata
from klogtool.format.names import FileKind
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.causes import PartitionCause, SnapshotCause
from klogtool.verify.closed_end import verify_last_batch
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentReport
from klogtool.verify.stops import reason_of_stop, stop_of
from klogtool.verify.verify_epochs import verify_epochs
from klogtool.verify.verify_kraft import verify_kraft
from klogtool.verify.verify_names import Layout
from klogtool.verify.verify_producers import verify_producers


class Surroundings(Struct, frozen=True):
    """What is known of a partition from its surroundings.

    log_start_offset: from its checkpoint, 0 if there is none. recovery_point: likewise, None if there is none; after a
    clean stop it is the log's end. is_clean: the log dir has the marker of a clean stop. knows_topic_ids: the brokers
    that wrote the log dir used topic ids, so partition.metadata should exist.
    """

    log_start_offset: int = 0
    recovery_point: int | None = None
    is_clean: bool = False
    knows_topic_ids: bool = False


_ALONE = Surroundings()


def verify_partition(
    layout: Layout, reports: Sequence[SegmentReport], around: Surroundings = _ALONE
) -> Iterator[Finding]:
    """Yield findings of the partition as a whole and of its side files, without those of names and of segments.

    reports: of all segments, by base offset.
    """
    base_offset = reports[0].base_offset if reports else 0
    log_end_offset = reports[-1].next_offset if reports else 0
    log_start_offset = max(around.log_start_offset, base_offset)
    yield from _verify_chain(reports, log_start_offset)
    closed_at = around.recovery_point if around.is_clean else None
    for wrong in verify_last_batch(reports, closed_at):
        yield wrong
        reports = [*reports[:-1], _without_last_batch(reports[-1], wrong)]
        log_end_offset = reports[-1].next_offset
    certain_end = None if closed_at is None else max(closed_at, log_end_offset)
    if _may_have_producers(layout, reports):
        yield from verify_producers(layout, reports, log_start_offset, certain_end)
    yield from _missing_snapshots(layout, reports, around)
    yield from verify_epochs(layout, reports, log_start_offset, certain_end)
    yield from verify_partition_metadata(layout, around)
    if layout.is_metadata:
        yield from verify_kraft(layout, log_start_offset)


def _may_have_producers(layout: Layout, reports: Sequence[SegmentReport]) -> bool:
    if layout.snapshots or any(report.has_producers for report in reports):
        return True
    return any(name.endswith(FileKind.TXN_INDEX.value) for name in layout.names)


def _without_last_batch(report: SegmentReport, wrong: Finding) -> SegmentReport:
    """Return the report without a last batch whose offsets are wrong, so that it accuses no other file."""
    start, last_offset = wrong.start or 0, wrong.last_offset
    sound = (*report.sound[:-1], (report.sound[-1][0], start))
    next_offset = report.next_offset if last_offset is None else last_offset + 1
    return replace(report, sound=sound, next_offset=next_offset, is_damaged=True)


# The order of the segments.


def _verify_chain(reports: Sequence[SegmentReport], log_start_offset: int) -> Iterator[Finding]:
    is_cleaned = any(report.has_gaps and not report.is_damaged for report in reports)
    for before, after in pairwise(reports):
        if not (before.is_complete and after.is_complete):
            continue  # the contents of an unreadable file are unknown
        if before.next_offset > after.base_offset:
            last = before.next_offset - 1
            reason = PartitionCause.OVERLAP(name=before.path.rpartition("/")[2], last=last)
            yield Finding(Kind.SEGMENT_OVERLAP, after.path, reason, first_offset=after.base_offset, last_offset=last)
        elif max(before.next_offset, log_start_offset) < after.begins and not before.has_damaged_tail:
            gap = Finding(
                Kind.SEGMENT_GAP,
                after.path,
                PartitionCause.GAP(end=before.next_offset),
                first_offset=before.next_offset,
                last_offset=after.begins - 1,
            )
            yield as_normal_gap(gap, PartitionCause.GAPS_INSIDE()) if is_cleaned else gap


def as_normal_gap(gap: Finding, why: Reason) -> Finding:
    """Return the gap as one that is normal in a compacted log. why: what shows that."""
    return replace(gap, reason=PartitionCause.COMPACTED(gap=gap.reason, why=why), is_normal=True)


def verify_segment_name(report: SegmentReport) -> Iterator[Finding]:
    """Yield a finding if the first batch of a segment is below the offset in its name."""
    if report.begins < report.base_offset:
        first, last = report.begins, report.base_offset - 1
        reason = PartitionCause.FIRST_BATCH_BELOW(first_offset=first)
        yield Finding(Kind.SEGMENT_NAME, report.path, reason, first_offset=first, last_offset=last)


# Missing snapshots.


def _missing_snapshots(layout: Layout, reports: Sequence[SegmentReport], around: Surroundings) -> Iterator[Finding]:
    """Brokers from 2.8 on keep one at the base of each segment except the first, and one at the end after a clean stop;
    earlier brokers keep only the newest."""
    if not any(report.has_producers for report in reports):
        return
    due = [r.base_offset for r in reports[1:] if r.is_complete] if around.knows_topic_ids else []
    is_closed = around.is_clean and layout.partition.state.is_current
    if is_closed and reports[-1].is_complete and not reports[-1].has_damaged_tail:
        due.append(reports[-1].next_offset)
    missing = [offset for offset in due if offset not in layout.snapshots and offset > around.log_start_offset]
    if not layout.snapshots and (missing or not due):
        yield Finding(Kind.SNAPSHOT_MISSING, layout.path, SnapshotCause.NONE_AT_ALL())
        return
    for offset in missing:
        yield Finding(Kind.SNAPSHOT_MISSING, layout.path, SnapshotCause.NONE_AT(offset=offset), first_offset=offset)


# Text files.


def verify_partition_metadata(layout: Layout, around: Surroundings) -> Iterator[Finding]:
    """Yield findings of partition.metadata."""
    path = layout.find(FileKind.PARTITION_METADATA)
    if path is None:
        is_there = FileKind.PARTITION_METADATA.value in layout.present  # it cannot be read, which was reported
        if around.knows_topic_ids and not layout.is_metadata and not is_there:
            where = layout.path_of(FileKind.PARTITION_METADATA.value)
            yield Finding(Kind.PARTITION_METADATA_MISSING, where, PartitionCause.NO_TOPIC_ID())
        return
    yield from judge_partition_metadata(path)


def judge_partition_metadata(path: str) -> Iterator[Finding]:
    """Yield a finding if this file is damaged."""
    try:
        parse_partition_metadata(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        yield Finding(Kind.UNREADABLE, path, from_text(error.reason))
    except KlogError as error:
        yield Finding(Kind.PARTITION_METADATA_CORRUPT, path, reason_of_stop(error), stop=stop_of(error))
