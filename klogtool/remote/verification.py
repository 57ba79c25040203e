"""Everything that is wrong in a store: in its objects, between objects and metadata, and what consumers do not get.

Nothing is written. Segments are read on several threads, each in pieces; findings come in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import groupby
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.timestamps import time_text
from klogtool.causes import from_text
from klogtool.errors import KlogError
from klogtool.format.names import REMOTE_TOPIC
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState
from klogtool.log.file import Unreadable
from klogtool.log.remembered import Remembered
from klogtool.log.thread_pool import in_order
from klogtool.remote.causes import RemoteCause
from klogtool.remote.cures import OrphanGrade, PartitionPlace, cure_of
from klogtool.remote.fetching import newest_epochs, walk_holes
from klogtool.remote.inventory import ListedPartition, ListedSegment, walk_partitions
from klogtool.remote.lineage import RemoteLogCache, Served, is_within_lineage, joined_gaps
from klogtool.remote.local import LocalLog, LocalLogs
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.segment_check import CheckedSegment, Consumer, Unhelped, Unread, check_segment
from klogtool.remote.store import RemoteStore, StoredSegment
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.verification import PartitionDone, Summary

GRACE_MS = 3_600_000  # a copy that began within an hour may still be going on
_MET = (Consumer.STUCK, Consumer.SKIPPED)
_READ = (SegmentState.COPY_FINISHED, SegmentState.UNKNOWN)


class StoreTerms(Struct, frozen=True):
    """What is known beside the store, and what of it is read. now_ms: the clock. on_partition: gets each partition,
    before its findings. was_read: whether an earlier run has read a segment of this id (`identify`); on_sound: gets
    the id of each in which nothing was found. may_begin: whether there is time for one more."""

    metadata: RemoteMetadata | None
    local: LocalLogs | None
    now_ms: int
    deep: bool = False
    jobs: int = 1
    on_partition: Callable[[PartitionDone], None] = lambda _: None
    was_read: Callable[[str], bool] = lambda _: False
    on_sound: Callable[[str], None] = lambda _: None
    may_begin: Callable[[], bool] = lambda: True


def verify_store(store: RemoteStore, terms: StoreTerms) -> Iterator[Finding | Summary]:
    """Yield all findings, then a summary."""
    summary = Summary(deep=terms.deep)
    for finding in _findings(store, terms, summary):
        summary.count(finding)
        yield finding
    yield summary


def _findings(store: RemoteStore, terms: StoreTerms, summary: Summary) -> Iterator[Finding]:
    for place, finding in _placed(store, terms, summary):
        yield replace(finding, cured_by=cure_of(finding, store, place))


def _placed(store: RemoteStore, terms: StoreTerms, summary: Summary) -> Iterator[tuple[PartitionPlace, Finding]]:
    for problem in terms.metadata.problems if terms.metadata is not None else ():
        path, reason = problem.path or store.uri, from_text(problem.reason)
        yield PartitionPlace(REMOTE_TOPIC, 0, True), Finding(Kind.REMOTE_METADATA, path, reason, start=problem.position)
    partitions = [_Partition(store, terms, one) for one in walk_partitions(store, terms.metadata, terms.local)]
    pairs = ((one, segment) for one in partitions for segment in one.segments)
    checked = in_order(lambda: lambda pair: _checked(store, terms, pair[1]), pairs, terms.jobs)
    for partition, group in groupby(checked, key=lambda one: one[0][0]):
        for finding in partition.findings(((segment, check) for (_, segment), check in group), summary):
            yield partition.place, finding
    for log, finding in _vanished(terms, partitions):
        yield PartitionPlace(log.topic, log.partition, has_metadata=False, has_objects=False), finding
    for copy in store.copies:
        place = PartitionPlace(copy.topic, copy.key.partition, True)
        reason = RemoteCause.SECOND_COPY(segment_id=str(copy.key.segment_id), size=copy.size)
        yield place, Finding(Kind.REMOTE_ORPHAN, copy.path, reason, field=OrphanGrade.SECOND_COPY)


def _checked(store: RemoteStore, terms: StoreTerms, segment: ListedSegment) -> CheckedSegment | None:
    if segment.stored is None or segment.state not in _READ:
        return None
    if terms.was_read(identify(segment, deep=terms.deep)):
        return CheckedSegment(segment, (), None, Unread.BEFORE)
    if not terms.may_begin():
        return CheckedSegment(segment, (), None, Unread.TIME)
    return check_segment(store, segment, deep=terms.deep)


def _vanished(terms: StoreTerms, listed: list[_Partition]) -> Iterator[tuple[LocalLog, Finding]]:
    """Yield the gaps of partitions of which neither objects nor metadata are left."""
    if terms.local is None:
        return
    known = {id(one.local) for one in listed if one.local is not None}
    for log in (*terms.local.by_id.values(), *terms.local.by_name.values()):
        if id(log) not in known and log.start < log.local_start:
            reason = RemoteCause.NO_OBJECT(partition=f"{log.topic}-{log.partition}", start=log.start)
            span = log.start, log.local_start - 1
            yield log, Finding(Kind.REMOTE_GAP, log.path, reason, None, None, *span, Consumer.RESET)


class _Partition:
    """One partition: what its findings need."""

    def __init__(self, store: RemoteStore, terms: StoreTerms, partition: ListedPartition) -> None:
        self._store, self._terms, self._partition = store, terms, partition
        self.segments, self.local = partition.segments, partition.local
        metadata, key = terms.metadata, (partition.topic_id, partition.partition)
        self._cache = RemoteLogCache() if metadata is None else metadata.caches.get(key, RemoteLogCache())
        self._listed = self._cache.listed()
        self._missing_home = None if metadata is None else metadata.missing_home(*key)
        self._served = self._find_served()
        self.place = PartitionPlace(
            partition.topic,
            partition.partition,
            bool(self._cache.segments),
            unknown=dict(self._only_copies(SegmentState.UNKNOWN)),
            displaced=dict(self._only_copies(SegmentState.COPY_FINISHED)),
            by_newest=self._find_served_by_newest(),
        )
        folder = next((one.stored.folder for one in partition.segments if one.stored is not None), None)
        self._folder = folder or f"{store.uri}/{partition.topic}-{partition.partition}"

    @property
    def _is_covered(self) -> bool:
        """Whether the metadata topic is here, as far as this partition is in it."""
        return self._terms.metadata is not None and self._missing_home is None

    def _find_served(self) -> list[Served] | None:
        """Return which segment serves which offsets that are not local; None if that is not known."""
        if self.local is None or not self._is_covered:
            return None
        return list(self._cache.walk_served(self.local.epochs, self.local.start, self.local.local_start))

    def _find_served_by_newest(self) -> list[tuple[int, int]]:
        """Return the offsets that are not served, and would be by the leader epochs of the newest segment: so
        leader-epoch-checkpoint has lost or changed lines."""
        epochs, spans = self._partition.epochs, list[tuple[int, int]]()
        gaps = joined_gaps(self._served or ())
        with suppress(KlogError):  # that is told of its objects; the metadata has the epochs of the segments
            epochs = newest_epochs(self._store, self._partition, list(self._cache.segments.values())) if gaps else ()
        for first, last in gaps:
            served = self._cache.walk_served(epochs, first, last + 1)
            spans += [(one.start, one.end - 1) for one in served if one.segment is not None]
        return spans

    def _only_copies(self, state: SegmentState) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the objects that nobody reads, and which have offsets that nothing serves, or a segment without its
        log."""
        own = {one.key: one.stored for one in self.segments}
        served = (
            one if one.segment is None or _is_whole(one.segment, own) else replace(one, segment=None)
            for one in self._served or ()
        )
        gaps = joined_gaps(served)
        for one in self.segments if gaps else ():
            known, stored = one.metadata, one.stored
            if known is None or stored is None or one.state is not state or one.key in self._listed:
                continue
            if any(first <= known.end_offset and known.start_offset <= last for first, last in gaps):
                yield stored.path, (known.start_offset, known.end_offset)

    def findings(
        self, checked: Iterator[tuple[ListedSegment, CheckedSegment | None]], summary: Summary
    ) -> Iterator[Finding]:
        """Yield what is wrong, by start offset of the segments; then the gaps."""
        summary.partitions += 1
        self._terms.on_partition(PartitionDone(self._folder, None, Summary(partitions=1)))
        for segment, check in checked:
            if check is not None:
                _count(summary, check)
                if check.unread is None and not check.findings:
                    self._terms.on_sound(identify(segment, deep=self._terms.deep))
                yield from (self._as_met(segment, finding) for finding in check.findings)
            yield from self._of_state(segment) if self._is_covered else ()
        if self._missing_home is not None:
            reason = RemoteCause.METADATA_ELSEWHERE(partition=f"{REMOTE_TOPIC}-{self._missing_home}")
            yield Finding(Kind.REMOTE_UNCHECKED, self._folder, reason, field=Unhelped.METADATA)
            summary.was_without_help = True
        yield from self._gaps(summary)

    def _as_met(self, segment: ListedSegment, finding: Finding) -> Finding:
        """Return the finding with the offsets at which consumers meet it: none, if nobody reads the segment there."""
        if segment.state is SegmentState.UNKNOWN and self._is_covered:
            return replace(finding, field=None, is_normal=True)  # nobody reads an orphan
        first, last = finding.first_offset, finding.last_offset
        if finding.field not in _MET or self._served is None or first is None or last is None:
            return finding
        read = [one for one in self._served if one.segment is not None and one.segment.key == segment.key]
        met = [(max(first, one.start), min(last, one.end - 1)) for one in read if one.end > first and one.start <= last]
        if not met:
            return replace(finding, field=None)
        return replace(finding, first_offset=met[0][0], last_offset=met[-1][1])

    def _of_state(self, segment: ListedSegment) -> Iterator[Finding]:
        """Yield what is wrong with the state of a segment."""
        known, stored = segment.metadata, segment.stored
        if segment.state is SegmentState.UNKNOWN:
            if stored is not None:
                yield self._orphan(stored)
        elif known is not None and segment.state is SegmentState.COPY_FINISHED:
            yield from self._of_finished(segment, known)
        elif known is not None:
            yield self._unfinished(segment, known)

    def _unfinished(self, segment: ListedSegment, known: RemoteSegment) -> Finding:
        is_copy = segment.state is SegmentState.COPY_STARTED
        left = RemoteCause.LEFT_NONE() if segment.stored is None else RemoteCause.LEFT(size=segment.size)
        cause = RemoteCause.COPY_UNFINISHED if is_copy else RemoteCause.DELETION_UNFINISHED
        return Finding(
            Kind.REMOTE_COPY_UNFINISHED if is_copy else Kind.REMOTE_DELETE_UNFINISHED,
            self._path_of(segment),
            cause(segment_id=str(segment.key.segment_id), time=time_text(known.event_ms), left=left),
            None,
            None,
            known.start_offset,
            known.end_offset,
            is_normal=self._is_young(known.event_ms),
        )

    def _of_finished(self, segment: ListedSegment, known: RemoteSegment) -> Iterator[Finding]:
        path, span = self._path_of(segment), (known.start_offset, known.end_offset)
        if segment.stored is None:
            reason = RemoteCause.NO_OBJECTS(segment_id=str(segment.key.segment_id))
            yield self._as_met(
                segment, Finding(Kind.REMOTE_OBJECT_MISSING, path, reason, None, None, *span, Consumer.STUCK)
            )
        if segment.key not in self._listed:
            reason = RemoteCause.DISPLACED(segment_id=str(segment.key.segment_id), size=segment.size)
            yield Finding(Kind.REMOTE_DISPLACED, path, reason, None, None, *span)
            return
        if self.local is None or not self.local.epochs or max(dict(known.epochs)) < self.local.epochs[0][0]:
            return  # nobody knows, or retention deletes it
        end, epochs = self.local.end, dict(self.local.epochs)
        if known.end_offset < end and not is_within_lineage(known, end, epochs):
            own = tuple(f"{epoch} from {start}" for epoch, start in known.epochs)
            reason = RemoteCause.OTHER_LINEAGE(segment_id=str(segment.key.segment_id), epochs=own, size=segment.size)
            yield Finding(Kind.REMOTE_ORPHAN, path, reason, None, None, *span, OrphanGrade.OTHER_LINEAGE)

    def _orphan(self, stored: StoredSegment) -> Finding:
        since = RemoteCause.UNDATED()
        if stored.newest_ms >= 0:
            since = RemoteCause.WRITTEN_AT(time=time_text(stored.newest_ms))
        reason = RemoteCause.NOT_IN_METADATA(segment_id=str(stored.key.segment_id), size=stored.size, since=since)
        is_young = stored.newest_ms >= 0 and self._is_young(stored.newest_ms)
        return Finding(Kind.REMOTE_ORPHAN, stored.path, reason, field=OrphanGrade.NO_METADATA, is_normal=is_young)

    def _is_young(self, ms: int) -> bool:
        return 0 <= self._terms.now_ms - ms < GRACE_MS

    def _path_of(self, segment: ListedSegment) -> str:
        name = f"{segment.start_offset:020d}-{segment.key.segment_id}"
        return segment.stored.path if segment.stored is not None else f"{self._folder}/{name}"

    def _gaps(self, summary: Summary) -> Iterator[Finding]:
        """Yield offsets that are neither local nor served from a segment."""
        if self._terms.metadata is None:
            try:
                for first, last in walk_holes(self._store, self._partition):
                    yield Finding(Kind.REMOTE_GAP, self._folder, RemoteCause.NO_OBJECT_HAS(), None, None, first, last)
            except Unreadable as error:
                reason = from_text(error.reason)
                yield Finding(Kind.REMOTE_UNCHECKED, error.path or self._folder, reason, field=Unhelped.STORE)
                summary.was_without_help = True
        if self.local is None:
            return
        for first, last in joined_gaps(self._served or ()):
            reason = RemoteCause.UNSERVED(start=self.local.start, local_start=self.local.local_start)
            yield Finding(Kind.REMOTE_GAP, self._folder, reason, None, None, first, last, Consumer.RESET)


