"""What a start does because of a log dir's own files, beyond stopping: checkpoints that it treats as empty, a cleaner
that stops, and -future folders that lose their records.

Partition dirs that the cluster's metadata does not know as they are become stray. The rules are
LogManager.isStrayReplica's, with the metadata on these disks. A broker compares with the newest metadata of its
controllers, which may know more.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.circumstances import listed
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.server_rules import BROKER
from klogtool.broker.server_settings import ROLES
from klogtool.causes import Reason
from klogtool.doctor.absent_partitions import has_all_of, is_blocked
from klogtool.doctor.answers import Ahead, What, ahead_of
from klogtool.doctor.causes import AdviceCause, AheadCause, few_names
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.patient import Cluster, Patient
from klogtool.doctor.permissions import at_endless, has_no_end
from klogtool.doctor.readable import walk_readable
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.log.file import LogFile, denied, is_denied
from klogtool.log.folder import is_fifo
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out
from klogtool.verify.findings import Kind, Severity
from klogtool.verify.identity import IdentityKind
from klogtool.verify.identity_cures import read_topic_id
from klogtool.verify.misplaced import find_misplaced
from klogtool.verify.openable import may_read
from klogtool.verify.verify_checkpoints import read_stated

Current: TypeAlias = Mapping[TopicPartition | None, Sequence[Partition]]  # of all log dirs, without -future folders
_CLEANER = FileKind.CLEANER_CHECKPOINT


def walk_log_dir_points(patient: Patient) -> Iterator[Ahead]:
    """Yield the points of all log dirs."""
    read = patient.circumstances.checkpoints_read
    for path in patient.log_dirs:
        for finding in read_stated(LogDir(path), read)[1]:
            if finding.id is Kind.UNREADABLE and os.path.isfile(finding.path):
                if is_denied(finding.path) and may_read(finding.path, path):
                    raise denied(finding.path)  # what nobody may read, or the disk cannot, is told elsewhere
            elif finding.stop is None:
                if finding.path.endswith(_CLEANER.value):
                    yield ahead_of(finding, What.CLEANER_STOPS, finding.severity)
                elif is_fifo(finding.path):
                    yield Ahead(finding.path, What.REFUSES, AheadCause.NEVER_UP(), cure=move_out(finding.path, path))
                elif has_no_end(finding.path):
                    yield at_endless(finding.path, move_out(finding.path, path))
                else:
                    yield ahead_of(finding, What.RESET, finding.severity)
    if _CLEANER in read and patient.rules.cleaner_stops_at_line_twice:
        yield from _twice_in_cleaner_checkpoints(patient)
    yield from _emptied_futures(patient)
    yield from _replaced(patient)


def walk_misplaced(patient: Patient) -> Iterator[Ahead]:
    """Yield the segments that lie where no broker looks. Raises Unreadable."""
    for misplaced in find_misplaced(map(LogDir, patient.log_dirs)):
        looks = len(misplaced.of) != 1
        yield Ahead(
            misplaced.paths[0],
            What.IGNORED,
            misplaced.reason,
            misplaced.first_offset,
            misplaced.next_offset - 1,
            lost_records=sum(map(_count_records, misplaced.paths)) if misplaced.is_lacked else 0,
            lost_bytes=sum(map(os.path.getsize, misplaced.paths)),
            cure=misplaced.cure if looks else AdviceCause.BEFORE_THE_START(command=misplaced.cure),
            cure_looks=looks,
            severity=Severity.ERROR if misplaced.is_lacked else Severity.WARNING,
        )


def _count_records(path: str) -> int:
    with LogFile(path) as file:
        return sum(part.records for part in walk_readable(file, 0, file.size))


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
    empty partition there, and truncates the -future one to it, unless something else has its name there."""
    partitions = list(patient.partitions())
    current = {p.topic_partition for p in partitions if p.state.is_current}
    alone = [p for p in partitions if p.state is PartitionDirState.FUTURE and p.topic_partition not in current]
    for partition in alone:
        size = find_log_bytes(partition)
        name = str(partition.topic_partition)
        blocked = any(is_blocked(os.path.join(path, name)) for path in _assigned_log_dirs(partition, patient.cluster))
        if size and not blocked and _is_assigned_here(partition, patient.cluster) is False:
            yield Ahead(partition.path, What.FUTURE_EMPTIED, AheadCause.FUTURE_EMPTIED(size=size), lost_bytes=size)


def walk_promoted(patient: Patient, of: Partition | None = None) -> Iterator[Partition]:
    """Yield -future folders in the log dir that the cluster assigns: a start of 3.8 and later makes each the partition
    itself (LogManager.recoverAbandonedFutureLogs, KAFKA-16082). of: only those of the same partition."""
    if patient.rules.promotes_future_logs:
        for partition in patient.partitions() if of is None else patient.folders_of.get(of.topic_partition, ()):
            if partition.state is PartitionDirState.FUTURE and _is_assigned_here(partition, patient.cluster):
                yield partition


