"""What is wrong with the log dirs of a broker, beside what is wrong with their partitions one by one.

Several log dirs are those of one broker. What a broker makes of each state was seen on real ones, or read in
LogManager, MetaPropertiesEnsemble and CheckpointFile.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.identity import (
    MetaProperties,
    build_uuid,
    is_reserved_directory_id,
    parse_meta_properties,
    parse_partition_metadata,
)
from klogtool.format.names import FileKind, PartitionDirState, TopicPartition
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.folder import list_folder
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir
from klogtool.log.partition import Partition
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.repair.findings import Finding
from klogtool.repair.verifying.cures import move_out, recover, remove
from klogtool.repair.verifying.names import METADATA_TOPIC

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
MOST_ENTRIES_TOLD = 20
MOST_PROPERTIES_BYTES = 1 << 20  # four lines
LIVE = (PartitionDirState.CURRENT, PartitionDirState.FUTURE)


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """What the verification of a partition dir told of its log; None what it did not come to.

    base_offset: of the first segment. log_end_offset: behind the last sound batch. damaged_tail: the last segment and
    the byte in it from which on it is damaged.
    """

    partition: Partition
    base_offset: int | None = None
    log_end_offset: int | None = None
    last_segment: str | None = None
    damaged_tail: int | None = None


def knows_topic_ids(log_dir: LogDir) -> bool:
    """Whether brokers that gave topics ids have written here: 2.8 and later, most of them."""
    if os.path.lexists(os.path.join(log_dir.path, FileKind.BOOTSTRAP_SNAPSHOT.value)):
        return True
    return any(
        os.path.lexists(os.path.join(partition.path, FileKind.PARTITION_METADATA.value))
        for partition in log_dir.partitions
    )


def has_clean_marker(log_dir: LogDir) -> bool:
    """Whether a broker would take the last stop for clean: its file need only be there."""
    return os.path.lexists(os.path.join(log_dir.path, FileKind.CLEAN_SHUTDOWN.value))


# What is there before any log has been read.


def verify_log_dirs(log_dirs: Sequence[LogDir]) -> Iterator[Finding]:
    """Findings of names, of meta.properties and bootstrap.checkpoint, and of partitions that are there twice."""
    identities: dict[str, MetaProperties] = {}
    for log_dir in log_dirs:
        yield from _verify_names(log_dir)
        yield from _verify_meta_properties(log_dir, identities)
        bootstrap = os.path.join(log_dir.path, FileKind.BOOTSTRAP_SNAPSHOT.value)
        if os.path.isfile(bootstrap):
            from klogtool.repair.verifying.kraft import verify_kraft_snapshot

            yield from verify_kraft_snapshot(bootstrap)
    yield from _conflicts(identities)
    yield from _duplicates(log_dirs)


def _verify_names(log_dir: LogDir) -> Iterator[Finding]:
    for name in log_dir.foreign_folders:
        path = os.path.join(log_dir.path, name)
        detail = "not in the form of topic-partition: a broker does not start over it"
        yield Finding("foreign-folder", path, detail, cure=move_out(path))
    for file in list_folder(log_dir.path).files:
        if file.kind not in KINDS_IN_LOG_DIR:
            path = os.path.join(log_dir.path, file.name)
            yield Finding("foreign-file", path, "not a file of a log dir's; a broker leaves it alone")
    if log_dir.partitions and not has_clean_marker(log_dir):
        detail = "no marker of a clean stop: a broker that starts here recovers every log from its recovery point on"
        yield Finding("unclean-shutdown", log_dir.path, detail, cure=recover(log_dir.path))


def _verify_meta_properties(log_dir: LogDir, identities: dict[str, MetaProperties]) -> Iterator[Finding]:
    path = os.path.join(log_dir.path, FileKind.META_PROPERTIES.value)
    if not os.path.lexists(path):
        if _knows_meta_properties(log_dir):
            detail = "a broker does not start over a log dir without one"
            cure = "kafka-storage.sh format --ignore-formatted, with the cluster's id"
            yield Finding("meta-properties-missing", path, detail, cure=cure)
        return
    try:
        identity = parse_meta_properties(read_whole(path, limit=MOST_PROPERTIES_BYTES))
    except Unreadable as error:
        yield Finding("unreadable", path, error.reason)
        return
    except KlogError as error:
        yield Finding("meta-properties-corrupt", path, f"{error.reason}: a broker gives the log dir up")
        return
    identities[path] = identity
    if identity.node_id is None:
        yield Finding("meta-properties-corrupt", path, "no node.id is in it: a broker does not start")
    if identity.directory_id is not None and is_reserved_directory_id(identity.directory_id):
        detail = f"directory.id {build_uuid(identity.directory_id)} is reserved: a broker does not start"
        yield Finding("meta-properties-corrupt", path, detail, cure="delete the line: a broker makes a new id")


def _knows_meta_properties(log_dir: LogDir) -> bool:
    """Brokers write it since 0.9; since 0.10.1 there is a `.timeindex` beside each `.log` to tell by."""
    return knows_topic_ids(log_dir) or any(
        file.kind is FileKind.TIME_INDEX
        for partition in log_dir.partitions
        if os.access(partition.path, os.R_OK)
        for file in list_folder(partition.path).files
    )


def _conflicts(identities: Mapping[str, MetaProperties]) -> Iterator[Finding]:
    first = next(iter(identities), "")
    for path, identity in identities.items():
        known = identities[first]
        if None not in (known.cluster_id, identity.cluster_id) and known.cluster_id != identity.cluster_id:
            detail = f"cluster.id is {identity.cluster_id}, and {known.cluster_id} in {first}: a broker does not start"
            yield Finding("meta-properties-conflict", path, detail, field="cluster_id")
        if None not in (known.node_id, identity.node_id) and known.node_id != identity.node_id:
            detail = f"node.id is {identity.node_id}, and {known.node_id} in {first}: a broker does not start"
            yield Finding("meta-properties-conflict", path, detail, field="node_id")
    owners: dict[bytes, str] = {}
    for path, identity in identities.items():
        if identity.directory_id is None:
            continue
        owner = owners.setdefault(identity.directory_id, path)
        if owner != path:
            detail = (
                f"directory.id {build_uuid(identity.directory_id)} is that of {owner}, too: a broker does not start"
            )
            cure = "delete the line in the copy: a broker makes a new id"
            yield Finding("meta-properties-conflict", path, detail, field="directory_id", cure=cure)


def _duplicates(log_dirs: Sequence[LogDir]) -> Iterator[Finding]:
    owners: dict[tuple[TopicPartition | None, PartitionDirState], str] = {}
    for partition in (partition for log_dir in log_dirs for partition in log_dir.partitions):
        key = partition.topic_partition, partition.state
        if partition.state not in LIVE or _is_ignored(partition):
            continue
        owner = owners.setdefault(key, partition.path)
        if owner != partition.path:
            detail = f"{key[0]} lies in {owner}, too: a broker does not start"
            cure = f"keep the more complete one, and {move_out(partition.path)} if that is the other"
            yield Finding("duplicate-partition", partition.path, detail, cure=cure)


def _is_ignored(partition: Partition) -> bool:
    """A broker reads `__cluster_metadata-0` on its own, and no other partition of that topic."""
    return partition.topic == METADATA_TOPIC and partition.partition != 0


# What the logs themselves have told.


@dataclass(frozen=True, slots=True)
class Stated:
    """What the files of a log dir's root say of its logs. offsets: by checkpoint, of those that can be read."""

    path: str
    offsets: Mapping[FileKind, Mapping[TopicPartition, int]]
    is_clean: bool

    def of(self, wanted: Collection[TopicPartition | None]) -> Stated:
        """What they say of these partitions."""
        offsets = {
            kind: {name: offset for name, offset in by_name.items() if name in wanted}
            for kind, by_name in self.offsets.items()
        }
        return Stated(self.path, offsets, self.is_clean)


