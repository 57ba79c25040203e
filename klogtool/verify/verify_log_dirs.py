"""What is wrong with the log dirs of a broker, beside the findings of their partitions.

Several log dirs belong to one broker. How a broker reacts to each state was observed on real brokers, or read in
LogManager, MetaPropertiesEnsemble and CheckpointFile.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.identity import MetaProperties, parse_meta_properties
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.format.uuids import build_uuid, is_reserved_directory_id
from klogtool.log.file import LogFile, Unreadable, read_whole
from klogtool.log.folder import list_folder
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir, knows_topic_ids
from klogtool.log.partition import Partition
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.cures import (
    drop_line,
    edit,
    exchanging,
    move_out,
    number_of_lines,
    parent_of,
    remove,
    renaming,
    set_line,
)
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.identity import CureKind, Identity, IdentityKind, TopicIds, cures_of
from klogtool.verify.identity_cures import (
    MOST_PROPERTIES_BYTES,
    drop_directory_id,
    read_topic_id,
    write_meta_properties,
    write_partition_metadata,
)
from klogtool.verify.log_end import find_log_bytes, find_log_end
from klogtool.verify.stops import Outcome, Stop, offline, refuses, stop_of
from klogtool.verify.verify_kraft import verify_kraft_snapshot
from klogtool.verify.verify_names import METADATA_PARTITION
from klogtool.verify.verify_voters import lost_directory_id, verify_voters, with_directory_id

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
MOST_ENTRIES_TOLD = 20
ANOTHER_BROKER = "one of the two disks belongs to another broker: remove it from log.dirs"
DIRECTORY_ID = "directory_id"  # the field of a finding
WRITTEN_ANEW = (Kind.META_PROPERTIES_MISSING, Kind.META_PROPERTIES_CORRUPT)
_ROOT_NAMES = {kind.value for kind in KINDS_IN_LOG_DIR}
LIVE = (PartitionDirState.CURRENT, PartitionDirState.FUTURE)


class PartitionEnds(Struct, frozen=True):
    """What the check of a partition dir reported of its log; None if it did not get there.

    base_offset: of the first segment. log_end_offset: after the last sound batch. damaged_tail: the last segment, and
    the byte from which on it is damaged.
    """

    partition: Partition
    base_offset: int | None = None
    log_end_offset: int | None = None
    last_segment: str | None = None
    damaged_tail: int | None = None


def has_clean_marker(log_dir: LogDir) -> bool:
    """Return whether a broker would take the last stop for clean: the file only has to exist."""
    return os.path.exists(os.path.join(log_dir.path, FileKind.CLEAN_SHUTDOWN.value))


# What can be checked before any log is read.


def verify_log_dirs(log_dirs: Sequence[LogDir]) -> Iterator[Finding]:
    """Yield findings of names, of meta.properties and bootstrap.checkpoint, and of duplicate partitions."""
    identities: dict[str, MetaProperties] = {}
    for log_dir in log_dirs:
        yield from _verify_names(log_dir)
        for finding in _verify_meta_properties(log_dir, identities):
            is_to_be_written = finding.cure is None and finding.id in WRITTEN_ANEW
            yield replace(finding, cure=write_meta_properties(finding.path, log_dirs)) if is_to_be_written else finding
        bootstrap = os.path.join(log_dir.path, FileKind.BOOTSTRAP_SNAPSHOT.value)
        if os.path.lexists(bootstrap):
            yield from verify_kraft_snapshot(bootstrap)
    yield from _conflicts(identities)
    yield from verify_voters(identities)
    yield from _duplicates(log_dirs)


def _verify_names(log_dir: LogDir) -> Iterator[Finding]:
    for name in log_dir.foreign_folders:
        path = os.path.join(log_dir.path, name)
        if name in _ROOT_NAMES:
            detail = "a folder in the place of a file: a broker does not start"
            cure = move_out(path, log_dir.path)
            yield Finding(Kind.UNREADABLE, path, detail, cure=cure, stop=_foreign(path, name))
            continue
        detail = "its name is not topic-partition: a broker does not start"
        yield Finding(Kind.FOREIGN_FOLDER, path, detail, cure=_cure_of_folder(log_dir, name), stop=_foreign(path, name))
    for file in list_folder(log_dir.path).files:
        if file.kind not in KINDS_IN_LOG_DIR:
            path = os.path.join(log_dir.path, file.name)
            yield Finding(Kind.FOREIGN_FILE, path, "not a file of a log dir: a broker leaves it alone")
    yield from _verify_clean_marker(os.path.join(log_dir.path, FileKind.CLEAN_SHUTDOWN.value))
    if log_dir.partitions and not has_clean_marker(log_dir):
        detail = (
            "there is no clean shutdown marker: a broker that starts here recovers every log from its recovery point"
        )
        yield Finding(Kind.UNCLEAN_SHUTDOWN, log_dir.path, detail)


def _foreign(path: str, name: str) -> Stop:
    form = "topic-partition or topic-partition.uniqueId-delete (if marked for deletion)"
    return refuses(
        "KafkaException",
        f"Found directory {path}, '{name}' is not in the form of {form}.\n"
        "Kafka's log directories (and children) should only contain Kafka topic data.",
    )


def _verify_clean_marker(path: str) -> Iterator[Finding]:
    """Yield a finding if the marker exists but cannot be read: a broker only checks that it exists."""
    if os.path.lexists(path):
        try:
            with LogFile(path):
                return
        except Unreadable as error:
            yield Finding(Kind.UNREADABLE, path, error.reason)


def _cure_of_folder(log_dir: LogDir, name: str) -> str:
    if name == "lost+found":
        return (
            "fsck needs this folder at the root of the disk, so leave it: use a sub-folder of the disk as the log dir, "
            "move everything else into it, and set log.dirs to it"
        )
    return move_out(os.path.join(log_dir.path, name), log_dir.path)


def _verify_meta_properties(log_dir: LogDir, identities: dict[str, MetaProperties]) -> Iterator[Finding]:
    path = os.path.join(log_dir.path, FileKind.META_PROPERTIES.value)
    if not os.path.lexists(path):
        if _knows_meta_properties(log_dir):
            detail = "a broker does not start if a log dir has none"
            how = "(have you run `kafka-storage.sh` to format the directory?)"
            message = f"No `meta.properties` found in {log_dir.path} {how}"
            yield Finding(Kind.META_PROPERTIES_MISSING, path, detail, stop=refuses("RuntimeException", message))
        return
    try:
        identity = parse_meta_properties(read_whole(path, limit=MOST_PROPERTIES_BYTES))
    except Unreadable as error:
        yield unreadable_file(path, error)
        return
    except KlogError as error:
        detail = f"{error.reason}: a broker takes the log dir offline"
        stop = offline(error.kafka_class or "RuntimeException", error.reason)
        yield Finding(Kind.META_PROPERTIES_CORRUPT, path, detail, stop=stop)
        return
    identities[path] = identity
    # KafkaRaftServer.initializeLogDirs, in its order. Version 0 may lack both: no broker wrote cluster.id before 2.4.
    missing = "node" if identity.node_id is None else "cluster" if identity.cluster_id is None else None
    if missing == "node" or (missing and knows_topic_ids(log_dir)):
        stop = refuses("RuntimeException", f"Error: {missing} ID not found in {log_dir.path}")
        yield Finding(Kind.META_PROPERTIES_CORRUPT, path, f"it has no {missing}.id: a broker does not start", stop=stop)
    if identity.directory_id is not None and is_reserved_directory_id(identity.directory_id):
        reserved = build_uuid(identity.directory_id)
        detail = f"directory.id {reserved} is reserved: a broker does not start"
        known = lost_directory_id(log_dir.path, (), identity.node_id)
        cure = with_directory_id(path, known) if known else drop_directory_id(path, "a broker creates a new id")
        stop = refuses("RuntimeException", f"Invalid reserved directory ID {reserved} found in {log_dir.path}")
        yield Finding(Kind.META_PROPERTIES_CORRUPT, path, detail, field=DIRECTORY_ID, cure=cure, stop=stop)


def unreadable_file(path: str, error: Unreadable) -> Finding:
    """Return the finding of a file that cannot be opened. If a folder has its name, a broker cannot open it either; a
    file that we may not read may be open to a broker."""
    if not os.path.isdir(path):
        return Finding(Kind.UNREADABLE, path, error.reason)
    stop = offline("IOException", "Is a directory")
    return Finding(Kind.UNREADABLE, path, error.reason, cure=move_out(path, parent_of(path)), stop=stop)


def _knows_meta_properties(log_dir: LogDir) -> bool:
    """Return whether this log dir should have the file. Brokers write it since 0.9; since 0.10.1 a `.timeindex` beside
    each `.log` shows their version."""
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
            detail = f"cluster.id is {identity.cluster_id}, but {known.cluster_id} in {first}: a broker does not start"
            message = f"Invalid cluster.id in: {path}. Expected {known.cluster_id}, but read {identity.cluster_id}"
            yield _conflict(path, detail, "cluster_id", ANOTHER_BROKER, message)
        if None not in (known.node_id, identity.node_id) and known.node_id != identity.node_id:
            detail = f"node.id is {identity.node_id}, but {known.node_id} in {first}: a broker does not start"
            message = (
                f"Stored node id {identity.node_id} doesn't match previous node id {known.node_id} in {path}. If you "
                "moved your data, make sure your configured node id matches. If you intend to create a new node, you "
                "should remove all data in your data directories."
            )
            yield _conflict(path, detail, "node_id", ANOTHER_BROKER, message)
    owners: dict[bytes, str] = {}
    for path, identity in identities.items():
        if identity.directory_id is None:
            continue
        owner = owners.setdefault(identity.directory_id, path)
        if owner != path:
            copy, kept = (owner, path) if _has_metadata(path) else (path, owner)
            directory_id = build_uuid(identity.directory_id)
            detail = f"directory.id {directory_id} is also in {kept}: a broker does not start"
            cure = drop_directory_id(copy, _why_dropped(kept))
            message = (
                f"Duplicate directory ID Optional[{directory_id}] found. It was the ID of {os.path.dirname(owner)}, "
                f"but also of {os.path.dirname(path)}"
            )
            yield _conflict(copy, detail, DIRECTORY_ID, cure, message)


def _has_metadata(path: str) -> bool:
    """Return whether the metadata log is in the log dir of a meta.properties: its id may be that of a voter."""
    return os.path.isdir(os.path.join(os.path.dirname(path), str(METADATA_PARTITION)))


def _why_dropped(kept: str) -> str:
    if _has_metadata(kept):
        return f"a broker creates a new id; the metadata log is in {quoted(os.path.dirname(kept))}, which keeps its own"
    return "use this if this log dir is the copy: a broker creates a new id"


def _conflict(path: str, detail: str, field: str, cure: str, message: str) -> Finding:
    stop = refuses("RuntimeException", message)
    return Finding(Kind.META_PROPERTIES_CONFLICT, path, detail, field=field, cure=cure, stop=stop)


def _duplicates(log_dirs: Sequence[LogDir]) -> Iterator[Finding]:
    owners: dict[tuple[TopicPartition | None, PartitionDirState], str] = {}
    for partition in (partition for log_dir in log_dirs for partition in log_dir.partitions):
        key = partition.topic_partition, partition.state
        if partition.state not in LIVE or _is_ignored(partition):
            continue
        owner = owners.setdefault(key, partition.path)
        if owner != partition.path:
            detail = f"{key[0]} is also in {owner}: a broker does not start"
            cure = _cure_of_duplicate(owner, partition.path)
            yield Finding(Kind.DUPLICATE_PARTITION, partition.path, detail, cure=cure, stop=_twice(owner, partition))


def _twice(owner: str, partition: Partition) -> Stop:
    """Return the stop: KafkaRaftServer's for the metadata log, LogManager's for all others."""
    if partition.topic == METADATA_TOPIC:
        return refuses(
            "KafkaException",
            f"Found unexpected metadata location in data directory `{partition.path}` (the configured metadata "
            f"directory is {os.path.dirname(owner)}).",
        )
    if partition.state is PartitionDirState.FUTURE:
        return refuses("IllegalStateException", f"Duplicate log directories found: {partition.path}, {owner}")
    return refuses(
        "IllegalStateException",
        f"Duplicate log directories for {partition.topic_partition} are found in both {partition.path} and {owner}. It "
        "is likely because log directory failure happened while broker was replacing current replica with future "
        "replica. Recover broker from this failure by manually deleting one of the two directories for this partition. "
        "It is recommended to delete the partition in the log directory that is known to have failed recently.",
    )


def _cure_of_duplicate(*paths: str) -> str:
    """Return the cure: move out the worse copy."""
    worse, better = worse_and_better(*paths)
    ends = {path: find_log_end(Partition(path)) for path in paths}
    message = f"its log ends at {ends[worse]}, the log of {quoted(better)} at {ends[better]}"
    return f"{move_out(worse, parent_of(worse))}  # {message}"


def worse_and_better(*paths: str) -> tuple[str, str]:
    """Return two copies of a partition: first the one that ends earlier; of two that end together, the smaller one."""
    ends = {path: find_log_end(Partition(path)) for path in paths}
    worse, better = sorted(paths, key=lambda path: (ends[path], find_log_bytes(Partition(path)), path == paths[0]))
    return worse, better


def _is_ignored(partition: Partition) -> bool:
    """Return whether a broker ignores it: it reads `__cluster_metadata-0` separately, and no other partition of that
    topic."""
    return partition.topic == METADATA_TOPIC and partition.partition != 0


# What the logs themselves reported.


class Stated(Struct, frozen=True):
    """What the root files of a log dir say of its logs. offsets: by checkpoint, for those that can be read."""

    path: str
    offsets: Mapping[FileKind, Mapping[TopicPartition, int]]
    is_clean: bool

    def of(self, wanted: Collection[TopicPartition | None]) -> Stated:
        """Return what they say of these partitions."""
        offsets = {
            kind: {name: offset for name, offset in by_name.items() if name in wanted}
            for kind, by_name in self.offsets.items()
        }
        return Stated(self.path, offsets, self.is_clean)


def verify_against_logs(
    log_dir: LogDir, ends: Sequence[PartitionEnds], *, only: FileKind | None = None
) -> Iterator[Finding]:
    """Yield findings of the root checkpoints and of the clean marker.

    ends: of the partition dirs in this log dir, without offsets for those that were left out. only: one checkpoint.
    """
    stated, unreadable = read_stated(log_dir, CHECKPOINTS if only is None else (only,))
    yield from unreadable
    yield from verify_stated(stated, ends, with_marker=only is None)


def read_stated(log_dir: LogDir, kinds: Sequence[FileKind] = CHECKPOINTS) -> tuple[Stated, list[Finding]]:
    """Return the contents of the root files, and findings of checkpoints that cannot be read."""
    read: dict[FileKind, dict[TopicPartition, int]] = {}
    findings: list[Finding] = []
    for kind in kinds:
        path = os.path.join(log_dir.path, kind.value)
        if os.path.lexists(path):
            findings += _read_checkpoint(path, kind, read)
    return Stated(log_dir.path, read, has_clean_marker(log_dir)), findings


def verify_stated(stated: Stated, ends: Sequence[PartitionEnds], *, with_marker: bool = True) -> Iterator[Finding]:
    """Yield findings of entries that do not fit the logs. with_marker: also of the clean marker."""
    starts = stated.offsets.get(FileKind.LOG_START_CHECKPOINT, {})
    for kind, offsets in stated.offsets.items():
        path = os.path.join(stated.path, kind.value)
        false = list(_false_entries(kind, offsets, ends, starts if stated.is_clean else None))
        cure = _cure_of_entries(path, kind, offsets, false)
        for entry in false[:MOST_ENTRIES_TOLD]:
            first_offset = None if entry.is_nowhere else min(entry.offset, MAX_OFFSET)
            of = str(entry.topic_partition)
            yield Finding(Kind.CHECKPOINT_ENTRY, path, entry.detail, first_offset=first_offset, entry=of, cure=cure)
        if len(false) > MOST_ENTRIES_TOLD:
            more = f"{len(false) - MOST_ENTRIES_TOLD} more such entries"
            yield Finding(Kind.CHECKPOINT_ENTRY, path, more, cure=cure)
    if stated.is_clean and with_marker:
        yield from _false_markers(stated, ends)


_COSTS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "a recovery of all segments after an unclean shutdown, so repair damaged "
    "logs first",
    FileKind.REPLICATION_CHECKPOINT: "nothing, once all replicas are in sync",
    FileKind.LOG_START_CHECKPOINT: "deleted records that become readable again",
    FileKind.CLEANER_CHECKPOINT: "one long cleaning",
}
_WITHOUT_NUMBERS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "a broker treats it as empty, and recovers every log from its start",
    FileKind.REPLICATION_CHECKPOINT: "a broker serves no partition of this log dir",
    FileKind.LOG_START_CHECKPOINT: "a broker treats it as empty, and deleted records become readable again",
    FileKind.CLEANER_CHECKPOINT: "the log cleaner of the whole broker stops",
}


def _read_checkpoint(path: str, kind: FileKind, read: dict[FileKind, dict[TopicPartition, int]]) -> Iterator[Finding]:
    try:
        read[kind] = parse_offset_checkpoint(read_whole(path, limit=MOST_TEXT_BYTES))
    except Unreadable as error:
        yield unreadable_file(path, error)
    except KlogError as error:
        stop: Stop | None = stop_of(error)
        if stop is not None and stop.outcome is Outcome.REFUSES:  # a broker catches it in this place
            is_unserved = kind is FileKind.REPLICATION_CHECKPOINT
            stop = Stop(Outcome.UNSERVED, stop.kafka_class, stop.message) if is_unserved else None
            outcome = _WITHOUT_NUMBERS[kind]
        else:
            outcome = "a broker takes the log dir offline"
        cure = remove(path, f"costs {_COSTS[kind]}")
        yield Finding(Kind.CHECKPOINT_CORRUPT, path, f"{error.reason}: {outcome}", cure=cure, stop=stop)


class _FalseEntry(Struct, frozen=True):
    """A line of a checkpoint. right: the offset that it should have; None if there is no such partition."""

    topic_partition: TopicPartition
    offset: int
    wrong: str
    right: int | None

    @property
    def is_nowhere(self) -> bool:
        return self.right is None

    @property
    def detail(self) -> str:
        return f"{self.topic_partition}: the checkpoint says {self.offset}, {self.wrong}"


def _false_entries(
    kind: FileKind,
    offsets: Mapping[TopicPartition, int],
    ends: Sequence[PartitionEnds],
    starts: Mapping[TopicPartition, int] | None,
) -> Iterator[_FalseEntry]:
    """starts: the log start offsets, if a clean stop wrote all checkpoints at the same time."""
    by_name: dict[TopicPartition | None, list[PartitionEnds]] = defaultdict(list)
    for end in ends:
        by_name[end.partition.topic_partition].append(end)
    for topic_partition, offset in offsets.items():
        here = by_name.get(topic_partition)
        if here is None:
            yield _FalseEntry(topic_partition, offset, "but there is no such partition in this log dir", None)
            continue
        alive = [end for end in here if end.partition.state in LIVE]
        wrong = _wrong_offset(kind, offset, alive, None if starts is None else starts.get(topic_partition, 0))
        if wrong is not None:
            yield _FalseEntry(topic_partition, offset, *wrong)


MAX_OFFSET = 2**63 - 1


def _wrong_offset(
    kind: FileKind, offset: int, alive: list[PartitionEnds], log_start_offset: int | None
) -> tuple[str, int] | None:
    """Return what is wrong with an entry, and its right offset: the nearest one that the log allows; but if the entry
    would delete or skip records, the log's beginning."""
    known = [end.log_end_offset for end in alive if end.log_end_offset is not None]
    starts = [end.base_offset for end in alive if end.base_offset is not None]
    if offset < 0:
        return "but no offset is below zero", min(starts, default=0)
    if not known or len(known) < len(alive):
        return None
    if offset > max(known):
        right = max(known) if kind in _NEVER_BELOW else min(starts, default=0)
        return f"the log ends at {max(known)}{_BEYOND[kind]}", right
    if log_start_offset is not None and kind in _NEVER_BELOW and starts:
        start = max(min(starts), log_start_offset if log_start_offset <= max(known) else 0)
        if offset < start:
            return f"the log starts at {start}", start
    return None


