"""Everything that is wrong in a store: in its objects, between objects and metadata, and what consumers do not get.

Nothing is written. Segments are read on several threads, each in pieces; findings come in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from klogtool.format.tiered.segments import RemoteSegment, SegmentState
from klogtool.log.in_order import in_order
from klogtool.remote.inventory import ListedPartition, ListedSegment, walk_partitions
from klogtool.remote.lineage import RemoteLogCache, is_within_lineage
from klogtool.remote.local import LocalLog, LocalLogs
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.segment_check import STUCK, CheckedSegment, check_segment
from klogtool.remote.store import RemoteStore, StoredSegment
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.verification import PartitionDone, Summary

RESET = "reset"  # field of a finding: the consumer's offset is out of range
NO_METADATA, OTHER_LINEAGE, SECOND_COPY = "no-metadata", "other-lineage", "second-copy"  # grades of orphans
GRACE_MS = 3_600_000  # a copy that began within an hour may still be going on
_READ = (SegmentState.COPY_FINISHED, SegmentState.UNKNOWN)


class StoreTerms(Struct, frozen=True):
    """What is known beside the store. now_ms: the clock. on_partition: gets each partition, before its findings."""

    metadata: RemoteMetadata | None
    local: LocalLogs | None
    now_ms: int
    deep: bool = False
    jobs: int = 1
    on_partition: Callable[[PartitionDone], None] = lambda _: None


def verify_store(store: RemoteStore, terms: StoreTerms) -> Iterator[Finding | Summary]:
    """Yield all findings, then a summary."""
    summary = Summary(deep=terms.deep)
    for finding in _findings(store, terms, summary):
        summary.count(finding)
        yield finding
    yield summary


def _findings(store: RemoteStore, terms: StoreTerms, summary: Summary) -> Iterator[Finding]:
    for problem in terms.metadata.problems if terms.metadata is not None else ():
        yield Finding(Kind.REMOTE_METADATA, problem.path or "", problem.reason, start=problem.position)
    for partition in walk_partitions(store, terms.metadata, terms.local):
        yield from _Partition(store, terms, partition, summary).findings()
    for copy in store.copies:
        detail = f"a second copy of segment {copy.key.segment_id}, in another folder: {copy.size:,} bytes"
        yield Finding(Kind.REMOTE_ORPHAN, copy.path, detail, field=SECOND_COPY)


class _Partition:
    """One partition: what its findings need."""

    def __init__(self, store: RemoteStore, terms: StoreTerms, partition: ListedPartition, summary: Summary) -> None:
        self._store, self._terms, self._partition, self._summary = store, terms, partition, summary
        metadata, key = terms.metadata, (partition.topic_id, partition.partition)
        self._cache = RemoteLogCache() if metadata is None else metadata.caches.get(key, RemoteLogCache())
        self._listed = self._cache.listed()
        self._served = list(self._walk_served(partition.local)) if partition.local is not None else None
        folder = next((one.stored.folder for one in partition.segments if one.stored is not None), None)
        self._folder = folder or f"{store.uri}/{partition.topic}-{partition.partition}"

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong, by start offset of the segments; then the gaps."""
        self._summary.partitions += 1
        self._terms.on_partition(PartitionDone(self._folder, None, Summary(partitions=1)))
        segments = self._partition.segments

        def make_work() -> Callable[[ListedSegment], CheckedSegment | None]:
            return lambda segment: self._checked(segment)

        for segment, checked in in_order(make_work, iter(segments), self._terms.jobs):
            if checked is not None:
                yield from self._of_objects(segment, checked)
            yield from self._of_state(segment)
        yield from self._gaps()

    def _checked(self, segment: ListedSegment) -> CheckedSegment | None:
        is_whole = segment.stored is not None and segment.state in _READ
        return check_segment(self._store, segment, deep=self._terms.deep) if is_whole else None

    def _of_objects(self, segment: ListedSegment, checked: CheckedSegment) -> Iterator[Finding]:
        self._summary.files += 1
        if checked.report is not None:
            self._summary.batches += checked.report.batches
            self._summary.records += checked.report.records
            self._summary.bytes += checked.report.size
        self._summary.left_out_segments += checked.is_unread
        yield from checked.findings

    def _of_state(self, segment: ListedSegment) -> Iterator[Finding]:
        """Yield what is wrong with the state of a segment."""
        known, stored = segment.metadata, segment.stored
        if segment.state is SegmentState.UNKNOWN:
            if self._terms.metadata is not None and stored is not None:
                yield self._orphan(stored)
            return
        if known is None:
            return
        bytes_text = "no objects" if stored is None else f"{stored.size:,} bytes"
        path = self._path_of(segment)
        span = known.start_offset, known.end_offset
        match segment.state:
            case SegmentState.COPY_STARTED:
                began_ms = known.event_ms
                is_young = self._terms.now_ms - began_ms < GRACE_MS
                detail = f"segment {segment.key.segment_id}: its copy began at {began_ms} and never ended; {bytes_text}"
                yield Finding(Kind.REMOTE_COPY_UNFINISHED, path, detail, None, None, *span, is_normal=is_young)
            case SegmentState.DELETE_STARTED:
                detail = f"segment {segment.key.segment_id}: its deletion began at {known.event_ms} and never ended; {bytes_text}"
                is_young = self._terms.now_ms - known.event_ms < GRACE_MS
                yield Finding(Kind.REMOTE_DELETE_UNFINISHED, path, detail, None, None, *span, is_normal=is_young)
            case SegmentState.COPY_FINISHED:
                yield from self._of_finished(segment, known, path)

    def _of_finished(self, segment: ListedSegment, known: RemoteSegment, path: str) -> Iterator[Finding]:
        span = known.start_offset, known.end_offset
        if segment.stored is None:
            detail = f"segment {segment.key.segment_id} has no objects at all"
            yield Finding(Kind.REMOTE_OBJECT_MISSING, path, detail, None, None, *span, STUCK)
        if segment.key not in self._listed:
            detail = f"segment {segment.key.segment_id} is in no list of its leader epochs any more: a newer one took its place; {segment.size:,} bytes"
            yield Finding(Kind.REMOTE_DISPLACED, path, detail, None, None, *span)
            return
        local = self._partition.local
        if local is None or not local.epochs or max(epoch for epoch, _ in known.epochs) < local.epochs[0][0]:
            return  # nobody knows, or retention deletes it
        if known.end_offset < local.end and not is_within_lineage(known, local.end, dict(local.epochs)):
            epochs = ", ".join(f"{epoch} from {start}" for epoch, start in known.epochs)
            detail = f"segment {segment.key.segment_id} has leader epochs {epochs}, which are not those of the log; {segment.size:,} bytes"
            yield Finding(Kind.REMOTE_ORPHAN, path, detail, None, None, *span, OTHER_LINEAGE)

    def _orphan(self, stored: StoredSegment) -> Finding:
        since = f"written at {stored.newest_ms}" if stored.newest_ms >= 0 else "of an unknown time"
        detail = f"segment {stored.key.segment_id} is not in the metadata: {stored.size:,} bytes, {since}"
        is_young = 0 <= self._terms.now_ms - stored.newest_ms < GRACE_MS
        return Finding(Kind.REMOTE_ORPHAN, stored.path, detail, field=NO_METADATA, is_normal=is_young)

    def _path_of(self, segment: ListedSegment) -> str:
        name = f"{segment.start_offset:020d}-{segment.key.segment_id}"
        return segment.stored.path if segment.stored is not None else f"{self._folder}/{name}"

    # What consumers do not get.

    def _walk_served(self, local: LocalLog) -> Iterator[tuple[int, int, RemoteSegment | None]]:
        if self._terms.metadata is None:
            return
        for served in self._cache.walk_served(local.epochs, local.start, local.local_start):
            yield served.start, served.end, served.segment

    def _gaps(self) -> Iterator[Finding]:
        """Yield offsets that are neither local nor served from a segment."""
        joined: list[tuple[int, int]] = []
        for start, end, segment in self._served or ():
            if segment is None and start < end:
                if joined and joined[-1][1] == start:
                    joined[-1] = joined[-1][0], end
                else:
                    joined.append((start, end))
        for start, end in joined:
            detail = f"no segment serves them, and {self._partition.topic}-{self._partition.partition} is local from {self._partition.local.local_start if self._partition.local else 0} on"
            yield Finding(Kind.REMOTE_GAP, self._folder, detail, None, None, start, end - 1, RESET)