def verify_against_logs(
    log_dir: LogDir, ends: Sequence[PartitionEnds], *, only: FileKind | None = None
) -> Iterator[Finding]:
    """Findings of the root checkpoints and of the clean marker.

    ends: of the partition dirs in this log dir, those that were left out without offsets. only: one checkpoint.
    """
    stated, unreadable = read_stated(log_dir, CHECKPOINTS if only is None else (only,))
    yield from unreadable
    yield from verify_stated(stated, ends, with_marker=only is None)


def read_stated(log_dir: LogDir, kinds: Sequence[FileKind] = CHECKPOINTS) -> tuple[Stated, list[Finding]]:
    """What the root files say, and findings of the checkpoints that cannot be read."""
    read: dict[FileKind, dict[TopicPartition, int]] = {}
    found: list[Finding] = []
    for kind in kinds:
        path = os.path.join(log_dir.path, kind.value)
        if os.path.lexists(path):
            found += _read_checkpoint(path, kind, read)
    return Stated(log_dir.path, read, has_clean_marker(log_dir)), found


def verify_stated(stated: Stated, ends: Sequence[PartitionEnds], *, with_marker: bool = True) -> Iterator[Finding]:
    """Findings of what is stated and is not so; with_marker: also of the clean marker."""
    starts = stated.offsets.get(FileKind.LOG_START_CHECKPOINT, {})
    for kind, offsets in stated.offsets.items():
        path = os.path.join(stated.path, kind.value)
        found = list(_false_entries(path, kind, offsets, ends, starts if stated.is_clean else None))
        yield from found[:MOST_ENTRIES_TOLD]
        if len(found) > MOST_ENTRIES_TOLD:
            yield Finding("checkpoint-entry", path, f"{len(found) - MOST_ENTRIES_TOLD} more such entries")
    if stated.is_clean and with_marker:
        yield from _false_markers(stated, ends)


