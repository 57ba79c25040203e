"""Which bytes of a store are the log of a partition: what a broker would read, segment by segment, then the local tail.

Without metadata the objects say themselves what they are, and the newest of two that have the same offsets counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.escape import quoted
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.framing import CURRENT_MAGIC, Frame
from klogtool.format.names import REMOTE_TOPIC, FileKind
from klogtool.format.tiered.segments import RemoteSegment, SegmentState
from klogtool.log.entries import RecordBatch
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.frames import FrameReader
from klogtool.log.partition import Partition
from klogtool.remote.inventory import ListedPartition, ListedSegment
from klogtool.remote.lineage import RemoteLogCache, Served, lost_gaps
from klogtool.remote.local import LocalLog
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.segment_check import NO_CLOCK, has_what_is_known, lacks_its_time
from klogtool.remote.segment_file import find_side_file, open_log
from klogtool.remote.store import RemoteStore
from klogtool.verify.log_damage import Damage
from klogtool.verify.log_walk import LogWalk
from klogtool.verify.segment_report import SegmentReport


class LogSource(Struct, frozen=True):
    """A segment to take, with the offsets that are its own. listed: in the store; None: a file at `path`."""

    base_offset: int
    first_offset: int
    last_offset: int | None
    listed: ListedSegment | None
    path: str
    size: int


class MissingOffsets(Struct, frozen=True):
    """Offsets of the log that cannot be had. last_offset: None: nobody knows. why: the error, if there was one; path:
    the object or file that has it."""

    first_offset: int
    last_offset: int | None
    why: str | None = None
    path: str | None = None


class LogChoice(Struct, frozen=True):
    """What to fetch. start: the log's start offset afterwards."""

    sources: tuple[LogSource, ...]
    missing: tuple[MissingOffsets, ...]
    start: int


def choose_log(
    store: RemoteStore, partition: ListedPartition, metadata: RemoteMetadata | None, first_offset: int | None
) -> LogChoice:
    """Choose the segments from an offset on; None: from the log's start on. Raises Unsupported if the metadata that
    says which segments are the log's is not at hand, or a key is not, Unreadable if the store does not give what it
    lists, Corrupt if no object can be read."""
    home = None if metadata is None else metadata.missing_home(partition.topic_id, partition.partition)
    if home is not None:
        raise Unsupported(
            f"its metadata is in {REMOTE_TOPIC}-{home}, which is in none of the log dirs (--metadata), or cannot be "
            "read to its end",
            path=store.uri,
            cure="Name the log dir that has it, too; or leave --metadata out: the objects say then what they are.",
        )
    cache = _cache_of(partition, metadata)
    local, segments = partition.local, list(cache.segments.values())
    if local is not None:
        epochs, start, end = whole_epochs(store, partition, local, segments), local.start, local.local_start
    elif segments:
        epochs = newest_epochs(store, partition, segments)
        start, end = min(one.start_offset for one in segments), max(one.end_offset for one in segments) + 1
    else:
        cure = f"klogtool remote verify {quoted(store.uri)}  # says why"
        raise Corrupt("no segment of it can be read", path=store.uri, cure=cure)
    unread = [] if metadata is not None else list(_walk_unread(partition, first_offset))
    wanted, first = first_offset or 0, start
    if local is None:  # nobody knows the end of such objects
        first = min([start, *(one.start for one in unread)])
        end = max([end, *(max(one.start, wanted) + 1 for one in unread)])
    start, first = max(start, wanted), max(first, wanted)
    own = {one.key: one for one in partition.segments}
    sources: list[LogSource] = []
    missing: list[MissingOffsets] = []
    for served in cache.walk_served(epochs, first, end):
        listed = None if served.segment is None else own.get(served.segment.key)
        segment = served.segment
        if listed is None or listed.stored is None or listed.stored.log is None:
            listed = _stand_in(partition, epochs, served) or listed
            segment = served.segment if listed is None or listed.stored is None else listed.metadata
        if segment is None:
            _add_missing(missing, MissingOffsets(served.start, served.end - 1))
        elif listed is None or listed.stored is None or listed.stored.log is None:
            path = _log_path(partition, segment, listed)
            _add_missing(missing, MissingOffsets(served.start, served.end - 1, "the object does not exist", path))
        elif sources and sources[-1].listed is listed:
            sources[-1] = replace(sources[-1], last_offset=served.end - 1)
        else:
            sources.append(_source(listed, segment, served.start, served.end - 1, is_first=not sources))
    explained = [part for one in missing for part in _explained(one, unread, is_open=local is None)]
    if local is not None:
        sources += _local_sources(local.path, start)
    return LogChoice(tuple(sources), tuple(explained), start)


