"""One remote segment held against itself and its metadata: its objects, its size, every batch, its indexes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum, StrEnum

from msgspec import Struct

from klogtool.causes import Reason, from_text
from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.framing import CURRENT_MAGIC, Frame, FrameStop
from klogtool.format.indexes import (
    OFFSET_ENTRIES,
    TIME_ENTRIES,
    sanity_check_offset_index,
    sanity_check_time_index,
    sanity_check_txn_index,
)
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.format.tiered import aiven, local_storage
from klogtool.format.tiered.manifest import SizesContradict
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import RemoteSegment
from klogtool.kernels import crc32c
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.frames import FrameReader
from klogtool.log.storage import StoredFile
from klogtool.remote.causes import RemoteCause
from klogtool.remote.inventory import ListedSegment
from klogtool.remote.segment_file import find_side_file, open_log, path_of
from klogtool.remote.store import RemoteStore, StoredSegment, gave_other_bytes
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.index_damage import OFFSETS, TIMES, IndexFile, IndexKind
from klogtool.verify.log_walk import LogWalk
from klogtool.verify.segment_report import EpochRun, SegmentContext, SegmentReport
from klogtool.verify.verify_producers import verify_lone_txn_index

_NEEDED = {
    TierLayout.LOCAL: (local_storage.LOG, local_storage.OFFSET_INDEX, local_storage.TIME_INDEX),
    TierLayout.AIVEN: (aiven.MANIFEST, aiven.LOG, aiven.INDEXES),
}
_SANITY_CHECKS: Mapping[FileKind, Callable[[bytes, int], None]] = {
    FileKind.OFFSET_INDEX: sanity_check_offset_index,
    FileKind.TIME_INDEX: sanity_check_time_index,
    FileKind.TXN_INDEX: sanity_check_txn_index,
}
NO_CLOCK = SegmentContext(now_ms=MAX_LONG)  # a time in the future is of no harm to a remote segment
LEAST_ENTRY_BYTES = 26


class Consumer(StrEnum):
    """What a consumer meets: it is stuck, or passes over records, or its offset is out of range. A finding's field."""

    STUCK = "stuck"
    SKIPPED = "skipped"
    RESET = "reset"


class Unhelped(StrEnum):
    """What was missing to check a segment, beside its key. A finding's field."""

    METADATA = "metadata"
    STORE = "store"
    """The store was asked several times, and did not give what it lists."""


class Unread(Enum):
    """Why a segment was not read."""

    WITHOUT_HELP = "without-help"
    """A key is missing, or the store did not give it."""
    BEFORE = "before"
    """An earlier run read it, and found nothing."""
    TIME = "time"


class CheckedSegment(Struct, frozen=True):
    """What was found in the objects of a segment. report: of its log, None if that was not read."""

    segment: ListedSegment
    findings: tuple[Finding, ...]
    report: SegmentReport | None
    unread: Unread | None = None


def check_segment(store: RemoteStore, segment: ListedSegment, *, deep: bool = False) -> CheckedSegment:
    """Read all objects of a segment. What cannot be read is a finding.

    A store may answer with other bytes of the same length, which no check of a request shows. So what is wrong is read
    again: if that gives another answer, nothing is claimed of the object.
    """
    checked = _check_once(store, segment, deep=deep)
    stored = segment.stored
    if stored is None or not checked.findings or checked.unread is not None or store.is_local:
        return checked
    again = _check_once(store, segment, deep=deep)
    if again.unread is not None or again.findings == checked.findings:
        return again
    return CheckedSegment(segment, (_unchecked(gave_other_bytes(stored.path_of_log)),), None, Unread.WITHOUT_HELP)


def _unchecked(error: KlogError) -> Finding:
    field = Unhelped.STORE if isinstance(error, Unreadable) else None
    return Finding(Kind.REMOTE_UNCHECKED, error.path or "", from_text(error.reason), error.position, field=field)


def _check_once(store: RemoteStore, segment: ListedSegment, *, deep: bool) -> CheckedSegment:
    stored = segment.stored
    if stored is None:
        return CheckedSegment(segment, (), None)
    missing = [suffix for suffix in _NEEDED[stored.layout] if suffix not in stored.objects]
    if missing:
        return CheckedSegment(segment, tuple(_missing(segment, stored, missing)), None)
    check = _Check(store, segment, stored, deep=deep)
    try:
        findings = tuple(check.findings())
    except (Unsupported, Unreadable) as error:
        return CheckedSegment(segment, (_unchecked(error.at_path(check.path)),), None, Unread.WITHOUT_HELP)
    except KlogError as error:
        # A chunk that was cut cannot be opened either: that is told once.
        sizes, strange = tuple(check.size_findings()), tuple(check.manifest_findings())
        corrupt = () if any(one.field for one in sizes) else (check.corrupt(error),)
        return CheckedSegment(segment, (*strange, *sizes, *corrupt), None)
    return CheckedSegment(segment, findings, check.report)