_COSTS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "a long recovery after a stop that was not clean",
    FileKind.REPLICATION_CHECKPOINT: "nothing on a single replica",
    FileKind.LOG_START_CHECKPOINT: "that deleted records can be read again",
    FileKind.CLEANER_CHECKPOINT: "one long cleaning",
}
_WITHOUT_NUMBERS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "a broker takes it for empty, and recovers every log from its beginning",
    FileKind.REPLICATION_CHECKPOINT: "a broker serves no partition of this log dir",
    FileKind.LOG_START_CHECKPOINT: "a broker takes it for empty, and deleted records can be read again",
    FileKind.CLEANER_CHECKPOINT: "the cleaner of the whole broker ends",
}


def _read_checkpoint(path: str, kind: FileKind, read: dict[FileKind, dict[TopicPartition, int]]) -> Iterator[Finding]:
    try:
        read[kind] = parse_offset_checkpoint(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        yield Finding("unreadable", path, error.reason)
    except KlogError as error:
        is_io = error.kafka_class in ("KafkaStorageException", None)
        outcome = "a broker gives the log dir up" if is_io else _WITHOUT_NUMBERS[kind]
        cure = remove(path, f"costs {_COSTS[kind]}")
        yield Finding("checkpoint-corrupt", path, f"{error.reason}: {outcome}", cure=cure)


def _false_entries(
    path: str,
    kind: FileKind,
    offsets: Mapping[TopicPartition, int],
    ends: Sequence[PartitionEnds],
    starts: Mapping[TopicPartition, int] | None,
) -> Iterator[Finding]:
    """starts: the log start offsets, if all checkpoints were written at the same time, by a clean stop."""
    by_name: dict[TopicPartition | None, list[PartitionEnds]] = defaultdict(list)
    for end in ends:
        by_name[end.partition.topic_partition].append(end)
    for topic_partition, offset in offsets.items():
        here = by_name.get(topic_partition)
        if here is None:
            detail = f"{topic_partition} {offset}: there is no such partition in this log dir"
            yield Finding("checkpoint-entry", path, detail)
            continue
        alive = [end for end in here if end.partition.state in LIVE]
        wrong = _wrong_offset(kind, offset, alive, None if starts is None else starts.get(topic_partition, 0))
        if wrong is not None:
            yield Finding(
                "checkpoint-entry", path, f"{topic_partition} {offset}: {wrong}", first_offset=min(offset, MAX_OFFSET)
            )


MAX_OFFSET = 2**63 - 1


def _wrong_offset(kind: FileKind, offset: int, alive: list[PartitionEnds], log_start_offset: int | None) -> str | None:
    known = [end.log_end_offset for end in alive if end.log_end_offset is not None]
    if offset < 0:
        return "no offset is below zero"
    if not known or len(known) < len(alive):
        return None
    if offset > max(known):
        return f"the log ends at {max(known)}{_BEYOND[kind]}"
    starts = [end.base_offset for end in alive if end.base_offset is not None]
    if log_start_offset is not None and kind in _NEVER_BELOW and starts:
        start = max(min(starts), log_start_offset if log_start_offset <= max(known) else 0)
        if offset < start:
            return f"the log begins at {start}"
    return None


_NEVER_BELOW = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)
_BEYOND = {
    FileKind.RECOVERY_POINT_CHECKPOINT: ": records that were flushed are gone",
    FileKind.REPLICATION_CHECKPOINT: ": records that all replicas had are gone",
    FileKind.LOG_START_CHECKPOINT: ": a broker deletes ALL of the log at its start",
    FileKind.CLEANER_CHECKPOINT: ": the cleaner begins anew",
}