def _cure_of_entries(
    path: str, kind: FileKind, offsets: Mapping[TopicPartition, int], false: Sequence[_FalseEntry]
) -> str:
    """Return one command for all false lines of a file, so that the number of lines in its second line stays right."""
    if len(false) > MOST_ENTRIES_TOLD:
        return remove(path, f"costs {_COSTS[kind]}")
    gone = sum(entry.is_nowhere for entry in false)
    keys = [(entry.topic_partition, entry.right) for entry in false]
    commands = [drop_line(key) if right is None else set_line(key, right) for key, right in keys]
    if gone:
        commands.append(number_of_lines(len(offsets) - gone))
    is_loss = kind in _NEVER_BELOW and any(entry.right is not None and entry.right < entry.offset for entry in false)
    remarks = ["first check whether a replica has the missing records"] * is_loss + [_WAS_HERE] * bool(gone)
    return edit(path, commands, "; ".join(remarks))


_WAS_HERE = "only if the topic was deleted: the line shows that the partition was here, so first look for its folder"
_NEVER_BELOW = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)
_BEYOND = {
    FileKind.RECOVERY_POINT_CHECKPOINT: ": records that were flushed are lost",
    FileKind.REPLICATION_CHECKPOINT: ": records that all replicas had are lost",
    FileKind.LOG_START_CHECKPOINT: ": a broker deletes ALL of the log at startup",
    FileKind.CLEANER_CHECKPOINT: ": the cleaner starts again from the beginning",
}


