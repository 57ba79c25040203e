"""The partitions of a store, from its objects and from the metadata: what `klogtool remote ls` lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from klogtool.errors import KlogError, Unsupported
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState
from klogtool.log.file import Unreadable
from klogtool.log.thread_pool import in_order
from klogtool.remote.described import describe, describe_objects
from klogtool.remote.local import LocalLog, LocalLogs
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.store import RemoteStore, StoredSegment, gave_other_bytes

JOBS = 8  # requests at a time: an object store answers late, and many at once


class ListedSegment(Struct, frozen=True):
    """A segment by its metadata, by its objects, or both. problem: why its objects do not say what it is. reached: of
    objects without metadata whose log was cut: it went up to this offset at least."""

    key: SegmentKey
    start_offset: int
    metadata: RemoteSegment | None
    stored: StoredSegment | None
    problem: KlogError | None = None
    reached: int | None = None

    @property
    def state(self) -> SegmentState:
        """The newest state by the metadata topic."""
        return SegmentState.UNKNOWN if self.metadata is None else self.metadata.state

    @property
    def size(self) -> int:
        """Bytes of its objects."""
        return 0 if self.stored is None else self.stored.size


class ListedPartition(Struct, frozen=True):
    """A partition. segments: by start offset. local: None if no log dir is known that has it."""

    topic: str
    topic_id: str
    partition: int
    layout: TierLayout | None
    segments: tuple[ListedSegment, ...]
    local: LocalLog | None
    has_metadata: bool

    @property
    def stored(self) -> list[ListedSegment]:
        """Segments that have objects."""
        return [segment for segment in self.segments if segment.stored is not None]

    @property
    def states(self) -> Counter[SegmentState]:
        """How many segments have which state."""
        return Counter(segment.state for segment in self.segments)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(segment.size for segment in self.segments)

    @property
    def start_offset(self) -> int | None:
        """The lowest offset of a segment."""
        return min((segment.start_offset for segment in self.segments), default=None)

    @property
    def end_offset(self) -> int | None:
        """The offset after the last one of all segments; None if nobody knows."""
        return max((one.metadata.end_offset + 1 for one in self.segments if one.metadata is not None), default=None)

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Return the offsets, first and last, between the lowest and the highest that no object has."""
        gaps, at = list[tuple[int, int]](), self.start_offset or 0
        for start, end in sorted((one.start_offset, one.metadata.end_offset) for one in self.stored if one.metadata):
            if at < start:
                gaps.append((at, start - 1))
            at = max(at, end + 1)
        end = self.end_offset or 0
        is_known = all(one.problem is None for one in self.segments)
        return [] if not is_known else [*gaps, (at, end - 1)] if at < end else gaps

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """The leader epochs, with the lowest offset that a segment has of each."""
        lowest: dict[int, int] = {}
        for one in self.segments:
            for epoch, start in one.metadata.epochs if one.metadata is not None else ():
                lowest[epoch] = min(start, lowest.get(epoch, start))
        return tuple(sorted(lowest.items()))


def walk_partitions(
    store: RemoteStore, metadata: RemoteMetadata | None, local: LocalLogs | None = None
) -> Iterator[ListedPartition]:
    """Yield the partitions by name. Objects without metadata say themselves what they are."""
    known = {segment.key: segment for segment in metadata.segments()} if metadata is not None else {}
    listed: dict[tuple[str, int], list[ListedSegment]] = {}
    alone = [stored for key, stored in store.segments.items() if key not in known]
    for key, segment in known.items():
        one = ListedSegment(key, segment.start_offset, segment, store.segments.get(key))
        listed.setdefault((key.topic_id, key.partition), []).append(one)
    for _, one in in_order(lambda: lambda stored: _described(store, stored), iter(alone), JOBS):
        listed.setdefault((one.key.topic_id, one.key.partition), []).append(one)
    names = {} if metadata is None else metadata.names
    partitions = [_partition(*key, segments, names, metadata, local) for key, segments in listed.items()]
    yield from sorted(partitions, key=lambda one: (one.topic, one.partition, one.topic_id))


def _described(store: RemoteStore, stored: StoredSegment) -> ListedSegment:
    try:
        description = describe_objects(store, stored)
        is_strange = description.reached is not None or description.is_doubtful
        if is_strange and not store.is_local and describe_objects(store, stored) != description:
            raise gave_other_bytes(stored.path_of_log)
        return ListedSegment(stored.key, stored.start_offset, description.segment, stored, reached=description.reached)
    except KlogError as error:
        return ListedSegment(stored.key, stored.start_offset, None, stored, _read_again(store, stored, error))


def _read_again(store: RemoteStore, stored: StoredSegment, error: KlogError) -> KlogError:
    """Return why objects do not say what they are. A store that gives other bytes when it is asked again knows no more
    of them than a store that gives none."""
    if store.is_local or isinstance(error, Unsupported | Unreadable):
        return error
    try:
        describe(store, stored)
    except KlogError as again:
        if isinstance(again, Unsupported | Unreadable) or str(again) == str(error):
            return again
    return gave_other_bytes(stored.path_of_log)


def _partition(
    topic_id: str,
    partition: int,
    segments: list[ListedSegment],
    names: dict[str, str],
    metadata: RemoteMetadata | None,
    local: LocalLogs | None,
) -> ListedPartition:
    by_name = next((one.stored for one in segments if one.stored is not None), None)
    by_manifest = next((one.metadata.topic for one in segments if one.metadata is not None), None)
    topic = names.get(topic_id) or by_manifest or ("" if by_name is None else by_name.topic)
    return ListedPartition(
        topic,
        topic_id,
        partition,
        None if by_name is None else by_name.layout,
        tuple(sorted(segments, key=lambda one: (one.start_offset, one.key.segment_id))),
        None if local is None else local.find(topic_id, topic, partition),
        metadata is not None and (topic_id, partition) in metadata.caches,
    )
