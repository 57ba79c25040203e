"""What a release does to log dirs that another one wrote: metadata.version, a newer format, ZooKeeper's log dirs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.refusals import refused_level
from klogtool.broker.releases import Rules
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause, few_names
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.metadata_options import level_cure
from klogtool.doctor.patient import Cluster
from klogtool.errors import KlogError
from klogtool.format.metadata_versions import METADATA_VERSION
from klogtool.format.names import FileKind
from klogtool.log.log_files import find_log_bytes
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.verify.stops import refuses

SEGMENT_BYTES = "segment.bytes"
ZERO_CHECKPOINT = "00000000000000000000-0000000000.checkpoint"  # KIP-1170


def walk_level_points(cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if the release does not start with the cluster's metadata.version (MetadataVersion, KIP-778)."""
    level = None if cluster.metadata is None else cluster.metadata.features.get(METADATA_VERSION)
    if cluster.metadata_dir is None or level is None:
        return
    levels = rules.metadata_levels
    lowest, highest = levels.lowest, levels.highest
    path = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    cure = level_cure(level, rules)
    if (failure := refused_level(level, rules)) is not None:
        detail = AheadCause.UNKNOWN_LEVEL(level=level, kafka=str(rules.release), lowest=lowest, highest=highest)
        yield Ahead(path, What.REFUSES, detail, stop=refuses(*failure), cure=cure, by_leader=True)
    elif level > levels.production:
        detail = AheadCause.LEVEL_OF_TESTS(level=level, kafka=str(rules.release), highest=levels.production)
        stop = stop_at("level-of-tests", level=level)
        yield Ahead(path, What.REFUSES, detail, stop=stop, cure=cure, by_leader=True)


def walk_release_points(
    log_dirs: Sequence[str], cluster: Cluster, rules: Rules, is_broker: bool | None
) -> Iterator[Ahead]:
    """Yield what the release does not start with, but for levels. is_broker: None if that is not known."""
    yield from _walk_format_points(log_dirs, cluster, rules)
    yield from _walk_zookeeper_points(log_dirs, cluster, rules)
    if is_broker is not False:
        yield from _walk_setting_points(cluster, rules)


def _walk_setting_points(cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if topics have a setting that the release refuses (LogConfig, KIP-1030). A broker reads those of
    all topics of the cluster before it loads a log, also of topics that it does not have."""
    if cluster.metadata is None or cluster.metadata_dir is None:
        return
    settings, least = cluster.metadata.topics, rules.least_segment_bytes
    texts = {topic: settings.get(topic, {}).get(SEGMENT_BYTES, "") for topic in sorted(cluster.metadata.topic_ids)}
    small = {topic: text for topic, text in texts.items() if text.isdecimal() and int(text) < least}
    if small:
        path, (first, value) = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR), next(iter(small.items()))
        detail = AheadCause.SMALL_SEGMENTS(topics=few_names(list(small)), least=least, kafka=str(rules.release))
        stop = stop_at("setting-too-low", name=SEGMENT_BYTES, value=value, least=least)
        cure = AdviceCause.LARGER_SEGMENTS(topic=first, least=least)
        yield Ahead(path, What.REFUSES, detail, stop=stop, cure=cure, by_leader=True)


def _walk_format_points(log_dirs: Sequence[str], cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if a release would not see with which features the log dirs were formatted."""
    if cluster.metadata_dir is None or rules.reads_zero_checkpoint:
        return
    folder = os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR)
    has_bootstrap = any(os.path.lexists(os.path.join(path, FileKind.BOOTSTRAP_SNAPSHOT.value)) for path in log_dirs)
    # A link to nowhere is as if it was not there.
    logs = [segment.path for segment in Partition(folder).segments if os.path.exists(segment.path)]
    is_empty = not any(map(os.path.getsize, logs))
    if os.path.lexists(os.path.join(folder, ZERO_CHECKPOINT)) and is_empty and not has_bootstrap:
        detail = AheadCause.NEVER_STARTED(kafka=str(rules.release), file=ZERO_CHECKPOINT)
        yield Ahead(folder, What.METADATA_LOST, detail)


def _walk_zookeeper_points(log_dirs: Sequence[str], cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point for each log dir that only a broker with ZooKeeper can use (KIP-500): it has no topic ids, or its
    broker was never migrated, so no cluster with KRaft has these ids."""
    if rules.has_zookeeper or (cluster.topic_ids and cluster.metadata is not None):
        return
    for path in log_dirs:
        partitions = LogDir(path).partitions
        if partitions and not (cluster.topic_ids and not _was_never_migrated(path)):
            size = sum(map(find_log_bytes, partitions))
            cause = AheadCause.NEVER_MIGRATED if cluster.topic_ids else AheadCause.NO_TOPIC_IDS
            detail = cause(count=len(partitions), size=size)
            stray = Ahead(path, What.STRAY, detail, lost_bytes=size, is_hidden=bool(size), cure=AdviceCause.MIGRATE())
            yield _identity_point(path) or stray


def _was_never_migrated(path: str) -> bool:
    """Return whether meta.properties is as a broker with ZooKeeper keeps it: brokers in a migration (KafkaServer) and
    with KRaft give each log dir a directory.id, and leave it version 0."""
    try:
        identity = LogDir(path).meta_properties
    except KlogError:
        return False
    return identity is not None and identity.version == 0 and identity.directory_id is None


def _identity_point(path: str) -> Ahead | None:
    """Return the point if meta.properties lacks what KRaft needs (KafkaRaftServer.initializeLogDirs)."""
    try:
        identity = LogDir(path).meta_properties
    except KlogError:  # reported by itself
        return None
    if identity is not None and identity.cluster_id is not None:
        return None
    file = os.path.join(path, FileKind.META_PROPERTIES.value)
    stop = stop_at("no-meta-properties-of-kraft" if identity is None else "no-cluster-id", path=path)
    return Ahead(file, What.REFUSES, AheadCause.OF_ZOOKEEPER(), stop=stop, cure=AdviceCause.MIGRATE())