def _is_whole(segment: RemoteSegment, stored: Mapping[SegmentKey, StoredSegment | None]) -> bool:
    """Return whether the log of a segment is there, as far as its size shows."""
    own = stored.get(segment.key)
    log = None if own is None else own.log
    if own is None or log is None:
        return False
    return own.layout is not TierLayout.LOCAL or segment.size in (None, log.size)


def _count(summary: Summary, checked: CheckedSegment) -> None:
    summary.files += checked.unread in (None, Unread.WITHOUT_HELP)
    summary.left_out_segments += checked.unread is not None
    summary.was_without_help |= checked.unread is Unread.WITHOUT_HELP
    summary.was_time_up |= checked.unread is Unread.TIME
    summary.was_read_before |= checked.unread is Unread.BEFORE
    if checked.report is not None:
        summary.batches += checked.report.batches
        summary.records += checked.report.records
        summary.bytes += checked.report.size


# What earlier runs have read, so that a run goes on where another one ended.


class ReadSegment(Struct, frozen=True):
    """A segment in which nothing was found. checked_ms: when the run began."""

    id: str
    checked_ms: int


StoreState: TypeAlias = Remembered[ReadSegment]


def identify(segment: ListedSegment, *, deep: bool) -> str:
    """Return a digest of all that decides what is found in a segment: its objects as they are listed, its metadata."""
    stored = {} if segment.stored is None else segment.stored.objects
    objects = sorted((one.path, one.size, one.mtime_ms) for one in stored.values())
    decisive = (segment.key, segment.metadata, objects, deep)
    try:
        data = msgspec.json.encode(decisive)
    except UnicodeEncodeError:  # a folder whose name is not UTF-8
        data = repr(decisive).encode("utf-8", "surrogatepass")
    return sha256(data).hexdigest()