class _UnreadSegment(Struct, frozen=True):
    """Objects that do not say what they are. stop: where the next segment starts, None if there is none."""

    start: int
    stop: int | None
    why: KlogError


def _walk_unread(partition: ListedPartition, first_offset: int | None) -> Iterator[_UnreadSegment]:
    """Yield them, by start offset. Raises Unsupported, Unreadable for one that may be had another time."""
    for one in partition.segments:
        stop = next((other.start_offset for other in partition.segments if other.start_offset > one.start_offset), None)
        if one.problem is None or (stop is not None and first_offset is not None and stop <= first_offset):
            continue
        if isinstance(one.problem, Unsupported | Unreadable):
            raise one.problem
        yield _UnreadSegment(one.start_offset, stop, one.problem)


def _explained(missing: MissingOffsets, unread: Iterable[_UnreadSegment], *, is_open: bool) -> Iterator[MissingOffsets]:
    """Yield missing offsets, apart those that are in objects which do not say what they are. is_open: nothing is known
    behind the last one of these."""
    if missing.why is not None:
        yield missing
        return
    at, stop = missing.first_offset, (missing.last_offset or 0) + 1
    for one in unread:
        start, behind = max(at, one.start), stop if one.stop is None else min(stop, one.stop)
        if start < behind:
            if at < start:
                yield MissingOffsets(at, start - 1)
            last = None if one.stop is None and is_open else behind - 1
            yield MissingOffsets(start, last, one.why.reason, one.why.path)
            at = behind
    if at < stop:
        yield MissingOffsets(at, stop - 1)


def find_offset_at(partition: ListedPartition, timestamp: int) -> int | None:
    """Return the start of the first segment that has a record of this time or a later one."""
    known = [one.metadata for one in partition.segments if one.metadata is not None]
    return min((one.start_offset for one in known if one.max_timestamp_ms >= timestamp), default=None)


def _cache_of(partition: ListedPartition, metadata: RemoteMetadata | None) -> RemoteLogCache:
    """Return the segments as a broker has them: by the metadata, or as it would be rebuilt from the objects."""
    if metadata is not None:
        cache = metadata.caches.get((partition.topic_id, partition.partition))
        return RemoteLogCache() if cache is None else cache
    return cache_of_objects(one.metadata for one in partition.segments if one.metadata is not None)


def cache_of_objects(segments: Iterable[RemoteSegment]) -> RemoteLogCache:
    """Return what a broker would know of these segments, if they were copied in the order of their times."""
    cache = RemoteLogCache()
    for segment in sorted(segments, key=lambda one: (one.event_ms, one.start_offset, one.key)):
        cache.add(replace(segment, state=SegmentState.COPY_STARTED))
        cache.update(segment.key, SegmentState.COPY_FINISHED, segment.event_ms)
    return cache


def walk_holes(store: RemoteStore, partition: ListedPartition) -> Iterator[tuple[int, int]]:
    """Yield the offsets, first and last, that should be remote, and that no object has which says what it is: between
    the segments, and up to the local part where that is known. A broker copies a log without a hole; what is before the
    first segment, retention may have deleted. Raises Unreadable."""
    segments, local = [one.metadata for one in partition.segments if one.metadata is not None], partition.local
    if not segments:
        return
    start, end = min(one.start_offset for one in segments), max(one.end_offset for one in segments) + 1
    if local is not None:
        start, end = local.start, local.local_start
    try:
        if local is None:
            epochs = newest_epochs(store, partition, segments)
        else:
            epochs = whole_epochs(store, partition, local, segments)
    except Unsupported:  # without the key: the manifests have them as well
        epochs = partition.epochs if local is None or not local.epochs else local.epochs
    unread = [one.start_offset for one in partition.segments if one.problem is not None]  # that is told of them
    for first, last in lost_gaps(cache_of_objects(segments), epochs, start, end):
        last = min([last, *(at - 1 for at in unread if first <= at <= last)])
        if first <= last:
            yield first, last


