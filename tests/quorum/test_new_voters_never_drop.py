"""A model of controllers over random histories: a new set of voters never drops what a majority had, and a copy here
has; and who is said to be able to lead is who could.

The model is Kafka's quorum without its network: leaders that are elected by majorities append records, followers copy
them, voters are added and removed one by one, disks stop at any moment and are cut to what they had. A record that
reached a majority is committed. Then some disks are lost, the plan is made from the others and from a broker's copy,
and carried out.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random

import pytest
from msgspec.structs import asdict
from quorums import Disk, control_batch, data_batch, properties, voter

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import read_content
from klogtool.errors import Refused
from klogtool.plans.plan import Plan, Write
from klogtool.plans.quorum_voters import VotersQuestion, VotersResult, decide
from klogtool.quorum.controllers import read_controller
from klogtool.quorum.election import Election, ElectionOutcome, judge_election

BROKER, NODES = 9, 6
HISTORIES = 150


@dataclasses.dataclass(frozen=True)
class Entry:
    """A batch: of one record, or of a new set of voters, which has two. It is known by its epoch and place."""

    epoch: int
    voters: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return 1 if self.voters is None else 2


@dataclasses.dataclass
class Node:
    """A copy."""

    node_id: int
    log: list[Entry] = dataclasses.field(default_factory=list)

    @property
    def position(self) -> tuple[int, int]:
        return (self.log[-1].epoch if self.log else 0, sum(entry.size for entry in self.log))

    @property
    def voters(self) -> tuple[int, ...]:
        """As this copy knows them, committed or not."""
        return next((entry.voters for entry in reversed(self.log) if entry.voters is not None), ())


class History:
    """Elections, appends, fetches and changes of the voters at random. committed: what a majority had, at the most."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.epoch = chance, 1
        first = tuple(range(1, chance.choice((1, 3, 3, 5)) + 1))
        start = [Entry(1, first)]
        self.nodes = [Node(n, list(start) if n in first else []) for n in range(1, NODES + 1)]
        self.broker = Node(BROKER, list(start))
        self.leader = self.nodes[0]
        self.committed: list[Entry] = start

    def step(self) -> None:
        often = (self.append, self.append, self.fetch, self.fetch, self.fetch, self.fetch)
        self.chance.choice((*often, self.observe, self.elect, self.change_voters))()

    def append(self) -> None:
        self.leader.log += [Entry(self.epoch)] * self.chance.randint(1, 3)
        self._commit()

    def fetch(self) -> None:
        """A follower is cut to where it agrees with the leader, and takes some of what follows."""
        self._copy(self.chance.choice(self.nodes))
        self._commit()

    def observe(self) -> None:
        self._copy(self.broker)

    def change_voters(self) -> None:
        """One more or one less, if the last change is committed, and something of this epoch (KIP-853)."""
        known = self.leader.voters
        is_settled = Node(0, self.committed).voters == known and self.committed[-1].epoch == self.epoch
        others = [node.node_id for node in self.nodes if node.node_id not in known]
        if is_settled and others and (len(known) == 1 or self.chance.random() < 0.6):
            self.leader.log.append(Entry(self.epoch, tuple(sorted((*known, self.chance.choice(others))))))
        elif is_settled and len(known) > 1:
            gone = self.chance.choice(known)
            self.leader.log.append(Entry(self.epoch, tuple(n for n in known if n != gone)))
        self._commit()

    def elect(self) -> None:
        """A node leads if a majority of its voters has no better copy. Its first record is of its epoch."""
        candidate = self.chance.choice(self.nodes)
        if can_lead(candidate, self.nodes):
            self.leader, self.epoch = candidate, self.epoch + 1
            self.leader.log.append(Entry(self.epoch))
            self._commit()

    def _copy(self, node: Node) -> None:
        if node is not self.leader:
            at = common(node.log, self.leader.log)
            node.log = self.leader.log[: at + self.chance.randint(0, 4)]

    def _commit(self) -> None:
        """As in Raft, a leader commits records of older epochs only with one of its own."""
        voters = [node for node in self.nodes if node.node_id in self.leader.voters]
        held = sorted((common(node.log, self.leader.log) for node in voters), reverse=True)[len(voters) // 2]
        if held > len(self.committed) and self.leader.log[held - 1].epoch == self.epoch:
            self.committed = self.leader.log[:held]


def can_lead(candidate: Node, started: list[Node]) -> bool:
    votes = [node for node in started if node.node_id in candidate.voters and node.position <= candidate.position]
    return candidate in votes and len(votes) > len(candidate.voters) // 2


def common(one: list[Entry], other: list[Entry]) -> int:
    """How many first batches are the same."""
    pairs = list(zip(one, other, strict=False))
    return next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs))


