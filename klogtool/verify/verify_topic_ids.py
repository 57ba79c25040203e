"""Topic ids in partition dirs, over all log dirs of a broker: against each other, or against the cluster's metadata."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from klogtool.causes import Reason
from klogtool.format.names import METADATA_TOPIC, FileKind, TopicPartition
from klogtool.log.partition import Partition
from klogtool.verify.causes import CureCause, CureRemark, PartitionCause
from klogtool.verify.cures import exchanging, move_out, parent_of, remarked, renaming
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.identity import CureKind, Folders, Identity, IdentityKind, TopicIds, cures_of
from klogtool.verify.identity_cures import read_topic_id, write_partition_metadata

_WRONG = (IdentityKind.MISNAMED, IdentityKind.REPLACED)  # a folder of a deleted topic is what a broker sets aside


def verify_topic_ids(partitions: Iterable[Partition], by_metadata: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield findings of partitions of one topic with different ids, or with another id than in the cluster's metadata.

    by_metadata: ids by topic, or None if the metadata is not available.
    """
    live = [each for each in partitions if each.state.is_live and each.topic not in (None, METADATA_TOPIC)]
    known = TopicIds.of_most(live) if by_metadata is None else TopicIds.of(by_metadata)
    whose = PartitionCause.ELSEWHERE() if by_metadata is None else PartitionCause.IN_METADATA()
    folders: dict[TopicPartition | None, list[Partition]] = defaultdict(list)
    for partition in live:
        folders[partition.topic_partition].append(partition)
    for partition in live:
        topic_id = read_topic_id(partition)
        identity = None if topic_id is None else known.judge(partition.topic or "", topic_id)
        if identity is not None and identity.kind in _WRONG:
            path = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
            reason = _reason(partition, identity, whose)
            yield Finding(
                Kind.TOPIC_ID_MISMATCH, path, reason, cured_by=_cure_of_identity(partition, identity, folders)
            )


def _reason(partition: Partition, identity: Identity, whose: Reason) -> Reason:
    topic, its_id = str(partition.topic), identity.topic_id
    if identity.kind is IdentityKind.MISNAMED:
        return PartitionCause.MISNAMED(its_id=its_id, owner=str(identity.topic_of_id), whose=whose, topic=topic)
    return PartitionCause.REPLACED(topic=topic, its_id=its_id, other_id=str(identity.id_of_name), whose=whose)


_OTHERWISE = {
    CureKind.RENAME: CureRemark.RENAME_FOLDER,
    CureKind.EXCHANGE: CureRemark.EXCHANGE_FOLDERS,
    CureKind.WRITE_ID: CureRemark.OTHER_ID,
}


def _cure_of_identity(partition: Partition, identity: Identity, folders: Folders) -> Reason:
    """Return the likeliest cure as a command; a remark says when another one is right."""
    cures = cures_of(partition, identity, folders)
    if not cures:
        return move_out(partition.path, parent_of(partition.path))
    first, others = cures[0], cures[1:]
    if first.kind is CureKind.EXCHANGE:
        own = os.path.basename(partition.path)
        if first.value < own:
            return CureCause.EXCHANGE_ONCE(name=first.value)
        return exchanging(partition.path, os.path.join(parent_of(partition.path), first.value))
    otherwise = CureRemark.MOVE_FOLDER()
    if others:
        otherwise = _OTHERWISE[others[0].kind](name=others[0].value)
    topic = str(partition.topic if first.kind is CureKind.WRITE_ID else identity.topic_of_id)
    remark = None if first.is_proved else CureRemark.IF_OF_TOPIC(topic=topic, otherwise=otherwise)
    if first.kind is CureKind.WRITE_ID:
        path = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
        return write_partition_metadata(path, first.value, remark)
    command = renaming(partition.path, os.path.join(parent_of(partition.path), first.value))
    return remarked(command, remark)
