"""Remote segments that a start forgets: `__remote_log_metadata` has no record of them, or no leader epoch is known for
their offsets.

Once it leads a partition, a broker takes the first remote segment that the topic has for the start of the log; if there
is none, the first local offset (RemoteLogManager.findLogStartOffset). It says nothing about that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from klogtool.broker.circumstances import terms_of
from klogtool.broker.metadata.image import Replicas
from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, Prospect, What
from klogtool.doctor.causes import AdviceCause, AheadCause, NoteCause, few_names
from klogtool.doctor.patient import Cluster, Patient
from klogtool.doctor.replicas import is_left_out
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import REMOTE_TOPIC
from klogtool.format.partitioner import METADATA_PARTITIONS, metadata_partition
from klogtool.format.tiered.segments import SegmentState
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.remote.lineage import lost_gaps
from klogtool.remote.metadata import RemoteMetadata, read_metadata
from klogtool.remote.store import RemoteStore

MANAGER = "remote.log.metadata.manager.class.name"
DEFAULT_MANAGER = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"


def walk_forgotten_segments(patient: Patient, tier: tuple[RemoteStore, RemoteMetadata] | None) -> Iterator[Ahead]:
    """Yield a point for each log whose older records are in remote storage, in segments that nobody knows.

    tier: the store, and what was read of the topic; without it, the topic is read only where leader epochs are lost,
    else it is only seen whether partitions of it are empty. There is no point where another broker may have the
    records. Without the cluster's metadata that is unknown, and the point says so.
    """
    store, metadata = tier or (None, None)
    metadata = metadata if metadata is not None and metadata.numbers else None
    homes, known = _homes(patient), metadata
    for partition, span in _walk_begun_elsewhere(patient):
        with suppress(KlogError):  # damage that others tell
            if _is_forgotten(partition, homes, patient, metadata):
                yield _point(partition, span, patient, store, AheadCause.REMOTE_FORGOTTEN)
                continue
            known_from = next((line.start_offset for line in partition.leader_epochs or ()), span[1] + 1)
            again_from = _find_given_again(partition, patient)
            if known is None and (known_from > span[0] or again_from <= span[1]):
                known = read_metadata(patient.log_dirs, may_lack=True)
            if known is None:
                continue
            start = _start_by_epochs(partition, span, known)
            for cause, stop in (AheadCause.EPOCHS_FORGOTTEN, start), (AheadCause.EPOCHS_DIFFER, known_from):
                without = span[0], min(stop - 1, span[1])
                if stop > span[0] and _has_finished(partition, without, known):
                    yield _point_of_epochs(partition, without, store, cause)
                    span = without[1] + 1, span[1]
            again = max(span[0], again_from), span[1]
            if again[0] <= again[1] and _has_finished(partition, again, known):
                yield _point_of_epochs(partition, again, store, AheadCause.EPOCHS_AGAIN)
                span = span[0], again[0] - 1
            if tier is not None and not _may_be_elsewhere(partition, patient):
                for gap in _gaps(partition, span, known):
                    if _has_finished(partition, gap, known):
                        yield _point_of_epochs(partition, gap, store, AheadCause.EPOCHS_DIFFER)
                    else:
                        yield _point(partition, gap, patient, store, AheadCause.REMOTE_GAP)


def walk_forgotten_notes(patient: Patient, tier: tuple[RemoteStore, RemoteMetadata] | None) -> Iterator[Reason]:
    """Yield a note about logs whose older records may be in remote storage, if nothing here shows who knows them."""
    has_topic = tier is not None and bool(tier[1].numbers)
    if patient.cluster.metadata is not None or has_topic or _homes(patient):
        return
    names = [f"{partition.topic}-{partition.partition}" for partition, _ in _walk_begun_elsewhere(patient)]
    if names:
        yield NoteCause.REMOTE_UNKNOWN(count=len(names), names=few_names(names), topic=REMOTE_TOPIC)


def with_starts(prospects: Sequence[Prospect], points: Sequence[Ahead], cluster: Cluster) -> tuple[Prospect, ...]:
    """Return the prospects; of a log whose remote segments are forgotten, with the start that it gets then; None where
    another broker may have records of them."""
    forgotten = [point for point in points if point.what is What.REMOTE_FORGOTTEN]
    gaps = {point.path for point in forgotten if _is_for(point, AheadCause.REMOTE_GAP)}
    staying = AheadCause.EPOCHS_DIFFER, AheadCause.EPOCHS_AGAIN
    ends = {each.path: each.last_offset for each in forgotten if not any(_is_for(each, cause) for cause in staying)}
    is_known = cluster.metadata is not None
    return tuple(_with_start(each, ends, is_known=is_known and each.path not in gaps) for each in prospects)


def is_of_epochs(point: Ahead) -> bool:
    """Return whether a point is about offsets of which no leader epoch is known, or another one."""
    causes = AheadCause.EPOCHS_FORGOTTEN, AheadCause.EPOCHS_DIFFER, AheadCause.EPOCHS_AGAIN
    return any(_is_for(point, cause) for cause in causes)


def _is_for(point: Ahead, cause: AheadCause) -> bool:
    return isinstance(point.detail, Reason) and point.detail.cause is cause


def _key(partition: Partition) -> tuple[str, int]:
    return partition.topic_id or "", partition.partition or 0


def _with_start(prospect: Prospect, ends: Mapping[str, int | None], *, is_known: bool) -> Prospect:
    end = ends.get(prospect.path)
    if end is None or prospect.claim is None:
        return prospect
    return replace(prospect, claim=replace(prospect.claim, log_start_offset=end + 1 if is_known else None))


def _homes(patient: Patient) -> Mapping[int | None, Partition]:
    return {one.partition: one for one in patient.partitions() if one.topic == REMOTE_TOPIC and one.state.is_current}


def _walk_begun_elsewhere(patient: Patient) -> Iterator[tuple[Partition, tuple[int, int]]]:
    """Yield the logs that have a line of a log start below their first segment, and may be tiered, with the offsets
    between the two."""
    circumstances = patient.circumstances
    if circumstances.has_no_remote_storage or _has_other_manager(circumstances.server_settings):
        return
    for log_dir in patient.log_dirs:
        with suppress(KlogError):
            lines = LogDir(log_dir).log_start_offsets or {}
            for partition in LogDir(log_dir).partitions:
                start = lines.get(partition.topic_partition) if partition.topic_partition is not None else None
                if start is None or partition.topic == REMOTE_TOPIC or not partition.state.is_current:
                    continue
                first = next((segment.base_offset for segment in partition.segments), 0)
                if start < first:
                    checkpoints = patient.checkpoints_of(partition.path)
                    if terms_of(partition.path, circumstances, checkpoints=checkpoints).may_begin_elsewhere:
                        yield partition, (start, first - 1)


def _has_other_manager(settings: Mapping[str, str]) -> bool:
    """Return whether the broker keeps the metadata of remote segments in another place than the topic."""
    return settings.get(MANAGER, DEFAULT_MANAGER) != DEFAULT_MANAGER


def _is_forgotten(
    partition: Partition, homes: Mapping[int | None, Partition], patient: Patient, metadata: RemoteMetadata | None
) -> bool:
    """Return whether no record of the partition is in the topic, as far as that can be known here."""
    cluster, topic_id, number = patient.cluster, partition.topic_id, partition.partition or 0
    if topic_id is None:
        return False
    key = topic_id, number
    if cluster.metadata is None:
        if metadata is None:
            return bool(homes) and all(map(_is_empty, homes.values()))
        return metadata.missing_home(*key) is None and key not in metadata.homes
    replicas = _replicas(patient)
    if not replicas:
        return cluster.metadata.problem is None
    home = metadata_partition(topic_id, number, len(replicas))
    where = replicas.get(home)
    if where is None or where.brokers != (cluster.node_id,) or is_left_out(where, cluster):
        return False
    if home not in homes or _is_empty(homes[home]):
        return True
    return metadata is not None and home in metadata.numbers - metadata.unread and key not in metadata.homes


def _replicas(patient: Patient) -> Mapping[int, Replicas]:
    """Return the partitions of the topic by the cluster's metadata; none if that is not here, or has no such topic."""
    metadata = patient.cluster.metadata
    return {} if metadata is None else metadata.replicas.get(metadata.topic_ids.get(REMOTE_TOPIC, ""), {})