def _false_markers(stated: Stated, ends: Iterable[PartitionEnds]) -> Iterator[Finding]:
    marker = os.path.join(stated.path, FileKind.CLEAN_SHUTDOWN.value)
    cure = remove(marker, f"then a broker recovers; or first see what that costs: {recover(stated.path)}")
    recovery_points = stated.offsets.get(FileKind.RECOVERY_POINT_CHECKPOINT, {})
    for end in ends:
        partition = end.partition
        if partition.state not in LIVE or end.log_end_offset is None or partition.topic == METADATA_TOPIC:
            continue  # the metadata log is recovered in any case
        name = partition.topic_partition
        flushed = recovery_points.get(name, 0) if name is not None else 0
        path = end.last_segment or partition.path
        if end.damaged_tail is not None:
            detail = (
                "is damaged at its end, under a marker of a clean stop: a broker does not look, and writes on into it"
            )
            yield Finding("clean-marker-false", path, detail, start=end.damaged_tail, cure=cure)
        elif flushed > end.log_end_offset:
            detail = f"ends at {end.log_end_offset}, and ended at {flushed} at the clean stop: offsets are given twice"
            yield Finding(
                "clean-marker-false",
                path,
                detail,
                first_offset=end.log_end_offset,
                last_offset=flushed - 1,
                cure=cure,
            )


# Topic ids, over all log dirs.


def verify_topic_ids(partitions: Iterable[Partition], by_metadata: Mapping[str, str] | None) -> Iterator[Finding]:
    """Findings of partitions of one topic that have different ids, or not the one that the cluster's metadata has.

    by_metadata: ids by topic, or None where the metadata is not at hand.
    """
    ids: dict[str, dict[str, str]] = defaultdict(dict)  # topic: partition dir: id
    for partition in partitions:
        if partition.state in LIVE and partition.topic is not None and partition.topic != METADATA_TOPIC:
            topic_id = _topic_id(partition)
            if topic_id is not None:
                ids[partition.topic][partition.path] = topic_id
    for topic, by_path in ids.items():
        by_cluster = None if by_metadata is None else by_metadata.get(topic)
        likely = by_cluster or Counter(by_path.values()).most_common(1)[0][0]
        for path, topic_id in by_path.items():
            if topic_id != likely:
                whose = "by the cluster's metadata" if by_cluster else "in its other partitions"
                yield Finding(
                    "topic-id-mismatch",
                    os.path.join(path, FileKind.PARTITION_METADATA.value),
                    f"the id of {topic} is {topic_id} here, and {likely} {whose}: a broker takes it for a stray, "
                    "renames it, and begins an empty one",
                )


def _topic_id(partition: Partition) -> str | None:
    """None where it cannot be read, which is a finding of the partition's."""
    path = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
    try:
        return build_uuid(parse_partition_metadata(read_whole(path, limit=MOST_TEXT_BYTES)).topic_id)
    except KlogError:
        return None
