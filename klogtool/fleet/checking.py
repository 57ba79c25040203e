"""After `fleet apply`: whether the disks are as the plan wants them, by files that were collected again. Pure.

The brokers may have started meanwhile. So a copy holds if it fits the best copy, and not only if it is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.causes import Reason, Told
from klogtool.fleet.causes import NotAsPlanned
from klogtool.fleet.choosing import Choice, Share, hidden_damage
from klogtool.fleet.collected import Collected, CopyFacts
from klogtool.fleet.histories import extends, history_of, parting_offset
from klogtool.fleet.planning import FleetPlan


class Checked(Struct, frozen=True, tag="checked"):
    """One copy of the plan, as a row of JSON. why: what does not hold; None: it holds."""

    topic: str
    partition: int
    node_id: int
    folder: str
    action: str
    holds: bool = True
    why: Reason | None = None


def check(plan: FleetPlan, files: Sequence[Collected]) -> Iterator[Checked]:
    """Yield each copy that leads, follows, or was to be changed."""
    nodes = {file.broker.node_id for file in files}
    copies = {(file.broker.node_id or 0, copy.log_dir, copy.folder): copy for file in files for copy in file.copies}
    ids: dict[str | None, str] = {
        log_dir.directory_id: log_dir.path for file in files for log_dir in file.broker.log_dirs if log_dir.directory_id
    }
    moved = {
        log_dir.path: ids.get(log_dir.directory_id, log_dir.path)
        for broker in plan.fleet.brokers
        for log_dir in broker.log_dirs
    }
    for choice in plan.choices:
        leader = None
        for share in sorted(
            choice.shares, key=lambda share: share.placed is not choice.best and share.action != "lead"
        ):
            if share.action == "leave":
                continue
            node_id, folder = share.placed.node_id, share.placed.copy.folder
            known = Checked(choice.topic, choice.partition, node_id, folder, share.action)
            if node_id not in nodes:
                yield replace(known, holds=False, why=NotAsPlanned.NO_FILE(broker=node_id))
                continue
            log_dir = moved.get(share.placed.copy.log_dir, share.placed.copy.log_dir)
            now = copies.get((node_id, log_dir, folder))
            named = copies.get((node_id, log_dir, f"{choice.topic}-{choice.partition}"))
            if _is_best(choice, share):
                leader = named
            why = _why_not(choice, share, now, named, leader)
            yield replace(known, holds=why is None, why=why)


def _is_best(choice: Choice, share: Share) -> bool:
    return choice.best is not None and share.placed == choice.best


def _why_not(
    choice: Choice, share: Share, now: CopyFacts | None, named: CopyFacts | None, leader: CopyFacts | None
) -> Reason | None:
    """Return what does not hold about a copy; None if it holds."""
    if share.action == "set-aside":
        is_there = now is not None and now.fingerprint == share.placed.copy.fingerprint
        return NotAsPlanned.STILL_THERE() if is_there else None
    if share.action in ("lead", "restore"):
        return _why_not_kept(share, now if share.action == "lead" else named, is_best=_is_best(choice, share))
    if named is None:
        return NotAsPlanned.GONE()
    if named.problem is not None:
        return Told.TEXT(text=named.problem)
    return _why_not_fitting(share, named, leader)


def _why_not_kept(share: Share, now: CopyFacts | None, *, is_best: bool) -> Reason | None:
    before = share.placed.copy
    if now is None:
        return NotAsPlanned.GONE() if share.action == "lead" else NotAsPlanned.NO_PLAIN_NAME()
    if now.problem is not None:
        return Told.TEXT(text=now.problem)
    if is_best and not (extends(now, before) and now.log_end_offset >= before.log_end_offset):
        return NotAsPlanned.OTHER_END(before=before.log_end_offset, end=now.log_end_offset)
    is_hurt = hidden_damage(share.placed) is not None and now.wounds_count > 0
    if is_best and (is_hurt or now.sound_end_offset < min(now.log_end_offset, before.log_end_offset)):
        return NotAsPlanned.DAMAGED_AT(offset=now.sound_end_offset)
    return None


def _why_not_fitting(share: Share, now: CopyFacts, leader: CopyFacts | None) -> Reason | None:
    if leader is None:
        return None
    if share.action == "truncate" and share.to is not None:
        parting = parting_offset(history_of(now), history_of(leader))
        if now.fingerprint == share.placed.copy.fingerprint:
            return NotAsPlanned.NOT_CUT(to=share.to, end=now.log_end_offset)
        if now.log_end_offset > share.to and (parting < now.log_end_offset or now.sound_end_offset < parting):
            return NotAsPlanned.NOT_CUT(to=share.to, end=now.log_end_offset)
    if share.action == "replace" and not extends(now, leader):
        return NotAsPlanned.BEST_NOT_THERE(end=now.log_end_offset)
    return None
