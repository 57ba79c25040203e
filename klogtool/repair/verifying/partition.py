"""What is wrong with a partition dir, beside what its segments show one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from klogtool.errors import KlogError
from klogtool.format.identity import parse_partition_metadata
from klogtool.format.names import FileKind, PartitionDirState, build_file_name
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.repair.findings import Finding
from klogtool.repair.verifying.cures import move_out, rebuild_index
from klogtool.repair.verifying.epochs import verify_epochs
from klogtool.repair.verifying.names import Layout
from klogtool.repair.verifying.segment_report import SegmentReport


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of a partition from around it.

    log_start_offset: by its checkpoint, 0 if there is none. recovery_point: likewise, None if there is none; after a
    clean stop it is the log's end. is_clean: whether the log dir has a marker of a clean stop.
    knows_topic_ids: whether the brokers that wrote the log dir gave topics ids, so that partition.metadata is missed.
    """

    log_start_offset: int = 0
    recovery_point: int | None = None
    is_clean: bool = False
    knows_topic_ids: bool = False


_ALONE = Surroundings()


def verify_partition(
    layout: Layout, reports: Sequence[SegmentReport], around: Surroundings = _ALONE
) -> Iterator[Finding]:
    """Findings of the partition as a whole and of its side files; those of names and of segments are not among them.

    reports: of all segments, by base offset.
    """
    base_offset = reports[0].base_offset if reports else 0
    log_end_offset = reports[-1].next_offset if reports else 0
    log_start_offset = max(around.log_start_offset, base_offset)
    yield from _verify_chain(reports)
    closed_at = around.recovery_point if around.is_clean else None
    certain_end = None if closed_at is None else max(closed_at, log_end_offset)
    if _may_have_producers(layout, reports):
        from klogtool.repair.verifying.producers import verify_producers

        yield from verify_producers(layout, reports, log_start_offset, certain_end)
    yield from _missing_snapshots(layout, reports, around)
    runs = [run for report in reports for run in report.epochs]
    yield from verify_epochs(layout, runs, log_start_offset, certain_end)
    yield from verify_partition_metadata(layout, around)
    if layout.is_metadata:
        from klogtool.repair.verifying.kraft import verify_kraft

        yield from verify_kraft(layout, log_start_offset)


def _may_have_producers(layout: Layout, reports: Sequence[SegmentReport]) -> bool:
    if layout.snapshots or any(report.has_producers for report in reports):
        return True
    return any(name.endswith(FileKind.TXN_INDEX.value) for name in layout.names)


# How the segments follow each other.


def _verify_chain(reports: Sequence[SegmentReport]) -> Iterator[Finding]:
    for before, after in pairwise(reports):
        if before.next_offset > after.base_offset:
            yield _overlap(before, after)
        elif before.next_offset < _begins(after) and not before.is_damaged:
            yield Finding(
                "segment-gap",
                after.path,
                f"the segment before ends at {before.next_offset}",
                first_offset=before.next_offset,
                last_offset=_begins(after) - 1,
            )


def _begins(report: SegmentReport) -> int:
    """The offset that a segment begins at: its name's, or that of its first batch where that is lower."""
    return report.base_offset if report.first_offset is None else min(report.base_offset, report.first_offset)


def verify_segment_name(report: SegmentReport) -> Iterator[Finding]:
    """A finding if the first batch of a segment lies below the offset in its name."""
    if _begins(report) < report.base_offset:
        name = build_file_name(FileKind.LOG, _begins(report))
        detail = f"the first batch begins at {report.first_offset}: a broker that recovers it does not start"
        yield Finding(
            "segment-name",
            report.path,
            detail,
            first_offset=report.first_offset,
            last_offset=report.base_offset - 1,
            cure=f"rename all files of the segment: the log is to be {name}",
        )


def _overlap(before: SegmentReport, after: SegmentReport) -> Finding:
    name = before.path.rpartition("/")[2]
    return Finding(
        "segment-overlap",
        after.path,
        f"{name} reaches up to {before.next_offset - 1}: of offsets in both, readers get those of the one or the other",
        first_offset=after.base_offset,
        last_offset=before.next_offset - 1,
        cure=f"if one of them is a copy, {move_out(after.path)}, or the other",
    )


# Snapshots that are not there.


def _missing_snapshots(layout: Layout, reports: Sequence[SegmentReport], around: Surroundings) -> Iterator[Finding]:
    """Brokers from 2.8 on keep one at the base of each segment but the first, and one at the end after a clean stop;
    earlier ones only the newest."""
    if not any(report.has_producers for report in reports):
        return
    due = [report.base_offset for report in reports[1:]] if around.knows_topic_ids else []
    is_closed = around.is_clean and layout.partition.state is PartitionDirState.CURRENT
    if is_closed and not reports[-1].has_damaged_tail:
        due.append(reports[-1].next_offset)
    missing = [offset for offset in due if offset not in layout.snapshots and offset > around.log_start_offset]
    if not layout.snapshots and (missing or not due):
        detail = "there is none at all: after a clean stop a broker forgets all producers, and duplicates can get in"
        yield Finding("snapshot-missing", layout.path, detail, cure=rebuild_index(layout.path, "snapshot"))
        return
    for offset in missing:
        detail = f"there is none at {offset}; a broker builds it anew from the one before"
        yield Finding("snapshot-missing", layout.path, detail, first_offset=offset)


# Text files.


def verify_partition_metadata(layout: Layout, around: Surroundings) -> Iterator[Finding]:
    """Findings of partition.metadata."""
    path = layout.find(FileKind.PARTITION_METADATA)
    if path is None:
        if around.knows_topic_ids and not layout.is_metadata:
            detail = "a broker takes the partition for a stray, renames it, and begins an empty one"
            cure = "write it with the topic's id before the broker is started"
            where = layout.path_of(FileKind.PARTITION_METADATA.value)
            yield Finding("partition-metadata-missing", where, detail, cure=cure)
        return
    try:
        parse_partition_metadata(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        yield Finding("unreadable", path, error.reason)
    except KlogError as error:
        what = "takes the log dir offline" if error.kafka_class == "KafkaStorageException" else "does not start"
        detail = f"{error.reason}: a broker {what} ({error.kafka_class})"
        yield Finding("partition-metadata-corrupt", path, detail, cure="write it with the topic's id")
