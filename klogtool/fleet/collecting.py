"""What one broker's log dirs have, as facts for `fleet plan` and `fleet metadata`. Read-only.

Every batch is read and proved by its checksum, as `salvage` does, so that an end or an epoch is never that of a damaged
batch. Partition dirs are read by several processes. A partition dir that cannot be read is a fact, too (`problem`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances, find_compaction
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR, ClusterConfig
from klogtool.broker.draft import DraftFile
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.errors import FileCause, KlogError, Refused
from klogtool.fleet.causes import FleetRefusal
from klogtool.fleet.collected import (
    FORMAT,
    BrokerFacts,
    Collected,
    CopyFacts,
    DamagedBytes,
    Epoch,
    LogDirFacts,
    LostOffsets,
    MetadataFacts,
    PartitionFacts,
    ToldElection,
    TopicFacts,
)
from klogtool.fleet.coordinating import find_producers, walk_commits, walk_transactional_ids
from klogtool.format.metadata_versions import METADATA_VERSION, metadata_version_name
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.format.uuids import build_uuid
from klogtool.log.cores import usable_cores
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.log_files import log_files
from klogtool.log.logdir import LogDir, knows_topic_ids
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.process_pool import in_processes
from klogtool.quorum.controllers import read_controller
from klogtool.salvage.ascending import ascending
from klogtool.salvage.corrections import find_closed_end, mend_by_closed_end, mend_leader_epochs
from klogtool.salvage.holes import SideFileEvidence, find_holes, shows_cleaning
from klogtool.salvage.partition_files import PartitionFiles, read_partition_files
from klogtool.salvage.stretches import NO_EPOCH, Rejected, Run, Stretch
from klogtool.verify.findings import Kind

MOST_WOUNDS = 100
MOST_HOLES = 1000
HIGHEST = 1 << 62  # no log reaches this offset: a source that says so is wrong
NO_FINGERPRINT = "0" * 32
_Id = TypeVar("_Id", int, str)


class Collecting(Struct, frozen=True):
    """How to collect. jobs: processes; None: one per core. on_partition: called after each partition dir."""

    circumstances: Circumstances
    jobs: int | None = None
    on_partition: Callable[[], None] = lambda: None


def collect(paths: Sequence[str], how: Collecting) -> Collected:
    """Collect from all log dirs of one broker. Raises Refused if they belong to several brokers or clusters, KlogError
    for a path that is no log dir, Unreadable for one that cannot be listed."""
    log_dirs = [open_log_dir(path) for path in dict.fromkeys(map(os.path.abspath, paths))]
    facts = tuple(map(log_dir_facts, log_dirs))
    node_id = _same("node id", [(log_dir.node_id, log_dir.path) for log_dir in facts])
    cluster_id = _same("cluster id", [(log_dir.cluster_id, log_dir.path) for log_dir in facts])
    metadata = _find_metadata(log_dirs)
    cluster = None if metadata is None else ClusterConfig(metadata[1], None if node_id is None else str(node_id))
    copies = tuple(copy for log_dir in log_dirs for copy in _walk_copies(log_dir, cluster, how))
    known = ClusterMetadata() if metadata is None else metadata[1]
    broker = BrokerFacts(
        FORMAT,
        node_id,
        cluster_id,
        facts,
        None if metadata is None else _metadata_facts(*metadata, copies),
        _kafka_at_least(known, facts, log_dirs),
    )
    topics = (TopicFacts(topic, uuid, known.topics.get(topic, {})) for topic, uuid in sorted(known.topic_ids.items()))
    jobs = how.jobs or usable_cores()
    return Collected(
        broker,
        tuple(topics),
        tuple(_partitions(known)),
        copies,
        commits=tuple(walk_commits(log_dirs, jobs)),
        transactions=tuple(walk_transactional_ids(copies, log_dirs, how.circumstances, jobs)),
    )


def open_log_dir(path: str) -> LogDir:
    """Raises KlogError if it is none."""
    opened = open_path(path)
    if not isinstance(opened, LogDir):
        raise KlogError(FileCause.NO_LOG_DIR(), path=path)
    return opened


def log_dir_facts(log_dir: LogDir) -> LogDirFacts:
    """Return what a log dir says of itself."""
    facts = LogDirFacts(log_dir.path)
    try:
        identity, marker = log_dir.meta_properties, log_dir.clean_shutdown
    except KlogError as error:
        return replace(facts, problem=str(error))
    if marker is not None:
        facts = replace(facts, is_clean=True, broker_epoch=marker.broker_epoch)
    if identity is None:
        return facts
    return replace(
        facts,
        node_id=identity.node_id,
        cluster_id=identity.cluster_id,
        directory_id=None if identity.directory_id is None else build_uuid(identity.directory_id),
        properties_version=identity.version,
    )


def _same(what: str, stated: Iterable[tuple[_Id | None, str]]) -> _Id | None:
    """Return the value that all log dirs have, as far as they have one. Raises Refused if there are two."""
    values = {value: path for value, path in stated if value is not None}
    if len(values) > 1:
        (one, first), (other, second) = list(values.items())[:2]
        raise Refused(FleetRefusal.OTHER_BROKER(what=what, other=other, first=first, one=one), path=second)
    return next(iter(values), None)


# The cluster's metadata.


def _find_metadata(log_dirs: Sequence[LogDir]) -> tuple[str, ClusterMetadata] | None:
    """Return the first log dir with `__cluster_metadata-0`, and what that says."""
    for log_dir in log_dirs:
        path = os.path.join(log_dir.path, CLUSTER_METADATA_DIR)
        if os.path.isdir(path):
            return log_dir.path, read_cluster_metadata(path)
    return None


def _metadata_facts(log_dir: str, metadata: ClusterMetadata, copies: Sequence[CopyFacts]) -> MetadataFacts:
    own = (copy for copy in copies if copy.key == (METADATA_TOPIC, 0) and copy.log_dir == log_dir)
    end = next((copy.log_end_offset for copy in own if copy.state == "current"), 0)
    controller = read_controller(log_dir)
    log, state = controller.log, controller.quorum_state
    voters = log.quorum.voters or ()
    return MetadataFacts(
        log_dir,
        max(end, log.position.end_offset),
        metadata.features,
        None if metadata.problem is None else str(metadata.problem),
        max(log.position.epoch, 0),
        tuple(voter.id for voter in voters),
        tuple(voter.directory_id for voter in voters),
        tuple(sorted(metadata.known.controllers)),
        None
        if state is None
        else ToldElection(
            state.data_version,
            state.leader_id,
            state.leader_epoch,
            state.voted_id,
            build_uuid(state.voted_directory_id),
        ),
        None if metadata.known.producer_ids is None else max(metadata.known.producer_ids[1], 0),
    )


def _partitions(metadata: ClusterMetadata) -> Iterator[PartitionFacts]:
    for topic, topic_id in sorted(metadata.topic_ids.items()):
        for partition, replicas in sorted(metadata.replicas.get(topic_id, {}).items()):
            yield PartitionFacts(
                topic,
                topic_id,
                partition,
                replicas.brokers,
                replicas.isr,
                replicas.elr,
                replicas.leader,
                replicas.leader_epoch,
                replicas.partition_epoch,
                replicas.directories,
                replicas.last_known_elr,
            )


def _kafka_at_least(metadata: ClusterMetadata, facts: Sequence[LogDirFacts], log_dirs: Sequence[LogDir]) -> str | None:
    """Return the oldest release that writes what is there."""
    level = metadata.features.get(METADATA_VERSION)
    if level is not None:
        return metadata_version_name(level).partition("-")[0]
    if any(log_dir.directory_id is not None or log_dir.broker_epoch is not None for log_dir in facts):
        return "3.7"
    return "2.8" if any(map(knows_topic_ids, log_dirs)) else None


# Copies.


def _walk_copies(log_dir: LogDir, cluster: ClusterConfig | None, how: Collecting) -> Iterator[CopyFacts]:
    """Yield the facts of each partition dir, by name."""
    checkpoints, partitions = Checkpoints(log_dir.path, cluster), log_dir.partitions
    jobs = how.jobs or usable_cores()
    processes = jobs if len(partitions) >= 2 * jobs else 1
    threads = jobs if processes == 1 else 1

    def work(partition: Partition) -> CopyFacts:
        return collect_copy(partition, checkpoints, how.circumstances, threads)

    results = in_processes(work, partitions, processes, weight=_size_of)
    for partition, result in zip(partitions, results, strict=True):
        how.on_partition()
        if isinstance(result, KlogError):
            yield replace(_named(partition, NO_FINGERPRINT), problem=str(result.at_path(partition.path)))
        else:
            yield result


def _size_of(partition: Partition) -> int:
    try:
        return sum(os.stat(path).st_size for path in log_files([partition.path]))
    except (KlogError, OSError):  # reading it says why
        return 1


def _named(partition: Partition, fingerprint: str) -> CopyFacts:
    key = partition.topic_partition or TopicPartition("", 0)
    log_dir = os.path.dirname(partition.path)
    state = partition.state.name.lower()
    return CopyFacts(key.topic, key.partition, log_dir, partition.name, state, fingerprint)  # type: ignore[arg-type]


def collect_copy(
    partition: Partition, checkpoints: Checkpoints, circumstances: Circumstances, jobs: int = 1
) -> CopyFacts:
    """Return the facts of one partition dir. Raises KlogError if it cannot be read, or a checkpoint that says where it
    begins."""
    files = read_partition_files(partition.path)
    known = files.epochs or LeaderEpochFileCache()
    result = ascending([stretch for segment in files.segments for stretch in segment.stretches(jobs=jobs)])
    closed_at = find_closed_end(files.path, circumstances, checkpoints)
    stretches = mend_by_closed_end(mend_leader_epochs(result, known), closed_at)
    runs = sorted((item for item in stretches if isinstance(item, Run)), key=lambda run: run.first_offset)
    facts = _with_lines(_named(partition, fingerprint_of(files.files)), checkpoints)
    facts = _with_evidence(facts, files, stretches, checkpoints, circumstances)
    bases = [segment.base_offset for segment in files.segments]
    start = max([facts.log_start_checkpoint or 0, *bases[:1]])
    end = max([start, *(run.last_offset + 1 for run in runs[-1:]), *bases[-1:]])
    newest = max((run.newest_timestamp for run in runs), default=-1)
    is_read = partition.state in (PartitionDirState.CURRENT, PartitionDirState.FUTURE) and facts.topic != METADATA_TOPIC
    return replace(
        facts,
        producers=find_producers(partition.path, circumstances, checkpoints, jobs) if is_read else (),
        topic_id=None if files.metadata is None else build_uuid(files.metadata.topic_id),
        log_start_offset=start,
        log_end_offset=end,
        sound_end_offset=_sound_end(stretches, facts.holes, end),
        epochs=tuple(_epochs(runs)),
        checkpoint_epochs=None
        if files.epochs is None
        else tuple(Epoch(entry.epoch, entry.start_offset) for entry in files.epochs.entries),
        segments=len(files.segments),
        batches=sum(run.batches for run in runs),
        records=sum(run.records for run in runs),
        bytes=sum(segment.size for segment in files.segments),
        newest_timestamp=None if newest < 0 else newest,
    )


def fingerprint_of(files: dict[str, DraftFile]) -> str:
    """Return 32 hex digits for names, sizes and mtimes of the files of a folder."""
    text = "\0".join(f"{name}\0{file.size}\0{file.mtime_ns}" for name, file in sorted(files.items()))
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _with_lines(facts: CopyFacts, checkpoints: Checkpoints) -> CopyFacts:
    """Add the lines of the log dir's checkpoints. A broker uses them for current and future replicas only."""
    if facts.state not in ("current", "future"):
        return facts
    key = TopicPartition(facts.topic, facts.partition)

    def line(kind: FileKind) -> int | None:
        offset = checkpoints.find_line(kind, key)
        return offset if offset is not None and 0 <= offset < HIGHEST else None

    return replace(
        facts,
        recovery_point=line(FileKind.RECOVERY_POINT_CHECKPOINT),
        high_watermark=line(FileKind.REPLICATION_CHECKPOINT),
        log_start_checkpoint=line(FileKind.LOG_START_CHECKPOINT),
        cleaner_offset=line(FileKind.CLEANER_CHECKPOINT),
    )


