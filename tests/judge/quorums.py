"""Quorums with damaged disks and settings: what `klogtool quorum` and the doctor say of them, and what nodes do."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import convert
from running import run_here

from klogtool.doctor.claims import BrokerClaim
from klogtool.quorum.controllers import Position, count_metadata_records, read_metadata_log
from klogtool.quorum.election import ElectionCause

from .cases import Outcome, a_place
from .comparison import Difference
from .nodes import ACTIVE, ALONE, BOTH, LEADS, METADATA, REGISTRATION_S, Kind, Nodes, Truth, lived
from .quorum_faults import damage

# The first releases are drawn more often.
KINDS = [(1, BOTH), (1, BOTH), (3, ALONE), (3, ALONE), (3, ALONE), (3, BOTH), (5, ALONE)]
LATE_S = 60  # a busy machine takes its time


@dataclass(frozen=True)
class Told:
    """What klogtool says before the start. quorum: the answer; alone, beside: the doctor's claim about each node, by
    its own disk and beside those of the others; headlines: of the first. logs: how far each copy goes."""

    quorum: dict[str, Any]
    alone: dict[int, BrokerClaim]
    beside: dict[int, BrokerClaim]
    headlines: dict[int, str]
    logs: dict[int, Position]
    lacks: dict[int, int]


def told_of(nodes: Nodes, starting: Sequence[int]) -> Told:
    """Ask klogtool about the nodes that are to start."""
    disks = {n: _metadata_log_dir(nodes, n) for n in starting}
    files = [word for n in starting for word in ("--config-file", str(nodes.file(n)))]
    rows = _rows(nodes, "quorum", *disks.values(), *files)
    alone, beside, headlines = {}, {}, {}
    for node in starting:
        own = [disks[node], *({str(nodes.disk(node))} - {disks[node]}), "--config-file", str(nodes.file(node))]
        others = [
            word
            for n, disk in disks.items()
            if n != node
            for word in ("--controller", disk, "--controller-config-file", str(nodes.file(n)))
        ]
        alone[node] = _claim(_rows(nodes, "doctor", *own))
        beside[node] = _claim(_rows(nodes, "doctor", *own, *others))
        version = ("--kafka", nodes.kind.version)
        headlines[node] = run_here(["doctor", *own, *version], nodes.work).out.decode().splitlines()[0]
    logs = {n: read_metadata_log(str(Path(disks[n], METADATA))).position for n in starting}
    best = max(starting, key=lambda n: logs[n])
    lacks = {n: count_metadata_records(disks[best], logs[n].end_offset) or 0 for n in starting if logs[n] < logs[best]}
    return Told(rows[-1], alone, beside, headlines, logs, lacks)


def _metadata_log_dir(nodes: Nodes, node: int) -> str:
    return nodes.settings[node].get("metadata.log.dir") or str(nodes.disk(node))


def _rows(nodes: Nodes, *words: str) -> list[dict[str, Any]]:
    done = run_here([*words, "--kafka", nodes.kind.version, "--format", "json"], nodes.work)
    if done.status not in (0, 1):
        raise RuntimeError(f"{words[0]}: status {done.status}: {done.err}")
    return [json.loads(line) for line in done.out.splitlines()]


def _claim(rows: Sequence[dict[str, Any]]) -> BrokerClaim:
    row = next(row for row in rows if row["type"] == "claim" and row["about"] == "broker")
    return convert(row, type=BrokerClaim)


def differences_of(nodes: Nodes, told: Told, truth: Truth) -> Iterator[Difference]:
    """Yield each false sentence."""
    yield from _of_quorum(nodes, told, truth)
    for kind, claims in (("doctor alone", told.alone), ("doctor beside the others", told.beside)):
        for node, claim in claims.items():
            yield from (Difference(kind, f"n{node}", text) for text in _of_claim(node, claim, truth))
    if truth.leader is None:
        for node, line in told.headlines.items():
            if "and lose nothing" in line and "elect a leader" not in line:  # else it says that this decides
                yield Difference("doctor", f"n{node}", f"nobody leads: {line}")


def run_as_told(nodes: Nodes, told: Told, starting: Sequence[int]) -> Truth:
    """Start the nodes. Where klogtool says that some may end once, and that a second start is the cure, start again:
    what was said before is kept, since who leads then may have got the metadata from one that led before."""
    claims = (*told.alone.items(), *told.beside.items())
    truth = nodes.run(starting, ending=[node for node, claim in claims if claim.ends])
    once = truth.ended and ElectionCause.LEADER_RESIGNED.value in told.quorum["causes"]
    if not once:
        return truth
    again = nodes.run(starting)
    again.said = {node: truth.said.get(node, "") + said for node, said in again.said.items()}
    return again


def _of_quorum(nodes: Nodes, told: Told, truth: Truth) -> Iterator[Difference]:
    said, leader = told.quorum, truth.leader
    ids = {node: int(nodes.settings[node]["node.id"]) for node in told.logs}
    if _is_refuted({"elected": True, "never": False}.get(said["leader"]), truth):
        yield Difference("quorum", "leader", f"{said['leader']}, but {leader} leads: {said['why']}")
    if leader is None or _led_before(said["may_lead"], ids, truth):
        return
    if said["leader"] == "elected" and ids[leader] not in said["may_lead"]:
        yield Difference("quorum", "may_lead", f"{said['may_lead']}, but {ids[leader]} leads")
    own, most, lacks = told.logs[leader], max(told.logs.values()), told.lacks.get(leader, 0)
    if not own.end_offset and most.end_offset and not said["leader_is_empty"]:
        yield Difference("quorum", "leader_is_empty", f"false, but {leader} leads without metadata")
    if lacks and own.end_offset and said["leader"] == "elected" and not said["would_be_lost"]:
        yield Difference("quorum", "would_be_lost", f"nothing, but {leader} lacks {lacks} records")


def _led_before(may_lead: Sequence[int], ids: dict[int, int], truth: Truth) -> bool:
    """Whether another one led first, as was said: on a busy machine it may lose an election to one that has caught up
    with it since. Measured, load 45: the older copy led the third epoch, with all records."""
    others = [node for node in truth.said if node != truth.leader and ids.get(node) in may_lead]
    is_said = truth.leader is not None and ids[truth.leader] in may_lead
    return not is_said and any("Leader" in LEADS.findall(truth.said[node]) for node in others)


def _is_refuted(is_elected: bool | None, truth: Truth) -> bool:
    """Whether the nodes refute that a leader is elected, or never is. One that was active and ended afterwards was
    elected, and is no leader that lasts."""
    was_active = any(ACTIVE.search(truth.said.get(node, "")) for node in truth.ended)
    return is_elected is not None and is_elected != (truth.leader is not None) and not (is_elected and was_active)


def _of_claim(node: int, claim: BrokerClaim, truth: Truth) -> Iterator[str]:
    if _is_refuted(claim.leader_elected, truth):
        yield f"leader_elected {claim.leader_elected}, but {truth.leader} leads"
    ended = truth.ended.get(node)
    if claim.ends is False and ended is not None:
        yield f"ends false, but it ended after {ended.after_s:.0f} s"
    if claim.ends and ended is None:
        yield "ends true, but it did not"
    after_ms = claim.ends_after_ms
    if ended is not None and after_ms and not after_ms <= 1000 * ended.after_s <= after_ms + 1000 * LATE_S:
        yield f"ends after {after_ms} ms, but it ended after {ended.after_s:.0f} s"
    if claim.starts is True and ended is not None and ended.after_s < REGISTRATION_S and claim.leader_elected:
        yield f"it has a leader, but it ended after {ended.after_s:.0f} s"
    if claim.message is not None and claim.message not in truth.said.get(node, ""):
        yield f"it does not log {claim.message!r}"


def damaged_quorum(version: str, seed: str, work: Any) -> tuple[Nodes, list[str], list[int]]:
    rng = random.Random(seed)
    size, roles = rng.choice(KINDS)
    nodes = lived(Kind(version, size, roles, rng.random() < 0.65), work)
    done, starting = damage(nodes, rng)
    return nodes, done, starting


def judge_quorum(version: str, seed: str) -> Outcome:
    """One start of the controllers of a damaged quorum."""
    with a_place() as place:
        nodes, faults, starting = damaged_quorum(version, seed, place)
        told = told_of(nodes, starting)
        truth = run_as_told(nodes, told, starting)
        outcome = Outcome("quorum", version, seed, nodes.kind.name, {"both": faults}, judged=1)
        outcome.differences = list(differences_of(nodes, told, truth))
    return outcome