def offset_of(log: list[Entry], count: int) -> int:
    return sum(entry.size for entry in log[:count])


def disk(folder: pathlib.Path, node: Node) -> str:
    made, offset = Disk(folder, node.node_id), 0
    for entry in node.log:
        voters = None if entry.voters is None else [voter(n) for n in entry.voters]
        made.log(data_batch(offset, entry.epoch) if voters is None else control_batch(offset, entry.epoch, voters))
        offset += entry.size
    return str(made.path)


def history_of(seed: int) -> tuple[History, random.Random]:
    chance = random.Random(seed)
    history = History(chance)
    for _ in range(chance.randint(5, 60)):
        history.step()
    return history, chance


@pytest.mark.slow
def test_who_may_lead_is_who_could_and_what_is_lost_is_told(tmp_path: pathlib.Path) -> None:
    elected = losing = 0
    for seed in range(HISTORIES):
        history, chance = history_of(seed)
        started = chance.sample(history.nodes, chance.randint(1, NODES))
        disks = {node.node_id: disk(tmp_path / str(seed), node) for node in started}
        election = judge_election([read_controller(path, properties(n)) for n, path in disks.items()])
        leaders = [node for node in started if can_lead(node, started)]
        assert election.outcome is (ElectionOutcome.ELECTED if leaders else ElectionOutcome.NEVER), seed
        assert election.may_lead == tuple(sorted(node.node_id for node in leaders)), seed
        elected += bool(leaders)
        for node in leaders:
            best = max(started, key=lambda one: one.position)
            losing += is_told(election, common(node.log, best.log), best, seed)
    assert elected > HISTORIES // 3
    assert losing


def is_told(election: Election, kept: int, best: Node, seed: int) -> bool:
    """Whether records of the best copy are lost with a leader that has the first ones: then that is told."""
    if all(entry.voters is not None for entry in best.log[kept:]):
        return False
    assert election.lost is not None, seed
    assert election.lost[0] <= offset_of(best.log, kept), seed
    return True


# Nobody at hand knows which of two ends was committed: one of 30,000 histories; four of 25,000 with older disks.
PARTED = {False: (21995,), True: (1296, 1656, 2100, 4099)}


@pytest.mark.slow
@pytest.mark.parametrize("is_older", [False, True])
def test_what_a_majority_had_and_a_copy_has_stays(is_older: bool, tmp_path: pathlib.Path) -> None:
    """is_older: some of the copies are older than their nodes were, as after a restore. Then what is given up is named,
    and was confirmed; what no copy has any more is not known."""
    made = dropped = 0
    for seed in (*range(HISTORIES), *PARTED[is_older]):
        history, chance = history_of(seed)
        left = chance.sample(history.nodes, chance.randint(1, NODES // 2))
        lost = tuple(node.node_id for node in history.nodes if node not in left)
        copies = [*left, *([history.broker] if chance.random() < 0.5 else [])]
        held = history.committed
        for node in copies if is_older else ():
            if node.log and chance.random() < 0.4:
                node.log = node.log[: chance.randint(1, len(node.log))]
        paths = tuple(disk(tmp_path / str(seed), node) for node in copies)
        question = VotersQuestion(**asdict(Circumstances(now_ms=0)), copies=paths, standalone=True, destroyed=lost)
        for accept_loss in (False, True):
            plan = plan_of(VotersQuestion(**asdict(question) | {"accept_loss": accept_loss}))
            if plan is None:
                continue
            assert isinstance(plan.result, VotersResult)
            chosen = next(node for node in left if node.node_id == plan.result.node_id)
            is_kept = common(chosen.log, held) >= max(common(node.log, held) for node in copies)
            assert is_kept or (is_older and accept_loss and plan.result.not_taken), seed
            is_dropped = common(chosen.log, held) < len(held)
            assert accept_loss or is_older or not is_dropped, seed
            made, dropped = made + 1, dropped + is_dropped
        if plan is None:
            continue
        for step in plan.steps:
            if isinstance(step, Write):
                (pathlib.Path(plan.path) / step.path).write_bytes(read_content(step.content))
        after = read_controller(str(pathlib.Path(plan.path).parent))
        assert judge_election([after]).outcome is ElectionOutcome.ELECTED, seed
        assert after.log.position.epoch > history.epoch, seed
    assert made > HISTORIES // 3
    assert dropped, "no history in which only a lost disk had a committed record"


def plan_of(question: VotersQuestion) -> Plan | None:
    try:
        (plan,) = decide(question.copies[0], question)
    except Refused:
        return None
    return plan
