"""transplant --node-ids: the nodes of a cloned cluster get other ids, in meta.properties and in all of the metadata.

Node ids are in most records of `__cluster_metadata`. So each copy of it is written anew: one snapshot of all records,
with the new ids, in place of its log and its older snapshots. It ends where the copy ended, in the same epoch, so that
the most complete copy still wins the election, and others take the snapshot from it. `quorum-state` goes: it names
leaders and votes by the old ids, and a start without it goes on from the epoch of the log (QuorumState.initialize).

Sources: the schemas of org.apache.kafka.common.metadata; ConfigurationControlManager for names of brokers in settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import facts_of
from klogtool.broker.releases import rules_of
from klogtool.errors import Refused
from klogtool.format.internal.records import METADATA, build_metadata_record, parse_metadata_record
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.kraft_snapshot import Voter, build_snapshot
from klogtool.format.names import (
    KINDS_OF_LOG,
    FileKind,
    KraftSnapshotName,
    build_kraft_snapshot_name,
    parse_file_name,
)
from klogtool.plans.causes import NodeIdsRefusal
from klogtool.plans.plan import Delete, Plan, Step, Write
from klogtool.plans.question import Question
from klogtool.plans.results import Result
from klogtool.quorum.controllers import MetadataLog, read_metadata_log, walk_metadata_values

NewIds: TypeAlias = Mapping[int, int]  # old id -> new id
_REPLICAS = (
    "replicas",
    "isr",
    "removingReplicas",
    "addingReplicas",
    "leader",
    "eligibleLeaderReplicas",
    "lastKnownElr",
)
# Fields that have node ids, by record; a list has one for each replica.
NODE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "RegisterBrokerRecord": ("brokerId",),
    "UnregisterBrokerRecord": ("brokerId",),
    "BrokerRegistrationChangeRecord": ("brokerId",),
    "FenceBrokerRecord": ("id",),
    "UnfenceBrokerRecord": ("id",),
    "ProducerIdsRecord": ("brokerId",),
    "RegisterControllerRecord": ("controllerId",),
    "UnregisterControllerRecord": ("controllerId",),
    "PartitionRecord": _REPLICAS,
    "PartitionChangeRecord": _REPLICAS,
}
_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_THROTTLED = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)  # PARTITION:BROKER,...
_REPLACED = (*KINDS_OF_LOG, FileKind.QUORUM_STATE, FileKind.KRAFT_SNAPSHOT)
_PAIR = re.compile(r"(\d{1,10})=(\d{1,10})", re.ASCII)


class NodeIdsResult(Result, frozen=True):
    """What becomes of a copy of the metadata. offset, epoch: where the snapshot ends, as the copy did. voters: of a
    dynamic quorum, with their new ids; of a static one the settings name them."""

    node_ids: dict[int, int]
    offset: int
    epoch: int
    records: int
    voters: tuple[Voter, ...] = ()


def parse_node_ids(text: str) -> NewIds:
    """Parse OLD=NEW,... Raises ValueError, which names the word."""
    pairs = []
    for word in text.split(","):
        match = _PAIR.fullmatch(word)
        if match is None or max(int(match[1]), int(match[2])) > MAX_INT:
            raise ValueError(f"'{word}' is not OLD=NEW.")
        pairs.append((int(match[1]), int(match[2])))
    if len({old for old, _ in pairs}) < len(pairs) or len({new for _, new in pairs}) < len(pairs):
        raise ValueError("a node is named twice.")
    return dict(pairs)


def plan_metadata(
    command: str, log_dir: str, question: Question, new_ids: NewIds, voters: tuple[Voter, ...] | None
) -> Plan:
    """Plan for a log dir's copy of `__cluster_metadata`. voters: where the voters of a dynamic quorum listen now, by
    their new ids; None: where they did.

    Raises Refused for metadata that is damaged or that klogtool does not know to its end, and for ids that are given
    to one node while another one keeps it; KlogError for what cannot be read.
    """
    draft = Draft.of(os.path.join(log_dir, CLUSTER_METADATA_DIR))
    facts = facts_of(draft)
    log = read_metadata_log(draft.path)
    if log.trouble is not None:
        raise Refused(NodeIdsRefusal.UNREAD(why=str(log.trouble)), path=draft.path)
    of_4_4 = rules_of(question.circumstances.kafka).knows_messages_of_4_4
    known: set[int] = set()
    values = [with_new_ids(value, new_ids, known, of_4_4=of_4_4) for value in walk_metadata_values(draft.path)]
    new_voters = _voters(log, new_ids, voters, known, draft.path)
    check_new_ids(known, new_ids, draft.path)
    end, epoch = log.position.end_offset, log.position.epoch
    name = build_kraft_snapshot_name(KraftSnapshotName(end, epoch))
    gone = [file.name for file in map(parse_file_name, draft.names()) if file.kind in _REPLACED and not file.suffix]
    steps: list[Step] = [Delete(each) for each in gone if each != name]
    if values or end:  # a snapshot of nothing would make a new disk one that may lead
        now_ms = question.circumstances.now_ms
        data = b"".join(build_snapshot(values, epoch=epoch, timestamp_ms=now_ms, voters=new_voters))
        steps.insert(0, Write(name, (data,)))
    result = NodeIdsResult(dict(new_ids), end, epoch, len(values), new_voters)
    return Plan(command, draft.path, question, facts, tuple(steps), (), result)


def check_new_ids(known: set[int], new_ids: NewIds, path: str) -> None:
    """Raise Refused if a node would get the id of another one, which keeps it."""
    taken = sorted(new for old, new in new_ids.items() if old in known and new in known and new not in new_ids)
    if taken:
        raise Refused(NodeIdsRefusal.TAKEN(node=taken[0]), path=path)


def with_new_ids(value: bytes, new_ids: NewIds, known: set[int], *, of_4_4: bool) -> bytes:
    """Return a record with the new ids. known: gets the old ids that are in it."""
    name, version, values = parse_metadata_record(METADATA, value, of_4_4=of_4_4)
    changed: dict[str, Any] = {}
    for field in NODE_FIELDS.get(name, ()):
        match values.get(field):
            case list(old):
                known.update(old)
                changed[field] = [new_ids.get(each, each) for each in old]
            case int(old):  # -1, -2: nobody, or no change
                known.add(old)
                changed[field] = new_ids.get(old, old)
    if name == "ConfigRecord":
        changed = _with_new_brokers(values, new_ids)
    if not changed or changed.items() <= values.items():
        return value
    return build_metadata_record(name, version, {**values, **changed}, of_4_4=of_4_4)


def _with_new_brokers(values: Mapping[str, Any], new_ids: NewIds) -> dict[str, Any]:
    """Return what changes of a setting: it is one of a broker, or names brokers."""
    if values["resourceType"] == _BROKER and values["resourceName"].isdecimal():
        old = int(values["resourceName"])
        return {"resourceName": str(new_ids.get(old, old))}
    if values["resourceType"] == _TOPIC and values["name"] in _THROTTLED and values["value"]:
        pairs = (word.partition(":") for word in values["value"].split(","))
        renamed = (f"{n}:{new_ids.get(int(b), int(b))}" if b.isdecimal() else n + colon + b for n, colon, b in pairs)
        return {"value": ",".join(renamed)}
    return {}


def _voters(
    log: MetadataLog, new_ids: NewIds, voters: tuple[Voter, ...] | None, known: set[int], path: str
) -> tuple[Voter, ...]:
    """Return the voters of a dynamic quorum with their new ids and places."""
    old = log.quorum.voters or ()
    known.update(voter.id for voter in old)
    renamed = {new_ids.get(voter.id, voter.id): voter for voter in old}
    if voters is None:
        return tuple(replace(voter, id=new) for new, voter in renamed.items())
    if not old:
        raise Refused(NodeIdsRefusal.NO_VOTERS(), path=path)
    places = {voter.id: voter for voter in voters}
    if places.keys() != renamed.keys():
        ids = ", ".join(map(str, sorted(renamed)))
        raise Refused(NodeIdsRefusal.OTHER_VOTERS(ids=ids), path=path)
    result = []
    for new, voter in renamed.items():
        if places[new].directory_id not in ("", voter.directory_id):
            raise Refused(NodeIdsRefusal.DIRECTORY_STAYS(node=new, directory=voter.directory_id), path=path)
        listener = next((endpoint.name for endpoint in voter.endpoints), "")
        endpoints = tuple(replace(endpoint, name=listener) for endpoint in places[new].endpoints)
        result.append(Voter(new, voter.directory_id, endpoints))
    return tuple(result)
