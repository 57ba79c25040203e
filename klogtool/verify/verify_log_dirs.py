"""What is wrong with the log dirs of a broker before any log is read: names, meta.properties, duplicate partitions.

Several log dirs belong to one broker. How a broker reacts to each state was observed on real brokers, or read in
LogManager and MetaPropertiesEnsemble.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.releases import REFERENCE_RULES, Rules
from klogtool.causes import Reason, from_text
from klogtool.errors import KlogError
from klogtool.format.identity import MetaProperties, parse_meta_properties
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition, is_visible_to_java
from klogtool.format.uuids import build_uuid, is_reserved_directory_id
from klogtool.log.file import LogFile, Unreadable, read_whole
from klogtool.log.folder import find_partition_dir_name, is_broken_link, is_loop, list_folder
from klogtool.log.log_dirs import FolderKind, is_log_dir, kind_of_folder
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir, knows_topic_ids
from klogtool.log.partition import Partition
from klogtool.verify.causes import CureCause, CureRemark, FindingCause, LogDirCause, NameCause
from klogtool.verify.cures import move_out, parent_of, remarked
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.header_end import find_header_end
from klogtool.verify.identity import without_set_aside
from klogtool.verify.identity_cures import MOST_PROPERTIES_BYTES, drop_directory_id, write_meta_properties
from klogtool.verify.misplaced import LOST_FOUND, Misplaced, find_misplaced
from klogtool.verify.stops import Stop, offline, refuses
from klogtool.verify.verify_checkpoints import unreadable_file
from klogtool.verify.verify_kraft import verify_kraft_snapshot
from klogtool.verify.verify_names import METADATA_PARTITION
from klogtool.verify.verify_voters import lost_directory_id, verify_voters, with_directory_id

ANOTHER_BROKER = CureCause.OTHER_BROKERS_DISK()
DIRECTORY_ID = "directory_id"  # the field of a finding
NO_READABLE = "No readable meta.properties files found."
WRITTEN_ANEW = (Kind.META_PROPERTIES_MISSING, Kind.META_PROPERTIES_CORRUPT)
# Snapshots of NetApp, EFS, CephFS and ZFS, and what GlusterFS and Windows keep: nobody can rename these.
OF_FILE_SYSTEMS = (
    *(".snapshot", ".snap", ".zfs", ".glusterfs", ".trashcan"),
    *("System Volume Information", "$RECYCLE.BIN"),
)
MOMENT_S = 0.2  # in which a broker has renamed both folders of a partition that it moves
_METADATA = FileKind.PARTITION_METADATA.value
_ROOT_NAMES = {kind.value for kind in KINDS_IN_LOG_DIR}


def verify_log_dirs(
    log_dirs: Sequence[LogDir], rules: Rules = REFERENCE_RULES, *, may_be_copy: bool = False
) -> Iterator[Finding]:
    """Yield findings of names, of meta.properties and bootstrap.checkpoint, and of duplicate partitions.

    rules: those of the release whose words an exception has. may_be_copy: the log dir may be a copy of partition dirs,
    which has no meta.properties, and which no broker uses.
    """
    identities: dict[str, MetaProperties] = {}
    of_identity = [list(_verify_meta_properties(log_dir, identities, rules)) for log_dir in log_dirs]
    misplaced = list(find_misplaced(log_dirs))
    for log_dir, findings in zip(log_dirs, of_identity, strict=True):
        yield from _verify_names(log_dir, [each for each in misplaced if each.log_dir == log_dir.path])
        for finding in findings if identities else map(_as_in_all, findings):
            if may_be_copy and finding.id is Kind.META_PROPERTIES_MISSING:
                finding = replace(finding, stop=None)
            is_to_be_written = finding.cured_by is None and finding.id in WRITTEN_ANEW
            yield (
                replace(finding, cured_by=write_meta_properties(finding.path, log_dirs))
                if is_to_be_written
                else finding
            )
        bootstrap = os.path.join(log_dir.path, FileKind.BOOTSTRAP_SNAPSHOT.value)
        if os.path.lexists(bootstrap):
            yield from verify_kraft_snapshot(bootstrap)
    yield from _conflicts(identities)
    yield from verify_voters(identities)
    yield from _duplicates(log_dirs)


def may_be_copy(paths: Sequence[str], circumstances: Circumstances) -> bool:
    """Return whether this is one folder into which somebody may have copied partition dirs: no file that brokers keep
    in a log dir is there, nor the metadata of a cluster, and server.properties does not name it. The log dir of a
    broker from which all these files were deleted looks the same."""
    if len(paths) != 1 or kind_of_folder(paths[0]) is not FolderKind.BARE:
        return False
    path = paths[0]
    brokers = (FileKind.LOCK.value, FileKind.BOOTSTRAP_SNAPSHOT.value, str(METADATA_PARTITION))
    named = (*circumstances.log_dirs, circumstances.metadata_log_dir or "")
    is_named = os.path.realpath(path) in map(os.path.realpath, filter(None, named))
    return not is_named and not any(os.path.lexists(os.path.join(path, name)) for name in brokers)


def _verify_names(log_dir: LogDir, found_misplaced: Iterable[Misplaced]) -> Iterator[Finding]:
    for name in log_dir.foreign_folders:
        path = os.path.join(log_dir.path, name)
        if not is_visible_to_java(name):
            yield Finding(Kind.FOREIGN_FILE, path, NameCause.NOT_FOUND())
            continue
        if name == FileKind.CLEAN_SHUTDOWN.value:
            yield from _verify_marker_folder(path, log_dir)
            continue
        if name in _ROOT_NAMES:
            cure, stop = move_out(path, log_dir.path), _foreign(path, name)
            yield Finding(Kind.UNREADABLE, path, LogDirCause.FOLDER(), cured_by=cure, stop=stop)
            continue
        cure, stop = _cure_of_folder(log_dir, name), _foreign(path, name)
        yield Finding(Kind.FOREIGN_FOLDER, path, LogDirCause.NO_PARTITION_NAME(), cured_by=cure, stop=stop)
    misplaced = {path: each for each in found_misplaced for path in each.paths}
    for file in list_folder(log_dir.path).files:
        if file.kind not in KINDS_IN_LOG_DIR:
            path = os.path.join(log_dir.path, file.name)
            there = misplaced.get(path)
            yield there.finding(path) if there else _verify_foreign_file(path, log_dir)
    yield from (there.finding(path) for path, there in misplaced.items() if there.is_recovered)
    yield from _verify_clean_marker(os.path.join(log_dir.path, FileKind.CLEAN_SHUTDOWN.value))
    if log_dir.partitions and not Checkpoints(log_dir.path).has_clean_marker:
        yield Finding(Kind.UNCLEAN_SHUTDOWN, log_dir.path, LogDirCause.UNCLEAN())


def _verify_foreign_file(path: str, log_dir: LogDir) -> Finding:
    """Return the finding of a file, or of a link to nothing. It is in the way if it has the name of a partition that
    was here: a broker cannot create the folder (LogManager.createLogDirectory)."""
    name, lines = find_partition_dir_name(os.path.basename(path)), Checkpoints(log_dir.path)
    if name is not None and name.state.is_current:
        partition = TopicPartition(name.topic, name.partition)
        for kind in (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT):
            if lines.find_line(kind, partition) is not None:
                cure = remarked(move_out(path, log_dir.path), CureRemark.PUT_FOLDER_BACK(partition=str(partition)))
                return Finding(
                    Kind.FOREIGN_FILE, path, LogDirCause.IN_THE_WAY(lines=kind.value), cured_by=cure, loses=True
                )
    return Finding(Kind.FOREIGN_FILE, path, LogDirCause.FOREIGN_FILE())


def _verify_marker_folder(path: str, log_dir: LogDir) -> Iterator[Finding]:
    """Yield a finding if the marker is a folder with something in it: a broker cannot delete it, and tries before it
    looks at folders (LogManager.loadLogs). An empty one is deleted as a file is."""
    if os.listdir(path):
        stop, cure = offline("DirectoryNotEmptyException", path), move_out(path, log_dir.path)
        yield Finding(Kind.UNREADABLE, path, LogDirCause.MARKER_FOLDER(), cured_by=cure, stop=stop)


def _foreign(path: str, name: str) -> Stop:
    form = "topic-partition or topic-partition.uniqueId-delete (if marked for deletion)"
    return refuses(
        "KafkaException",
        f"Found directory {path}, '{name}' is not in the form of {form}.\n"
        "Kafka's log directories (and children) should only contain Kafka topic data.",
    )


def _verify_clean_marker(path: str) -> Iterator[Finding]:
    """Yield a finding if the marker exists but cannot be read: a broker only checks that it exists."""
    if os.path.lexists(path) and not os.path.isdir(path):
        try:
            with LogFile(path):
                return
        except Unreadable as error:
            yield Finding(Kind.UNREADABLE, path, from_text(error.reason))


def _cure_of_folder(log_dir: LogDir, name: str) -> Reason:
    path = os.path.join(log_dir.path, name)
    in_place = find_immovable(path)
    if in_place is not None:
        return in_place
    return CureCause.IS_LOG_DIR(path=path) if is_log_dir(path) else move_out(path, log_dir.path)


def find_immovable(path: str) -> Reason | None:
    """Return what to do about a folder that has to stay where it is, or that nobody can rename; None for any other."""
    name = os.path.basename(path)
    if name == LOST_FOUND:
        return CureCause.SUB_FOLDER()
    if name in OF_FILE_SYSTEMS:
        return CureCause.SUB_FOLDER_OF_DISK(name=name)
    return CureCause.UNMOUNT(path=path) if os.path.ismount(path) else None


def _verify_meta_properties(log_dir: LogDir, identities: dict[str, MetaProperties], rules: Rules) -> Iterator[Finding]:
    path = os.path.join(log_dir.path, FileKind.META_PROPERTIES.value)
    if not os.path.lexists(path) or (is_broken_link(path) and not is_loop(path)):  # NoSuchFileException for Kafka
        if _knows_meta_properties(log_dir):
            how = "(have you run `kafka-storage.sh` to format the directory?)"
            message = f"No `meta.properties` found in {log_dir.path} {how}"
            stop = refuses("RuntimeException", message)
            yield Finding(Kind.META_PROPERTIES_MISSING, path, LogDirCause.NO_META_PROPERTIES(), stop=stop)
        return
    try:
        identity = parse_meta_properties(read_whole(path, limit=MOST_PROPERTIES_BYTES))
    except Unreadable as error:
        yield unreadable_file(path, error)
        return
    except KlogError as error:
        stop = offline(error.kafka_class or "RuntimeException", error.reason)
        yield Finding(Kind.META_PROPERTIES_CORRUPT, path, FindingCause.OFFLINE(wrong=error.reason), stop=stop)
        return
    identities[path] = identity
    # KafkaRaftServer.initializeLogDirs, in its order. Version 0 may lack both: no broker wrote cluster.id before 2.4.
    missing = "node" if identity.node_id is None else "cluster" if identity.cluster_id is None else None
    if missing == "node" or (missing and knows_topic_ids(log_dir)):
        stop = refuses("RuntimeException", f"Error: {missing} ID not found in {log_dir.path}")
        yield Finding(Kind.META_PROPERTIES_CORRUPT, path, LogDirCause.NO_ID(which=missing), stop=stop)
    if identity.directory_id is not None and is_reserved_directory_id(identity.directory_id):
        reserved = build_uuid(identity.directory_id)
        reason = LogDirCause.RESERVED(directory_id=reserved)
        known = lost_directory_id(log_dir.path, (), identity.node_id)
        cure = with_directory_id(path, known) if known else drop_directory_id(path)
        word = "reserved" if rules.spells_reserved else "resrved"
        stop = refuses("RuntimeException", f"Invalid {word} directory ID {reserved} found in {log_dir.path}")
        yield Finding(Kind.META_PROPERTIES_CORRUPT, path, reason, field=DIRECTORY_ID, cured_by=cure, stop=stop)


def _as_in_all(finding: Finding) -> Finding:
    """Return the finding with what a broker says if no log dir has a readable meta.properties, which is the first that
    it looks at (MetaPropertiesEnsemble.verify)."""
    if finding.id is not Kind.META_PROPERTIES_MISSING:
        return finding
    return replace(finding, stop=refuses("RuntimeException", NO_READABLE))


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
            reason = LogDirCause.OTHER_ID(
                which="cluster", own=str(identity.cluster_id), other=str(known.cluster_id), place=first
            )
            message = f"Invalid cluster.id in: {path}. Expected {known.cluster_id}, but read {identity.cluster_id}"
            yield _conflict(path, reason, "cluster_id", ANOTHER_BROKER, message)
        if None not in (known.node_id, identity.node_id) and known.node_id != identity.node_id:
            reason = LogDirCause.OTHER_ID(
                which="node", own=str(identity.node_id), other=str(known.node_id), place=first
            )
            message = (
                f"Stored node id {identity.node_id} doesn't match previous node id {known.node_id} in {path}. If you "
                "moved your data, make sure your configured node id matches. If you intend to create a new node, you "
                "should remove all data in your data directories."
            )
            yield _conflict(path, reason, "node_id", ANOTHER_BROKER, message)
    owners: dict[bytes, str] = {}
    for path, identity in identities.items():
        if identity.directory_id is None:
            continue
        owner = owners.setdefault(identity.directory_id, path)
        if owner != path:
            copy, kept = (owner, path) if _has_metadata(path) else (path, owner)
            directory_id = build_uuid(identity.directory_id)
            reason = LogDirCause.ALSO_IN(what=f"directory.id {directory_id}", place=kept)
            cure = drop_directory_id(copy, _why_dropped(kept))
            message = (
                f"Duplicate directory ID Optional[{directory_id}] found. It was the ID of {os.path.dirname(owner)}, "
                f"but also of {os.path.dirname(path)}"
            )
            yield _conflict(copy, reason, DIRECTORY_ID, cure, message)


def _has_metadata(path: str) -> bool:
    """Return whether the metadata log is in the log dir of a meta.properties: its id may be that of a voter."""
    return os.path.isdir(os.path.join(os.path.dirname(path), str(METADATA_PARTITION)))


def _why_dropped(kept: str) -> Reason:
    if _has_metadata(kept):
        return CureRemark.METADATA_KEEPS_ID(log_dir=os.path.dirname(kept))
    return CureRemark.NEW_ID_OF_COPY()


def _conflict(path: str, reason: Reason, field: str, cure: Reason, message: str) -> Finding:
    stop = refuses("RuntimeException", message)
    return Finding(Kind.META_PROPERTIES_CONFLICT, path, reason, field=field, cured_by=cure, stop=stop)


def _duplicates(log_dirs: Sequence[LogDir]) -> Iterator[Finding]:
    owners: dict[tuple[TopicPartition | None, PartitionDirState], list[Partition]] = {}
    for partition in (partition for log_dir in log_dirs for partition in log_dir.partitions):
        # A broker reads `__cluster_metadata-0` separately, and no other partition of that topic.
        if partition.state.is_live and (partition.topic != METADATA_TOPIC or partition.partition == 0):
            owners.setdefault((partition.topic_partition, partition.state), []).append(partition)
    places = [log_dir.path for log_dir in log_dirs]
    kept = [without_set_aside(each, places) for each in owners.values() if len(each) > 1]
    duplicates = [(first.path, other) for first, *others in filter(None, kept) for other in others]
    # A broker that moves a partition renames two folders, one after the other: between that, or between two listings,
    # both are there. They are looked for again a moment later.
    duplicates = [(owner, partition) for owner, partition in duplicates if _are_there(owner, partition)]
    if duplicates:
        time.sleep(MOMENT_S)
    for owner, partition in duplicates:
        if _are_there(owner, partition):
            what = str(partition.topic_partition)
            reason, cure = LogDirCause.ALSO_IN(what=what, place=owner), _cure_of_duplicate(owner, partition.path)
            yield Finding(
                Kind.DUPLICATE_PARTITION, partition.path, reason, cured_by=cure, stop=_twice(owner, partition)
            )


def _are_there(owner: str, partition: Partition) -> bool:
    return os.path.isdir(owner) and os.path.isdir(partition.path)


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


def _cure_of_duplicate(*paths: str) -> Reason:
    """Return the cure: move out the worse copy."""
    worse, better = worse_and_better(*paths)
    ends = {path: find_header_end(Partition(path)) for path in paths}
    remark = CureRemark.ENDS(end=ends[worse], better=better, other_end=ends[better])
    return remarked(move_out(worse, parent_of(worse)), remark)


def worse_and_better(*paths: str) -> tuple[str, str]:
    """Return two copies of a partition: first the one that ends earlier; of two that end together, the smaller one."""
    ends = {path: find_header_end(Partition(path)) for path in paths}
    worse, better = sorted(paths, key=lambda path: (ends[path], find_log_bytes(Partition(path)), path == paths[0]))
    return worse, better