def _is_empty(partition: Partition) -> bool:
    return all(segment.size == 0 for segment in partition.segments)


def _point_of_epochs(
    partition: Partition, span: tuple[int, int], store: RemoteStore | None, cause: AheadCause
) -> Ahead:
    """Return the point where leader-epoch-checkpoint has no epoch for the first offsets, or for any another one than
    the segment that has them."""
    detail = cause(first=span[0], last=span[1], start=span[1] + 1, topic=REMOTE_TOPIC)
    cure = AdviceCause.EPOCHS_BACK(store="the store" if store is None else store.uri)
    if cause is AheadCause.EPOCHS_AGAIN:
        cure = AdviceCause.EPOCHS_KEPT(epoch=max(line.epoch for line in partition.leader_epochs or ()))
    return Ahead(partition.path, What.REMOTE_FORGOTTEN, detail, *span, cure=cure, is_hidden=True, is_uncounted=True)


def _find_given_again(partition: Partition, patient: Patient) -> int:
    """Return the first offset of a leader epoch that the cluster's metadata has not given yet, so it is older than the
    log: the next leader drops such an epoch (LeaderEpochFileCache.assign). Without one: an offset behind all."""
    metadata, (topic_id, number) = patient.cluster.metadata, _key(partition)
    replicas = None if metadata is None else metadata.replicas.get(topic_id, {}).get(number)
    newest = -1 if replicas is None else replicas.leader_epoch
    newer = (line.start_offset for line in partition.leader_epochs or () if line.epoch > newest >= 0)
    return next(newer, MAX_LONG)


