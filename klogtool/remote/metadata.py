"""What `__remote_log_metadata` says: its records in order, and the newest state of each segment.

A broker reads all of the topic at its start, and so does this. Of several copies of a partition of the topic, the one
that goes furthest counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from klogtool.errors import Corrupt, KlogError
from klogtool.format.internal.records import REMOTE_LOG, parse_metadata_record
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState, key_of, segment_of, state_of
from klogtool.log.entries import RecordBatch
from klogtool.log.log_end import find_log_end
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.remote.lineage import RemoteLogCache

TOPIC = "__remote_log_metadata"
_SEGMENT, _UPDATE = "RemoteLogSegmentMetadataRecord", "RemoteLogSegmentMetadataUpdateRecord"


class Event(Struct, frozen=True):
    """A record about a segment. path, offset: where it stands. segment: of a new copy, None for an update. is_taken:
    False if Kafka drops it."""

    path: str
    offset: int
    key: SegmentKey
    state: SegmentState
    segment: RemoteSegment | None
    is_taken: bool


class RemoteMetadata(Struct):
    """caches: by topic id and partition. problems: where the topic cannot be read. names: topics by id. dropped: events
    that Kafka does not take. started_ms: of segments, when their copy began. partitions: of the topic, as far as they
    are here."""

    caches: dict[tuple[str, int], RemoteLogCache] = field(default_factory=dict)
    problems: list[KlogError] = field(default_factory=list)
    dropped: list[Event] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    started_ms: dict[SegmentKey, int] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)

    def find(self, key: SegmentKey) -> RemoteSegment | None:
        """Return what is known of a segment; None if nothing is, or it is deleted."""
        cache = self.caches.get((key.topic_id, key.partition))
        return None if cache is None else cache.segments.get(key)

    def segments(self) -> Iterator[RemoteSegment]:
        """Yield all segments that are not deleted."""
        for cache in self.caches.values():
            yield from cache.segments.values()


def read_metadata(log_dirs: Sequence[str]) -> RemoteMetadata:
    """Read the topic in these log dirs, or partition dirs of it.

    Raises KlogError if one of them cannot be opened, or none has the topic.
    """
    metadata = RemoteMetadata()
    for partition in _best(log_dirs):
        metadata.partitions.append(partition.path)
        try:
            for path, offset, value in _walk_values(partition):
                _take(metadata, path, offset, value)
        except KlogError as error:
            metadata.problems.append(error.at_path(partition.path))
    if not metadata.partitions:
        raise KlogError(f"no partition of {TOPIC} is in it", path=log_dirs[0])
    return metadata


def _best(log_dirs: Sequence[str]) -> list[Partition]:
    """Return the copy of each partition of the topic that goes furthest."""
    best: dict[int, tuple[int, Partition]] = {}
    for path in log_dirs:
        opened = open_path(path)
        for partition in LogDir(path).partitions if isinstance(opened, LogDir) else [Partition(path)]:
            if partition.topic != TOPIC or partition.partition is None or partition.state.value:
                continue
            end = find_log_end(partition) or 0
            if end > best.get(partition.partition, (-1, partition))[0]:
                best[partition.partition] = end, partition
    return [partition for _, (_, partition) in sorted(best.items())]


def _walk_values(partition: Partition) -> Iterator[tuple[str, int, bytes | None]]:
    for segment in partition.segments:
        for batch in segment.batches():
            if isinstance(batch, RecordBatch):
                if not batch.crc_valid:
                    raise Corrupt("a batch does not match its checksum", path=segment.path, position=batch.position)
                if batch.is_control:
                    continue
            for record in batch.records():
                yield segment.path, record.offset, record.value


def _take(metadata: RemoteMetadata, path: str, offset: int, value: bytes | None) -> None:
    """Take one record. What Kafka cannot read, it logs and passes over."""
    try:
        message = parse_metadata_record(REMOTE_LOG, value, newest=True)
        if message.name not in (_SEGMENT, _UPDATE):
            return
        key, state = key_of(message.values), state_of(message.values)
        segment = segment_of(message.values) if message.name == _SEGMENT else None
    except KlogError as error:
        problem = Corrupt(f"offset {offset}: {error.reason}", path=path)
        metadata.problems.append(problem)
        return
    cache = metadata.caches.setdefault((key.topic_id, key.partition), RemoteLogCache())
    event_ms = message.values["eventTimestampMs"]
    if segment is None:
        is_taken = cache.update(key, state, event_ms)
    else:
        is_taken = cache.add(segment)
        metadata.names[key.topic_id] = segment.topic
        metadata.started_ms.setdefault(key, event_ms)
    if not is_taken:
        metadata.dropped.append(Event(path, offset, key, state, segment, is_taken))
