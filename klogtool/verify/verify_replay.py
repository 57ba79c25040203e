"""A sound record of `__cluster_metadata` that a start does not replay: the first one, with Kafka's exception."""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.broker.metadata.image import ClusterMetadata
from klogtool.broker.metadata.refusals import Refusal, Replay
from klogtool.broker.releases import TOLERANT_RULES, Rules
from klogtool.causes import Reason
from klogtool.verify.causes import CureCause, KraftCause
from klogtool.verify.cures import FROM_A_CONTROLLER
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.stops import refuses
from klogtool.verify.verify_voters import read_identity


def verify_replay(folder: str, metadata: ClusterMetadata, rules: Rules) -> Iterator[Finding]:
    """Yield a finding if a replay refuses a record of this partition dir. metadata: as the release reads it."""
    first = metadata.refusal
    if first is None:
        return
    # Raft reads every record before any replay does, on all nodes (KRaftControlRecordStateMachine).
    ends = first.record is None or metadata.may_be_controller(node_id_beside(folder))
    refusal = first if ends else next((one for one in metadata.refusals if one.by is Replay.IMAGE), None)
    if refusal is None:
        return
    yield Finding(
        Kind.METADATA_REPLAY,
        refusal.path,
        _reason(refusal, rules, ends=ends),
        first_offset=refusal.offset,
        cured_by=_cure(folder, refusal),
        stop=refuses(refusal.kafka_class, refusal.message) if ends else None,
    )


def refused_record(refusal: Refusal) -> Reason:
    """Return which record is refused."""
    place = (
        KraftCause.IN_SNAPSHOT(index=str(refusal.index))
        if refusal.offset is None
        else KraftCause.IN_LOG(offset=str(refusal.offset))
    )
    return place if refusal.record is None else KraftCause.RECORD(place=place, name=refusal.record)


def _reason(refusal: Refusal, rules: Rules, *, ends: bool) -> Reason:
    record, then = refused_record(refusal), KraftCause.NODE_ENDS()
    if refusal.record is not None:
        then = KraftCause.CONTROLLER_ENDS() if ends else KraftCause.FAULT_LOGGED()
    error = f"{refusal.kafka_class}: {refusal.message}"
    if rules is TOLERANT_RULES:
        return KraftCause.NO_REPLAY(record=record, then=then, error=error)
    return KraftCause.NO_REPLAY_IN(record=record, release=str(rules.release), then=then, error=error)


def _cure(folder: str, refusal: Refusal) -> Reason:
    if refusal.offset is None:
        return CureCause.OLDER_SNAPSHOT(copy=FROM_A_CONTROLLER)
    cut = CureCause.TRUNCATE(folder=folder, offset=refusal.offset)
    return CureCause.FORGET_CHANGES(copy=FROM_A_CONTROLLER, command=cut)


def node_id_beside(folder: str) -> int | None:
    """Return the node id of the log dir that a partition dir is in; None if unknown."""
    identity = read_identity(os.path.dirname(folder))
    return None if identity is None else identity.node_id