def whole_epochs(
    store: RemoteStore, partition: ListedPartition, local: LocalLog, segments: Sequence[RemoteSegment]
) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of a log from its start on. What leader-epoch-checkpoint has lost of them, the newest
    segment has. If it has others than that segment, the log was another leader's, and its own count. Raises
    KlogError."""
    if not segments:
        return local.epochs
    known, end = _newest(store, partition, segments)
    if not local.epochs:
        return known
    (first, start), *later = local.epochs
    start = min(start, dict(known).get(first, start))  # it was moved up to where the checkpoint was cut
    if end is not None and {(first, start), *(one for one in later if one[1] <= end)} <= set(known):
        whole = *known, *(one for one in later if one[1] > end)
        if _is_begun_in(local, whole):
            return whole
    if local.knows_epoch_of_start:
        return local.epochs
    return (*(one for one in known if one[0] < first and one[1] < start), (first, start), *later)


def _is_begun_in(local: LocalLog, epochs: Sequence[tuple[int, int]]) -> bool:
    """Return whether the first batch on the disk has the leader epoch that these say."""
    with suppress(Corrupt):
        batch = next(iter(Partition(local.path).segments[0].batches()), None)
        if not isinstance(batch, RecordBatch) or batch.partition_leader_epoch < 0:
            return True
        begun = [epoch for epoch, start in epochs if start <= batch.base_offset]
        return begun[-1:] == [batch.partition_leader_epoch]
    return False


def newest_epochs(
    store: RemoteStore, partition: ListedPartition, segments: Sequence[RemoteSegment]
) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of the log up to the end of its newest segment: that has all of them."""
    return _newest(store, partition, segments)[0]


def _newest(
    store: RemoteStore, partition: ListedPartition, segments: Sequence[RemoteSegment]
) -> tuple[tuple[tuple[int, int], ...], int | None]:
    """Return the leader epochs, and up to which offset these are all; None if no segment says it."""
    stored = {one.key: one.stored for one in partition.segments}
    for newest in sorted(segments, key=lambda one: (one.epochs[-1][0], one.end_offset), reverse=True):
        objects = stored.get(newest.key)
        with suppress(Corrupt):  # an older one may do, or what the metadata has
            data = None if objects is None else find_side_file(store, objects, FileKind.LEADER_EPOCH_CHECKPOINT)
            if data:
                known = tuple((one.epoch, one.start_offset) for one in parse_leader_epoch_checkpoint(data))
                return known, newest.end_offset
    return partition.epochs, None


def _source(listed: ListedSegment, segment: RemoteSegment, first: int, last: int, *, is_first: bool) -> LogSource:
    # The first segment stays whole: the log start offset hides what is below it.
    is_whole = first == segment.start_offset or is_first
    base = segment.start_offset if is_whole else first
    log = None if listed.stored is None else listed.stored.log
    size = 0 if log is None else segment.size or log.size
    return LogSource(
        base, base, last if last < segment.end_offset else None, listed, "" if log is None else log.path, size
    )


def _local_sources(path: str, start: int) -> Iterator[LogSource]:
    segments = Partition(path).segments
    for n, segment in enumerate(segments):
        if n + 1 == len(segments) or segments[n + 1].base_offset > start:
            base = segment.base_offset
            yield LogSource(base, base, None, None, segment.path, segment.size)


def _add_missing(missing: list[MissingOffsets], more: MissingOffsets) -> None:
    """Add offsets to those that are missing for the same reason."""
    before = missing[-1] if missing else None
    if before is not None and before.last_offset == more.first_offset - 1 and before.path == more.path:
        missing[-1] = replace(before, last_offset=more.last_offset)
    elif more.first_offset <= (more.last_offset or 0):
        missing.append(more)