def _with_evidence(
    facts: CopyFacts,
    files: PartitionFiles,
    stretches: Sequence[Stretch],
    checkpoints: Checkpoints,
    circumstances: Circumstances,
) -> CopyFacts:
    """Add damage, holes and how far the log once reached."""
    key = TopicPartition(facts.topic, facts.partition)
    config, sources = circumstances.settled_for(key.topic, checkpoints.cluster)
    is_compacted = find_compaction(key, config, sources, checkpoints) is not None or shows_cleaning(stretches)
    starts = [] if files.epochs is None else [entry.start_offset for entry in files.epochs.entries]
    offsets = (files.reaches, facts.recovery_point or 0, facts.high_watermark or 0, *starts)
    reached = max(offset for offset in (0, *offsets) if offset < HIGHEST)
    bases = files.orphans() | {swap.base_offset for swap in files.swaps}
    start = facts.log_start_checkpoint or 0
    first = min((segment.base_offset for segment in files.segments), default=None)
    evidence = SideFileEvidence(tuple(sorted(bases)), reached, (), is_compacted, start, first)
    holes = [LostOffsets(hole.first, hole.last) for hole in find_holes(stretches, evidence)]
    if len(holes) > MOST_HOLES:
        holes = [*holes[: MOST_HOLES - 1], LostOffsets(holes[MOST_HOLES - 1].first)]
    wounds = [
        DamagedBytes(bad.segment, bad.start, bad.stop, bad.cause if isinstance(bad, Rejected) else Kind.BATCH_HEADER)
        for bad in stretches
        if is_damaged(bad)
    ]
    return replace(
        facts,
        holes=tuple(holes),
        wounds=tuple(wounds[:MOST_WOUNDS]),
        wounds_count=len(wounds),
        is_compacted=is_compacted,
        reached_offset=reached,
    )


def _sound_end(stretches: Sequence[Stretch], holes: Sequence[LostOffsets], end: int) -> int:
    """Return the offset at which the first damage or the first missing segment begins."""
    result = min((hole.first for hole in holes), default=end)
    following = None
    for stretch in stretches:
        if is_damaged(stretch):
            return max(0, min(result, stretch.segment if following is None else following, end))
        following = (stretch.last_offset or 0) + 1
    return min(result, end)


def is_damaged(stretch: Stretch) -> bool:
    """Return whether a broker would stop there: also at a batch whose header `salvage` can correct."""
    return isinstance(stretch, Rejected) or bool(stretch.mends)


def _epochs(runs: Sequence[Run]) -> Iterator[Epoch]:
    """Yield leader epochs by the batches: each that is higher than all before (LogSegment.recover)."""
    latest = NO_EPOCH
    for run in runs:
        if run.epoch > latest:
            latest = run.epoch
            yield Epoch(run.epoch, run.first_offset)