def _end(segment: ListedSegment) -> int | None:
    return None if segment.metadata is None else segment.metadata.end_offset


def _missing(segment: ListedSegment, stored: StoredSegment, missing: list[str]) -> Iterator[Finding]:
    for suffix in missing:
        # The plugin keeps indexes that it has fetched; without them it goes on for a while.
        yield Finding(
            Kind.REMOTE_OBJECT_MISSING,
            f"{stored.path}.{suffix}",
            RemoteCause.THIS_ONE_MISSING(segment_id=str(segment.key.segment_id)),
            first_offset=segment.start_offset,
            last_offset=_end(segment),
            field=Consumer.STUCK,
        )


class _Check:
    def __init__(self, store: RemoteStore, segment: ListedSegment, stored: StoredSegment, *, deep: bool) -> None:
        self._store, self._segment, self._stored, self._deep = store, segment, stored, deep
        self.path = f"{stored.path}.{local_storage.LOG}"
        self.report = SegmentReport(self.path, segment.start_offset, segment.start_offset)
        self._lost: list[tuple[int, int]] | None = None  # offsets that no batch has; None: the log was not read

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong. Raises KlogError where the log cannot be read."""
        refused = self._refused_indexes()
        indexes = self._index(OFFSETS, refused), self._index(TIMES, refused)
        with open_log(self._store, self._stored) as file:
            self.report.size = file.size
            walk = LogWalk(file, self._segment.start_offset, NO_CLOCK, indexes, deep=self._deep)
            try:
                damages = list(walk.walk())
            finally:
                walk.fill(self.report)
            self._lost = list(self._walk_lost(file))
            misled = [] if FileKind.OFFSET_INDEX in refused else list(self._misled(file))
            is_short = any(True for _ in self.size_findings())
            is_index_read = not is_short and FileKind.TXN_INDEX not in refused
            of_transactions = list(self._txn_findings(file)) if is_index_read else []
        for damage in damages:
            if is_short and damage.end >= self.report.size and damage.id is Kind.TORN_BATCH:
                continue  # the finding about its size says it
            where = damage.start, damage.end, damage.first_offset, damage.last_offset
            yield Finding(Kind.REMOTE_BATCH, self.path, damage.reason, *where, damage.id.value)
        yield from self.manifest_findings()
        yield from self.size_findings()
        yield from self._contradictions()
        yield from (*refused.values(), *misled)
        yield from of_transactions
        for index in indexes:
            for finding in index.findings() if index is not None else ():
                yield Finding(Kind.REMOTE_INDEX, finding.path, finding.reason, finding.start, finding.end)
        for kind in FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT:
            if (reason := self._against_side_file(kind)) is not None:
                yield Finding(Kind.REMOTE_INDEX, path_of(self._stored, kind), reason)

    def _refused_indexes(self) -> dict[FileKind, Finding]:
        """Return the indexes that a broker refuses after it has fetched them: it then reads nothing of the segment, at
        either isolation level (RemoteIndexCache.createCacheEntry)."""
        refused = {}
        for kind, check in _SANITY_CHECKS.items():
            data = find_side_file(self._store, self._stored, kind) or b""
            try:
                check(data, self._segment.start_offset)
            except Corrupt as error:
                refused[kind] = self.corrupt(error.at_path(path_of(self._stored, kind)))
        return refused

    def corrupt(self, error: KlogError) -> Finding:
        """Return that a broker cannot read the segment, as far as that is known."""
        span = self._segment.start_offset, _end(self._segment)
        place = error.path or self.path, from_text(error.reason), error.position, None
        consumer = None if isinstance(error, SizesContradict) else Consumer.STUCK
        return Finding(Kind.REMOTE_OBJECT_CORRUPT, *place, *span, consumer)

    def _misled(self, file: LogFile) -> Iterator[Finding]:
        """Yield what a consumer meets that comes to the segment, if the offset index leads it past the first batch
        (RemoteLogManager.read). Those that begin further behind may meet other entries."""
        data, start = (
            find_side_file(self._store, self._stored, FileKind.OFFSET_INDEX) or b"",
            self._segment.start_offset,
        )
        position = OFFSET_ENTRIES.lookup(data, start, start).position
        if position <= 0:
            return
        frames, last = FrameReader(file), _end(self._segment)
        at_entry = frames.find(position, file.size)
        is_batch = any(frame.position == position for frame in frames.walk(0, file.size))
        consumer = Consumer.SKIPPED
        if isinstance(at_entry, Frame) and is_batch:
            last = at_entry.offset - 1
        elif isinstance(at_entry, Frame) or at_entry is FrameStop.LENGTH or self._stored.layout is TierLayout.AIVEN:
            consumer = Consumer.STUCK  # it gets bytes that are no batch, or the plugin refuses the range
        if last is None or last >= start:
            path, reason = path_of(self._stored, FileKind.OFFSET_INDEX), RemoteCause.LEADS_PAST(position=position)
            yield Finding(Kind.REMOTE_OBJECT_CORRUPT, path, reason, None, None, start, last, consumer)

    def _against_side_file(self, kind: FileKind) -> Reason | None:
        """Return what is wrong with what a new replica takes over (TierStateMachine.buildRemoteLogAuxState)."""
        known = self._segment.metadata
        try:
            data = find_side_file(self._store, self._stored, kind)
            if data is None:
                return RemoteCause.NO_SIDE_FILE()
            if kind is FileKind.PRODUCER_SNAPSHOT:
                parse_producer_snapshot(data, crc32c)
                return None
            own = {entry.epoch for entry in parse_leader_epoch_checkpoint(data)}
        except (Unsupported, Unreadable):
            raise
        except KlogError as error:  # consumers need neither: a broker fetches each part by itself
            return RemoteCause.SIDE_FILE(why=error.reason)
        lacking = tuple(epoch for epoch, _ in known.epochs if epoch not in own) if known is not None else ()
        return RemoteCause.EPOCHS_LACK(epochs=lacking) if lacking else None

    def _txn_findings(self, file: LogFile) -> Iterator[Finding]:
        """Yield where the index of aborted transactions contradicts the log. A broker does not look for an index that
        the metadata calls empty, and takes a missing one for empty (RemoteIndexCache, RemoteLogManager)."""
        known, kind = self._segment.metadata, FileKind.TXN_INDEX
        is_ignored = known is not None and known.txn_index_empty
        data = None if is_ignored else find_side_file(self._store, self._stored, kind)
        if data or self.report.has_transactions:
            for finding in verify_lone_txn_index(self.report, file, path_of(self._stored, kind), data):
                is_rest, reason = finding.id is Kind.TXNINDEX_SIZE, finding.reason
                if is_rest and finding.start is not None and finding.end is not None:  # nobody appends to it
                    reason = RemoteCause.TXN_REST(size=finding.end - finding.start)
                place = finding.start, finding.end, finding.first_offset, finding.last_offset
                yield Finding(Kind.REMOTE_TXNINDEX, finding.path, reason, *place, finding.id.value)

    def manifest_findings(self) -> Iterator[Finding]:
        """Yield that the manifest is that of another segment. The plugin does not look at the id in it: it reads the
        log by the sizes, the ranges and the key that are there."""
        try:
            manifest = self._store.manifest(self._stored)
        except KlogError:
            return  # that is a finding of its own
        said = None if manifest is None else manifest.segment
        own = self._segment.key.segment_id, self._segment.start_offset
        if said is not None and (said.key.segment_id, said.start_offset) != own:
            reason = RemoteCause.OTHER_MANIFEST(segment_id=said.key.segment_id, start=said.start_offset)
            yield Finding(Kind.REMOTE_MISMATCH, f"{self._stored.path}.{aiven.MANIFEST}", reason)

    def size_findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the size of the log object."""
        known, stored = self._segment.metadata, self._stored.log
        if stored is None:
            return
        if self._stored.layout is TierLayout.LOCAL:
            if known is not None and known.size is not None and known.size != stored.size:
                yield from self._size_findings(stored.size, known.size, Consumer.SKIPPED)
            return
        try:
            manifest = self._store.manifest(self._stored)
        except KlogError:
            return  # that is a finding of its own
        if manifest is not None and manifest.stored_size != stored.size:
            is_in_last = manifest.stored_size - sum(manifest.stored_sizes[-1:]) < stored.size
            is_plain = manifest.encryption is None and not manifest.is_compressed
            yield from self._size_findings(
                stored.size, manifest.stored_size, Consumer.SKIPPED if is_in_last and is_plain else Consumer.STUCK
            )
        elif manifest is not None and known is not None and known.size not in (None, manifest.size):
            reason = RemoteCause.OTHER_SIZE(manifest=manifest.size, metadata=str(known.size))
            yield Finding(Kind.REMOTE_MISMATCH, f"{self._stored.path}.{aiven.MANIFEST}", reason)

    def _size_findings(self, size: int, wanted: int, consumer: Consumer) -> Iterator[Finding]:
        """Yield a finding for each range of offsets that is lost, or one without."""
        last = _end(self._segment)
        lost = self._lost if consumer is Consumer.SKIPPED else None
        if lost is None:  # a broker that reads to the cut fails as a whole
            first = self._segment.start_offset if consumer is Consumer.STUCK else self.report.next_offset
            lost = [(first, last)] if last is not None and first <= last and size < wanted else []
        reason = RemoteCause.SIZE(size=size, wanted=wanted)
        place = Kind.REMOTE_OBJECT_SIZE, self.path, reason, min(size, wanted), max(size, wanted)
        for span in lost:
            yield Finding(*place, *span, consumer)
        if not lost:
            yield Finding(*place)

    def _walk_lost(self, file: LogFile) -> Iterator[tuple[int, int]]:
        """Yield the offsets of the segment that no batch has, if the log is not what the metadata says: a consumer
        passes over them. In one that is, offsets are missing where they were compacted."""
        known = self._segment.metadata
        if known is None or (
            has_what_is_known(known, self.report) and not lacks_its_time(self._store, self._segment, self.report)
        ):
            return
        frames, position, at = FrameReader(file), 0, known.start_offset
        while at <= known.end_offset and isinstance(frame := frames.find(position, file.size), Frame):
            last, position = frames.last_offset(frame), position + frame.size
            first = frame.offset if frame.magic >= CURRENT_MAGIC else at
            if first > at:
                yield at, min(first - 1, known.end_offset)
            at = max(at, last + 1)
        if at <= known.end_offset:
            yield at, known.end_offset

    def _contradictions(self) -> Iterator[Finding]:
        """Yield where the batches contradict the metadata."""
        known, report = self._segment.metadata, self.report
        if known is None or report.first_offset is None:
            return
        first, last = report.first_offset, report.next_offset - 1
        if first < known.start_offset or last > known.end_offset:
            reason = RemoteCause.OTHER_OFFSETS(first=first, last=last, start=known.start_offset, end=known.end_offset)
            for span in self._lost or ():
                yield Finding(Kind.REMOTE_MISMATCH, self.path, reason, None, None, *span, Consumer.SKIPPED)
            if not self._lost:
                yield Finding(Kind.REMOTE_MISMATCH, self.path, reason, first_offset=first, last_offset=last)
        elif self._lost and has_what_is_known(known, report):
            reason = RemoteCause.ENDS_BEFORE_INDEX(last=last, end=known.end_offset)
            for span in self._lost:
                yield Finding(Kind.REMOTE_MISMATCH, self.path, reason, None, None, *span, Consumer.SKIPPED)
        strange = [run for run in report.epochs if run.epoch >= 0 and not _has_epoch(known, run)]
        if strange:
            reason = RemoteCause.OTHER_EPOCH(epochs=tuple(dict.fromkeys(run.epoch for run in strange)))
            span = strange[0].first_offset, strange[-1].last_offset
            yield Finding(Kind.REMOTE_MISMATCH, self.path, reason, None, None, *span, "partition_leader_epoch")

    def _index(self, kind: IndexKind, refused: Collection[FileKind]) -> IndexFile | None:
        data = None if kind.file_kind in refused else find_side_file(self._store, self._stored, kind.file_kind)
        if data is None:
            return None
        with in_memory(path_of(self._stored, kind.file_kind), data) as file:
            return IndexFile(file, kind, self._segment.start_offset, self._most_entries())

    def _most_entries(self) -> int:
        size = self._stored.log.size if self._stored.log is not None else 0
        known = self._segment.metadata
        return max(size, (known.size or 0) if known is not None else 0) // LEAST_ENTRY_BYTES + 1


