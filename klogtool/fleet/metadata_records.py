"""The records of a rebuilt `__cluster_metadata`, in the order and at the versions that a controller writes a snapshot.

Sources: org.apache.kafka.image.MetadataImage.write, org.apache.kafka.server.common.MetadataVersion.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.fleet.metadata import Rebuilt, SnapshotPartition, Topic
from klogtool.format.internal.records import ApiMessage, build_metadata_record
from klogtool.format.kraft_snapshot import build_snapshot
from klogtool.format.metadata_versions import METADATA_VERSION
from klogtool.format.names import KraftSnapshotName, build_kraft_snapshot_name

ELR = "eligible.leader.replicas.version"
TOPIC, BROKER = 2, 4  # ConfigResource.Type
NO_BROKER = -1
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
# From which level of metadata.version on a record has its next version.
_PARTITION_LEVELS = (17, 23)  # 3.7-IV2: directories; 4.0-IV1: eligible leader replicas
_BROKER_LEVELS = (8, 17, 30)  # 3.4-IV0: migration from ZooKeeper; 3.7-IV2; 4.3-IV0: cordoned log dirs


def snapshot_name(rebuilt: Rebuilt) -> str:
    """Return the name of the snapshot's file in `__cluster_metadata-0`."""
    return build_kraft_snapshot_name(KraftSnapshotName(rebuilt.offset, rebuilt.epoch))


def snapshot_bytes(rebuilt: Rebuilt, timestamp_ms: int) -> bytes:
    """Return the snapshot. timestamp_ms: of its records."""
    values = (build_metadata_record(*record) for record in walk_records(rebuilt))
    return b"".join(build_snapshot(values, epoch=rebuilt.epoch, timestamp_ms=timestamp_ms, voters=rebuilt.voters))


def walk_records(rebuilt: Rebuilt) -> Iterator[ApiMessage]:
    """Yield the records. The level of metadata.version is first, because it says how to read the others."""
    level = rebuilt.features[METADATA_VERSION]
    yield _feature(METADATA_VERSION, level)
    for name, value in sorted(rebuilt.features.items()):
        if name != METADATA_VERSION and value > 0:
            yield _feature(name, value)
    has_elr = rebuilt.features.get(ELR, 0) > 0
    if has_elr:
        # The brokers that have stopped cleanly. With eligible leader replicas, a controller takes a broker
        # that it does not know, or of another epoch, for one that has lost records, and takes it out of every
        # ISR and ELR (ClusterControlManager.registerBroker).
        version = 1 + sum(level >= least for least in _BROKER_LEVELS)
        for broker, epoch in sorted(rebuilt.brokers.items()):
            if epoch is None:
                continue
            values = {"brokerId": broker, "brokerEpoch": epoch, "incarnationId": _ZERO_ID, "fenced": True}
            log_dirs = {"logDirs": list(rebuilt.log_dirs.get(broker, ()))} if level >= _BROKER_LEVELS[1] else {}
            yield ApiMessage("RegisterBrokerRecord", version, values | log_dirs)
    for topic in rebuilt.topics:
        yield ApiMessage("TopicRecord", 0, {"name": topic.name, "topicId": topic.topic_id})
        for partition in topic.partitions:
            yield _partition(topic, partition, level, has_elr=has_elr)
    if has_elr:  # without it, controllers refuse changes of min.insync.replicas
        yield _config(BROKER, "", "min.insync.replicas", "1")
    for topic in rebuilt.topics:
        for setting in topic.settings:
            yield _config(TOPIC, topic.name, setting.name, setting.value)
    producer_ids = {"brokerId": NO_BROKER, "brokerEpoch": -1, "nextProducerId": rebuilt.next_producer_id}
    yield ApiMessage("ProducerIdsRecord", 0, producer_ids)


def _feature(name: str, level: int) -> ApiMessage:
    return ApiMessage("FeatureLevelRecord", 0, {"name": name, "featureLevel": level})


def _config(kind: int, resource: str, name: str, value: str) -> ApiMessage:
    values = {"resourceType": kind, "resourceName": resource, "name": name, "value": value}
    return ApiMessage("ConfigRecord", 0, values)


def _partition(topic: Topic, partition: SnapshotPartition, level: int, *, has_elr: bool) -> ApiMessage:
    """Return the record of a partition.

    One broker is in the ISR: a controller takes the others out when they register (handleBrokerShutdown), and the last
    one would have to come back. The other complete ones join within seconds, or are eligible leaders. Nobody leads yet:
    a follower does not begin to fetch from a leader that is not up. But a controller with eligible leaders remembers
    who has led (lastKnownElr), and can elect it.
    """
    leader, *others = partition.complete
    version = sum(level >= least for least in _PARTITION_LEVELS)
    values: dict[str, object] = {
        "partitionId": partition.partition,
        "topicId": topic.topic_id,
        "replicas": list(partition.replicas),
        "isr": [leader],
        "leader": leader if has_elr else NO_BROKER,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.leader_epoch,
    }
    if version > 0:
        values["directories"] = list(partition.directories)
    if has_elr and version > 1 and others:
        values["eligibleLeaderReplicas"] = others
    return ApiMessage("PartitionRecord", version, values)
