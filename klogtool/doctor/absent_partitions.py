"""Partitions that the cluster has on this broker and whose records are not where a broker looks for them.

The folder is absent, or one with fewer records has its name. A broker serves what has the name, and makes an empty one
if nothing has it. The records may be in a folder beside it whose name ends in -stray or -delete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from klogtool.broker.metadata.image import Replicas
from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AheadCause, NoteCause, few_names
from klogtool.doctor.patient import Patient
from klogtool.doctor.replicas import is_left_out
from klogtool.errors import KlogError
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.log.file import LogFile
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out
from klogtool.verify.findings import Severity
from klogtool.verify.header_end import find_header_end
from klogtool.verify.identity_cures import read_topic_id
from klogtool.verify.stops import offline
from klogtool.verify.verify_checkpoints import read_stated

_WITNESSES = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
_ASIDE = (PartitionDirState.STRAY, PartitionDirState.DELETE)


class ReachedOffset(Struct, frozen=True):
    """How far a log reached by a checkpoint. path: of the checkpoint."""

    offset: int
    path: str


class Expected(Struct, frozen=True):
    """A partition that the cluster has on this broker, and its folders: those of its name or its topic id."""

    key: TopicPartition
    topic_id: str
    replicas: Replicas
    folders: tuple[Partition, ...]

    @property
    def current(self) -> Partition | None:
        """The folder that a broker takes for the partition, by its name."""
        return next((each for each in self.folders if each.state.is_current and each.topic_partition == self.key), None)

    @property
    def is_loaded(self) -> bool:
        """Whether a folder of another name is the partition: a -future or a misnamed one. Both are points by
        themselves."""
        return any(
            each.state is PartitionDirState.FUTURE or (each.state.is_current and each.topic_partition != self.key)
            for each in self.folders
        )

    @property
    def aside(self) -> Partition | None:
        """The folder that was set aside and reaches further than the current one; None if there is none. One with
        another topic id has the records of an older topic of this name."""
        aside_with_logs = [each for each in self.folders if each.state in _ASIDE and find_log_bytes(each)]
        own = [each for each in aside_with_logs if read_topic_id(each) in (None, self.topic_id)]
        best = max(own or aside_with_logs, key=lambda each: (find_header_end(each), find_log_bytes(each)), default=None)
        if best is None or self.current is None:
            return best
        return best if own and find_header_end(best) > find_header_end(self.current) else None


def has_all_of(whole: Partition, part: Partition) -> bool:
    """Return whether each segment of one folder begins with what the segment of this name in the other one has."""
    try:
        begins = {os.path.basename(segment.path): segment.path for segment in whole.segments}
        return all(_begins_with(begins.get(os.path.basename(each.path)), each.path) for each in part.segments)
    except KlogError:
        return False


def _begins_with(path: str | None, beginning: str) -> bool:
    if path is None:
        return not os.path.getsize(beginning)
    with LogFile(path) as file, LogFile(beginning) as other:
        return file.begins_with(other)


def walk_absent(patient: Patient) -> Iterator[Ahead]:
    """Yield the points. Without the cluster's metadata, lines of checkpoints are the only sign of a partition."""
    reached = _reached(patient)
    if patient.cluster.metadata is None:
        yield from _walk_lines_alone(reached, patient)
    to_be_made = list(_walk_to_be_made(patient))
    anywhere = sum(not _assigned_to(each, patient) for each in to_be_made)
    for expected in to_be_made:
        yield from _in_the_way(expected, _assigned_to(expected, patient), anywhere, patient)
    for expected in walk_expected(patient):
        if _is_in_sync(expected, patient):
            yield from _points(expected, reached.get(expected.key), patient)


def walk_made(patient: Patient) -> Iterator[str]:
    """Yield the log dir of each partition that a broker makes in one that the metadata names."""
    for expected in _walk_to_be_made(patient):
        yield from _assigned_to(expected, patient)


def _walk_to_be_made(patient: Patient) -> Iterator[Expected]:
    return (each for each in walk_expected(patient, left_out=True) if _is_made(each, patient))


