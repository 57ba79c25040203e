"""Whose partition a folder is: by its name, and by the topic id in its partition.metadata.

The rule is LogManager.isStrayReplica's: it asks for the id only. A log that is loaded under another topic's name
is not served, because its topic id is not that of the name. `verify` and `doctor` judge by this.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.broker.releases import TOLERANT_RULES
from klogtool.format.names import METADATA_TOPIC, FileKind, TopicPartition
from klogtool.log.logdir import LogDir, knows_topic_ids
from klogtool.log.partition import Partition
from klogtool.verify.header_end import find_header_end
from klogtool.verify.identity_cures import read_topic_id

_REACHES = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)


class IdentityKind(Enum):
    """How the name and the id of a folder go together."""

    OWN = "own"
    """The id is the topic's."""
    MISNAMED = "misnamed"
    """The id is another topic's: a broker loads the folder under its name, and never serves it."""
    REPLACED = "replaced"
    """The topic of this name has another id, and no topic has this one: a broker renames the folder to -stray, and
    creates an empty one."""
    UNKNOWN = "unknown"
    """No topic has the name, and none has the id: a broker renames the folder to -stray."""


class Identity(Struct, frozen=True):
    """kind: the judgement. topic_id: in the folder. id_of_name: the right id of the folder's topic, or None.
    topic_of_id: the topic whose id it is, or None."""

    kind: IdentityKind
    topic_id: str
    id_of_name: str | None = None
    topic_of_id: str | None = None


class TopicIds(Struct, frozen=True):
    """The topics that are known, by name and by id."""

    by_name: Mapping[str, str]
    by_id: Mapping[str, str]

    @classmethod
    def of(cls, by_name: Mapping[str, str]) -> TopicIds:
        """Return the topics of such a mapping, as the cluster's metadata has it."""
        return cls(by_name, {topic_id: name for name, topic_id in by_name.items()})

    @classmethod
    def of_most(cls, partitions: Iterable[Partition]) -> TopicIds:
        """Return each topic with the id that most of its partitions have, where the metadata is not there."""
        ids: dict[str, Counter[str]] = defaultdict(Counter)
        for partition in partitions:
            topic_id = read_topic_id(partition)
            if partition.state.is_live and partition.topic is not None and topic_id is not None:
                ids[partition.topic][topic_id] += 1
        return cls.of({topic: counted.most_common(1)[0][0] for topic, counted in ids.items()})

    def judge(self, topic: str, topic_id: str) -> Identity:
        """Return whose partition a folder is, by the topic of its name and the id in it."""
        id_of_name, topic_of_id = self.by_name.get(topic), self.by_id.get(topic_id)
        if id_of_name == topic_id:
            kind = IdentityKind.OWN
        elif topic_of_id is not None:
            kind = IdentityKind.MISNAMED
        else:
            kind = IdentityKind.UNKNOWN if id_of_name is None else IdentityKind.REPLACED
        return Identity(kind, topic_id, id_of_name, topic_of_id)


def without_set_aside(partitions: Sequence[Partition], log_dirs: Iterable[str]) -> list[Partition]:
    """Return the partition dirs without those that a broker renames to -stray when it loads them: before it looks for
    duplicates (LogManager.loadLog), so that an older incarnation of a topic may lie beside the new one. They have no
    topic id, or one of which the metadata in the log dirs has no such partition."""
    places = filter(os.path.isdir, (os.path.join(log_dir, CLUSTER_METADATA_DIR) for log_dir in log_dirs))
    known = next((read_cluster_metadata(place, TOLERANT_RULES) for place in places), None)
    return [each for each in partitions if each.topic == METADATA_TOPIC or not _is_set_aside(each, known)]


def _is_set_aside(partition: Partition, known: ClusterMetadata | None) -> bool:
    if not os.path.lexists(os.path.join(partition.path, FileKind.PARTITION_METADATA.value)):
        return known is not None or knows_topic_ids(LogDir(os.path.dirname(partition.path)))
    topic_id = read_topic_id(partition)
    if known is None or known.problem is not None or topic_id is None:  # an unreadable file stops the start
        return False
    return partition.partition not in known.replicas.get(topic_id, {})


class CureKind(Enum):
    """What gives a folder one identity."""

    RENAME = "rename"
    """Give it the name of its id."""
    EXCHANGE = "exchange"
    """Exchange it with the folder that has the name of its id, and the id of its name."""
    WRITE_ID = "write-id"
    """Give it the id of its name."""


class IdentityCure(Struct, frozen=True):
    """value: the new name of the folder, or the topic id to write. is_proved: how far its log reaches says that this
    is right, and the other is not."""

    kind: CureKind
    value: str
    is_proved: bool = False


Folders: TypeAlias = Mapping[TopicPartition | None, Sequence[Partition]]  # of all log dirs of a broker


def cures_of(partition: Partition, identity: Identity, folders: Folders) -> tuple[IdentityCure, ...]:
    """Return the cures, the likelier one first; none if the cluster knows neither the name nor the id, or if another
    folder has both."""
    number = partition.partition or 0
    cures = []
    by_name = _reaches(partition, TopicPartition(partition.topic or "", number))
    by_id = identity.topic_of_id is not None and _reaches(partition, TopicPartition(identity.topic_of_id, number))
    others = [each for each in folders.get(partition.topic_partition, ()) if each.path != partition.path]
    is_taken = any(each.state.is_current and read_topic_id(each) == identity.id_of_name for each in others)
    if identity.id_of_name is not None and identity.kind is not IdentityKind.OWN and not is_taken:
        cures.append(IdentityCure(CureKind.WRITE_ID, identity.id_of_name, by_name and not by_id))
    if identity.kind is IdentityKind.MISNAMED:
        plain = TopicPartition(identity.topic_of_id or "", number)
        twins = [each for each in folders.get(plain, ()) if each.state.is_current]
        twin = min(twins, key=lambda each: not _are_beside(each, partition), default=None)
        if twin is not None and _are_crossed(partition, twin, identity):
            exchange = IdentityCure(CureKind.EXCHANGE, str(plain), by_id and not by_name)
            return (exchange, *cures) if exchange.is_proved else (*cures, exchange)
        if twin is None:
            cures.append(IdentityCure(CureKind.RENAME, str(plain), by_id and not by_name))
    if len(cures) > 1 and not cures[0].is_proved:  # nothing has the name of its id: the folder was renamed
        cures.reverse()
    return tuple(cures)


def _are_crossed(partition: Partition, twin: Partition, identity: Identity) -> bool:
    return _are_beside(twin, partition) and read_topic_id(twin) == identity.id_of_name


def _are_beside(one: Partition, other: Partition) -> bool:
    return os.path.dirname(one.path) == os.path.dirname(other.path)


def _reaches(partition: Partition, key: TopicPartition) -> bool:
    """Return whether the log ends where a checkpoint of its log dir has the end of that partition."""
    lines, end = Checkpoints.beside(partition.path), find_header_end(partition)
    return any(lines.find_line(kind, key) == end for kind in _REACHES)