def _false_markers(stated: Stated, ends: Iterable[PartitionEnds]) -> Iterator[Finding]:
    marker = os.path.join(stated.path, FileKind.CLEAN_SHUTDOWN.value)
    seen = f"klogtool recover {quoted(stated.path)} --last-stop unclean"
    cure = remove(
        marker, f"repair damaged logs first: a broker then recovers all logs, and {seen} shows what that costs"
    )
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
                "is damaged at its end, although there is a clean shutdown marker: a broker does not check, "
                "and appends after the damage"
            )
            yield Finding(Kind.CLEAN_MARKER_FALSE, path, detail, start=end.damaged_tail, cure=cure)
        elif flushed > end.log_end_offset:
            detail = (
                f"ends at {end.log_end_offset}, but ended at {flushed} at the clean shutdown: offsets are "
                "assigned twice"
            )
            yield Finding(
                Kind.CLEAN_MARKER_FALSE,
                path,
                detail,
                first_offset=end.log_end_offset,
                last_offset=flushed - 1,
                cure=cure,
            )


# Topic ids, over all log dirs.

_WRONG = (IdentityKind.MISNAMED, IdentityKind.REPLACED)  # a folder of a deleted topic is what a broker sets aside


def verify_topic_ids(partitions: Iterable[Partition], by_metadata: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield findings of partitions of one topic with different ids, or with another id than in the cluster's metadata.

    by_metadata: ids by topic, or None if the metadata is not available.
    """
    live = [each for each in partitions if each.state in LIVE and each.topic not in (None, METADATA_TOPIC)]
    known = TopicIds.of_most(live) if by_metadata is None else TopicIds.of(by_metadata)
    whose = "in its other partitions" if by_metadata is None else "in the cluster's metadata"
    folders = {os.path.basename(each.path): each for each in live}
    for partition in live:
        topic_id = read_topic_id(partition)
        identity = None if topic_id is None else known.judge(partition.topic or "", topic_id)
        if identity is not None and identity.kind in _WRONG:
            path = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
            detail = _identity_detail(partition, identity, whose)
            yield Finding(Kind.TOPIC_ID_MISMATCH, path, detail, cure=_cure_of_identity(partition, identity, folders))


def _identity_detail(partition: Partition, identity: Identity, whose: str) -> str:
    topic, its_id = partition.topic, identity.topic_id
    if identity.kind is IdentityKind.MISNAMED:
        return (
            f"the id {its_id} is that of {identity.topic_of_id} {whose}, and not of {topic}: a broker loads the "
            "folder, and never serves it"
        )
    return (
        f"the id of {topic} is {its_id} here, but {identity.id_of_name} {whose}: a broker treats the partition as a "
        "stray, renames it, and creates an empty one"
    )


def _cure_of_identity(partition: Partition, identity: Identity, folders: Mapping[str, Partition]) -> str:
    """Return the likeliest cure as a command; a remark says when another one is right."""
    cures = cures_of(partition, identity, folders)
    if not cures:
        return move_out(partition.path, parent_of(partition.path))
    first, others = cures[0], cures[1:]
    if first.kind is CureKind.EXCHANGE:
        own = os.path.basename(partition.path)
        if first.value < own:
            return f"exchange the two folders, once: the cure of {first.value} does it"
        return exchanging(partition.path, os.path.join(parent_of(partition.path), first.value))
    otherwise = "move the folder out of the log dir"
    if others:
        otherwise = f"rename it to {others[0].value}" if others[0].kind is CureKind.RENAME else "write the other id"
    topic = partition.topic if first.kind is CureKind.WRITE_ID else identity.topic_of_id
    remark = "" if first.is_proved else f"only if its records belong to {topic}; otherwise {otherwise}"
    if first.kind is CureKind.WRITE_ID:
        path = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
        return write_partition_metadata(path, first.value, remark)
    command = renaming(partition.path, os.path.join(parent_of(partition.path), first.value))
    return f"{command}  # {remark}" if remark else command