def _is_made(expected: Expected, patient: Patient) -> bool:
    """Return whether a broker makes a partition anew: none of its folders has its name, or gets it. A -future one gets
    it in the log dir that the metadata names (LogManager.recoverAbandonedFutureLogs)."""
    if any(each.state.is_current for each in expected.folders):
        return False
    if not patient.rules.promotes_future_logs:
        return True
    assigned, futures = _assigned_to(expected, patient), PartitionDirState.FUTURE
    own = (each for each in expected.folders if each.state is futures and read_topic_id(each) == expected.topic_id)
    return not any(patient.log_dir_of(each.path) in assigned for each in own)


def walk_absent_notes(patient: Patient) -> Iterator[Reason]:
    """Yield a note about partitions without a folder and without any sign that they had records."""
    reached = _reached(patient)
    new = [
        str(expected.key)
        for expected in walk_expected(patient)
        if not expected.folders and _is_in_sync(expected, patient) and expected.key not in reached
    ]
    if new:
        yield NoteCause.NO_FOLDERS(count=len(new), names=few_names(new))


def walk_expected(patient: Patient, *, left_out: bool = False) -> Iterator[Expected]:
    """Yield the partitions of this broker, but not those with one folder of the right name. left_out: also those that
    the cluster has in a log dir which is not named."""
    expected = _expected(patient, left_out=left_out)
    by_name: dict[TopicPartition, list[Partition]] = {}
    by_id: dict[tuple[str | None, int], list[Partition]] = {}
    for partition in patient.partitions():
        key = partition.topic_partition
        if key is not None and key.topic != METADATA_TOPIC:
            by_name.setdefault(key, []).append(partition)
            if key not in expected or partition.state in _ASIDE:  # -stray cuts the name of a long topic
                by_id.setdefault((read_topic_id(partition), key.partition), []).append(partition)
    for key, (topic_id, replicas) in expected.items():
        named = by_name.get(key, [])
        if len(named) != 1 or not named[0].state.is_current:
            folders = {each.path: each for each in (*named, *by_id.get((topic_id, key.partition), ()))}
            yield Expected(key, topic_id, replicas, tuple(folders.values()))


def _expected(patient: Patient, *, left_out: bool) -> Mapping[TopicPartition, tuple[str, Replicas]]:
    cluster = patient.cluster
    if cluster.metadata is None or cluster.node_id is None:
        return {}
    return {
        TopicPartition(topic, number): (topic_id, replicas)
        for topic, topic_id in cluster.metadata.topic_ids.items()
        for number, replicas in cluster.metadata.replicas.get(topic_id, {}).items()
        if cluster.node_id in replicas.brokers and (left_out or not is_left_out(replicas, cluster))
    }


def _is_in_sync(expected: Expected, patient: Patient) -> bool:
    """Return whether the cluster takes this replica for whole. A new or lagging one is filled by its leader."""
    replicas = expected.replicas
    trusted = (*replicas.isr, *replicas.elr, *replicas.last_known_elr)
    return not trusted or patient.cluster.node_id in trusted


def _points(expected: Expected, reached: ReachedOffset | None, patient: Patient) -> Iterator[Ahead]:
    aside, current = expected.aside, expected.current
    if expected.is_loaded:
        return
    if aside is not None and (current is not None or aside.state is PartitionDirState.STRAY):
        yield _set_aside(expected, aside, patient)
    elif current is None and aside is None and reached is not None:  # a -delete folder alone is a point by itself
        path = _path(reached, expected.key)
        others = tuple(each for each in expected.replicas.brokers if each != patient.cluster.node_id)
        detail = AheadCause.LINE_ALONE(
            file=os.path.basename(reached.path),
            offset=reached.offset,
            when=AheadCause.WHEN_IT_CAN() if is_blocked(path) else "",
            others=AheadCause.OTHERS_CUT(brokers=others) if others else "",
        )
        yield Ahead(path, What.ABSENT, detail, 0, reached.offset - 1)


