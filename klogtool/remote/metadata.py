"""What `__remote_log_metadata` says: its records in order, and the newest state of each segment.

A broker reads all of the topic at its start, and so does this. Of several copies of a partition of the topic, the one
that goes furthest in the newest leader epoch counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.copies.leadership import history_of
from klogtool.errors import Corrupt, KlogError
from klogtool.format.internal.records import REMOTE_LOG, parse_metadata_record
from klogtool.format.names import REMOTE_TOPIC
from klogtool.format.partitioner import METADATA_PARTITIONS, metadata_partition
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey, SegmentState, key_of, segment_of, state_of
from klogtool.log.entries import RecordBatch
from klogtool.log.file import LogFile
from klogtool.log.log_end import find_log_end
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.probing import ends_preallocated
from klogtool.log.segment import Segment
from klogtool.remote.lineage import RemoteLogCache

MOST_COUNT = 1 << 12  # of partitions of the topic, when their number is looked for
_SEGMENT, _UPDATE = "RemoteLogSegmentMetadataRecord", "RemoteLogSegmentMetadataUpdateRecord"


class RemoteMetadata(Struct):
    """caches: by topic id and partition. problems: where the topic cannot be read. names: topics by id. dropped: how
    many events Kafka does not take. numbers: the partitions of the topic that are here; unread: those that cannot be
    read to their end. homes: which of them has a topic partition. count: how many partitions the topic has, by the
    cluster's metadata; None if that is not here."""

    caches: dict[tuple[str, int], RemoteLogCache] = field(default_factory=dict)
    problems: list[KlogError] = field(default_factory=list)
    dropped: int = 0
    names: dict[str, str] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)
    homes: dict[tuple[str, int], int] = field(default_factory=dict)
    count: int | None = None

    def knows(self, topic_id: str | None, partition: int) -> bool:
        """Return whether it has segments of a partition that are not deleted."""
        cache = None if topic_id is None else self.caches.get((topic_id, partition))
        return cache is not None and bool(cache.segments)

    def segments(self) -> Iterator[RemoteSegment]:
        """Yield all segments that are not deleted."""
        for cache in self.caches.values():
            yield from cache.segments.values()

    def finished(self) -> set[SegmentKey]:
        """Return the segments of which objects have to be there."""
        return {one.key for one in self.segments() if one.state is SegmentState.COPY_FINISHED}

    def missing_home(self, topic_id: str, partition: int) -> int | None:
        """Return which partition of the topic would have the records of a topic partition, if it is not here, or not
        whole.

        Without the cluster's metadata, only which records are where shows how many partitions the topic has, so with
        few records this is a guess.
        """
        if (home := self.homes.get((topic_id, partition))) is not None:
            return home if home in self.unread else None
        homes = [metadata_partition(topic_id, partition, count) for count in self._possible_counts()]
        return next((home for home in homes if home not in self.numbers or home in self.unread), None)

    def _possible_counts(self) -> list[int]:
        """Return how many partitions the topic may have: as many as are here, or the default, unless records say no."""
        if self.count is not None:
            return [self.count]
        least = max(self.numbers, default=-1) + 1
        if not self.homes and 0 < least == len(self.numbers):  # all are here, and there is no record
            return [least]
        counts = dict.fromkeys([least, max(least, METADATA_PARTITIONS)])
        return list(filter(self._is_count, counts)) or [next(filter(self._is_count, range(least, MOST_COUNT)), least)]

    def _is_count(self, count: int) -> bool:
        return all(metadata_partition(*key, count) == home for key, home in self.homes.items())


class MetadataTopic(Struct, frozen=True):
    """What log dirs say of the topic itself, None if they do not: its id, and how many partitions it has."""

    topic_id: str | None
    partitions: int | None


