"""What a broker does once it has started, and no start shows: by false indexes, late opened ones, as a coordinator.

A start does not look at the indexes of closed segments, nor, after a clean stop, at those of the active one. Half a
minute later (log.initial.task.delay.ms) retention goes by them.

A coordinator loads all of its partition once the broker leads it, and may not get to the end; the partition itself is
served all the same. A broker without remote storage serves only a part of a topic that has it.

Indexes of closed segments that a start does not open are opened when somebody first needs them (LazyIndex), for
writing, too: the `.index` for a fetch, the `.timeindex` for a look-up by time and for retention. One that cannot be
opened takes the log dir offline then. A `.txnindex` is opened when the log is loaded.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from klogtool.broker.circumstances import REMOTE_SYSTEM, Checkpoints, Circumstances
from klogtool.broker.coordinator.coordinator_load import MODULES, find_load_end
from klogtool.broker.coordinator.transaction_state import find_owed_markers, opens_all, walk_data
from klogtool.broker.draft import Draft
from klogtool.broker.timestamps import duration_text, time_text
from klogtool.broker.unified_log.index_files import OffsetIndex, TimeIndex
from klogtool.broker.unified_log.kept_segments import ages_of, explain_kept
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.retention import TIME, Deletion, delete_old_segments
from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, Prospect, What
from klogtool.doctor.causes import AdviceCause, AheadCause
from klogtool.doctor.claims import Hidden, HiddenBy, WhyUnknown
from klogtool.doctor.patient import Cluster
from klogtool.doctor.permissions import why_not_written
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.escape import quoted
from klogtool.format.internal.records import GROUP, SHARE, TRANSACTION
from klogtool.format.names import (
    MAPPED_INDEXES,
    TRANSACTIONS_TOPIC,
    FileKind,
    TopicPartition,
    build_file_name,
    parse_file_name,
)
from klogtool.format.tiered.segments import RemoteSegment
from klogtool.log.file import LogFile
from klogtool.log.folder import is_socket
from klogtool.log.log_dirs import find_log_dir_among
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.plans.guessed_settings import Beside, check_retention
from klogtool.plans.index_doubts import (
    FalseIndexEffect,
    IndexDoubt,
    Timekeeper,
    dates_of,
    first_too_early,
    retention_doubts,
    true_ages,
    zeros_that_fill,
)
from klogtool.remote.lineage import RemoteLogCache
from klogtool.remote.local import read_log
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.store import RemoteStore
from klogtool.salvage.stretches import Run, walk_stretches
from klogtool.verify.cures import move_out_of_partition, rebuild_index
from klogtool.verify.findings import Severity
from klogtool.verify.stops import offline


def walk_retention(path: str, log: LoadedLog, checkpoints: Checkpoints, *, ends_early: bool) -> Iterator[Ahead]:
    """Yield what is ahead of a loaded log because of false indexes. It changes the log: nobody may use it afterwards.
    ends_early: the broker has a false end of the log; the cure of that mends indexes, too.

    A folder that ends in -delete, -stray or -future has nothing ahead: nobody appends to it, and LogManager.cleanupLogs
    passes it over. Raises KlogError if a log cannot be read.
    """
    if not Partition(path).state.is_current:
        return
    if zeros := zeros_that_fill(log):
        rolls = AheadCause.ROLLS(zeros=zeros, segment=log.segments.last.base_offset)
        yield Ahead(path, What.ROLLS_EARLY, rolls, severity=Severity.WARNING)
    elif not ends_early and (writes_fail := _find_refused_writes(path, log)) is not None:
        yield writes_fail
    segments = {segment.base_offset: segment for segment in log.segments.all}
    logs = {segment.base_offset: segment.path for segment in log.segments.all}
    try:
        ages, keeper = ages_of(log), Timekeeper(log)
        deleted = delete_old_segments(log)
    except (Corrupt, Refused):  # a broker's check fails there, and deletes nothing
        return
    by_time = [deletion for deletion in deleted if deletion.by == TIME]
    # Of what stays, the first segment holds the others: a log has no holes. Each is looked at whose date is to come.
    kept = [first for first in [next(explain_kept(log, ages), None)] if first is not None and first.held_by is not None]
    goes_by_time = log.terms.config.delete and log.terms.config.retention_ms >= 0
    to_come = {base for base, age in ages.items() if goes_by_time and age.timestamp > log.terms.now_ms}
    only = {deletion.segment for deletion in by_time} | {first.segment for first in kept} | to_come
    doubts = retention_doubts(log, keeper, ages, deleted, kept, only)
    yield from _walk_kept(path, log, doubts)
    if not by_time:
        return
    try:
        check_retention(log, deleted, segments, true_ages(ages, doubts), Beside.of(path, checkpoints))
    except Refused:  # the disk contradicts Kafka's default: nobody knows what this broker's retention is
        return
    doubt = first_too_early(doubts)
    if doubt is not None:
        early = [deletion for deletion in by_time if deletion.segment >= doubt.segment]
        yield _deletes(path, log, early, doubt, [logs[deletion.segment] for deletion in early])


def _find_refused_writes(path: str, log: LoadedLog) -> Ahead | None:
    """Return the point about an index whose last entry has an offset beyond the log. A start after a clean stop does
    not look at it; each append that adds an entry compares it (OffsetIndex.append, TimeIndex.maybeAppend), the time
    index where it rolls as well."""
    draft, active = Draft(log.draft.path, dict(log.draft.files)), log.segments.last
    most, end = log.terms.config.segment_index_bytes, log.log_end_offset
    names = [active.name_of(kind) for kind in MAPPED_INDEXES]
    try:
        offsets = OffsetIndex(draft, names[0], active.base_offset, most)
        times = TimeIndex(draft, names[1], active.base_offset, most)
    except KlogError:  # told as what the broker cannot open
        return None
    if offsets.entries and offsets.last_offset >= end:
        return Ahead(path, What.WRITES_FAIL, AheadCause.WRITES_FAIL(last=offsets.last_offset, end=end))
    if times.entries and times.last_entry.offset > end:
        time = time_text(times.last_entry.timestamp)
        detail = AheadCause.LATER_WRITES_FAIL(last=times.last_entry.offset, end=end, time=time)
        return Ahead(path, What.WRITES_FAIL, detail)
    return None


def _walk_kept(path: str, log: LoadedLog, doubts: Sequence[IndexDoubt]) -> Iterator[Ahead]:
    """Yield the segments that a false date keeps: one that is to come, or, if nobody guesses retention.ms, any."""
    is_known = "retention.ms" in log.terms.sources
    for doubt in doubts:
        is_to_come = doubt.log_timestamp < doubt.believed_timestamp > log.terms.now_ms
        if is_to_come or (is_known and doubt.effect is FalseIndexEffect.KEPT_TOO_LONG):
            dates, retention = dates_of(doubt), _retention(log)
            detail = AheadCause.KEPT_TOO_LONG(segment=doubt.segment, dates=dates, retention=retention)
            yield Ahead(path, What.EXPIRES_LATE, detail, severity=Severity.WARNING)


def _retention(log: LoadedLog) -> Reason:
    is_set = "retention.ms" in log.terms.sources
    cause = AheadCause.RETENTION_SET if is_set else AheadCause.RETENTION_DEFAULT
    return cause(duration=duration_text(log.terms.config.retention_ms))


def _deletes(path: str, log: LoadedLog, early: Sequence[Deletion], doubt: IndexDoubt, logs: Sequence[str]) -> Ahead:
    runs = [run for deletion, file in zip(early, logs, strict=True) for run in _runs(file, deletion.segment)]
    cause = AheadCause.SEGMENT_EXPIRES if len(early) == 1 else AheadCause.SEGMENTS_EXPIRE
    return Ahead(
        path,
        What.EXPIRES_EARLY,
        cause(count=len(early), segment=doubt.segment, dates=dates_of(doubt), retention=_retention(log)),
        min((run.first_offset for run in runs), default=None),
        max((run.last_offset for run in runs), default=None),
        sum(run.records for run in runs),
        sum(deletion.size for deletion in early),
    )


def _runs(path: str, base_offset: int) -> list[Run]:
    with LogFile(path) as file:
        return [part for part in walk_stretches(file, base_offset) if isinstance(part, Run)]


def find_unloaded(path: str, log: LoadedLog, most_unread: int) -> Ahead | None:
    """Return the point about a record that the coordinator of this partition cannot read. most_unread: bytes to read at
    most; of a longer log, and of one with too much to open (`opens_all`), nothing is known. Damage is told by
    others."""
    partition = Partition(path)
    module = MODULES.get(partition.topic or "")
    if module is None or not partition.state.is_current:
        return None
    if module is SHARE and log.terms.rules.forgets_unloaded_groups:  # it has no share groups
        return None
    if sum(segment.size for segment in log.segments.values(log.log_start_offset)) > most_unread:
        return None
    try:
        if not opens_all(log):
            return None
        end = find_load_end(walk_data(log), module, log.terms.rules)
    except KlogError:
        return None
    if end is None:
        return None
    forgets = AheadCause.TRANSACTIONS_NOT_LOADED if module is TRANSACTION else AheadCause.GROUPS_FORGOTTEN
    is_refused = module is not TRANSACTION and not log.terms.rules.forgets_unloaded_groups
    cause = AheadCause.GROUPS_NOT_LOADED if is_refused else forgets
    cause = AheadCause.SHARES_NOT_LOADED if module is SHARE else cause
    cure = AdviceCause.COMMITS_BY_FILE if module is GROUP else AdviceCause.CUT_STATE
    return Ahead(
        path,
        What.COORDINATOR_FAILS,
        cause(offset=end.offset, why=end.reason),
        cure=cure(path=quoted(path), offset=end.offset),
    )


def with_markers(
    prospects: Sequence[Prospect], log_dirs: Sequence[str], circumstances: Circumstances
) -> tuple[Prospect, ...]:
    """Return the prospects. Where a coordinator appends a marker behind a false end, its log reaches further, and what
    lies behind that end is served in part: a fetch begins at the offset, and has what follows in the file."""
    if not any(map(_ends_early, prospects)):
        return tuple(prospects)
    owed = {str(partition) for each in log_dirs for partition in _walk_owed(each, circumstances)}
    unknown = Hidden(None, (), (HiddenBy.BEYOND_END,), WhyUnknown.WHILE_IT_RUNS)
    return tuple(
        replace(each, claim=replace(each.claim, hidden=unknown))
        if each.claim is not None and _ends_early(each) and os.path.basename(each.path) in owed
        else each
        for each in prospects
    )


def _ends_early(prospect: Prospect) -> bool:
    return prospect.claim is not None and HiddenBy.BEYOND_END in prospect.claim.hidden.why


def _walk_owed(log_dir: str, circumstances: Circumstances) -> Iterator[TopicPartition]:
    for partition in LogDir(log_dir).partitions:
        if partition.topic == TRANSACTIONS_TOPIC and partition.state.is_current:
            with suppress(KlogError):  # it is told, and no coordinator loads it
                yield from find_owed_markers(load(partition.path, circumstances, None, Checkpoints.of(log_dir)).log)


def find_unserved(path: str, log: LoadedLog) -> Ahead | None:
    """Return the point if older records are in remote storage: without it, a log starts with its first segment
    (UnifiedLog.isRemoteLogEnabled)."""
    terms, first = log.terms, log.segments.first.base_offset
    if not terms.is_remote_off or terms.log_start_offset >= first:
        return None
    span = terms.log_start_offset, first - 1
    detail = AheadCause.REMOTE_OFF(first=span[0], last=span[1], setting=REMOTE_SYSTEM)
    cure = AdviceCause.REMOTE_ON(setting=REMOTE_SYSTEM)
    return Ahead(path, What.REMOTE_OFF, detail, *span, cure=cure, is_hidden=True, is_uncounted=True)


def find_uncopied(path: str, log: LoadedLog) -> Ahead | None:
    """Return the point if a closed segment of a tiered topic has no producer snapshot at its end, as logs of releases
    before 2.8 have not: each try to copy it ends with a NullPointerException, and copying goes no further
    (RemoteLogManager.RLMCopyTask.copyLogSegment). One that was copied before needs none."""
    terms, bases = log.terms, [segment.base_offset for segment in log.segments.all]
    if terms.is_tiered is not True or terms.config.remote_log_copy_disable:
        return None
    names = [build_file_name(FileKind.PRODUCER_SNAPSHOT, base) for base in bases[1:]]
    missing = [name for name in names if name not in log.draft.files]
    if not missing or not Partition(path).state.is_current:
        return None
    detail = AheadCause.COPY_FAILS(count=len(missing), name=missing[0])
    return Ahead(path, What.COPY_FAILS, detail, severity=Severity.WARNING)


def weigh_by_store(point: Ahead, store: RemoteStore, metadata: RemoteMetadata) -> Ahead:
    """Return the point with how many of its offsets the store has, in segments that a broker with it serves.

    Objects are looked for, not read. The point stays as it is where the metadata does not tell. Raises KlogError if the
    log cannot be read.
    """
    first, last = point.first_offset, point.last_offset
    if point.what is not What.REMOTE_OFF or first is None or last is None:
        return point
    log = read_log(Partition(point.path), first)
    if log is None or log.topic_id is None or metadata.missing_home(log.topic_id, log.partition) is not None:
        return point
    cache = metadata.caches.get((log.topic_id, log.partition), RemoteLogCache())
    served = [one for one in cache.walk_served(log.epochs, first, last + 1) if one.segment is not None]
    stored = [one for one in served if _has_log(store, one.segment)]
    held, count = sum(one.end - one.start for one in stored), last + 1 - first
    cause = AheadCause.REMOTE_OFF_HELD if held == count else AheadCause.REMOTE_OFF_PARTLY
    return replace(point, detail=cause(first=first, last=last, setting=REMOTE_SYSTEM, held=held, count=count))


def _has_log(store: RemoteStore, segment: RemoteSegment | None) -> bool:
    stored = None if segment is None else store.segments.get(segment.key)
    return stored is not None and stored.log is not None


_WHEN = {
    FileKind.OFFSET_INDEX: AheadCause.FETCH_FAILS,
    FileKind.TIME_INDEX: AheadCause.TIME_FAILS,
}
_MAY_FAIL = (What.FAILS_AT_READ, What.LINK_BROKEN)
_GIVING_UP = (*_MAY_FAIL, What.OFFLINE, What.NO_ROOM)


def walk_unopened(path: str, log: LoadedLog) -> Iterator[Ahead]:
    """Yield a point for each such index of a loaded log. Nobody reads a folder that ends in -delete, -stray, -future.
    A segment that this start opens, to recover it, has failed before."""
    if not Partition(path).state.is_current:
        return
    draft = log.draft
    for segment in log.segments.all:
        for kind, is_there in segment.unopened_indexes().items():
            name = segment.name_of(kind)
            file = os.path.join(path, name)
            if draft.is_folder(name) or is_socket(file):  # a FIFO, or a device, is an empty index
                yield fails_at_read(file, os.strerror(errno.EISDIR if draft.is_folder(name) else errno.ENXIO))
            elif is_there and name in draft.before and (why := why_not_written(file)) is not None:
                yield fails_at_read(file, os.strerror(why))
    for base in log.report.deleted_segments:
        for kind in MAPPED_INDEXES:
            file = os.path.join(path, build_file_name(kind, base))
            if os.path.basename(file) in draft.folders and os.listdir(file):
                yield _fails_at_deletion(file)


def _fails_at_deletion(file: str) -> Ahead:
    """Return the point about a folder with something in it in place of an index of a segment that the start deletes. It
    was renamed with the segment, which is deleted file.delete.delay.ms later (LogSegment.deleteIfExists)."""
    stop = offline("DirectoryNotEmptyException", f"{file}.deleted")
    cure = move_out_of_partition(file)
    return Ahead(file, What.FAILS_AT_READ, AheadCause.DELETION_FAILS(), stop=stop, cure=cure)


def fails_at_read(file: str, reason: str) -> Ahead:
    """Return the point about an index of a closed segment that cannot be opened."""
    folder, name = os.path.split(file)
    parsed = parse_file_name(name)
    detail = _WHEN[parsed.kind](why=reason, segment=parsed.base_offset or 0)
    rebuilt = rebuild_index(folder, parsed.kind.value.removeprefix("."), parsed.base_offset)
    moved = f"{move_out_of_partition(file)} && {rebuilt}"
    cure = AdviceCause.OWNER(path=quoted(file)) if os.path.isfile(file) else moved
    stop = offline("FileNotFoundException", f"{file} ({reason})")
    return Ahead(file, What.FAILS_AT_READ, detail, stop=stop, cure=cure)


def with_ends(points: Sequence[Ahead], log_dirs: Sequence[str], cluster: Cluster) -> list[Ahead]:
    """Return the points; those that cost a broker its metadata log dir, or its last log dir, say that it ends."""
    failing = {find_log_dir_among(point.path, log_dirs) for point in points if point.what in _GIVING_UP}
    is_last = failing >= set(log_dirs)

    def ends(point: Ahead) -> bool:
        is_metadata = find_log_dir_among(point.path, log_dirs) == cluster.metadata_dir
        return (point.what in _MAY_FAIL or point.is_unsure) and (is_metadata or is_last)

    return [
        replace(point, detail=AheadCause.AND_ENDS(what=point.detail), may_end=True) if ends(point) else point
        for point in points
    ]
