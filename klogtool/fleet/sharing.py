"""One broker's share of a plan: what is done already, what is still to do, and whether the plan is about this disk.

Reads the disk, and writes nothing. A copy is as planned if its fingerprint is that of the plan. What was done already,
by a run that was cut short, is seen by what is there now.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.draft import Draft
from klogtool.errors import Refused
from klogtool.escape import escaped
from klogtool.fleet.causes import FleetRefusal
from klogtool.fleet.choosing import Choice, PlacedCopy, Share, hidden_damage
from klogtool.fleet.collected import CopyFacts, LogDirFacts
from klogtool.fleet.collecting import collect_copy, fingerprint_of, log_dir_facts, open_log_dir
from klogtool.fleet.histories import history_of, parting_offset
from klogtool.fleet.planning import BY_APPLY, FleetPlan, PlannedBroker
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.partition import Partition
from klogtool.plans.fleet_share import Act, Cut, Move
from klogtool.plans.plan import is_plain_name, moved_out


class AlreadyThere(Struct, frozen=True):
    """What is there already as the plan wants it."""

    share: Share


class Todo(Struct, frozen=True):
    """What is to do. act: for plans/fleet_share.py."""

    share: Share
    act: Act


def find_share(plan: FleetPlan, paths: Sequence[str], circumstances: Circumstances) -> list[AlreadyThere | Todo]:
    """Return what this broker has to do, in order. paths: all its log dirs.

    Raises Refused, and nothing is to be done, if the plan is not about this broker or cluster, if a log dir is missing,
    or if a copy was changed since it was collected; KlogError for a path that is no log dir.
    """
    log_dirs = [open_log_dir(path) for path in dict.fromkeys(map(os.path.abspath, paths))]
    facts = [log_dir_facts(log_dir) for log_dir in log_dirs]
    broker = _broker_of(plan, facts)
    places = dict(_places(broker, facts, plan.path))
    results: list[AlreadyThere | Todo] = []
    for choice, share in plan.shares_of(broker.node_id):
        results += _judge(choice, share, places[share.placed.copy.log_dir], circumstances)
    # A restored folder gets its name after the folder that has it now was set aside.
    return sorted(results, key=lambda result: result.share.action == "restore")


# Which broker this is.


def _broker_of(plan: FleetPlan, facts: Sequence[LogDirFacts]) -> PlannedBroker:
    """Return the broker of the plan that these log dirs belong to."""
    brokers = {broker.node_id: broker for broker in plan.fleet.brokers}
    for log_dir in facts:
        if log_dir.problem is not None:
            raise Refused(FleetRefusal.NO_BROKER_OF(why=log_dir.problem), path=log_dir.path)
        if plan.fleet.cluster_id is not None and log_dir.cluster_id != plan.fleet.cluster_id:
            raise Refused(
                FleetRefusal.OF_OTHER_CLUSTER(cluster=str(log_dir.cluster_id), planned=plan.fleet.cluster_id),
                path=log_dir.path,
            )
    node_ids = {log_dir.node_id for log_dir in facts}
    if len(node_ids) != 1:
        raise Refused(FleetRefusal.SEVERAL_BROKERS(), path=facts[0].path)
    (node_id,) = node_ids
    if node_id is None or node_id not in brokers:
        cause = FleetRefusal.OF_OTHER_BROKER(broker=str(node_id), brokers=tuple(brokers))
        raise Refused(cause, path=facts[0].path)
    return brokers[node_id]


def _places(broker: PlannedBroker, facts: Sequence[LogDirFacts], file: str) -> Iterator[tuple[str, str]]:
    """Yield each log dir of the plan, and where it is now: by its directory id, or by its path if it has none."""
    by_id: Mapping[str | None, str] = {facts.directory_id: facts.path for facts in facts if facts.directory_id}
    by_path = {os.path.realpath(facts.path): facts.path for facts in facts}
    for planned in broker.log_dirs:
        here = by_id.get(planned.directory_id) or by_path.get(os.path.realpath(planned.path))
        if here is None:
            raise Refused(FleetRefusal.ALSO_ABOUT(log_dir=planned.path, broker=broker.node_id), path=file)
        yield planned.path, here


# What is done, and what is to do.


def _judge(choice: Choice, share: Share, log_dir: str, circumstances: Circumstances) -> Iterator[AlreadyThere | Todo]:
    """Yield what is to do about a copy. Raises Refused if it is neither as planned nor done."""
    copy = share.placed.copy
    if not is_plain_name(copy.folder) or find_partition_dir_name(copy.folder) is None:
        raise Refused(FleetRefusal.NO_PARTITION_DIR(folder=escaped(copy.folder)), path=log_dir)
    path = os.path.join(log_dir, copy.folder)
    is_as_planned = fingerprint_at(path) == copy.fingerprint
    if share.action not in BY_APPLY:
        if copy.problem is None and not is_as_planned:
            raise _changed(path)
        return
    if is_as_planned:
        yield Todo(share, _act(choice, share, log_dir))
    elif _is_done(choice, share, log_dir, circumstances):
        yield AlreadyThere(share)
    else:
        raise _changed(path)


def _act(choice: Choice, share: Share, log_dir: str) -> Act:
    copy = share.placed.copy
    if share.action == "truncate":
        return Cut(log_dir, copy.folder, share.to or 0, hidden_damage(share.placed) is not None)
    if share.action == "restore":
        return Move(log_dir, copy.folder, plain_name(choice))
    return Move(log_dir, copy.folder, moved_out(os.path.realpath(log_dir), copy.folder))


def plain_name(choice: Choice) -> str:
    """Return the name of the partition's folder."""
    return f"{choice.topic}-{choice.partition}"


def _is_done(choice: Choice, share: Share, log_dir: str, circumstances: Circumstances) -> bool:
    copy = share.placed.copy
    path = os.path.join(log_dir, copy.folder)
    if share.action == "restore":
        named = os.path.join(log_dir, plain_name(choice))
        return not os.path.lexists(path) and fingerprint_at(named) == copy.fingerprint
    if share.action == "set-aside":
        base = os.path.realpath(log_dir)
        return fingerprint_at(os.path.normpath(os.path.join(base, moved_out(base, copy.folder)))) == copy.fingerprint
    if not os.path.isdir(path):
        return False
    return is_cut(collect_copy(Partition(path), Checkpoints(log_dir), circumstances), share.placed, share.to or 0)


def is_cut(now: CopyFacts, before: PlacedCopy, to: int) -> bool:
    """Return whether a copy ends where it was to be cut, has no damage, and is the same before."""
    is_whole = (
        not now.wounds_count
        and now.sound_end_offset == now.log_end_offset
        and not any(hole.last is not None for hole in now.holes)
    )
    is_short = now.log_end_offset <= to and now.topic_id == before.copy.topic_id
    same = parting_offset(history_of(now), history_of(before.copy)) >= now.log_end_offset
    return is_whole and is_short and same


def fingerprint_at(path: str) -> str | None:
    """Return the fingerprint of a folder; None if there is none. Raises KlogError if it cannot be listed."""
    return fingerprint_of(Draft.of(path).files) if os.path.isdir(path) else None


def _changed(path: str) -> Refused:
    return Refused(FleetRefusal.CHANGED(), path=path)