def find_topic(log_dirs: Sequence[str]) -> MetadataTopic:
    """Look for the topic in the cluster's metadata in these log dirs; its id also in its partition dirs."""
    dirs = [path for path in log_dirs if isinstance(open_path(path), LogDir)]
    for folder in (os.path.join(path, CLUSTER_METADATA_DIR) for path in dirs):
        cluster = read_cluster_metadata(folder) if os.path.isdir(folder) else None
        topic_id = None if cluster is None else cluster.topic_ids.get(REMOTE_TOPIC)
        if cluster is not None and topic_id is not None:
            return MetadataTopic(topic_id, len(cluster.replicas.get(topic_id, ())) or None)
    folders = (one for path in dirs for one in LogDir(path).partitions if one.topic == REMOTE_TOPIC)
    ids = (one.topic_id for one in folders if not one.state.value)
    return MetadataTopic(next(filter(None, ids), None), None)


def read_metadata(log_dirs: Sequence[str], *, may_lack: bool = False) -> RemoteMetadata:
    """Read the topic in these log dirs, or partition dirs of it. may_lack: none of them needs to have it.

    Raises KlogError if one of them cannot be opened, or none has the topic.
    """
    metadata = RemoteMetadata(count=find_topic(log_dirs).partitions)
    for partition in _best(log_dirs):
        number = partition.partition or 0
        metadata.numbers.add(number)
        try:
            for path, offset, value in _walk_values(partition):
                _take(metadata, number, path, offset, value)
        except KlogError as error:
            metadata.problems.append(error.at_path(partition.path))
            metadata.unread.add(number)
    if not metadata.numbers and not may_lack:
        raise KlogError(
            f"no partition of {REMOTE_TOPIC} is in it: name all log dirs that have one with --metadata; if it is lost, "
            "klogtool remote metadata builds it from the objects",
            path=log_dirs[0],
        )
    return metadata


def _best(log_dirs: Sequence[str]) -> list[Partition]:
    """Return the copy of each partition of the topic that goes furthest: in the newest leader epoch, as the copy of the
    one that led last."""
    best: dict[int, tuple[tuple[int, int], Partition]] = {}
    for path in log_dirs:
        opened = open_path(path)
        for partition in LogDir(path).partitions if isinstance(opened, LogDir) else [Partition(path)]:
            if partition.topic != REMOTE_TOPIC or partition.partition is None or partition.state.value:
                continue
            end = find_log_end(partition) or 0
            rank = history_of(partition, end).latest_epoch, end
            if partition.partition not in best or rank > best[partition.partition][0]:
                best[partition.partition] = rank, partition
    return [partition for _, (_, partition) in sorted(best.items())]


def _walk_values(partition: Partition) -> Iterator[tuple[str, int, bytes | None]]:
    for segment in partition.segments:
        end = 0
        try:
            for batch in segment.batches():
                if isinstance(batch, RecordBatch) and not batch.crc_valid:
                    raise Corrupt("a batch does not match its checksum", path=segment.path, position=batch.position)
                end = batch.position + batch.size
                if isinstance(batch, RecordBatch) and batch.is_control:
                    continue
                for record in batch.records():
                    yield segment.path, record.offset, record.value
        except Corrupt:
            if not _is_preallocated(segment, end):
                raise
        if end < segment.size and not _is_preallocated(segment, end):
            rest = segment.size - end
            raise Corrupt(f"{rest} bytes after the last whole batch are no batch", path=segment.path, position=end)


def _is_preallocated(segment: Segment, end: int) -> bool:
    with LogFile(segment.path) as file:
        return ends_preallocated(file, end)


def _take(metadata: RemoteMetadata, number: int, path: str, offset: int, value: bytes | None) -> None:
    """Take one record. What Kafka cannot read, it logs and passes over."""
    try:
        message = parse_metadata_record(REMOTE_LOG, value, of_4_4=True)
        if message.name not in (_SEGMENT, _UPDATE):
            return
        key, state = key_of(message.values), state_of(message.values)
        segment = segment_of(message.values) if message.name == _SEGMENT else None
    except KlogError as error:
        metadata.problems.append(Corrupt(f"offset {offset}: {error.reason}", path=path))
        return
    cache = metadata.caches.setdefault((key.topic_id, key.partition), RemoteLogCache())
    metadata.homes.setdefault((key.topic_id, key.partition), number)
    if segment is None:
        is_taken = cache.update(key, state, message.values["eventTimestampMs"])
    else:
        is_taken = cache.add(segment)
        metadata.names[key.topic_id] = segment.topic
    metadata.dropped += not is_taken
