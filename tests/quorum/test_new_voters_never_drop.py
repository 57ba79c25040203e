"""A model of controllers over random histories: a new set of voters never drops what a majority had, and a copy here
has.

The model is Kafka's quorum without its network: leaders that are elected by majorities append records, followers copy
them, disks stop at any moment and are cut to what they had. A record that reached a majority is committed. Then some
disks are lost, the plan is made from the others and from brokers' copies, and carried out.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random

import pytest
from msgspec.structs import asdict
from quorums import Disk, data_batch, voter

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import read_content
from klogtool.errors import Refused
from klogtool.plans.plan import Write
from klogtool.plans.quorum_voters import VotersQuestion, VotersResult, decide
from klogtool.quorum.controllers import read_controller
from klogtool.quorum.election import ElectionOutcome, judge_election

BROKER = 9


@dataclasses.dataclass
class Node:
    """A copy: the epoch of each record after the voters. A record is known by its epoch and offset."""

    node_id: int
    epochs: list[int] = dataclasses.field(default_factory=list)

    @property
    def position(self) -> tuple[int, int]:
        return (self.epochs[-1] if self.epochs else 1, len(self.epochs))


class History:
    """Elections, appends and fetches at random. committed: how many of which records a majority had, at the most."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.chance, self.epoch = chance, 1
        self.voters = [Node(n) for n in range(1, size + 1)]
        self.broker = Node(BROKER)
        self.leader = self.voters[0]
        self.committed: list[int] = []

    def step(self) -> None:
        self.chance.choice((self.append, self.append, self.fetch, self.fetch, self.fetch, self.observe, self.elect))()

    def append(self) -> None:
        self.leader.epochs += [self.epoch] * self.chance.randint(1, 3)

    def fetch(self) -> None:
        """A follower is cut to where it agrees with the leader, and takes some of what follows."""
        self._copy(self.chance.choice(self.voters))
        held = sorted((self._agreed(node) for node in self.voters), reverse=True)[len(self.voters) // 2]
        # As in Raft, a leader commits records of older epochs only with one of its own.
        if held > len(self.committed) and self.leader.epochs[held - 1] == self.epoch:
            self.committed = self.leader.epochs[:held]

    def observe(self) -> None:
        self._copy(self.broker)

    def _copy(self, node: Node) -> None:
        if node is not self.leader:
            at = self._agreed(node)
            node.epochs = self.leader.epochs[: at + self.chance.randint(0, 4)]

    def _agreed(self, node: Node) -> int:
        """How many records a node and the leader have in common."""
        pairs = zip(node.epochs, self.leader.epochs, strict=False)
        return next(
            (n for n, (one, other) in enumerate(pairs) if one != other),
            min(map(len, (node.epochs, self.leader.epochs))),
        )

    def elect(self) -> None:
        """A node leads if a majority of the others has no better copy. Its first record is of its epoch."""
        candidate = self.chance.choice(self.voters)
        votes = [node for node in self.voters if node.position <= candidate.position]
        if len(votes) > len(self.voters) // 2:
            self.leader, self.epoch = candidate, self.epoch + 1
            self.leader.epochs.append(self.epoch)


def disk(folder: pathlib.Path, node: Node, size: int) -> Disk:
    made = Disk(folder, node.node_id).voters(*(voter(n) for n in range(1, size + 1)))
    for n, epoch in enumerate(node.epochs):
        made.log(data_batch(2 + n, epoch))
    return made


def common(one: list[int], other: list[int]) -> int:
    """How many first records are the same."""
    pairs = list(zip(one, other, strict=False))
    return next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs))


@pytest.mark.slow
def test_what_a_majority_had_and_a_copy_has_stays(tmp_path: pathlib.Path) -> None:
    made = dropped = 0
    for seed in range(80):
        chance = random.Random(seed)
        size = chance.choice((3, 3, 5))
        history = History(chance, size)
        for _ in range(chance.randint(5, 40)):
            history.step()
        left = chance.sample(history.voters, chance.randint(1, size // 2))
        lost = tuple(node.node_id for node in history.voters if node not in left)
        copies = [*left, *([history.broker] if chance.random() < 0.5 else [])]
        paths = tuple(str(disk(tmp_path / str(seed), node, size).path) for node in copies)
        question = VotersQuestion(
            **asdict(Circumstances(now_ms=0)), copies=paths, standalone=True, destroyed=lost, accept_loss=True
        )
        held, best = history.committed, max(node.position for node in copies)
        if max(node.position for node in left) < best:  # that of a broker
            with pytest.raises(Refused, match="more"):
                list(decide(paths[0], question))
            continue
        (plan,) = decide(paths[0], question)
        assert isinstance(plan.result, VotersResult)
        chosen = next(node for node in left if node.node_id == plan.result.node_id)
        assert common(chosen.epochs, held) >= max(common(node.epochs, held) for node in copies), seed
        made, dropped = made + 1, dropped + (common(chosen.epochs, held) < len(held))
        for step in plan.steps:
            if isinstance(step, Write):
                (pathlib.Path(plan.path) / step.path).write_bytes(read_content(step.content))
        after = read_controller(str(pathlib.Path(plan.path).parent))
        assert judge_election([after]).outcome is ElectionOutcome.ELECTED, seed
        assert after.log.position.epoch > history.epoch, seed
    assert made > 40
    assert dropped, "no history in which only a lost disk had a committed record"