def has_what_is_known(known: RemoteSegment, report: SegmentReport) -> bool:
    """Return whether a log has the size that its metadata says, and only offsets of the segment."""
    first, last = report.first_offset, report.last_offset
    is_within = first is not None and last is not None and known.start_offset <= first <= last <= known.end_offset
    return known.size in (None, report.size) and is_within


def lacks_its_time(store: RemoteStore, segment: ListedSegment, report: SegmentReport) -> bool:
    """Return whether the time index ends with the largest time of the metadata, at an offset behind the log: so the log
    was cut before its metadata was rebuilt, and has the size that this says. Raises KlogError."""
    known, stored = segment.metadata, segment.stored
    if known is None or stored is None or stored.layout is TierLayout.AIVEN:  # a manifest has the size
        return False
    if known.max_timestamp_ms <= report.largest_timestamp:
        return False
    entry = TIME_ENTRIES.last(find_side_file(store, stored, FileKind.TIME_INDEX) or b"", known.start_offset)
    return entry.timestamp == known.max_timestamp_ms and report.next_offset <= entry.offset <= known.end_offset


def _has_epoch(segment: RemoteSegment, run: EpochRun) -> bool:
    """Return whether a segment has the leader epoch at these offsets."""
    start = dict(segment.epochs).get(run.epoch)
    return start is not None and start <= run.first_offset and run.last_offset <= segment.last_offset_in(run.epoch)


def in_memory(path: str, data: bytes) -> LogFile:
    """Return bytes as a file."""
    return StoredFile(path, len(data), lambda position, size: data[position : position + size], len(data))