def _start_by_epochs(partition: Partition, span: tuple[int, int], metadata: RemoteMetadata) -> int:
    """Return where the log starts once the broker leads: at the first segment of the first epoch that it knows
    (RemoteLogManager.findLogStartOffset). Segments that have only older epochs are deleted then."""
    cache = metadata.caches.get(_key(partition))
    segments = () if cache is None else cache.segments.values()
    for line in partition.leader_epochs or ():
        if starts := [one.start_offset for one in segments if line.epoch in dict(one.epochs)]:
            return max(span[0], min(starts))
    return span[1] + 1


def _may_be_elsewhere(partition: Partition, patient: Patient) -> bool:
    """Return whether another broker has a copy of the partition of the topic that would have the records."""
    replicas = _replicas(patient)
    home = replicas.get(metadata_partition(*_key(partition), len(replicas))) if replicas else None
    return home is not None and home.brokers != (patient.cluster.node_id,)


def _has_finished(partition: Partition, span: tuple[int, int], metadata: RemoteMetadata) -> bool:
    """Return whether a segment with some of these offsets is in remote storage. Else retention may have deleted them,
    in a broker that wrote the epochs and not yet the log start."""
    cache = metadata.caches.get(_key(partition))
    segments = () if cache is None else cache.segments.values()
    finished = (one for one in segments if one.state is SegmentState.COPY_FINISHED)
    return any(one.start_offset <= span[1] and one.end_offset >= span[0] for one in finished)


def _gaps(partition: Partition, span: tuple[int, int], metadata: RemoteMetadata) -> Sequence[tuple[int, int]]:
    """Return which of these offsets no segment serves; none if that is not known."""
    key = _key(partition)
    if metadata.missing_home(*key) is not None:
        return ()
    history = tuple((line.epoch, line.start_offset) for line in partition.leader_epochs or ())
    return lost_gaps(metadata.caches.get(key), history, span[0], span[1] + 1)


def _point(
    partition: Partition, span: tuple[int, int], patient: Patient, store: RemoteStore | None, cause: AheadCause
) -> Ahead:
    unless = AheadCause.UNLESS_OTHER_BROKER() if patient.cluster.metadata is None else ""
    detail = cause(first=span[0], last=span[1], start=span[1] + 1, topic=REMOTE_TOPIC, unless=unless)
    log_dir = quoted(patient.log_dir_of(partition.path))
    count = len(_replicas(patient)) or (METADATA_PARTITIONS if patient.cluster.metadata is not None else "N")
    cure = AdviceCause.REBUILD_REMOTE(
        store="STORE" if store is None else quoted(store.uri), log_dir=log_dir, count=str(count)
    )
    return Ahead(partition.path, What.REMOTE_FORGOTTEN, detail, *span, cure=cure, is_hidden=True, is_uncounted=True)