def _stand_in(partition: ListedPartition, epochs: Sequence[tuple[int, int]], served: Served) -> ListedSegment | None:
    """Return a segment that no broker reads, and which has these offsets all the same: one that was displaced. In one
    leader epoch an offset is one record, whoever copied it. What is being deleted is to be gone."""
    epoch = max((one for one, start in epochs if start <= served.start), default=-1)
    for one in partition.segments:
        known = one.metadata
        is_there = one.stored is not None and one.stored.log is not None and one.state is SegmentState.COPY_FINISHED
        if known is None or not is_there or epoch not in dict(known.epochs):
            continue
        if dict(known.epochs)[epoch] <= served.start and served.end - 1 <= known.last_offset_in(epoch):
            return one
    return None


def _log_path(partition: ListedPartition, segment: RemoteSegment, listed: ListedSegment | None) -> str:
    if listed is not None and listed.stored is not None:
        return listed.stored.path_of_log
    folders = (f"{one.stored.folder}/" for one in partition.segments if one.stored is not None)
    return f"{next(folders, '')}{segment.start_offset:020d}-{segment.key.segment_id}.log"


class SoundBytes(Struct, frozen=True):
    """Ranges of a log that are sound batches of the offsets that are wanted, and what is missing between them."""

    ranges: tuple[tuple[int, int], ...]
    missing: tuple[MissingOffsets, ...]


def open_source(store: RemoteStore, source: LogSource) -> LogFile:
    """Open the log of a source. Raises KlogError if it cannot be read."""
    if source.listed is None or source.listed.stored is None:
        return LogFile(source.path)
    return open_log(store, source.listed.stored)


def find_sound(store: RemoteStore, file: LogFile, source: LogSource) -> SoundBytes:
    """Return the sound batches of a log. Raises KlogError where it cannot be read."""
    walk = LogWalk(file, source.base_offset, NO_CLOCK, (None, None))
    damages = list(walk.walk())
    report = SegmentReport(file.path, source.base_offset, source.base_offset)
    walk.fill(report)
    # A base offset is under no checksum: such a batch can be read, and would stand among the others where it is not.
    report.size, ranges = file.size, tuple(_without(report.sound, damages))
    known = None if source.listed is None else source.listed.metadata
    wanted_end = source.last_offset if source.last_offset is not None else None if known is None else known.end_offset
    is_whole = known is None or has_what_is_known(known, report)
    if source.listed is not None and is_whole:
        is_whole = not lacks_its_time(store, source.listed, report)
    is_cut = source.last_offset is not None or source.first_offset > (known.start_offset if known is not None else 0)
    if is_cut or not is_whole:
        ranges = tuple(_cut(file, ranges, source.first_offset, wanted_end))
    if is_whole and not damages:
        return SoundBytes(ranges, ())
    return SoundBytes(ranges, tuple(_missing_between(file, ranges, source.first_offset, wanted_end)))


def _without(ranges: Sequence[tuple[int, int]], damages: Sequence[Damage]) -> Iterator[tuple[int, int]]:
    """Yield the ranges but for what is damaged in them."""
    for start, stop in ranges:
        at = start
        for damage in damages:
            if at < damage.end and damage.start < stop:
                if at < damage.start:
                    yield at, damage.start
                at = damage.end
        if at < stop:
            yield at, stop


def _cut(file: LogFile, ranges: Sequence[tuple[int, int]], first: int, last: int | None) -> Iterator[tuple[int, int]]:
    """Yield the batches that begin at `first` or later and end at `last` or before."""
    frames = FrameReader(file)
    for start, stop in ranges:
        at, began, ended = start, None, start
        while at < stop and isinstance(frame := frames.find(at, stop), Frame):
            at += frame.size
            if frame.offset >= first and (last is None or frames.last_offset(frame) <= last):
                began, ended = frame.position if began is None else began, at
        if began is not None:
            yield began, ended


def _missing_between(
    file: LogFile, ranges: Sequence[tuple[int, int]], first: int, last: int | None
) -> Iterator[MissingOffsets]:
    """Yield the offsets that are in no sound batch, where damage is: batches need not have all offsets."""
    frames, at = FrameReader(file), first
    for start, stop in ranges:
        position = start
        while isinstance(frame := frames.find(position, stop), Frame):
            if frame.magic >= CURRENT_MAGIC and frame.offset > at:
                yield MissingOffsets(at, frame.offset - 1, "damaged", file.path)
            at, position = frames.last_offset(frame) + 1, position + frame.size
    if last is not None and at <= last:
        yield MissingOffsets(at, last, "damaged", file.path)
