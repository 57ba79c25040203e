"""Creates a partition dir: what a broker creates when it is told to hold a new replica."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, terms_of
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.broker.draft import Draft
from klogtool.causes import Text
from klogtool.errors import Corrupt, FileCause, KlogError, Refused
from klogtool.format.identity import PartitionMetadata, build_partition_metadata, parse_partition_metadata
from klogtool.format.names import METADATA_TOPIC, TOPIC_NAME, FileKind
from klogtool.format.uuids import parse_uuid
from klogtool.log.file import read_whole
from klogtool.log.folder import find_partition_dir_name, list_folder, own_name
from klogtool.parameters import Unit, parameter
from klogtool.plans.causes import AppendRefusal, PlanNote
from klogtool.plans.plan import Plan
from klogtool.plans.plan_change import ChangeLog, plan_draft
from klogtool.plans.question import PathText, Question

_METADATA = FileKind.PARTITION_METADATA.value
_MOST_METADATA_BYTES = 1 << 16


class CreationQuestion(Question, frozen=True, kw_only=True):
    """create: create the partition dir if it does not exist. topic_id: in Kafka's text form, if known.

    new_topic_id: the id to use if nothing in the log dir gives one.
    """

    create: Annotated[bool, parameter("Create the partition dir if it does not exist.")] = False
    topic_id: Annotated[
        PathText | None,
        parameter("With --create: the topic id.  [default: from the log dir, else a new one]", Unit.TOPIC_ID),
    ] = None
    new_topic_id: PathText | None = None


def is_to_be_created(path: str, question: CreationQuestion) -> bool:
    """Return whether the path does not exist or is an empty folder, and `create` was given."""
    if not question.create:
        return False
    return not os.path.lexists(path) or (os.path.isdir(path) and not os.listdir(path))


def plan_creation(command: str, path: str, question: CreationQuestion, change: ChangeLog) -> Iterator[Plan]:
    """Plan a new partition dir with its partition.metadata.

    Raises Refused for a name that is not a partition's, and for a topic id that contradicts a known one; else as
    `plan_change`.
    """
    name = find_partition_dir_name(own_name(path))
    if name is None or not name.state.is_current or not TOPIC_NAME.fullmatch(name.topic):
        raise Refused(AppendRefusal.NO_NAME(), path=path)
    if not os.path.isdir(os.path.dirname(path)):
        raise KlogError(FileCause.NO_FOLDER(), path=os.path.dirname(path))
    checkpoints = Checkpoints.beside(path)
    terms = terms_of(path, question.circumstances, checkpoints=checkpoints)
    topic_id, why = _topic_id(path, name.topic, checkpoints.log_dir, question)
    draft = Draft(path, {})
    draft.write(_METADATA, build_partition_metadata(PartitionMetadata(0, topic_id)))
    # An empty new log has nothing to recover.
    plan, _ = plan_draft(command, question, draft, (), replace(terms, is_clean=True), change)
    yield replace(plan, notes=(PlanNote.NEW_DIR(topic_id=why), *plan.notes))


def _topic_id(path: str, topic: str, log_dir: str | None, question: CreationQuestion) -> tuple[bytes, Text]:
    """Return the topic id, and where it comes from."""
    known, where = known_topic_id(topic, log_dir or os.path.dirname(path))
    if question.topic_id is not None:
        topic_id = parse_uuid(question.topic_id)
        if known not in (None, topic_id):
            raise Refused(AppendRefusal.OTHER_TOPIC_ID(where=where), path=path)
        return topic_id, f"{question.topic_id}, as given"
    if known is not None:
        return known, f"by {where}"
    generated = question.new_topic_id
    if generated is None:
        raise Refused(AppendRefusal.NO_TOPIC_ID(), path=path)
    return parse_uuid(generated), PlanNote.ID_GENERATED(topic_id=generated)


def known_topic_id(topic: str, log_dir: str, but: str = "") -> tuple[bytes | None, str]:
    """Return the topic id from the cluster's own metadata, or from a partition of the topic; None if neither knows it.
    Also return where it is from. but: the name of a partition dir that is not asked. Folders that a broker deletes, or
    called stray, have the id of a topic that is gone."""
    cluster = ClusterConfig.of(log_dir).metadata
    by_cluster = None if cluster is None else cluster.topic_ids.get(topic)
    if by_cluster is not None:
        return parse_uuid(by_cluster), METADATA_TOPIC
    for other in list_folder(log_dir).folders:
        name = find_partition_dir_name(other)
        metadata = os.path.join(log_dir, other, _METADATA)
        is_ours = name is not None and name.topic == topic and name.state.is_live
        if is_ours and other != but and os.path.isfile(metadata):
            try:
                return parse_partition_metadata(read_whole(metadata, limit=_MOST_METADATA_BYTES)).topic_id, other
            except Corrupt:  # verify reports it
                continue
    return None, ""
