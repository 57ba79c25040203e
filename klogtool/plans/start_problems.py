"""What prevents a broker from starting, or from using one of its log dirs, before it loads a single log.

The checks are those of `verify`. They read small files only: meta.properties and the checkpoints of each log dir, the
names of its folders, and partition.metadata and leader-epoch-checkpoint of each partition. Errors that appear while a
log is loaded are not included.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.broker.releases import Rules, rules_of
from klogtool.format.names import METADATA_TOPIC, FileKind
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.verify.cures import rebuild_index
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.identity_cures import find_topic_id, write_partition_metadata
from klogtool.verify.stops import StopOutcome
from klogtool.verify.verify_checkpoints import read_stated
from klogtool.verify.verify_epochs import read_epochs
from klogtool.verify.verify_kraft import verify_kraft
from klogtool.verify.verify_log_dirs import may_be_copy, verify_log_dirs
from klogtool.verify.verify_names import METADATA_PARTITION, verify_names
from klogtool.verify.verify_partition import judge_partition_metadata
from klogtool.verify.verify_replay import verify_replay


def find_start_problems(
    paths: Sequence[str], circumstances: Circumstances, named: Sequence[str] | None = None
) -> list[Finding]:
    """Return the findings at which the broker of these log dirs stops; those that end it first. A checkpoint is not
    read if its value was given. named: with the log dirs that are not there; None: these."""
    log_dirs = [LogDir(path) for path in paths]
    is_copy = may_be_copy(named or paths, circumstances)
    result = list(_of_log_dirs(log_dirs, circumstances, may_be_copy=is_copy))
    # If meta.properties of a log dir is unreadable, a broker reads nothing else of it.
    unread = [finding for finding in result if _is_unread_identity(finding)]
    if unread:
        given_up = {os.path.dirname(finding.path) for finding in unread}
        log_dirs = [log_dir for log_dir in log_dirs if log_dir.path not in given_up]
        result = [*unread, *_of_log_dirs(log_dirs, circumstances, may_be_copy=is_copy)]
    result += [finding for log_dir in log_dirs for finding in _of_partitions(log_dir)]
    return sorted(result, key=lambda finding: not finding.ends_broker)


def _is_unread_identity(finding: Finding) -> bool:
    stop, is_identity = finding.stop, os.path.basename(finding.path) == FileKind.META_PROPERTIES.value
    return is_identity and stop is not None and (stop.outcome is StopOutcome.OFFLINE or stop.is_exit)


def _stopping(finding: Finding, log_dir: str) -> Iterator[Finding]:
    """Yield the finding if a broker stops at it. What takes the log dir of the cluster's metadata offline ends it."""
    stop = finding.stop
    if stop is None:
        return
    has_metadata = os.path.isdir(os.path.join(log_dir, str(METADATA_PARTITION)))
    is_exit = has_metadata and stop.outcome is StopOutcome.OFFLINE
    yield replace(finding, stop=stop.ending_the_broker()) if is_exit else finding


def _of_log_dirs(log_dirs: Sequence[LogDir], circumstances: Circumstances, *, may_be_copy: bool) -> Iterator[Finding]:
    """Yield problems of the log dirs' own files and of the names of their folders."""
    stands_in = {
        FileKind.RECOVERY_POINT_CHECKPOINT: circumstances.recovery_point,
        FileKind.LOG_START_CHECKPOINT: circumstances.log_start_offset,
        FileKind.REPLICATION_CHECKPOINT: circumstances.high_watermark,
    }
    needed = [kind for kind in circumstances.checkpoints_read if stands_in.get(kind) is None]
    rules = rules_of(circumstances.kafka)
    findings = list(verify_log_dirs(log_dirs, rules, may_be_copy=may_be_copy))
    findings += [finding for log_dir in log_dirs for finding in read_stated(log_dir, needed)[1]]
    for finding in findings:
        yield from _stopping(finding, os.path.dirname(finding.path))


def _of_partitions(log_dir: LogDir) -> Iterator[Finding]:
    for partition in log_dir.partitions:
        if partition.topic == METADATA_TOPIC and partition.topic_partition != METADATA_PARTITION:
            continue  # a broker ignores it
        for finding in _of_partition(partition):
            if finding.stop is not None and partition.topic == METADATA_TOPIC:
                finding = replace(finding, stop=replace(finding.stop, outcome=StopOutcome.REFUSES))
            yield from _stopping(_with_cure(finding, partition, log_dir), log_dir.path)


def _of_partition(partition: Partition) -> Iterator[Finding]:
    epochs = os.path.join(partition.path, FileKind.LEADER_EPOCH_CHECKPOINT.value)
    metadata = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
    if os.path.isfile(epochs) and isinstance(problem := read_epochs(epochs), Finding):
        yield problem
    if os.path.isfile(metadata):
        yield from judge_partition_metadata(metadata)
    if partition.topic_partition == METADATA_PARTITION:
        layout, named = verify_names(partition)
        yield from named
        yield from verify_kraft(layout, min(layout.segments, default=0))


def replay_problems(folder: str, rules: Rules) -> Iterator[Finding]:
    """Yield a finding if a release does not replay the metadata in this partition dir, and the node ends."""
    findings = verify_replay(folder, read_cluster_metadata(folder, rules), rules)
    yield from (finding for finding in findings if finding.stop is not None)


def _with_cure(finding: Finding, partition: Partition, log_dir: LogDir) -> Finding:
    if finding.id == Kind.EPOCHS_CORRUPT:
        return replace(finding, cured_by=rebuild_index(partition.path, FileKind.LEADER_EPOCH_CHECKPOINT.value))
    if finding.id == Kind.PARTITION_METADATA_CORRUPT and partition.topic is not None:
        topic_id = find_topic_id(partition.topic, log_dir.partitions)
        return replace(finding, cured_by=write_partition_metadata(finding.path, topic_id))
    return finding