def walk_replaced(future: Partition, patient: Patient) -> Iterator[Partition]:
    """Yield the folders that such a folder replaces, or that are in its way."""
    for current in patient.folders_of.get(future.topic_partition, ()):
        if current.state.is_current:
            is_beside = os.path.dirname(current.path) == os.path.dirname(future.path)
            if is_beside or read_topic_id(current) == read_topic_id(future):
                yield current


def _replaced(patient: Patient) -> Iterator[Ahead]:
    """Yield the partitions that a -future folder replaces: they are deleted. In the same log dir it cannot be renamed,
    and the broker ends."""
    for future in walk_promoted(patient):
        for current in walk_replaced(future, patient):
            yield _replaced_by(current, future)


def _replaced_by(current: Partition, future: Partition) -> Ahead:
    log_dir, name = os.path.split(current.path)
    if log_dir == os.path.dirname(future.path):
        stop = stop_at("future-not-renamed", partition=name, log_dir=os.path.abspath(log_dir))
        return Ahead(future.path, What.REFUSES, AheadCause.FUTURE_IN_THE_WAY(name=name), stop=stop)
    by = quoted(future.path)
    if has_all_of(future, current):
        return Ahead(current.path, What.REPLACED, AheadCause.REPLACED(by=by), severity=Severity.WARNING)
    size = find_log_bytes(current)
    cause = AheadCause.REPLACED_BY_LESS(by=by, size=size)
    return Ahead(current.path, What.REPLACED, cause, lost_bytes=size, is_uncounted=True)


def _is_assigned_here(partition: Partition, cluster: Cluster) -> bool | None:
    """Return whether the cluster assigns a partition to the log dir in which it lies; None if nobody knows."""
    assigned = _assigned(partition, cluster)
    return None if assigned is None else assigned == cluster.directories.get(os.path.dirname(partition.path))


def _assigned_log_dirs(partition: Partition, cluster: Cluster) -> list[str]:
    """Return the log dir to which the cluster assigns a partition; none if it is not named, or unknown."""
    assigned = _assigned(partition, cluster)
    return [path for path, own in cluster.directories.items() if assigned is not None and own == assigned]


def _assigned(partition: Partition, cluster: Cluster) -> str | None:
    """Return the id of the log dir to which the cluster assigns a partition; None if nobody knows."""
    topic_id = read_topic_id(partition)
    replicas = None if topic_id is None else cluster.replicas_of(topic_id, partition.partition or 0)
    return None if replicas is None or cluster.node_id is None else replicas.directory_of(cluster.node_id)


def is_stray(partition: Partition, cluster: Cluster) -> bool:
    """Return whether a broker would set the partition dir aside."""
    return _why_stray(partition, cluster) is not None


def find_stray(partition: Partition, cluster: Cluster, current: Current) -> Ahead | None:
    """Return the point if a broker would set the partition dir aside; None if it keeps it. A folder beside one that is
    served and has all of it hides nothing, nor does a -future folder beside one."""
    stray = _why_stray(partition, cluster)
    if stray is None:
        return None
    beside = [each for each in current.get(partition.topic_partition, ()) if each.path != partition.path]
    served = next((each for each in beside if not is_stray(each, cluster)), None)
    size, is_current = find_log_bytes(partition), partition.state.is_current
    is_lost = bool(size) and (stray.is_known or is_forgotten(cluster))
    detail = (AheadCause.STRAY_REPLACED if stray.is_known else AheadCause.STRAY)(why=stray.why, size=size)
    if is_current and served is not None:
        detail = AheadCause.STRAY_TWIN(why=stray.why, size=size, served=served.path)
    if is_current and (served is None or not has_all_of(served, partition)):
        beside = []
    is_hidden = is_lost and not beside
    severity = Severity.ERROR if is_hidden else Severity.WARNING
    return Ahead(partition.path, What.STRAY, detail, lost_bytes=size, is_hidden=is_hidden, severity=severity)


class _Stray(Struct, frozen=True):
    """Why a partition dir is set aside. is_known: the cluster has a topic of this name, so an empty partition takes its
    place, unless another folder has that."""

    why: Reason
    is_known: bool = False


def _why_stray(partition: Partition, cluster: Cluster) -> _Stray | None:
    if not partition.state.is_live or partition.topic in (None, METADATA_TOPIC) or not cluster.topic_ids:
        return None
    has_id = os.path.exists(os.path.join(partition.path, FileKind.PARTITION_METADATA.value))
    if not has_id and os.path.isdir(partition.path):  # else it was deleted, or moved
        is_known = cluster.metadata is None or partition.topic in cluster.metadata.topic_ids
        return _Stray(AheadCause.NO_TOPIC_ID(), is_known)
    topic_id = read_topic_id(partition)
    if cluster.metadata is None or topic_id is None:  # an unreadable file stops the start, which is reported
        return None
    return _judge_id(partition, topic_id, cluster)