def _assigned_to(expected: Expected, patient: Patient) -> list[str]:
    """Return the log dir that has a partition by the metadata; none if that is not named, or unknown."""
    cluster = patient.cluster
    assigned = None if cluster.node_id is None else expected.replicas.directory_of(cluster.node_id)
    return [path for path, own in cluster.directories.items() if own == assigned]


def _in_the_way(expected: Expected, assigned: Sequence[str], anywhere: int, patient: Patient) -> Iterator[Ahead]:
    """Yield the point of a file that has the name of the folder which a broker creates (LogManager.createLogDirectory).

    If the metadata names none of the log dirs, the broker tries one after the other, first those with the fewest
    partitions (LogManager.nextLogDirs). Which of two with as many is first, nobody knows. anywhere: how many
    partitions are made like that, in an order that nobody knows, either.
    """
    logs = {path: () if assigned else LogDir(path).partitions for path in assigned or patient.log_dirs}
    sizes = {path: sum(each.state.is_live and each.topic != METADATA_TOPIC for each in logs[path]) for path in logs}
    blocked = {path: size for path, size in sizes.items() if is_blocked(os.path.join(path, str(expected.key)))}
    least = min((size for path, size in sizes.items() if path not in blocked), default=None)
    for log_dir, size in blocked.items():
        path = os.path.join(log_dir, str(expected.key))
        if least is not None and size >= least + anywhere:
            continue
        is_sure = least is None or size + anywhere <= least
        detail = AheadCause.IN_THE_WAY() if is_sure else AheadCause.MAY_BE_IN_THE_WAY()
        stop, cure = offline("FileAlreadyExistsException", path), move_out(path, log_dir)
        yield Ahead(path, What.OFFLINE, detail, stop=stop, cure=cure, is_unsure=not is_sure)


def is_blocked(path: str) -> bool:
    """Return whether a file, or a link that leads to no folder, has the name of a folder."""
    return os.path.lexists(path) and not os.path.isdir(path)


def _set_aside(expected: Expected, aside: Partition, patient: Patient) -> Ahead:
    current, size = expected.current, find_log_bytes(aside)
    path = os.path.join(patient.log_dir_of(aside.path), str(expected.key)) if current is None else current.path
    detail = (AheadCause.ABSENT if current is None else AheadCause.SHORTER)(
        own_end=0 if current is None else find_header_end(current),
        when=AheadCause.WHEN_IT_CAN() if is_blocked(path) else "",
        aside=os.path.basename(aside.path),
        end=find_header_end(aside),
        size=size,
        deleted=AheadCause.DELETED_SOON() if aside.state is PartitionDirState.DELETE else "",
    )
    return Ahead(path, What.ABSENT, detail, lost_bytes=size, is_hidden=True)


def _walk_lines_alone(reached: Mapping[TopicPartition, ReachedOffset], patient: Patient) -> Iterator[Ahead]:
    """Yield partitions that have lines and no folder. A topic deleted shortly before a kill leaves such lines, too."""
    present = {partition.topic_partition for partition in patient.partitions()}
    for key, line in reached.items():
        if key not in present:
            detail = AheadCause.LINE_OF_UNKNOWN(file=os.path.basename(line.path), offset=line.offset)
            yield Ahead(_path(line, key), What.ABSENT, detail, 0, line.offset - 1, severity=Severity.WARNING)


def _path(reached: ReachedOffset, key: TopicPartition) -> str:
    return os.path.join(os.path.dirname(reached.path), str(key))


def _reached(patient: Patient) -> Mapping[TopicPartition, ReachedOffset]:
    """Return how far logs reached by the checkpoints of all log dirs; only those that had records."""
    reached: dict[TopicPartition, ReachedOffset] = {}
    for log_dir in patient.log_dirs:
        for kind, offsets in read_stated(LogDir(log_dir), _WITNESSES)[0].offsets.items():
            path = os.path.join(log_dir, kind.value)
            for key, offset in offsets.items():
                if key.topic != METADATA_TOPIC and offset > (reached[key].offset if key in reached else 0):
                    reached[key] = ReachedOffset(offset, path)
    return reached
