"""What a start does because of a log dir's own files, beyond stopping: checkpoints that it treats as empty, a cleaner
that stops, and -future folders that lose their records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from klogtool.doctor.answers import Ahead, What, ahead_of
from klogtool.doctor.causes import AheadCause
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.format.names import FileKind, PartitionDirState, TopicPartition
from klogtool.log.folder import is_fifo
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out
from klogtool.verify.identity_cures import read_topic_id
from klogtool.verify.verify_checkpoints import read_stated

_CLEANER = FileKind.CLEANER_CHECKPOINT


def walk_log_dir_points(patient: Patient) -> Iterator[Ahead]:
    """Yield the points of all log dirs."""
    read = patient.circumstances.checkpoints_read
    for path in patient.log_dirs:
        for finding in read_stated(LogDir(path), read)[1]:
            if finding.stop is None:
                if finding.path.endswith(_CLEANER.value):
                    yield ahead_of(finding, What.CLEANER_STOPS, finding.severity)
                elif is_fifo(finding.path):
                    yield Ahead(finding.path, What.REFUSES, AheadCause.NEVER_UP(), cure=move_out(finding.path, path))
                else:
                    yield ahead_of(finding, What.RESET, finding.severity)
    if _CLEANER in read and patient.rules.cleaner_stops_at_line_twice:
        yield from _twice_in_cleaner_checkpoints(patient)
    yield from _emptied_futures(patient)


def _twice_in_cleaner_checkpoints(patient: Patient) -> Iterator[Ahead]:
    """Yield a point if a partition has a line in the cleaner checkpoints of two log dirs (LogCleanerManager)."""
    owners: Counter[TopicPartition] = Counter()
    for path in patient.log_dirs:
        try:
            lines = set(LogDir(path).cleaner_offsets or ())
        except KlogError:  # reported by itself
            continue
        for line in lines:
            if owners[line]:
                detail = AheadCause.CLEANER_STOPS(line=str(line), file=_CLEANER.value)
                yield Ahead(os.path.join(path, _CLEANER.value), What.CLEANER_STOPS, detail)
            owners[line] += 1


def _emptied_futures(patient: Patient) -> Iterator[Ahead]:
    """Yield -future folders without their partition, in another log dir than the cluster assigns: a broker creates an
    empty partition there, and truncates the -future one to it."""
    partitions = list(patient.partitions())
    current = {p.topic_partition for p in partitions if p.state is PartitionDirState.CURRENT}
    alone = [p for p in partitions if p.state is PartitionDirState.FUTURE and p.topic_partition not in current]
    for partition in alone:
        size = find_log_bytes(partition)
        if size and _is_assigned_elsewhere(partition, patient):
            yield Ahead(partition.path, What.FUTURE_EMPTIED, AheadCause.FUTURE_EMPTIED(size=size), lost_bytes=size)


def _is_assigned_elsewhere(partition: Partition, patient: Patient) -> bool:
    cluster = patient.cluster
    topic_id = read_topic_id(partition)
    replicas = None if topic_id is None else cluster.replicas_of(topic_id, partition.partition or 0)
    if replicas is None or cluster.node_id is None:
        return False
    assigned = replicas.directory_of(cluster.node_id)
    return assigned is not None and assigned != cluster.directories.get(os.path.dirname(partition.path))