def _judge_id(partition: Partition, topic_id: str, cluster: Cluster) -> _Stray | None:
    identity, number = cluster.topics.judge(partition.topic or "", topic_id), partition.partition or 0
    if identity.kind is IdentityKind.UNKNOWN:
        return _Stray(AheadCause.UNKNOWN_ID(topic_id=topic_id))
    if identity.kind is IdentityKind.REPLACED:
        wanted = str(identity.id_of_name)
        return _Stray(AheadCause.OTHER_ID(topic_id=topic_id, topic=str(partition.topic), wanted=wanted), is_known=True)
    replicas = cluster.replicas_of(topic_id, number)
    if replicas is None:
        topic = str(identity.topic_of_id)
        return _Stray(AheadCause.NO_SUCH_PARTITION(topic=topic, partition=str(partition.partition)))
    if cluster.node_id is not None and cluster.node_id not in replicas.brokers:
        return _Stray(AheadCause.NO_REPLICA(brokers=tuple(replicas.brokers), broker=cluster.node_id))
    return None


def is_forgotten(cluster: Cluster) -> bool:
    """Return whether the metadata is not whole, or knows no topic at all."""
    metadata = cluster.metadata
    return metadata is not None and (metadata.problem is not None or not metadata.topic_ids)


def _walk_registered_elsewhere(patient: Patient, strays: Sequence[Ahead]) -> Iterator[Ahead]:
    """Yield a point for each log dir that the cluster has of another broker: the controllers do not register this one
    with that directory id (ClusterControlManager.registerBroker). It ends after a minute; what it loaded before that is
    set aside."""
    cluster, roles = patient.cluster, listed(patient.circumstances.server_settings.get(ROLES))
    owners = {} if cluster.metadata is None else cluster.metadata.known.owners
    if cluster.node_id is None or (roles and BROKER not in roles):
        return
    for path, directory in cluster.directories.items():
        owner = owners.get(directory, cluster.node_id)
        if owner != cluster.node_id:
            file = os.path.join(path, FileKind.META_PROPERTIES.value)
            folders = tuple(point.path for point in strays if os.path.dirname(point.path) == path)
            aside = AheadCause.AND_SETS_ASIDE(count=len(folders), names=few_names([*map(os.path.basename, folders)]))
            detail = AheadCause.REGISTERED_ELSEWHERE(
                directory_id=directory, owner=owner, broker=cluster.node_id, aside=aside if folders else ""
            )
            cure = AdviceCause.NODE_ID_BACK(owner=owner, path=quoted(file))
            stop = stop_at("registered-elsewhere", broker=cluster.node_id)
            yield Ahead(file, What.REFUSES, detail, stop=stop, cure=cure, by_leader=True, folders=folders)


def _begun_again(log_dir: str) -> Iterator[Ahead]:
    """Yield the point about a controller's log dir without the metadata, if a node has used it: a start makes .lock,
    and the metadata log (KafkaRaftManager)."""
    if os.path.lexists(os.path.join(log_dir, FileKind.LOCK.value)):
        detail = AheadCause.BEGUN_AGAIN(why=AheadCause.BEGUN_ANEW(), file=FileKind.LOCK.value)
        yield Ahead(os.path.join(log_dir, CLUSTER_METADATA_DIR), What.METADATA_LOST, detail)


def with_one_cause(strays: Sequence[Ahead], patient: Patient) -> Iterator[Ahead]:
    """Yield the points for partitions that a broker sets aside; as one if the metadata's damage is the cause, or if the
    log dir is that of another broker."""
    cluster, elsewhere = patient.cluster, list(_walk_registered_elsewhere(patient, strays))
    yield from elsewhere
    strays = [point for point in strays if not any(point.path in each.folders for each in elsewhere)]
    if not strays and cluster.begun_in is not None:
        yield from _begun_again(cluster.begun_in)
    with_data = [point for point in strays if point.lost_bytes]
    log_dir = cluster.metadata_dir or cluster.begun_in
    if not strays or log_dir is None or not is_forgotten(cluster):
        yield from strays
        return
    problem = None if cluster.metadata is None else cluster.metadata.problem
    nothing = AheadCause.KNOWS_NO_TOPIC() if cluster.begun_in is None else AheadCause.BEGUN_ANEW()
    why = nothing if problem is None else AheadCause.IS_CUT(why=problem)
    names = few_names([os.path.basename(point.path) for point in strays])
    yield Ahead(
        os.path.join(log_dir, CLUSTER_METADATA_DIR),
        What.METADATA_LOST,
        AheadCause.METADATA_LOST(why=why, count=len(strays), names=names),
        lost_bytes=sum(point.lost_bytes for point in with_data),
        is_hidden=bool(with_data),
        folders=tuple(point.path for point in strays),
    )
