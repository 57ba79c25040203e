"""transplant --cluster-id: a whole log dir as another cluster has it, for a clone from copies of all disks.

A broker knows its cluster by meta.properties alone (MetaPropertiesEnsemble). `__cluster_metadata` names nodes,
directory ids and topic ids, and no cluster: so these stay, and all log dirs of all nodes get the same new id.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from klogtool.broker.circumstances import REMOTE_STORAGE
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import file_fact
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.errors import KlogError, Refused
from klogtool.format.identity import build_meta_properties
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.names import METADATA_TOPIC, FileKind
from klogtool.format.uuids import build_uuid, parse_uuid
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.plans.plan import Plan, Write
from klogtool.plans.question import Question
from klogtool.plans.results import Result


class LogDirTransplant(Result, frozen=True):
    """What a log dir becomes. directory_id, node_id: they stay. partitions: how many partition dirs come along;
    has_metadata: one of them is `__cluster_metadata-0`. voters: whom that names, of a dynamic quorum, with where they
    listen: this stays, too. tiered_topics: topics that the metadata tiers, so that a clone shares their objects."""

    cluster_id: str
    source_cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    partitions: int
    has_metadata: bool
    voters: tuple[Voter, ...] = ()
    tiered_topics: tuple[str, ...] = ()


def plan_log_dir(command: str, path: str, question: Question, cluster_id: str) -> Plan:
    """Plan for one log dir. Raises KlogError for what is no log dir, or an id that is none; Refused for one without
    meta.properties; Corrupt if that cannot be read."""
    log_dir = open_path(path)
    if not isinstance(log_dir, LogDir):
        raise KlogError("not a log dir: --cluster-id is for a whole log dir", path=path)
    parse_uuid(cluster_id)
    draft, name = Draft.of(path), FileKind.META_PROPERTIES.value
    identity = log_dir.meta_properties
    if identity is None:
        raise Refused(
            "it has no meta.properties, so nobody knows of which node it is: kafka-storage.sh format writes one",
            path=path,
        )
    partitions = log_dir.partitions
    has_metadata = any(partition.topic == METADATA_TOPIC for partition in partitions)
    folder = os.path.join(draft.path, CLUSTER_METADATA_DIR)
    metadata = read_cluster_metadata(folder) if has_metadata else ClusterMetadata()
    result = LogDirTransplant(
        cluster_id,
        identity.cluster_id,
        identity.node_id,
        None if identity.directory_id is None else build_uuid(identity.directory_id),
        len(partitions),
        has_metadata,
        metadata.quorum.voters or (),
        tuple(sorted(topic for topic, settings in metadata.topics.items() if settings.get(REMOTE_STORAGE) == "true")),
    )
    is_same = identity.cluster_id == cluster_id
    content = build_meta_properties(replace(identity, cluster_id=cluster_id))
    steps = () if is_same else (Write(name, (content,)),)
    return Plan(command, draft.path, question, (file_fact(name, draft.files[name]),), steps, (), result)
