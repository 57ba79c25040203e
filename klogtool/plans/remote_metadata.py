"""remote metadata: the topic `__remote_log_metadata` as the objects of a store say it was, when it is lost.

For each segment two records, COPY_SEGMENT_STARTED and COPY_SEGMENT_FINISHED, in the order of the uploads. Nobody can
know which segments were being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.content import Content
from klogtool.broker.draft import Draft
from klogtool.format.batch import BatchOrigin, Record, build_batch
from klogtool.format.identity import PartitionMetadata, build_partition_metadata
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.names import REMOTE_TOPIC, FileKind, build_file_name
from klogtool.format.partitioner import metadata_partition
from klogtool.format.tiered.segments import RemoteSegment, SegmentKey
from klogtool.format.uuids import parse_uuid
from klogtool.log.file import Unreadable
from klogtool.plans.remote_fetch import recover_new
from klogtool.remote.fetching import walk_holes
from klogtool.remote.inventory import ListedPartition, ListedSegment
from klogtool.remote.store import RemoteStore

BROKER_ID = 0  # nothing uses it but messages
FIRST_EPOCH = 0
_STARTED, _FINISHED = 0, 1  # ordinals of RemoteLogSegmentState
MOST_RECORDS = 1000  # of one batch


class UndescribedObject(Struct, frozen=True):
    """Objects that are not in the metadata. why: None: they lie wholly below the start of the log."""

    key: SegmentKey
    path: str
    why: str | None


class LackedOffsets(Struct, frozen=True):
    """Offsets of a partition, first and last, that no object has."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class RebuiltMetadata(Struct, frozen=True):
    """files: of the partition dirs, by path. partitions: how many partitions the topic has; it must be so many.
    topic_id: of the topic; None if it is not known: then the dirs lack partition.metadata, and a broker sets them
    aside."""

    files: Mapping[str, Content]
    partitions: int
    topic_id: str | None
    segments: Sequence[RemoteSegment]
    left_out: Sequence[UndescribedObject]
    missing: Sequence[LackedOffsets]

    @property
    def folders(self) -> list[str]:
        """The names of the partition dirs."""
        return sorted({path.partition("/")[0] for path in self.files})


def rebuild_metadata(
    store: RemoteStore,
    partitions: Iterable[ListedPartition],
    count: int,
    adopted: str | None,
    now_ms: int,
    topic_id: str | None = None,
) -> RebuiltMetadata:
    """Make the records of all segments. count: of partitions of the topic; topic_id: its id, if known. adopted: the id
    of a topic that comes from another cluster: its segments get one leader epoch, which no leader of this cluster is
    below. Raises Unreadable if the store does not give what it lists."""
    segments: list[RemoteSegment] = []
    left_out: list[UndescribedObject] = []
    missing: list[LackedOffsets] = []
    for partition in partitions:
        missing += (LackedOffsets(partition.topic, partition.partition, *one) for one in walk_holes(store, partition))
        for one in partition.segments:
            described = _described(partition, one)
            if isinstance(described, UndescribedObject):
                left_out.append(described)
            elif described is not None:
                is_adopted = described.key.topic_id == adopted
                epochs = ((FIRST_EPOCH, described.start_offset),) if is_adopted else described.epochs
                segments.append(replace(described, epochs=epochs))
    segments.sort(key=lambda one: (one.event_ms, one.start_offset, one.key))
    values: dict[int, list[tuple[int, bytes]]] = {}
    for segment in segments:
        number = metadata_partition(segment.key.topic_id, segment.key.partition, count)
        values.setdefault(number, []).extend(_values(segment))
    files: dict[str, Content] = {}
    for number, records in sorted(values.items()):
        draft = Draft(f"{REMOTE_TOPIC}-{number}", {})
        draft.write(build_file_name(FileKind.LOG, 0), _log(records))
        if topic_id is not None:
            own = build_partition_metadata(PartitionMetadata(0, parse_uuid(topic_id)))
            draft.write(FileKind.PARTITION_METADATA.value, own)
        recover_new(draft, now_ms)
        files |= {f"{draft.path}/{name}": draft.files[name].content for name in draft.names()}
    return RebuiltMetadata(files, count, topic_id, segments, left_out, missing)


def _described(partition: ListedPartition, one: ListedSegment) -> RemoteSegment | UndescribedObject | None:
    if one.stored is None:
        return None
    if isinstance(one.problem, Unreadable):
        raise one.problem
    if one.metadata is None or one.problem is not None:
        why = "it does not say what it is" if one.problem is None else one.problem.reason
        return UndescribedObject(one.key, one.stored.path, why)
    local = partition.local
    if local is not None and one.metadata.end_offset < local.start:
        return UndescribedObject(one.key, one.stored.path, None)
    # The folder decides whose segment it is: a manifest keeps the id of the topic that it was written for.
    return replace(one.metadata, key=one.key, topic=partition.topic, end_offset=_end_of(partition, one, one.metadata))


def _end_of(partition: ListedPartition, one: ListedSegment, known: RemoteSegment) -> int:
    """Return the last offset of a segment as the broker had it, also if its log was cut since: a broker begins the next
    one there. Consumers pass over what is missing then; with a hole in the metadata their offsets would be reset."""
    if one.reached is None:
        return known.end_offset
    starts = (other.start_offset for other in partition.segments if other.start_offset > known.end_offset)
    return min(starts, default=one.reached + 1) - 1


def _values(segment: RemoteSegment) -> list[tuple[int, bytes]]:
    """Return the two values, with their timestamp."""
    entry = {"name": segment.topic, "id": segment.key.topic_id, "partition": segment.key.partition}
    event_ms = max(segment.event_ms, 0)
    both = {
        "remoteLogSegmentId": {"topicIdPartition": entry, "id": segment.key.segment_id},
        "brokerId": BROKER_ID,
        "eventTimestampMs": event_ms,
        "customMetadata": None,
    }
    started = {
        **both,
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "segmentSizeInBytes": min(segment.size or 0, MAX_INT),
        "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": at} for epoch, at in segment.epochs],
        "remoteLogSegmentState": _STARTED,
        "txnIndexEmpty": segment.txn_index_empty,
    }
    finished = {**both, "remoteLogSegmentState": _FINISHED}
    return [
        (event_ms, build_metadata_record("RemoteLogSegmentMetadataRecord", 0, started)),
        (event_ms, build_metadata_record("RemoteLogSegmentMetadataUpdateRecord", 0, finished)),
    ]


def _log(values: Sequence[tuple[int, bytes]]) -> bytes:
    records = [Record(offset, time, None, value) for offset, (time, value) in enumerate(values)]
    chunks = (records[at : at + MOST_RECORDS] for at in range(0, len(records), MOST_RECORDS))
    return b"".join(build_batch(chunk, BatchOrigin(partition_leader_epoch=FIRST_EPOCH)) for chunk in chunks)
